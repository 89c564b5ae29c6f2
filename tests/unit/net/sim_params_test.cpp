// SPDX-License-Identifier: Apache-2.0
// The file with a network's times (net/sim/params.hpp X1-X3): what is accepted, and what each mistake is answered with.
#include "net/sim/params.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <string>

namespace ayatori::net::sim {
namespace {

using base::Code;
using base::Status;

TEST(SimParams, NamedTimesAreTakenAndTheOthersKept) {
  SimParams params;
  params.gap_ns = 77;
  const Status status = parse_sim_params(
      "# a network\n"
      "\n"
      "latency_ns = 1500\n"
      "  overhead_ns=250   # of the sender\r\n"
      "\tgap_per_kib_ns =  80\n"
      "jitter_ns = 0",
      &params);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(params.latency_ns, 1500);
  EXPECT_EQ(params.overhead_ns, 250);
  EXPECT_EQ(params.gap_per_kib_ns, 80);
  EXPECT_EQ(params.jitter_ns, 0);
  EXPECT_EQ(params.gap_ns, 77);
  EXPECT_EQ(params.failure_notice_ns, SimParams{}.failure_notice_ns);
}

TEST(SimParams, WhatIsWrittenIsRead) {
  SimParams written;
  written.latency_ns = 1;
  written.overhead_ns = 2;
  written.gap_ns = 3;
  written.gap_per_kib_ns = 4;
  written.jitter_ns = 5;
  written.failure_notice_ns = 6;
  SimParams read;
  const Status status = parse_sim_params(sim_params_text(written), &read);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(sim_params_text(read), sim_params_text(written));
  EXPECT_EQ(read.failure_notice_ns, 6);
}

TEST(SimParams, EachMistakeIsNamedWithItsLineAndChangesNothing) {
  struct Mistake {
    const char* text;
    const char* message;  // begins with
  };
  const Mistake mistakes[] = {
      {"latency_ns = 5\nspeed = 7\n", "line 2: unknown key 'speed'; the keys are latency_ns, "},
      {"latency_ns 5\n", "line 1: 'latency_ns 5' is not of the form key = value"},
      {"gap_ns = 5\n\n# again\ngap_ns = 5\n", "line 4: gap_ns stands already in line 1"},
      {"latency_ns = 1.5\n", "line 1: latency_ns takes a whole number from 0 to "},
      {"latency_ns = -1\n", "line 1: latency_ns takes a whole number"},
      {"latency_ns = 0x10\n", "line 1: latency_ns takes a whole number"},
      {"latency_ns =\n", "line 1: latency_ns takes a whole number"},
      {"latency_ns = # nothing\n", "line 1: latency_ns takes a whole number"},
      {"latency_ns = 5 6\n", "line 1: latency_ns takes a whole number"},
      {"latency_ns = 3600000000001\n", "line 1: latency_ns takes a whole number"},
      {"latency_ns = 99999999999999999999\n", "line 1: latency_ns takes a whole number"},
      {"= 5\n", "line 1: unknown key ''"},
      {"LATENCY_NS = 5\n", "line 1: unknown key 'LATENCY_NS'"},
  };
  const std::string before = sim_params_text({});
  for (const Mistake& mistake : mistakes) {
    SimParams params;
    const Status status = parse_sim_params(mistake.text, &params);
    EXPECT_EQ(status.code(), Code::kInvalid) << mistake.text;
    EXPECT_TRUE(status.message().starts_with(mistake.message)) << status.message();
    EXPECT_EQ(sim_params_text(params), before) << mistake.text;
  }
}

TEST(SimParams, FilesAreNamedInTheirErrors) {
  SimParams params;
  const Status missing = load_sim_params("/no/such/file", &params);
  EXPECT_EQ(missing.message(), "/no/such/file: No such file or directory");
  EXPECT_FALSE(load_sim_params("/", &params).ok());

  char path[] = "/tmp/sim_params_test.XXXXXX";
  const int fd = mkstemp(path);
  ASSERT_GE(fd, 0);
  const auto contain = [&](const std::string& text) {
    ASSERT_EQ(ftruncate(fd, 0), 0);
    ASSERT_EQ(pwrite(fd, text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
  };
  contain("latency_ns = 42\n");
  EXPECT_TRUE(load_sim_params(path, &params).ok());
  EXPECT_EQ(params.latency_ns, 42);
  contain("latency_ns = many\n");
  EXPECT_TRUE(load_sim_params(path, &params).message().starts_with(std::string(path) + ": line 1: latency_ns"));
  contain(std::string(100'000, '\n'));
  EXPECT_NE(load_sim_params(path, &params).message().find("more than 65536 bytes"), std::string::npos);
  close(fd);
  unlink(path);
}

}  // namespace
}  // namespace ayatori::net::sim
