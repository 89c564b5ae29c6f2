// SPDX-License-Identifier: Apache-2.0
// libFuzzer on what UCX's messages meet first (net/ucx/inbox, net/served/frame, walk): any bytes as any batches, in any order
// and at any address, are taken or refused, and touch nothing but their places. Two bytes before each batch: number and
// length.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include <ayatori/net/transport.hpp>
#include "net/ucx/inbox.hpp"

namespace {

using namespace ayatori::net;
using namespace ayatori::net::served;

constexpr FrameLimits kLimits{992, 1024, 16};

class Sink final : public FrameSink {
 public:
  bool on_frame(const Frame& frame) override {
    if (reinterpret_cast<std::uintptr_t>(frame.body) % 8 != 0) std::abort();  // inbox.hpp B3
    if (frame.header.kind == FrameKind::kWrite && is_inline(frame.header, kLimits) &&
        descriptor_bytes(frame.header) + frame.header.total != frame.header.body_bytes)
      std::abort();  // frame.hpp F2
    for (std::uint32_t i = 0; i < frame.header.body_bytes; ++i) sum_ += static_cast<unsigned>(frame.body[i]);
    return true;
  }
  bool on_data(const FrameHeader& header, DataPlace* place) override {
    if (header.slot % 3 == 0) return true;
    memory_.assign(header.body_bytes, std::byte{0});
    walk_ = Walk(memory_.data(), memory_.size());
    *place = {&walk_, header.body_bytes <= kWholeWordBytesMax};
    return true;
  }
  bool on_data_end(const FrameHeader& header) override {
    if (header.slot % 3 != 0 && walk_.left() != 0) std::abort();
    return true;
  }
  void refuse(const char*) override {}

 private:
  std::vector<std::byte> memory_;
  Walk walk_;
  unsigned sum_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data), size);
  ucx::Inbox inbox(kLimits);
  Sink sink;
  for (std::size_t at = 0; at + 2 <= size;) {
    const std::uint64_t number = inbox.taken() + data[at] % 4;
    const std::size_t length = std::min<std::size_t>(std::size_t{data[at + 1]} * 16, size - at - 2);
    const std::span<const std::byte> body = bytes.subspan(at + 2, length);
    const std::size_t head = std::min<std::size_t>(std::size_t{data[at] / 4u} * 8, length);  // where it is cut
    if (!inbox.take(number, {body.first(head), body.subspan(head)}, sink)) break;
    at += 2 + length;
  }
  ucx::BatchHeader header;
  ucx::parse_batch_header(bytes, 3, &header);
  return 0;
}
