// SPDX-License-Identifier: Apache-2.0
// What `ayatori doctor` concludes from machines that are not there, and what it takes from other hosts.
#include "doctor.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <string_view>
#include <vector>

#include "doctor_machine.hpp"
#include "doctor_network.hpp"
#include "frames.hpp"
#include "sockets.hpp"

namespace ayatori::tool {
namespace {

constexpr std::uint64_t kGi = 1u << 30;

Machine good_machine() {
  Machine machine;
  machine.cpus_online = machine.cpus_usable = 8;
  machine.memory_bytes = machine.memory_available_bytes = 64 * kGi;
  for (Offer Machine::* const offer : {&Machine::uffd, &Machine::mprotect, &Machine::memfd, &Machine::syscall_dispatch,
                                       &Machine::pidfd, &Machine::shared_memory})
    (machine.*offer).available = true;
  machine.max_map_count = "65530";
  machine.overcommit_memory = "0";
  for (const char* const name : {"open files", "processes", "locked memory", "address space"})
    machine.limits.push_back({name, kUnlimited, kUnlimited});
  return machine;
}

Check found(const Machine& machine, std::string_view name, const Wanted& wanted = {}) {
  const std::vector<Check> checks = judge_machine(machine, wanted);
  const auto at = std::find_if(checks.begin(), checks.end(), [name](const Check& check) { return check.name == name; });
  return at == checks.end() ? Check{"missing", Mark::kProblem, "", ""} : *at;
}

Mark marked(const Machine& machine, std::string_view name, const Wanted& wanted = {}) {
  return found(machine, name, wanted).mark;
}

Limit& limit_of(Machine& machine, std::string_view name) {
  return *std::find_if(machine.limits.begin(), machine.limits.end(),
                       [name](const Limit& limit) { return limit.name == name; });
}

TEST(Doctor, FindsNothingWrongWithAGoodMachine) {
  for (const Check& check : judge_machine(good_machine(), {})) {
    EXPECT_EQ(check.mark, Mark::kOk) << check.name << ": " << check.value;
    EXPECT_EQ(check.advice, "") << check.name;
  }
}

TEST(Doctor, TakesTheOtherEngineForAWarningUnlessOneIsAskedFor) {
  Machine machine = good_machine();
  machine.uffd = {false, "userfaultfd: Operation not permitted"};
  EXPECT_EQ(marked(machine, "engine uffd"), Mark::kWarning);
  EXPECT_EQ(marked(machine, "engine uffd", {.engine = "uffd"}), Mark::kProblem);
  EXPECT_EQ(marked(machine, "engine uffd", {.engine = "mprotect"}), Mark::kOk);
  EXPECT_NE(found(machine, "engine uffd").advice.find("seccomp"), std::string::npos);
  machine.uffd.why = "the kernel lacks features 0x1000";
  EXPECT_NE(found(machine, "engine uffd").advice.find("Linux 5.19"), std::string::npos);
  machine.mprotect = {false, "mprotect: Operation not permitted"};
  EXPECT_EQ(marked(machine, "engine uffd"), Mark::kProblem);
}

TEST(Doctor, JudgesLimitsByWhatAJobOf64ProcessesNeeds) {
  Machine machine = good_machine();
  limit_of(machine, "open files") = {"open files", 64, 4096};
  EXPECT_EQ(found(machine, "open files"), warning("open files", "64 files", "Raise it: `ulimit -n 256`."));
  limit_of(machine, "open files") = {"open files", 16, 16};
  EXPECT_EQ(marked(machine, "open files"), Mark::kProblem);
  EXPECT_NE(found(machine, "open files").advice.find("hard limit"), std::string::npos);
  limit_of(machine, "processes").soft = 100;
  EXPECT_EQ(marked(machine, "processes"), Mark::kWarning);
  EXPECT_EQ(marked(machine, "processes", {.is_root = true}), Mark::kOk);
  limit_of(machine, "locked memory").soft = 65536;
  EXPECT_EQ(marked(machine, "locked memory"), Mark::kOk);
  EXPECT_EQ(marked(machine, "locked memory", {.has_rdma = true}), Mark::kWarning);
  limit_of(machine, "address space").soft = kGi;
  EXPECT_EQ(marked(machine, "address space"), Mark::kWarning);
}

TEST(Doctor, NamesTheCauseOfASpaceThatCannotBeReserved) {
  const auto advice = [](int error, const char* overcommit) {
    Machine machine = good_machine();
    machine.overcommit_memory = overcommit;
    return found(machine, "space", {.space_error = error}).advice;
  };
  EXPECT_NE(advice(ENOMEM, "0").find("ulimit -v"), std::string::npos);
  EXPECT_NE(advice(ENOMEM, "2").find("overcommit"), std::string::npos);
  EXPECT_NE(advice(EEXIST, "0").find("AYATORI_SPACE_BASE"), std::string::npos);
  EXPECT_NE(advice(EFBIG, "0").find("ulimit -f"), std::string::npos);
  EXPECT_NE(advice(EPERM, "0"), "");
}

TEST(Doctor, JudgesMemoryByWhatTheContainerLeaves) {
  Machine machine = good_machine();
  machine.memory_limit_bytes = kGi / 2;
  EXPECT_EQ(marked(machine, "memory"), Mark::kWarning);
  machine.memory_limit_bytes = kGi / 16;
  EXPECT_EQ(marked(machine, "memory"), Mark::kProblem);
  machine.max_map_count = "1024";
  EXPECT_EQ(marked(machine, "vm.max_map_count"), Mark::kProblem);
  machine.max_map_count = "";
  EXPECT_EQ(marked(machine, "vm.max_map_count"), Mark::kOk);
}

TEST(Doctor, ReadsNumbersOfTheKernel) {
  EXPECT_EQ(number_in("65530"), 65530u);
  EXPECT_EQ(number_in("max"), kUnlimited);
  EXPECT_EQ(number_in(""), kUnlimited);
}

TEST(Doctor, ReadsTheDevicesThatUcxPrints) {
  bool has_rdma = true;
  EXPECT_EQ(ucx_devices("1.13.1\n#\n#     component 1  :  tcp\n"
                        "#      resource 0  :  md 0  dev 0  flags -- self/memory0\n"
                        "#      resource 1  :  md 1  dev 1  flags -- tcp/lo\n"
                        "#      resource 2  :  md 1  dev 2  flags -- tcp/eth0\n"
                        "#      resource 3  :  md 2  dev 3  flags -- posix/memory",
                        &has_rdma),
            "tcp on lo, eth0");
  EXPECT_FALSE(has_rdma);
  EXPECT_EQ(ucx_devices("#  resource 4  :  md 5  dev 3  flags -- rc_mlx5/mlx5_0:1\n", &has_rdma),
            "rc_mlx5 on mlx5_0:1");
  EXPECT_TRUE(has_rdma);
  EXPECT_EQ(ucx_devices(" resource \n resource a/b c\n", &has_rdma), "");
}

HostReport report_of(const char* name, const char* binary) {
  HostReport report;
  report.name = name;
  report.version = "1";
  report.binary = binary;
  report.place = name;
  report.address = "10.0.0.1";
  report.port = 4242;
  report.checks = {fine("a", "1"), warning("b", "2", "Do this."), problem("c", "3", "Do that.")};
  return report;
}

TEST(Doctor, TakesReportsWholeOrNotAtAll) {
  const HostReport report = report_of("node1", "abc");
  const std::string body = pack(report);
  const std::optional<HostReport> again = unpack_host_report(body);
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(again->checks, report.checks);
  EXPECT_EQ(again->address, report.address);
  EXPECT_EQ(again->port, report.port);
  for (std::size_t bytes = 0; bytes < body.size(); ++bytes)
    EXPECT_FALSE(unpack_host_report(std::string_view(body).substr(0, bytes)).has_value()) << bytes;
  EXPECT_FALSE(unpack_host_report(body + "x").has_value());
  HostReport strange = report;
  strange.checks[0].mark = static_cast<Mark>(7);
  EXPECT_FALSE(unpack_host_report(pack(strange)).has_value());
  strange = report;
  strange.port = 70'000;
  EXPECT_FALSE(unpack_host_report(pack(strange)).has_value());
}

TEST(Doctor, TakesErrandsWholeOrNotAtAll) {
  const std::string body = pack(Errand{"node1", "/folder", "prog", {{"AYATORI_WORKERS", "2"}}});
  const std::optional<Errand> errand = unpack_errand(body);
  ASSERT_TRUE(errand.has_value());
  EXPECT_EQ(errand->knobs.size(), 1u);
  for (std::size_t bytes = 0; bytes < body.size(); ++bytes)
    EXPECT_FALSE(unpack_errand(std::string_view(body).substr(0, bytes)).has_value()) << bytes;
}

TEST(Doctor, ComparesTheHostsThatAnswered) {
  const auto binary = [](const std::vector<HostReport>& hosts) {
    const std::vector<Check> checks = compare(hosts, "");
    return *std::find_if(checks.begin(), checks.end(), [](const Check& check) { return check.name == "ayatori"; });
  };
  EXPECT_EQ(binary({report_of("a", "x"), report_of("b", "x"), HostReport{}}), fine("ayatori", "x everywhere"));
  const Check differs = binary({report_of("a", "x"), report_of("b", "y"), report_of("c", "x")});
  EXPECT_EQ(differs.mark, Mark::kProblem);
  EXPECT_EQ(differs.value, "x on a, c; y on b");
  EXPECT_TRUE(compare({HostReport{}}, "").empty());
}

TEST(Doctor, NamesWhoDoesNotReachWhom) {
  std::vector<HostReport> hosts = {report_of("a", "x"), report_of("b", "x"), report_of("c", "x")};
  EXPECT_FALSE(share_loopback(hosts));
  std::vector<std::vector<std::string>> whys(3, std::vector<std::string>(3));
  EXPECT_EQ(judge_reach(hosts, false, whys), std::vector<Check>{fine("connections", "6 of 6 made")});
  whys[1][0] = whys[2][0] = "Connection refused";
  const std::vector<Check> checks = judge_reach(hosts, false, whys);
  ASSERT_EQ(checks.size(), 1u);
  EXPECT_EQ(checks[0].value, "a at 10.0.0.1 is not reached by b, c: Connection refused");
  hosts[2] = HostReport{};  // no answer: neither asked nor a target
  whys[2].clear();
  whys[1][0].clear();
  EXPECT_EQ(judge_reach(hosts, false, whys), std::vector<Check>{fine("connections", "2 of 2 made")});
  hosts[1].address.clear();
  EXPECT_EQ(judge_reach(hosts, false, whys).front().mark, Mark::kProblem);
  hosts[1].place = hosts[0].place;
  EXPECT_TRUE(share_loopback(hosts));
}

TEST(Doctor, ConnectsToListenersOnly) {
  Fd listener;
  std::uint16_t port = 0;
  ASSERT_TRUE(listen_at("127.0.0.1", &listener, &port).ok());
  const std::vector<std::string> whys =
      try_to_connect({{"127.0.0.1", port}, {"127.0.0.1", 1}, {"nowhere", port}}, kReachNs);
  EXPECT_EQ(whys[0], "");
  EXPECT_NE(whys[1], "");
  EXPECT_EQ(whys[2], "'nowhere' is no address");
}

}  // namespace
}  // namespace ayatori::tool
