// SPDX-License-Identifier: Apache-2.0
// libFuzzer: what a host sends to a launcher, or a launcher to an agent, as bytes from anywhere. First byte: how the rest is
// cut. Nothing is read outside its bounds, and what comes out is within its limits. .ci/steps fuzz builds and runs it.
#include <fcntl.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "frames.hpp"
#include "host_job.hpp"

using namespace ayatori::tool;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::size_t step = data[0] + 1u;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (const auto job = unpack_host_job(bytes)) {
    const auto processes = static_cast<int>(job->hosts.size());
    if (job->first < 0 || job->count < 1 || job->first + job->count > processes || processes > 64) std::abort();
    if (!unpack_host_job(pack(*job))) std::abort();
  }

  int ends[2];
  if (pipe2(ends, O_NONBLOCK | O_CLOEXEC) != 0) return 0;
  FrameReader reader;
  for (std::size_t at = 0; at < bytes.size() && !reader.broken(); at += step) {
    const std::string_view part = bytes.substr(at, step);
    if (write(ends[1], part.data(), part.size()) != static_cast<ssize_t>(part.size())) std::abort();
    reader.fill(ends[0]);
    Frame frame;
    while (reader.next(&frame)) {
      Unpacker fields(frame.body);
      while (fields.ok() && !fields.ended()) fields.text();
    }
  }
  close(ends[0]);
  close(ends[1]);
  return 0;
}
