// SPDX-License-Identifier: Apache-2.0
// What a launcher and its agents send each other, cut, damaged and mixed with what login shells say.
#include "frames.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <string>
#include <vector>

#include "host_job.hpp"

namespace ayatori::tool {
namespace {

// Bytes that arrive through a pipe.
class Wire {
 public:
  Wire() { EXPECT_EQ(pipe2(ends_.data(), O_NONBLOCK | O_CLOEXEC), 0); }
  ~Wire() {
    close(ends_[0]);
    close(ends_[1]);
  }
  void carry(std::string_view bytes) {
    EXPECT_EQ(write(ends_[1], bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
    EXPECT_EQ(reader.fill(ends_[0]), FrameReader::Arrived::kBytes);
  }
  FrameReader reader;

 private:
  std::array<int, 2> ends_{};
};

std::string framed(FrameKind kind, std::string_view body) {
  Packer header;
  header.number(static_cast<std::uint64_t>(kind) | static_cast<std::uint64_t>(body.size()) << 32);
  return header.body() + std::string(body);
}

HostJob some_job() {
  HostJob job;
  job.version = "1";
  job.job_id = 77;
  job.secret.fill(0xa5);
  job.first = 1;
  job.count = 2;
  job.label = true;
  job.stats = true;
  job.folder = "/a folder";
  job.hosts = {"a", "b", "b"};
  job.knobs = {{"AYATORI_LOG", "debug"}};
  job.command = {"./program", "it's", ""};
  return job;
}

TEST(HostFrames, ArriveWholeHoweverTheyAreCut) {
  const std::string bytes = std::string(kGreeting) + framed(FrameKind::kOutput, "one") + framed(FrameKind::kExit, "") +
                            framed(FrameKind::kCard, std::string(300, 'x'));
  for (std::size_t step = 1; step <= bytes.size(); ++step) {
    Wire wire;
    std::vector<std::string> bodies;
    for (std::size_t at = 0; at < bytes.size(); at += step) {
      wire.carry(std::string_view(bytes).substr(at, step));
      Frame frame;
      if (wire.reader.greeted())
        while (wire.reader.next(&frame)) bodies.emplace_back(frame.body);
    }
    ASSERT_EQ(bodies, (std::vector<std::string>{"one", "", std::string(300, 'x')})) << "in steps of " << step;
  }
}

TEST(HostFrames, WhatALoginShellSaysBeforeTheGreetingIsPassedOver) {
  Wire wire;
  wire.carry("Last login: yesterday\nayatori-agent is not this\n");
  EXPECT_FALSE(wire.reader.greeted());
  wire.carry(std::string("more\n") + std::string(kGreeting) + framed(FrameKind::kReady, "place"));
  ASSERT_TRUE(wire.reader.greeted());
  Frame frame;
  ASSERT_TRUE(wire.reader.next(&frame));
  EXPECT_EQ(frame.body, "place");
}

TEST(HostFrames, AStreamWithoutAGreetingIsGivenUp) {
  Wire wire;
  for (int i = 0; i < 40 && !wire.reader.broken(); ++i) {
    wire.carry(std::string(4'000, 'y'));
    EXPECT_FALSE(wire.reader.greeted());
  }
  EXPECT_TRUE(wire.reader.broken());
}

TEST(HostFrames, ABodyLongerThanAllowedIsGivenUpBeforeItArrives) {
  Wire wire;
  Packer header;
  header.number(static_cast<std::uint64_t>(FrameKind::kOutput) | static_cast<std::uint64_t>(kBodyBytesMax + 1) << 32);
  wire.carry(std::string(kGreeting) + header.body());
  ASSERT_TRUE(wire.reader.greeted());
  Frame frame;
  EXPECT_FALSE(wire.reader.next(&frame));
  EXPECT_TRUE(wire.reader.broken());
}

TEST(HostFrames, AJobComesOutAsItWentIn) {
  const HostJob job = some_job();
  const auto again = unpack_host_job(pack(job));
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(again->version, job.version);
  EXPECT_EQ(again->job_id, job.job_id);
  EXPECT_EQ(again->secret, job.secret);
  EXPECT_EQ(again->first, job.first);
  EXPECT_EQ(again->count, job.count);
  EXPECT_EQ(again->label, job.label);
  EXPECT_EQ(again->stats, job.stats);
  EXPECT_EQ(again->folder, job.folder);
  EXPECT_EQ(again->hosts, job.hosts);
  EXPECT_EQ(again->knobs, job.knobs);
  EXPECT_EQ(again->command, job.command);
}

TEST(HostFrames, AJobThatIsCutOrTooLongIsNone) {
  const std::string body = pack(some_job());
  for (std::size_t bytes = 0; bytes < body.size(); ++bytes)
    EXPECT_FALSE(unpack_host_job(std::string_view(body).substr(0, bytes)).has_value()) << bytes << " bytes";
  EXPECT_FALSE(unpack_host_job(body + "x").has_value());
}

TEST(HostFrames, AJobWithProcessesThatItDoesNotHaveIsNone) {
  HostJob job = some_job();
  job.first = 2;
  EXPECT_FALSE(unpack_host_job(pack(job)).has_value());
  job = some_job();
  job.count = 0;
  EXPECT_FALSE(unpack_host_job(pack(job)).has_value());
  job = some_job();
  job.command.clear();
  EXPECT_FALSE(unpack_host_job(pack(job)).has_value());
  job = some_job();
  job.hosts.assign(65, "a");
  EXPECT_FALSE(unpack_host_job(pack(job)).has_value());
}

// A damaged length or number makes a job that is refused or one that is whole, and nothing else.
TEST(HostFrames, ADamagedJobIsReadWithinItsBounds) {
  const std::string body = pack(some_job());
  for (std::size_t at = 0; at < body.size(); ++at) {
    for (const unsigned char damage : {0x01, 0x80, 0xff}) {
      std::string damaged = body;
      damaged[at] = static_cast<char>(static_cast<unsigned char>(damaged[at]) ^ damage);
      if (const auto job = unpack_host_job(damaged)) {
        EXPECT_LE(static_cast<std::size_t>(job->first + job->count), job->hosts.size());
        EXPECT_FALSE(job->command.empty());
      }
    }
  }
}

}  // namespace
}  // namespace ayatori::tool
