// SPDX-License-Identifier: Apache-2.0
// What a launcher and its agents on other hosts say to each other, over standard input and output of the command that reached
// the host: frames of a kind and a body. Both ends are `ayatori` of one version; what the other side sends is parsed with bounds
// all the same, since a login shell may write there too.
//
// F1. The agent's first words are kGreeting, a line of its own: what stands before it was written by a login shell.
// F2. A frame is a header of 8 bytes, kind and length of the body, little-endian, then the body, of kBodyBytesMax at most.
// F3. A body is fields in a fixed order: numbers of 8 bytes, texts with their length before them. One that is too short, or
//     longer than its fields, is no frame of ours: the connection is given up.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace ayatori::tool {

inline constexpr std::string_view kGreeting = "ayatori-agent 1\n";
inline constexpr std::size_t kGreetingWithinBytes = 64 * 1024;
inline constexpr std::size_t kBodyBytesMax = 4 * 1024 * 1024;

enum class FrameKind : std::uint32_t {
  // To the agent.
  kJob = 1,  // what it is to run: HostJob
  kStart,    // flags: is loopback enough
  kSignal,   // number
  kEnd,      // kill all
  kExamine,  // Errand of `ayatori doctor`
  kReach,    // addresses and ports of the hosts
  // To the launcher.
  kReady,     // place
  kRefused,   // status, line: nothing was started
  kReason,    // status, line: why the job ends before its time
  kOutput,    // 1 or 2, bytes
  kStats,     // process, its counters in the order of kStatNames
  kExit,      // status; the last frame
  kFindings,  // HostReport
  kReached,   // for each host, what went wrong
  // Both ways.
  kCard,  // process, bytes of a Card
  kLeft,  // process, status: it ended without having called net::open()
};

class Packer {
 public:
  Packer& number(std::uint64_t value);
  Packer& text(std::string_view value);
  const std::string& body() const noexcept { return body_; }

 private:
  std::string body_;
};

class Unpacker {
 public:
  explicit Unpacker(std::string_view body) noexcept : rest_(body) {}
  // Past the end: zero, empty, and ok() is false from then on.
  std::uint64_t number() noexcept;
  std::string_view text() noexcept;
  bool ok() const noexcept { return ok_; }
  bool ended() const noexcept { return ok_ && rest_.empty(); }

 private:
  std::string_view rest_;
  bool ok_ = true;
};

struct Frame {
  FrameKind kind;
  std::string_view body;
};

// Bytes to be written; appended as whole frames.
class FrameWriter {
 public:
  void add(FrameKind kind, std::string_view body = {});
  void add_raw(std::string_view bytes) { pending_ += bytes; }
  bool empty() const noexcept { return written_ == pending_.size(); }
  std::size_t pending_bytes() const noexcept { return pending_.size() - written_; }
  // Writes what a non-blocking descriptor takes. False: nobody reads any more.
  bool flush(int fd);

 private:
  std::string pending_;
  std::size_t written_ = 0;
};

// Bytes that arrived, cut into frames.
class FrameReader {
 public:
  enum class Arrived { kBytes, kNothing, kEnd };
  // Reads once from a non-blocking descriptor.
  Arrived fill(int fd);
  // Drops what stands before the greeting, and the greeting (F1). False: it has not come yet.
  bool greeted();
  std::size_t bytes() const noexcept { return buffer_.size() - at_; }
  // The next whole frame; its body lives until the next call of fill(). False: there is none yet, or broken().
  bool next(Frame* frame);
  bool broken() const noexcept { return broken_; }

 private:
  std::string buffer_;
  std::size_t at_ = 0;
  bool greeted_ = false;
  bool broken_ = false;
};

}  // namespace ayatori::tool
