// SPDX-License-Identifier: Apache-2.0
// Runs completions on the thread that caused them, without recursion: a callback that issues requests which complete at
// once would otherwise nest as deep as its chain is long. One per OS thread; used by that thread only.
//
// P1. The outermost run() calls its own completion, then those queued meanwhile, in order.
// P2. Whoever is about to do something that completes at once asks has_room() first (N1: false means nothing was done).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <ayatori/net/types.hpp>

namespace ayatori::net {

class Completions {
 public:
  constexpr Completions() = default;
  // One that seems to be running for ever; nobody uses it.
  static constexpr Completions closed() {
    Completions completions;
    completions.state_ = State::kRunning;
    return completions;
  }

  bool has_room(const Callback& callback, std::size_t limit) const noexcept {
    return !running() || callback.function == nullptr || waiting() < limit;
  }

  void run(const Callback& callback, Completion completion) {
    if (callback.function == nullptr) return;
    if (running()) {
      queue_.push_back({callback, completion});
      state_ = State::kRunningWithQueue;
    } else {
      run_first(callback, completion);
    }
  }

  // While !running().
  void run_first(const Callback& callback, Completion completion) {
    begin_first();
    callback(completion);
    end_first();
  }
  // run_first() in two halves: before and after its own completion is called.
  void begin_first() noexcept { state_ = State::kRunning; }
  void end_first() {
    if (state_ != State::kRunning) [[unlikely]]
      run_queued();
    state_ = State::kIdle;
  }

  bool running() const noexcept { return state_ != State::kIdle; }

 private:
  struct Entry {
    Callback callback;
    Completion completion;
  };
  static constexpr std::size_t kCompactAfter = 256;

  [[gnu::noinline]] void run_queued() {
    while (next_ < queue_.size()) {
      const Entry entry = queue_[next_++];
      if (next_ == queue_.size()) {
        queue_.clear();  // keeps its room
        next_ = 0;
      } else if (next_ == kCompactAfter) {
        queue_.erase(queue_.begin(), queue_.begin() + kCompactAfter);
        next_ = 0;
      }
      entry.callback(entry.completion);
    }
  }
  std::size_t waiting() const noexcept { return queue_.size() - next_; }

  enum class State : std::uint8_t { kIdle, kRunning, kRunningWithQueue };

  State state_ = State::kIdle;
  std::size_t next_ = 0;
  std::vector<Entry> queue_;
};

}  // namespace ayatori::net
