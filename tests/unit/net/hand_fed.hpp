// SPDX-License-Identifier: Apache-2.0
// A served transport without a wire: what comes from its only peer is handed in, what goes to it is looked at.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <vector>

#include "harness.hpp"
#include "net/served/serve.hpp"

namespace ayatori::net::testing {

// Processes 0, itself, and 1.
class HandFed final : public served::ServedTransport {
 public:
  static constexpr std::size_t kBytes = 600'000;  // of region 0
  static constexpr std::uint32_t kSegmentBytes = 64 * 1024;

  HandFed() : ServedTransport(config(), "hand-fed"), region_(kBytes) {
    for (ProcessId p = 0; p < processes_; ++p)
      peers_.push_back(std::make_unique<served::Peer>(p, limits_, served::ServedConfig{}.send_queue_bytes,
                                                      reply_bytes_max(), kSegmentBytes, 1));
    EXPECT_EQ(register_memory(region_.data(), kBytes, kAllRights), 0u);
    set_handler(kUserHandlers, [](void* count, const Message&) { ++*static_cast<int*>(count); }, &delivered_);
    peers_[1]->open = true;
    begin();
  }
  ~HandFed() override {
    accuse(other(), "the end");
    progress();
    end();
  }

  void start() override {}
  served::Peer& other() { return *peers_[1]; }
  bool accused() { return other().accused.load() != nullptr; }
  int delivered() const { return delivered_; }
  void lose() { accuse(other(), "lost"); }

  // The wire takes that many bytes of the next batch, or all of it; what it began with.
  served::FrameHeader send(std::size_t bytes_max = ~std::size_t{0}) {
    served::FrameHeader header;
    bool some_ended = false;
    {
      std::lock_guard lock(other().mutex);
      EXPECT_TRUE(other().queue.compose());
      std::size_t bytes = 0;
      std::memcpy(&header, other().queue.batch()[0].iov_base, served::kHeaderBytes);
      for (const iovec& part : other().queue.batch()) bytes += part.iov_len;
      other().queue.advance(std::min(bytes, bytes_max));
      some_ended = has_ended_some(other());
    }
    batch_ended(some_ended);
    return header;
  }
  bool has_nothing_to_send() {
    std::lock_guard lock(other().mutex);
    return other().queue.idle();
  }
  bool sends_at_once = false;  // the wire has room

 private:
  static served::ServedConfig config() {
    served::ServedConfig config;
    config.processes = 2;
    config.progress_thread = false;
    config.tells_failures = false;
    return config;
  }
  void pump(served::Peer&) override {
    if (sends_at_once && !has_nothing_to_send()) send();
  }
  served::Work poll(std::int64_t) override { return {}; }
  bool try_close(served::Peer&) override { return true; }
  void heartbeat(served::Peer&, std::int64_t, bool) override {}

  std::vector<std::byte> region_;
  int delivered_ = 0;
};

}  // namespace ayatori::net::testing
