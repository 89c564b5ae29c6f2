// SPDX-License-Identifier: Apache-2.0
// Runs completions on the thread that caused them, without recursion: a callback that issues requests which complete at
// once would otherwise nest as deep as its chain is long. One per OS thread; used by that thread only.
//
// P1. The outermost run() calls its own completion, then those queued meanwhile, in order.
// P2. Whoever is about to do something that completes at once asks has_room() first (N1: false means nothing was done).
#pragma once

#include <cstddef>
#include <vector>

#include <ayatori/net/types.hpp>

namespace ayatori::net {

class Completions {
 public:
  bool has_room(const Callback& callback, std::size_t limit) const noexcept {
    return !running_ || callback.function == nullptr || waiting() < limit;
  }

  void run(const Callback& callback, Completion completion) {
    if (callback.function == nullptr) return;
    if (running_)
      queue_.push_back({callback, completion});
    else
      run_first(callback, completion);
  }

  // While !running().
  void run_first(const Callback& callback, Completion completion) {
    running_ = true;
    callback(completion);
    if (!queue_.empty()) [[unlikely]]
      run_queued();
    running_ = false;
  }

  bool running() const noexcept { return running_; }

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

  bool running_ = false;
  std::size_t next_ = 0;
  std::vector<Entry> queue_;
};

}  // namespace ayatori::net
