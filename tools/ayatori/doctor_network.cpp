// SPDX-License-Identifier: Apache-2.0
#include "doctor_network.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <optional>

#include "base/clock.hpp"
#include "base/knobs.hpp"
#include "child.hpp"
#include "machine.hpp"
#include "net/bootstrap/addresses.hpp"
#include "net/bootstrap/pmix.hpp"
#include "net/bootstrap/surroundings.hpp"
#include "program.hpp"
#include "sockets.hpp"

namespace ayatori::tool {
namespace {

namespace boot = net::bootstrap;

constexpr std::int64_t kConnectNs = 2 * base::kNsPerSecond;
constexpr std::int64_t kCommandNs = 5 * base::kNsPerSecond;

std::string first_line_of(std::string_view text) { return std::string(text.substr(0, text.find('\n'))); }

Check check_tcp() {
  Fd listener;
  std::uint16_t port = 0;
  base::Status status = listen_at("127.0.0.1", &listener, &port);
  std::string why = status.ok() ? try_to_connect({{"127.0.0.1", port}}, kConnectNs).front() : status.message();
  if (why.empty()) return fine("transport tcp", "loopback listens and connects");
  return problem("transport tcp", "loopback: " + why,
                 "Bring loopback up (`ip link set lo up`) and let local connections through the firewall.");
}

Check check_pacing() {
  const std::string name = "TCP congestion control";
  const std::string used = first_line("/proc/sys/net/ipv4/tcp_congestion_control");
  if (used.empty()) return fine(name, "the kernel does not say");
  if (used != "bbr") return fine(name, used);
  return fine(name,
              "bbr paces by timers; within this machine tcp uses reno instead, and ucx, which cannot, may need up to 4 "
              "times as long for streams (sysctl net.ipv4.tcp_congestion_control=cubic ends that)");
}

Check check_rdma(const std::vector<std::string>& ports) {
  if (ports.empty()) return fine("RDMA", "no device; none is needed");
  std::string text;
  for (const std::string& port : ports) text += (text.empty() ? "" : ", ") + port;
  if (text.find("ACTIVE") == text.npos)
    return warning("RDMA", text, "Connect the device's port and start its subnet manager or network.");
  return fine("RDMA", text);
}

Check check_ucx(bool has_devices) {
  const std::string name = "transport ucx";
  std::string text;
  bool built = false;
  if (!ask_ucx(&text, &built)) {
    const std::string advice = built ? "Install UCX 1.13 or newer (Debian: `apt install libucx0`)."
                                     : "Install libucx-dev (Debian's name) and build Ayatori again.";
    if (base::knob_string("AYATORI_TRANSPORT") == "ucx") return problem(name, text, advice);
    if (has_devices) return warning(name, text + "; the RDMA device is not used", advice);
    return fine(name, "not available, tcp serves: " + text);
  }
  bool has_rdma = false;
  const std::string devices = ucx_devices(text, &has_rdma);
  const std::string value =
      base::formatted("UCX {}: {}", first_line_of(text), devices.empty() ? "no network" : devices);
  if (has_devices && !has_rdma)
    return warning(name, value,
                   "Install UCX's plugin for the RDMA device (Debian: rdma-core, libibverbs1), and let this "
                   "account open /dev/infiniband.");
  return fine(name, value);
}

std::string path_of(const char* command) {
  Program program;
  std::string why;
  return find_program(command, program, &why) == 0 ? program.path : "";
}

std::optional<std::string> output_of(const std::string& path, const char* option) {
  return ask_child(kCommandNs, [&] {
    dup2(STDOUT_FILENO, STDERR_FILENO);  // Slurm lists there
    execl(path.c_str(), path.c_str(), option, static_cast<char*>(nullptr));
    return kExitNotFound;
  });
}

Check check_slurm(const std::string& srun) {
  if (srun.empty()) return fine("Slurm", "no srun in PATH");
  const std::optional<std::string> plugins = output_of(srun, "--mpi=list");
  if (!plugins) return fine("Slurm", srun + ", which reaches no cluster from here");
  if (plugins->find("pmix") == std::string::npos)
    return warning("Slurm", srun + " without PMIx",
                   "Install Slurm's PMIx plugin, which opens libpmix.so (Debian: libpmix-dev).");
  return fine("Slurm", srun + " with --mpi=pmix");
}

Check check_mpirun(const std::string& mpirun) {
  if (mpirun.empty()) return fine("mpirun", "not in PATH");
  const std::string version = first_line_of(output_of(mpirun, "--version").value_or(""));
  const std::string value = base::formatted("{} ({})", mpirun, version.empty() ? "tells no version" : version);
  const bool serves = version.find("Open MPI") != version.npos || version.find("OpenRTE") != version.npos ||
                      version.find("PRRTE") != version.npos;
  if (serves) return fine("mpirun", value);
  return warning("mpirun", value, "Put Open MPI's mpirun first in PATH: only that one serves PMIx.");
}

Check check_pmix(bool has_launcher) {
  const std::string name = "PMIx";
  const boot::Surroundings around = boot::surroundings();
  if (around.starter == boot::Starter::kSlurm || around.starter == boot::Starter::kOther)
    return problem(name, boot::refusal_without_pmix(around),
                   "Start programs with `srun --mpi=pmix`, Open MPI's mpirun or `ayatori run --hosts`.");
  const bool served = around.starter == boot::Starter::kPmix;
  const char* const where = served ? "; this process has a server" : "; no server in this environment";
  const std::optional<std::string> loaded = ask_child(kCommandNs, [] {
    if (dlopen(boot::kPmixLibrary, RTLD_NOW | RTLD_LOCAL) != nullptr) return 0;
    std::printf("%s", dlerror());
    return std::fflush(stdout);
  });
  if (loaded && loaded->empty()) return fine(name, base::formatted("{} loads{}", boot::kPmixLibrary, where));
  const std::string value =
      base::formatted("{}{}", loaded ? *loaded : base::formatted("{} does not load", boot::kPmixLibrary), where);
  const std::string advice = "Install it (Debian: `apt install libpmix2`).";
  if (served) return problem(name, value, advice);
  if (has_launcher) return warning(name, value, advice);
  return fine(name, value + "; only srun and mpirun need it");
}

void check_addresses(std::vector<Check>& checks, std::string_view host, std::string* address) {
  const std::string all = boot::addresses_text();
  checks.push_back(fine("interfaces", all));
  const std::string wanted(base::knob_string("AYATORI_NET_INTERFACE"));
  boot::ChosenAddress chosen;
  const base::Status status = boot::choose_address(wanted, host, &chosen);
  *address = chosen.number;
  if (status.ok())
    checks.push_back(fine("address between machines", base::formatted("{} of {}", chosen.number, chosen.interface)));
  else if (!wanted.empty())
    checks.push_back(
        problem("address between machines", status.message(),
                "Set AYATORI_NET_INTERFACE to an interface, address or network of this machine, or unset it."));
  else
    checks.push_back(warning("address between machines", status.message(),
                             "Connect a network, if jobs are to have several machines."));
}

}  // namespace

std::vector<std::string> rdma_ports() {
  namespace files = std::filesystem;
  std::vector<std::string> found;
  std::error_code ignored;
  for (const auto& device : files::directory_iterator("/sys/class/infiniband", ignored)) {
    for (const auto& port : files::directory_iterator(device.path() / "ports", ignored)) {
      const std::string state = first_line(port.path() / "state");  // "4: ACTIVE"
      found.push_back(base::formatted("{}:{} {} {}", device.path().filename().string(), port.path().filename().string(),
                                      first_line(port.path() / "link_layer"), state.substr(state.find(' ') + 1)));
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

std::string ucx_devices(std::string_view printed, bool* has_rdma) {
  *has_rdma = false;
  std::map<std::string, std::string> devices;  // by transport
  while (!printed.empty()) {
    const std::string_view line = printed.substr(0, printed.find('\n'));
    printed.remove_prefix(std::min(line.size() + 1, printed.size()));
    const std::size_t blank = line.find_last_of(' ');
    const std::size_t slash = line.rfind('/');
    if (line.find(" resource ") == line.npos || blank == line.npos || slash == line.npos || slash < blank) continue;
    const std::string transport(line.substr(blank + 1, slash - blank - 1));
    const std::string device(line.substr(slash + 1));
    if (device.starts_with("memory")) continue;
    std::string& list = devices[transport];
    list += (list.empty() ? "" : ", ") + device;
    if (transport != "tcp") *has_rdma = true;
  }
  std::string text;
  for (const auto& [transport, list] : devices)
    text += base::formatted("{}{} on {}", text.empty() ? "" : "; ", transport, list);
  return text;
}

std::vector<Check> check_network(std::string_view host, const std::vector<std::string>& rdma, std::string* address) {
  const std::string srun = path_of("srun");
  const std::string mpirun = path_of("mpirun");
  std::vector<Check> checks;
  checks.push_back(check_tcp());
  checks.push_back(check_pacing());
  checks.push_back(check_rdma(rdma));
  checks.push_back(check_ucx(!rdma.empty()));
  checks.push_back(check_slurm(srun));
  checks.push_back(check_mpirun(mpirun));
  checks.push_back(check_pmix(!srun.empty() || !mpirun.empty()));
  check_addresses(checks, host, address);
  return checks;
}

}  // namespace ayatori::tool
