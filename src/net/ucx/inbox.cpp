// SPDX-License-Identifier: Apache-2.0
#include "net/ucx/inbox.hpp"

#include <cstring>
#include <utility>

namespace ayatori::net::ucx {

using served::DataPlace;
using served::Frame;
using served::FrameKind;
using served::Parsed;

bool parse_batch_header(std::span<const std::byte> message, int processes, BatchHeader* header) {
  if (message.size() < sizeof *header) return false;
  std::memcpy(header, message.data(), sizeof *header);
  return header->from < static_cast<std::uint32_t>(processes);
}

Inbox::Inbox(const served::FrameLimits& limits) : limits_(limits), aligned_(frame_bytes_max(limits) / 8 + 1) {}

bool Inbox::take(std::uint64_t number, const BatchBody& body, served::FrameSink& sink) {
  if (number != next_) {
    const std::size_t bytes = body.head.size() + body.rest.size();
    if (number < next_ || early_.contains(number)) return sink.refuse("a batch twice"), false;
    if (early_.size() == kEarlyMax || bytes > kEarlyBytesMax - early_bytes_)
      return sink.refuse("a batch too early"), false;
    Early kept{{body.head.begin(), body.head.end()}, body.head.size()};
    kept.bytes.insert(kept.bytes.end(), body.rest.begin(), body.rest.end());
    early_.emplace(number, std::move(kept));
    early_bytes_ += bytes;
    return true;
  }
  if (!serve(body, sink)) return false;
  ++next_;
  while (!early_.empty() && early_.begin()->first == next_) {
    const Early batch = std::move(early_.begin()->second);
    early_.erase(early_.begin());
    early_bytes_ -= batch.bytes.size();
    if (!serve(batch.body(), sink)) return false;
    ++next_;
  }
  return true;
}

bool Inbox::serve(const BatchBody& batch, served::FrameSink& sink) {
  std::span<const std::byte> body = batch.head;
  std::span<const std::byte> rest = batch.rest;
  while (!body.empty() || !rest.empty()) {
    if (body.empty()) body = std::exchange(rest, {});
    Frame frame;
    const char* why = nullptr;
    const Parsed parsed = parse_frame(body, limits_, &frame, &why);
    if (parsed != Parsed::kFrame) return sink.refuse(why != nullptr ? why : "a batch that ends within a frame"), false;
    body = body.subspan(frame.bytes);
    if (frame.header.kind != FrameKind::kData) {
      if (reinterpret_cast<std::uintptr_t>(frame.body) % 8 != 0) {
        std::memcpy(aligned_.data(), frame.body, frame.header.body_bytes);
        frame.body = reinterpret_cast<const std::byte*>(aligned_.data());
      }
      if (!sink.on_frame(frame)) return false;
      continue;
    }
    const std::size_t bytes = frame.header.body_bytes;
    const bool apart = body.empty() && rest.size() == bytes;  // B3
    if (apart) body = std::exchange(rest, {});
    if (!apart && body.size() < served::padded(bytes)) return sink.refuse("a batch that ends within data"), false;
    DataPlace place;
    if (!sink.on_data(frame.header, &place)) return false;
    if (place.walk != nullptr) scatter(*place.walk, body.data(), bytes, place.whole_words);
    if (!sink.on_data_end(frame.header)) return false;
    body = body.subspan(apart ? bytes : served::padded(bytes));
  }
  return true;
}

void Inbox::clear() {
  early_.clear();
  early_bytes_ = 0;
}

}  // namespace ayatori::net::ucx
