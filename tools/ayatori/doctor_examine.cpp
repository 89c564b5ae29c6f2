// SPDX-License-Identifier: Apache-2.0
// One machine: what is asked of it, what is told of it. In the doctor itself, or in its agent on another host.
#include <sodium.h>

#include <array>
#include <csignal>

#include "base/knobs.hpp"
#include "doctor.hpp"
#include "doctor_machine.hpp"
#include "doctor_network.hpp"
#include "frames.hpp"
#include "machine.hpp"
#include "net/bootstrap/place.hpp"
#include "program.hpp"
#include "system.hpp"

namespace ayatori::tool {
namespace {

// Of the content, in hex; empty: it cannot be read.
std::string hash_of(const std::string& path) {
  const Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  crypto_generichash_state state;
  std::array<unsigned char, 16> digest;
  if (!fd || sodium_init() < 0 || crypto_generichash_init(&state, nullptr, 0, digest.size()) != 0) return {};
  std::array<unsigned char, 64 * 1024> room;
  ssize_t bytes = 0;
  while ((bytes = read(fd.get(), room.data(), room.size())) > 0)
    crypto_generichash_update(&state, room.data(), static_cast<unsigned long long>(bytes));
  if (bytes < 0) return {};
  crypto_generichash_final(&state, digest.data(), digest.size());
  std::string text;
  for (const unsigned char byte : digest) text += base::formatted("{:02x}", byte);
  return text;
}

// `wide`: the job is to have several hosts, where a program that is not linked with Ayatori is refused.
Check check_program(const std::string& name, bool wide, std::string* hash) {
  Program program;
  std::string why;
  if (find_program(name, program, &why) != 0)
    return problem("program", why, "Build or install it on every host at a path that all have.");
  *hash = hash_of(program.path);
  if (hash->empty())
    return problem("program", program.path + " cannot be read", "Let this account read it, not only execute it.");
  if (program.linked) return fine("program", program.path);
  return {"program", wide ? Mark::kProblem : Mark::kWarning, program.path + " is not linked with Ayatori",
          "Link it with Ayatori, or run it as one process."};
}

}  // namespace

HostReport examine(const std::string& host, const std::string& program) {
  std::signal(SIGXFSZ, SIG_IGN);  // a limit on the size of files is a finding
  const base::Status knobs = base::load_knobs();
  const Machine machine = look_at_machine();
  const std::vector<std::string> rdma = rdma_ports();
  Wanted wanted;
  wanted.engine = base::knob_string("AYATORI_ENGINE");
  wanted.space_base = base::knob_size("AYATORI_SPACE_BASE");
  wanted.space_bytes = base::knob_size("AYATORI_SPACE_SIZE");
  wanted.space_error = try_space(wanted.space_base, wanted.space_bytes);
  wanted.is_root = geteuid() == 0;
  wanted.has_rdma = !rdma.empty();

  HostReport report;
  report.name = host.empty() ? net::bootstrap::host_of_this_process() : host;
  report.version = AYATORI_VERSION;
  report.binary = hash_of("/proc/self/exe");
  report.kernel = machine.kernel;
  report.engine = default_engine(machine);
  report.diffs = machine.wide_diffs ? "AVX-512" : "no AVX-512";
  report.place = net::bootstrap::place_of_this_process();
  report.checks = judge_machine(machine, wanted);
  report.checks.push_back(knobs.ok() ? fine("knobs", "in range")
                                     : problem("knobs", knobs.message(), "Correct this variable, or unset it."));
  for (Check& check : check_network(host, rdma, &report.address)) report.checks.push_back(std::move(check));
  if (!program.empty()) report.checks.push_back(check_program(program, !host.empty(), &report.program));
  return report;
}

std::string pack(const Errand& errand) {
  Packer packer;
  packer.text(errand.host).text(errand.folder).text(errand.program).number(errand.knobs.size());
  for (const auto& [name, value] : errand.knobs) packer.text(name).text(value);
  return packer.body();
}

std::optional<Errand> unpack_errand(std::string_view body) {
  Unpacker fields(body);
  Errand errand;
  errand.host = fields.text();
  errand.folder = fields.text();
  errand.program = fields.text();
  for (std::uint64_t left = fields.number(); left != 0 && fields.ok(); --left) {
    const std::string_view name = fields.text();
    errand.knobs.emplace_back(name, fields.text());
  }
  if (!fields.ended()) return std::nullopt;
  return errand;
}

}  // namespace ayatori::tool
