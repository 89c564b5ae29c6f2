// SPDX-License-Identifier: Apache-2.0
// Messages of a module that never waits for room: what a transport does not take now is kept and sent by progress(). The
// module's own lock guards all but pending().
//
// O1. Kept messages leave in turn; one that finds no room goes to the end, so that a full receiver holds up no other. There
//     is hence no order between messages to one process (transport.hpp N2).
#pragma once

#include <atomic>
#include <cstddef>
#include <deque>
#include <utility>
#include <vector>

#include <ayatori/net/transport.hpp>

namespace ayatori::net {

class Outbox {
 public:
  explicit Outbox(Transport& transport) : transport_(transport) {}

  void send(ProcessId to, HandlerId handler, std::vector<std::byte> bytes) {
    if (transport_.try_message_async({to, handler, bytes.data(), bytes.size(), {}})) return;
    kept_.push_back({to, handler, std::move(bytes)});
    publish();
  }

  // Returns how many left.
  std::size_t progress() {
    std::size_t left = 0;
    for (std::size_t tries = kept_.size(); tries != 0; --tries) {
      Entry entry = std::move(kept_.front());
      kept_.pop_front();
      if (transport_.try_message_async({entry.to, entry.handler, entry.bytes.data(), entry.bytes.size(), {}}))
        ++left;
      else
        kept_.push_back(std::move(entry));
    }
    publish();
    return left;
  }

  void clear() {
    kept_.clear();
    publish();
  }

  // Any thread, without the lock. A hint, hence relaxed: progress() runs under the lock.
  bool pending() const noexcept { return size_.load(std::memory_order_relaxed) != 0; }

 private:
  struct Entry {
    ProcessId to;
    HandlerId handler;
    std::vector<std::byte> bytes;
  };
  void publish() { size_.store(kept_.size(), std::memory_order_relaxed); }

  Transport& transport_;
  std::deque<Entry> kept_;
  std::atomic<std::size_t> size_{0};
};

}  // namespace ayatori::net
