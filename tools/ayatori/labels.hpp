// SPDX-License-Identifier: Apache-2.0
// --label: members' output comes in through pipes and leaves as whole lines with `[P] ` in front. Launcher's only
// thread; nothing here blocks, so that a reader who does not read cannot keep the launcher from its other work.
//
// L1. A line leaves when its end has come; the last one of a stream gets its newline at the end.
// L2. Memory is bounded: streams are not read while their sink is full (sink.hpp), and unfinished lines hold at most
//     kPartialBytesMax in all; beyond that the longest one is broken, each piece a line of its own.
// L3. When the reader of a sink is gone, the pipes that feed it are closed: the members get their SIGPIPE.
#pragma once

#include <poll.h>

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "sink.hpp"
#include "system.hpp"

namespace ayatori::tool {

class LabelMux {
 public:
  // One sink for both when they are one file: lines must not be cut by each other.
  LabelMux(bool label_out, bool label_err, bool merged);

  bool takes_out() const noexcept { return takes_[0]; }
  bool takes_err() const noexcept { return takes_[1]; }

  void add_stream(int process, Fd fd, bool standard_error);
  // Appends what to wait for; handle() gets the same entries back.
  void add_polls(std::vector<pollfd>& polls);
  void handle(const pollfd* begin, const pollfd* end);

  // When all members are gone: takes what is left in the pipes and ends all lines.
  void finish_streams();
  bool has_pending() const noexcept;
  // A line of the launcher's own, in order with the members' standard error.
  void say(std::string_view text);

 private:
  struct Stream {
    int process;
    Fd fd;
    Sink* sink;
    std::string partial;  // a line without its end
  };

  static constexpr std::size_t kPartialBytesMax = 64u << 20;
  static constexpr std::size_t kReadBytes = 64u << 10;

  Sink& error_sink() noexcept { return merged_ ? sinks_[0] : sinks_[1]; }
  bool read_once(Stream& stream);  // false: nothing there now, or the end
  void take(Stream& stream, std::string_view bytes);
  void end_line(Stream& stream);
  void write_once(Sink& sink);

  Sink sinks_[2];  // standard output, standard error
  const bool takes_[2];
  const bool merged_;
  std::vector<std::unique_ptr<Stream>> streams_;
  std::size_t partial_bytes_ = 0;  // of all streams
  std::unique_ptr<char[]> room_{new char[kReadBytes]};
};

}  // namespace ayatori::tool
