// SPDX-License-Identifier: Apache-2.0
// `overflow_program SHAPE WHERE`: a thread that needs more stack than it has, in one way; run.sh knows what is to be said.
#include <alloca.h>
#include <unistd.h>

#include <atomic>
#include <ayatori/ayatori.hpp>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

extern "C" void* __libc_malloc(std::size_t bytes);

namespace {

std::atomic<bool> stuck{false};  // of this process: nobody allocates any more
volatile int zero = 0;

}  // namespace

// A thread that overflows inside the allocator leaves its locks held for ever.
extern "C" void* malloc(std::size_t bytes) {
  while (stuck.load(std::memory_order_relaxed)) pause();
  return __libc_malloc(bytes);
}

namespace {

constexpr std::size_t kGuardBytes = 16 * 1024;

std::size_t stack_bytes() {
  const char* const size = std::getenv("AYATORI_STACK_SIZE");
  return (size ? std::strtoul(size, nullptr, 10) : 1024) * 1024;  // run.sh sets it in KiB
}

template <std::size_t kBytes>
[[gnu::noinline]] int recurse(int depth) {
  volatile char frame[kBytes];
  frame[0] = static_cast<char>(depth);
  return zero != 0 ? 0 : recurse<kBytes>(depth + 1) + frame[0];
}

[[gnu::noinline]] int small_frames() { return recurse<60>(0); }
[[gnu::noinline]] int medium_frames() { return recurse<3000>(0); }

// What is left of the caller's stack down to its guard.
[[gnu::noinline]] std::size_t room_left() {
  return reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0)) % stack_bytes() - kGuardBytes;
}

// Down over the guard, by `beyond` bytes below it; `touch` is called with the lowest byte there.
template <class F>
[[gnu::noinline]] int jump(std::size_t beyond, F&& touch) {
  const std::size_t bytes = room_left() + kGuardBytes + beyond;
  auto* const room = static_cast<volatile char*>(alloca(bytes));
  asm volatile("" : : "r"(room) : "memory");  // it is there even where nobody uses it
  touch(room, bytes);
  return room[0];
}

// One byte at the lower end, in the stack below.
[[gnu::noinline]] int jump_to_byte() {
  return jump(60'000, [](volatile char* room, std::size_t) { room[0] = 1; });
}
// Some stacks further down.
[[gnu::noinline]] int jump_far() {
  return jump(5 * stack_bytes() + 60'000, [](volatile char* room, std::size_t) { room[0] = 1; });
}
// All of it, upwards: the guard comes last.
[[gnu::noinline]] int jump_and_fill() {
  return jump(60'000, [](volatile char* room, std::size_t bytes) {
    for (std::size_t i = 0; i < bytes; ++i) room[i] = 1;
  });
}
// The memory below is there, and nothing but a call of the runtime shows what has happened.
template <class F>
[[gnu::noinline]] int jump_and_call(F&& call) {
  return jump(60'000, [&](volatile char*, std::size_t) { call(); });
}

int overflow(std::string_view shape) {
  if (shape == "small") return small_frames();
  if (shape == "medium") return medium_frames();
  if (shape == "byte") return jump_to_byte();
  if (shape == "far") return jump_far();
  if (shape == "fill") return jump_and_fill();
  if (shape == "fork") return jump_and_call([] { ayatori::thread([] {}).join(); });
  if (shape == "yield")
    return jump_and_call([] {
      for (;;) ayatori::this_thread::yield();
    });
  if (shape == "locked") {
    stuck.store(true);
    return small_frames();
  }
  if (shape == "none") {  // nearly all of the stack
    const std::size_t bytes = room_left() - 20'000;
    auto* const room = static_cast<volatile char*>(alloca(bytes));
    for (std::size_t i = 0; i < bytes; i += 1000) room[i] = 1;
    ayatori::thread([] {}).join();
    ayatori::this_thread::yield();
    return 0;
  }
  return 2;
}

// Threads whose stacks lie around the one that overflows, all of which have been used to the depth of 900 KiB of 1 MiB.
std::vector<ayatori::thread> neighbours(ayatori::barrier& all, int count) {
  std::vector<ayatori::thread> threads;
  for (int i = 0; i < count; ++i)
    threads.emplace_back([&all] {
      const ayatori::pinned here;
      const std::size_t bytes = room_left() - 40'000;
      auto* const room = static_cast<volatile char*>(alloca(bytes));
      for (std::size_t at = 0; at < bytes; at += 1000) room[at] = 1;
      all.arrive_and_wait();
      all.arrive_and_wait();
    });
  return threads;
}

int run(const std::string& shape, const std::string& where) {
  if (where == "first") return overflow(shape);
  if (where == "forked") {
    int status = 0;
    ayatori::thread([&] { status = overflow(shape); }).join();
    return status;
  }
  if (where == "placed" || where == "everywhere") {  // on the last process, or on all at once
    std::vector<ayatori::thread> threads;
    for (int p = where == "placed" ? ayatori::process_count() - 1 : 0; p < ayatori::process_count(); ++p)
      threads.emplace_back(ayatori::on(p), [&shape, p] {
        if (ayatori::process_id() != p) std::puts("not where it was placed");
        (void)overflow(shape);
      });
    for (ayatori::thread& t : threads) t.join();
    return 0;
  }
  if (where == "between") {  // all stacks of its process around it are in use
    constexpr int kCount = 40;
    ayatori::barrier all(kCount + 1);
    std::vector<ayatori::thread> threads = neighbours(all, kCount);
    all.arrive_and_wait();
    ayatori::thread([&] { (void)overflow(shape); }).join();
    all.arrive_and_wait();
    for (ayatori::thread& t : threads) t.join();
    return 0;
  }
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  return ayatori::run(argc, argv,
                      [](auto args) { return run(args.size() > 1 ? args[1] : "", args.size() > 2 ? args[2] : ""); });
}
