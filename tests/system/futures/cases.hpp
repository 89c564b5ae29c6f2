// SPDX-License-Identifier: Apache-2.0
// What the cases of the asynchronous shapes share. A case runs on the job's first thread.
#pragma once

#include <ayatori/ayatori.hpp>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

inline ayatori::global<ayatori::atomic<int>> failures;
void check(bool is, const char* what, int line, const char* file);
#define CHECK(e) check((e), #e, __LINE__, __FILE__)

void stops();
void conditions();
void onces();
void locks();
void futures();
void exceptions();
void tasks();

void spin(int microseconds);
void yields(int times);
std::uint64_t remote_steals();  // of all processes so far
inline unsigned here() { return 1u << ayatori::process_id(); }
inline int last() { return ayatori::process_count() - 1; }
inline unsigned everybody() { return (1u << ayatori::process_count()) - 1; }

constexpr int kEach = 3;
inline int all_threads() { return kEach * ayatori::process_count(); }
// f(number) in kEach threads on every process; they begin there.
template <class F>
void everywhere(F f) {
  std::vector<ayatori::thread> threads;
  for (int i = 0; i < all_threads(); ++i) threads.emplace_back(ayatori::on(i % ayatori::process_count()), f, i);
  for (ayatori::thread& t : threads) t.join();
}

// Counts those that live, of the job; what it holds does not fit into the object.
struct Tracked {
  static inline ayatori::global<ayatori::atomic<long>> alive{0};
  std::string text;
  explicit Tracked(std::string t) : text(std::move(t)) { alive->fetch_add(1, std::memory_order_relaxed); }
  Tracked(const Tracked& other) : text(other.text) { alive->fetch_add(1, std::memory_order_relaxed); }
  Tracked(Tracked&& other) noexcept : text(std::move(other.text)) { alive->fetch_add(1, std::memory_order_relaxed); }
  Tracked& operator=(const Tracked&) = default;
  Tracked& operator=(Tracked&&) = default;
  ~Tracked() { alive->fetch_sub(1, std::memory_order_relaxed); }
};
inline std::string long_text(int n) { return "a text that is too long for the object itself " + std::to_string(n); }

template <class F>
void expect_future_error(F f, std::future_errc code, int line) {
  try {
    f();
    check(false, "it returned", line, "");
  } catch (const std::future_error& e) {
    check(e.code() == code, e.what(), line, "");
  }
}
#define EXPECT_ERROR(code, ...) expect_future_error([&] { __VA_ARGS__; }, std::future_errc::code, __LINE__)
