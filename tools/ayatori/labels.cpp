// SPDX-License-Identifier: Apache-2.0
#include "labels.hpp"

#include <limits.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

namespace ayatori::tool {
namespace {

bool takes_any_size(int fd) {
  struct stat file{};
  return fstat(fd, &file) == 0 && (S_ISREG(file.st_mode) || S_ISBLK(file.st_mode));
}

}  // namespace

LabelMux::LabelMux(bool label_out, bool label_err, bool merged) : merged_(merged) {
  sinks_[0].used = label_out;
  sinks_[1].used = label_err;
  for (int i = 0; i < 2; ++i) {
    sinks_[i].fd = STDOUT_FILENO + i;
    sinks_[i].whole = takes_any_size(sinks_[i].fd);
  }
}

void LabelMux::add_stream(int process, Fd fd, bool standard_error) {
  fcntl(fd.get(), F_SETFL, O_NONBLOCK);  // the read end is ours alone
  Sink& sink = standard_error ? error_sink() : sinks_[0];
  streams_.push_back(std::make_unique<Stream>(Stream{process, std::move(fd), &sink, {}}));
}

void LabelMux::add_polls(std::vector<pollfd>& polls) {
  for (const Sink& sink : sinks_)
    if (!sink.broken && pending_bytes(sink) != 0) polls.push_back({sink.fd, POLLOUT, 0});
  for (const auto& stream : streams_)
    if (stream->fd && pending_bytes(*stream->sink) < kSinkBytesMax) polls.push_back({stream->fd.get(), POLLIN, 0});
}

void LabelMux::handle(const pollfd* begin, const pollfd* end) {
  for (const pollfd* poll = begin; poll != end; ++poll) {
    if (poll->revents == 0) continue;
    if ((poll->events & POLLOUT) != 0) {
      for (Sink& sink : sinks_)
        if (sink.fd == poll->fd) write_once(sink);
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
  if (stream.sink->broken) {
    stream.fd.reset();  // B4
    return;
  }
  const std::string prefix = base::formatted("[{}] ", stream.process);
  std::string& out = stream.sink->pending;
  for (;;) {
    const std::size_t end = bytes.find('\n');
    if (end == bytes.npos) break;
    out += prefix;
    out += stream.partial;
    partial_bytes_ -= stream.partial.size();
    stream.partial.clear();
    out.append(bytes.substr(0, end + 1));
    bytes.remove_prefix(end + 1);
  }
  if (stream.partial.empty()) stream.partial.shrink_to_fit();
  stream.partial += bytes;
  partial_bytes_ += bytes.size();
  if (partial_bytes_ > kPartialBytesMax) {  // B2
    const auto longest = std::max_element(streams_.begin(), streams_.end(), [](const auto& a, const auto& b) {
      return a->partial.size() < b->partial.size();
    });
    end_line(**longest);
  }
}

void LabelMux::end_line(Stream& stream) {
  std::string& out = stream.sink->pending;
  out += base::formatted("[{}] ", stream.process);
  out += stream.partial;
  out += '\n';
  partial_bytes_ -= stream.partial.size();
  stream.partial.clear();
  stream.partial.shrink_to_fit();
}

void LabelMux::write_once(Sink& sink) {
  std::size_t bytes = pending_bytes(sink);
  if (bytes == 0) return;
  if (!sink.whole) bytes = std::min<std::size_t>(bytes, PIPE_BUF);  // B3
  const ssize_t written = write(sink.fd, sink.pending.data() + sink.written, bytes);
  if (written < 0 && (errno == EINTR || errno == EAGAIN)) return;
  if (written < 0) {
    sink.broken = true;  // B4
    sink.pending = {};
    sink.written = 0;
    for (const auto& stream : streams_) {
      if (stream->sink != &sink) continue;
      partial_bytes_ -= stream->partial.size();
      stream->partial = {};
      stream->fd.reset();
    }
    return;
  }
  sink.written += static_cast<std::size_t>(written);
  if (sink.written == sink.pending.size()) {
    sink.pending.clear();
    sink.written = 0;
    if (sink.pending.capacity() > 2 * kSinkBytesMax) sink.pending.shrink_to_fit();
  } else if (sink.written > kSinkBytesMax && sink.written > sink.pending.size() / 2) {
    sink.pending.erase(0, sink.written);
    sink.written = 0;
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
  return std::any_of(std::begin(sinks_), std::end(sinks_),
                     [](const Sink& sink) { return !sink.broken && pending_bytes(sink) != 0; });
}

void LabelMux::say(std::string_view text) {
  Sink& sink = error_sink();
  if (!sink.used || sink.broken) {
    tool::say(text);
    return;
  }
  sink.pending += "ayatori: ";
  sink.pending += text;
  sink.pending += '\n';
}

}  // namespace ayatori::tool
