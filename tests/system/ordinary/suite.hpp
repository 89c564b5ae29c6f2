// SPDX-License-Identifier: Apache-2.0
// The suite of ordinary C++ in threads that migrate. A case is a function that uses the language and its library as any
// program does, and calls migrate() or elsewhere() in the middle of it; main.cpp runs each with 100 forced migrations.
//
// S1. migrate() comes back after the thread ran on another process, whenever the job has more than one. Where it is then
//     is open: a thread that waited for its child may have been stolen back.
// S2. Cases run on user-level threads, one after the other; what they print to standard output is compared with text.
#pragma once

#include <ayatori/ayatori.hpp>
#include <string>
#include <utility>

namespace suite {

inline constexpr int kMigrations = 100;

struct Case {
  const char* name;
  void (*run)();
};
// Notes a case; used before main by CASE.
struct Add {
  Add(const char* name, void (*run)());
};

void fail(const char* file, int line, const char* expression, const std::string& note);

// Moves the calling thread to another process: forks a child that spins until its parent's continuation was stolen by a
// process other than this one (or some time is over: then again). No-op in a job of one process.
void migrate();
long migrations() noexcept;  // so far, of all threads

// Runs f in a thread that starts on the next process, waits for it, returns what it returned.
template <class F>
auto elsewhere(F&& f) {
  const int there = (ayatori::process_id() + 1) % ayatori::process_count();
  using Result = std::invoke_result_t<F&>;
  if constexpr (std::is_void_v<Result>) {
    ayatori::thread(ayatori::on(there), [&f] { f(); }).join();
  } else {
    Result result{};
    ayatori::thread(ayatori::on(there), [&f, &result] { result = f(); }).join();
    return result;
  }
}

}  // namespace suite

#define CASE(name)                                           \
  static void case_##name();                                 \
  static const ::suite::Add add_##name(#name, &case_##name); \
  static void case_##name()

#define CHECK(expression) ((expression) ? (void)0 : ::suite::fail(__FILE__, __LINE__, #expression, {}))
#define CHECK_NOTE(expression, note) ((expression) ? (void)0 : ::suite::fail(__FILE__, __LINE__, #expression, note))
