// SPDX-License-Identifier: Apache-2.0
// libFuzzer on what a tcp connection's bytes meet first (net/served/frame, net/tcp/receiver, net/served/walk): any bytes, in any cut, are taken or
// refused, and touch nothing but their places. The first byte chooses the cut.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include <ayatori/net/transport.hpp>
#include "net/tcp/receiver.hpp"

namespace {

using namespace ayatori::net;
using namespace ayatori::net::served;
using ayatori::net::tcp::Receiver;

constexpr FrameLimits kLimits{992, 1024, 16};

// Takes descriptors apart as a target does, sends data to a box of blocks or to nowhere.
class Sink final : public FrameSink {
 public:
  bool on_frame(const Frame& frame) override {
    if (reinterpret_cast<std::uintptr_t>(frame.body) % 8 != 0) std::abort();  // frame.hpp F1
    const FrameHeader& header = frame.header;
    if (header.kind != FrameKind::kRead && header.kind != FrameKind::kWrite) return true;
    std::uint64_t total = header.total;
    if (static_cast<Shape>(header.code) == Shape::kList) {
      total = 0;
      for (std::size_t i = 0; i < header.handler; ++i) total += wire_piece(frame, i).bytes;
    } else if (static_cast<Shape>(header.code) == Shape::kStrided) {
      if (wire_strides(frame).levels > kStrideLevelsMax) std::abort();
    }
    if (total != header.total) std::abort();  // F2
    return true;
  }
  bool on_data(const FrameHeader& header, DataPlace* place) override {
    if (header.slot % 3 == 0) return true;
    shape_.block_bytes = header.slot % 3 == 1 ? 24 : 8192;
    shape_.levels = 1;
    shape_.counts[0] = header.body_bytes / shape_.block_bytes + 1;
    shape_.remote_strides[0] = static_cast<std::int64_t>(shape_.block_bytes) + 8;
    memory_.resize((shape_.block_bytes + 8) * shape_.counts[0]);
    walk_ = Walk(memory_.data(), shape_, shape_.remote_strides, header.body_bytes);
    *place = {&walk_, header.body_bytes <= kWholeWordBytesMax};
    return true;
  }
  bool on_data_end(const FrameHeader& header) override {
    if (header.slot % 3 != 0 && walk_.left() != 0) std::abort();
    return true;
  }
  void refuse(const char*) override {}

 private:
  StridedParams shape_;
  std::vector<std::byte> memory_;
  Walk walk_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::size_t step_max = std::size_t{1} << (data[0] % 16);
  Receiver receiver(kLimits);
  Sink sink;
  for (std::size_t at = 1; at < size;) {
    std::size_t room = 0;
    const auto places = receiver.room(&room);
    const std::size_t step = std::min({step_max, size - at, room});
    std::size_t left = step;
    for (const iovec& place : places) {
      const std::size_t here = std::min(left, place.iov_len);
      if (here != 0) std::memcpy(place.iov_base, data + at, here);
      at += here;
      left -= here;
    }
    if (!receiver.received(step, sink)) break;
  }
  return 0;
}
