// SPDX-License-Identifier: Apache-2.0
#include "labels.hpp"

#include <algorithm>
#include <cerrno>
#include <iterator>

namespace ayatori::tool {

LabelMux::LabelMux(bool label_out, bool label_err, bool merged)
    : sinks_{Sink(STDOUT_FILENO), Sink(STDERR_FILENO)}, takes_{label_out, label_err}, merged_(merged) {}

void LabelMux::add_stream(int process, Fd fd, bool standard_error) {
  fcntl(fd.get(), F_SETFL, O_NONBLOCK);  // the read end is ours alone
  Sink& sink = standard_error ? error_sink() : sinks_[0];
  streams_.push_back(std::make_unique<Stream>(Stream{process, std::move(fd), &sink, {}}));
}

void LabelMux::add_polls(std::vector<pollfd>& polls) {
  for (const Sink& sink : sinks_)
    if (sink.pending_bytes() != 0) polls.push_back({sink.fd(), POLLOUT, 0});
  for (const auto& stream : streams_)
    if (stream->fd && !stream->sink->is_full()) polls.push_back({stream->fd.get(), POLLIN, 0});
}

void LabelMux::handle(const pollfd* begin, const pollfd* end) {
  for (const pollfd* poll = begin; poll != end; ++poll) {
    if (poll->revents == 0) continue;
    if ((poll->events & POLLOUT) != 0) {
      for (Sink& sink : sinks_)
        if (sink.fd() == poll->fd) write_once(sink);
      continue;
    }
    for (const auto& stream : streams_)
      if (stream->fd.get() == poll->fd) read_once(*stream);
  }
  std::erase_if(streams_, [](const auto& stream) { return !stream->fd; });
}

bool LabelMux::read_once(Stream& stream) {
  const ssize_t bytes = read(stream.fd.get(), room_.get(), kReadBytes);
  if (bytes > 0) {
    take(stream, {room_.get(), static_cast<std::size_t>(bytes)});
    return true;
  }
  if (bytes < 0 && errno == EINTR) return true;
  if (bytes < 0 && errno == EAGAIN) return false;
  if (!stream.partial.empty()) end_line(stream);
  stream.fd.reset();
  return false;
}

void LabelMux::take(Stream& stream, std::string_view bytes) {
  if (stream.sink->broken()) {
    stream.fd.reset();  // L3
    return;
  }
  const std::string prefix = base::formatted("[{}] ", stream.process);
  Sink& out = *stream.sink;
  for (;;) {
    const std::size_t end = bytes.find('\n');
    if (end == bytes.npos) break;
    out.add(prefix);
    out.add(stream.partial);
    partial_bytes_ -= stream.partial.size();
    stream.partial.clear();
    out.add(bytes.substr(0, end + 1));
    bytes.remove_prefix(end + 1);
  }
  if (stream.partial.empty()) stream.partial.shrink_to_fit();
  stream.partial += bytes;
  partial_bytes_ += bytes.size();
  if (partial_bytes_ > kPartialBytesMax) {  // L2
    const auto longest = std::max_element(streams_.begin(), streams_.end(), [](const auto& a, const auto& b) {
      return a->partial.size() < b->partial.size();
    });
    end_line(**longest);
  }
}

void LabelMux::end_line(Stream& stream) {
  stream.sink->add(base::formatted("[{}] {}\n", stream.process, stream.partial));
  partial_bytes_ -= stream.partial.size();
  stream.partial.clear();
  stream.partial.shrink_to_fit();
}

void LabelMux::write_once(Sink& sink) {
  if (sink.write_once()) return;
  for (const auto& stream : streams_) {  // L3
    if (stream->sink != &sink) continue;
    partial_bytes_ -= stream->partial.size();
    stream->partial = {};
    stream->fd.reset();
  }
}

void LabelMux::finish_streams() {
  for (const auto& stream : streams_) {
    // What a stranger who still holds the pipe goes on writing is not waited for.
    for (int reads = 0; stream->fd && reads < 64 && read_once(*stream);) ++reads;
    if (stream->fd && !stream->partial.empty()) end_line(*stream);
  }
  streams_.clear();
}

bool LabelMux::has_pending() const noexcept {
  return std::any_of(std::begin(sinks_), std::end(sinks_), [](const Sink& sink) { return sink.pending_bytes() != 0; });
}

void LabelMux::say(std::string_view text) {
  Sink& sink = error_sink();
  if (!(merged_ ? takes_out() : takes_err()) || sink.broken()) {
    tool::say(text);
    return;
  }
  sink.add(base::formatted("ayatori: {}\n", text));
}

}  // namespace ayatori::tool
