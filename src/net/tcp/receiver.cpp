// SPDX-License-Identifier: Apache-2.0
#include "net/tcp/receiver.hpp"

#include <algorithm>
#include <cstring>

namespace ayatori::net::tcp {

using served::Frame;
using served::FrameKind;
using served::Parsed;

namespace {

// Frames that come between long data: what announces and what answers it.
bool goes_with_data(const FrameHeader& header, const FrameLimits& limits) noexcept {
  switch (header.kind) {
    case FrameKind::kWrite: return !is_inline(header, limits);
    case FrameKind::kAck:
    case FrameKind::kGo:
    case FrameKind::kHeartbeat: return true;
    default: return false;
  }
}

}  // namespace

Receiver::Receiver(const FrameLimits& limits)
    : limits_(limits),
      staging_bytes_(frame_bytes_max(limits) + kReadAheadBytes + 8),
      staging_(std::make_unique_for_overwrite<std::byte[]>(staging_bytes_)) {}

std::span<std::byte> Receiver::direct_room() {
  if (!in_data_ || place_.walk == nullptr || place_.whole_words || begin_ != end_) return {};
  const std::span<std::byte> piece = place_.walk->front(data_left_);
  return piece.size() >= kDirectBytesMin ? piece : std::span<std::byte>{};
}

std::span<iovec> Receiver::room(std::size_t* bytes) {
  const std::size_t low = begin_ & 7;  // V1
  if (begin_ != low) {
    std::memmove(staging_.get() + low, staging_.get() + begin_, end_ - begin_);
    end_ = low + end_ - begin_;
    begin_ = low;
  }
  const std::span<std::byte> direct = direct_room();
  direct_bytes_ = direct.size();
  const std::size_t ahead_at = direct.empty() ? end_ : (begin_ + direct_bytes_) & 7;
  std::size_t count = 0;
  if (!direct.empty()) iovecs_[count++] = {direct.data(), direct.size()};
  const bool expects_long_data = !direct.empty() || (behind_long_data_ && !in_data_);
  const std::size_t ahead = expects_long_data ? kReadAheadShort : kReadAheadBytes;
  iovecs_[count++] = {staging_.get() + ahead_at, ahead};
  *bytes = direct_bytes_ + ahead;
  return {iovecs_.data(), count};
}

bool Receiver::received(std::size_t bytes, FrameSink& sink) {
  const std::size_t direct = std::min(bytes, direct_bytes_);
  if (direct_bytes_ != 0) {
    place_.walk->skip(direct);
    data_left_ -= direct;
    begin_ = end_ = (begin_ + direct) & 7;  // as the stream goes on
    direct_bytes_ = 0;
  }
  end_ += bytes - direct;
  return take_frames(sink);
}

bool Receiver::take_data(FrameSink& sink) {
  const std::size_t here = std::min(data_left_, end_ - begin_);
  if (place_.walk != nullptr && here != 0) scatter(*place_.walk, staging_.get() + begin_, here, place_.whole_words);
  begin_ += here;
  data_left_ -= here;
  if (data_left_ != 0) return true;
  const std::size_t padding = std::min(padding_left_, end_ - begin_);
  begin_ += padding;
  padding_left_ -= padding;
  if (padding_left_ != 0) return true;
  in_data_ = false;
  return sink.on_data_end(data_header_);
}

bool Receiver::take_frames(FrameSink& sink) {
  while (true) {
    if (in_data_) {
      if (!take_data(sink)) return false;
      if (in_data_) return true;
    }
    Frame frame;
    const char* why = nullptr;
    switch (parse_frame({staging_.get() + begin_, end_ - begin_}, limits_, &frame, &why)) {
      case Parsed::kMore: return true;
      case Parsed::kBad: sink.refuse(why); return false;
      case Parsed::kFrame: break;
    }
    if (frame.header.kind != FrameKind::kData) {
      if (!sink.on_frame(frame)) return false;
      if (!goes_with_data(frame.header, limits_) || ++frames_behind_data_ > kFramesBehindData)
        behind_long_data_ = false;
      begin_ += frame.bytes;
      continue;
    }
    begin_ += frame.bytes;
    data_header_ = frame.header;
    place_ = {};
    if (!sink.on_data(data_header_, &place_)) return false;
    in_data_ = true;
    data_left_ = data_header_.body_bytes;
    padding_left_ = served::padded(data_left_) - data_left_;
    behind_long_data_ = data_left_ >= kLongDataBytesMin;
    frames_behind_data_ = 0;
  }
}

}  // namespace ayatori::net::tcp
