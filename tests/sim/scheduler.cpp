// SPDX-License-Identifier: Apache-2.0
#include "scheduler.hpp"

#if defined(__SANITIZE_ADDRESS__)
#define SIM_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SIM_ASAN 1
#endif
#endif
#ifdef SIM_ASAN
#include <sanitizer/common_interface_defs.h>
#endif

extern "C" void sim_switch(void** save_sp, void* load_sp);

namespace ayatori::sim {

namespace {

Scheduler* entering = nullptr;  // Who starts a fiber; read once at the fiber's first instruction.

// What AddressSanitizer must be told at a switch of stacks; nothing elsewhere.
#ifdef SIM_ASAN
void start_switch(void** save, const void* bottom, std::size_t bytes) {
  __sanitizer_start_switch_fiber(save, bottom, bytes);
}
void finish_switch(void* saved, const void** bottom, std::size_t* bytes) {
  __sanitizer_finish_switch_fiber(saved, bottom, bytes);
}
#else
void start_switch(void**, const void*, std::size_t) {}
void finish_switch(void*, const void**, std::size_t*) {}
#endif

}  // namespace

void Scheduler::reset(std::uint64_t seed, std::uint64_t step_limit) {
  random_ = Random(seed);
  count_ = live_ = 0;
  current_ = -1;
  steps_ = points_ = 0;
  step_limit_ = step_limit;
  failure_.clear();
  // Styles of scheduling: from a switch at every point to long undisturbed stretches; with or without starved fibers.
  constexpr std::uint32_t kChances[] = {256, 128, 64, 24, 8};
  switch_chance_ = kChances[random_.below(5)];
  constexpr std::uint32_t kDelays[] = {1, 10, 40, 150};
  longest_delay_ = kDelays[random_.below(4)];
  constexpr std::uint32_t kReweigh[] = {0, 50, 200, 1000};
  reweigh_every_ = kReweigh[random_.below(4)];
}

int Scheduler::spawn(void (*entry)(void*, int), void* argument) {
  Fiber& f = fibers_[count_];
  if (!f.stack) f.stack = std::make_unique<std::byte[]>(kStackBytes);
  f.entry = entry;
  f.argument = argument;
  f.waits_for = nullptr;
  f.weight = 64;
  f.done = f.idle = false;
  f.sanitizer_stack = nullptr;
  // The frame that sim_switch pops: six registers, the address of enter(); at its entry the stack is 8 modulo 16.
  auto top = reinterpret_cast<std::uintptr_t>(f.stack.get() + kStackBytes) & ~std::uintptr_t{15};
  auto** frame = reinterpret_cast<void**>(top - 64);
  for (int i = 0; i < 6; ++i) frame[i] = nullptr;
  frame[6] = reinterpret_cast<void*>(&Scheduler::enter);
  frame[7] = nullptr;
  f.sp = frame;
  ++live_;
  return count_++;
}

void Scheduler::enter() {
  Scheduler& s = *entering;
  finish_switch(nullptr, &s.main_stack_bottom_, &s.main_stack_bytes_);
  Fiber& f = s.fibers_[s.current_];
  f.entry(f.argument, s.current_);
  f.done = true;
  --s.live_;
  s.leave();
  __builtin_unreachable();
}

void Scheduler::leave() {
  Fiber& f = fibers_[current_];
  start_switch(f.done ? nullptr : &f.sanitizer_stack, main_stack_bottom_, main_stack_bytes_);
  sim_switch(&f.sp, main_sp_);
  finish_switch(f.sanitizer_stack, &main_stack_bottom_, &main_stack_bytes_);
}

void Scheduler::idle() {
  fibers_[current_].idle = true;
  leave();
}

void Scheduler::block(base::SharedLock* lock) {
  fibers_[current_].waits_for = lock;
  leave();
  fibers_[current_].waits_for = nullptr;
}

void Scheduler::reweigh() {
  constexpr std::uint32_t kWeights[] = {64, 64, 16, 4, 1};
  for (int i = 0; i < count_; ++i) fibers_[i].weight = kWeights[random_.below(5)];
}

int Scheduler::pick() {
  const auto n = static_cast<std::uint32_t>(count_);
  const auto ready = [&](const Fiber& f) { return !f.done && (f.waits_for == nullptr || !f.waits_for->held()); };
  for (int tries = 0; tries < 24; ++tries) {
    const std::uint64_t r = random_.next();
    const auto i = static_cast<std::uint32_t>((r & 0xffff) % n);
    const Fiber& f = fibers_[i];
    if (!ready(f)) continue;
    if (((r >> 16) & 63) >= f.weight) continue;
    if (f.idle && ((r >> 24) & 3) != 0) continue;
    return static_cast<int>(i);
  }
  const std::uint32_t first = random_.below(n);
  for (std::uint32_t k = 0; k < n; ++k) {
    const std::uint32_t i = (first + k) % n;
    if (ready(fibers_[i])) return static_cast<int>(i);
  }
  return -1;
}

bool Scheduler::run() {
  entering = this;
  while (live_ > 0 && failure_.empty()) {
    if (++steps_ > step_limit_) {
      fail("livelock: the run takes more steps than its limit");
      break;
    }
    if (reweigh_every_ != 0 && steps_ % reweigh_every_ == 0) reweigh();
    const int next = pick();
    if (next < 0) {
      fail("deadlock: every worker waits for a lock");
      break;
    }
    current_ = next;
    start_switch(&main_sanitizer_stack_, fibers_[next].stack.get(), kStackBytes);
    sim_switch(&main_sp_, fibers_[next].sp);
    finish_switch(main_sanitizer_stack_, nullptr, nullptr);
    current_ = -1;
  }
  return failure_.empty();
}

void Scheduler::fail(const char* what) {
  if (failure_.empty()) failure_ = what;
  if (current_ >= 0) leave();
}

}  // namespace ayatori::sim
