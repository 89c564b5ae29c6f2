// SPDX-License-Identifier: Apache-2.0
// What the cases of `ayatori-bench-cases` share: a clock, busy waiting, pages with a known owner, output. A case is one
// job: the driver (bench/driver) starts it under the launcher with as many processes as it wants.
//
// Who calls it: user-level threads; a case function is the job's first thread.
// 1. Samples leave as lines `sample TAB METRIC TAB UNIT TAB VALUE...` on standard output; the driver reads no other.
// 2. Clocks are CLOCK_MONOTONIC: comparable between processes of one machine.
// 3. Code that measures holds an ayatori::pinned and touches, before it begins, everything that it will write.
#pragma once

#include <ayatori/ayatori.hpp>

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace cases {

using Samples = std::vector<double>;  // made by user-level threads: memory of the space

struct Options {
  bool quick = false;  // tiny sizes: does it work?
};

std::int64_t now_ns() noexcept;
void spin_until(std::int64_t when_ns) noexcept;  // computes without a scheduling point

// Prints the samples of one metric, from process 0. The texts are constants of the program.
void report(const char* metric, const char* unit, const Samples& samples);

// Memory of `process`, page by page: chunks of kChunkPages neighbouring pages, filled there. Freed with the job.
constexpr std::size_t kPageBytes = 4096;
constexpr std::size_t kChunkPages = 64;
using Pages = std::vector<std::byte*>;
Pages pages_of(int process, std::size_t count);

// A vector for as many samples, its memory touched.
Samples room(std::size_t count);

inline unsigned char peek(const std::byte* at) noexcept { return *reinterpret_cast<const volatile unsigned char*>(at); }
inline void poke(std::byte* at, unsigned char value) noexcept {
  *reinterpret_cast<volatile unsigned char*>(at) = value;
}

// More acquires than any cached page outlives.
void drop_cached();

[[noreturn]] void fail(const char* what);  // the job ends with status 3

// Calls f() on process p and waits for it.
template <class F>
void on_process(int p, F&& f) {
  ayatori::thread t(ayatori::on(p), [&f] {
    const ayatori::pinned here;
    f();
  });
  t.join();
}

struct Case {
  const char* name;
  int processes_min;
  void (*run)(const Options&);
};
void fork_join(const Options&);       // fork_join.cpp
void threads(const Options&);         // threads.cpp
void threads_of_two(const Options&);  // of two workers
void parallel(const Options&);        // parallel.cpp
void steal(const Options&);           // steal.cpp
void read_miss(const Options&);       // fault.cpp
void read_stream(const Options&);     //
void write_miss(const Options&);      //
void upgrade(const Options&);         //
void release_dirty(const Options&);   // fence.cpp
void acquire_cached(const Options&);  //
void latency(const Options&);         // latency.cpp
void barrier(const Options&);         // sync.cpp
void mutex_handoff(const Options&);   //

}  // namespace cases
