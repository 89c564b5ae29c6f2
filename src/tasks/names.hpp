// SPDX-License-Identifier: Apache-2.0
// Names of the job: those of named semaphores and those given to threads. One table in memory mapped by all, or
// (gas::apart()) process 0's, which the others ask. Called on user-level threads and OS threads of the program, on stacks
// that may fault.
//
// N1. A named semaphore is known by its place: a word of static data, at one address in all processes, that is never
//     written; the semaphore's handle is found by that address (address_table.hpp).
// N2. A place is free again when its name was unlinked and every open has been closed.
// N3. What a name stands for changes under the table's lock, on native stacks only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "tasks/sync.hpp"

namespace ayatori::tasks::names {

inline constexpr std::size_t kSemaphores = 1024;  // named ones, of the job, at a time
inline constexpr std::size_t kLongest = 255;      // characters of a semaphore's name
inline constexpr std::size_t kThreadName = 16;    // with the zero at its end

void reserve();  // before the fork

// The word of the semaphore with that name; null: errno's value is in *error. `made`: a semaphore for a new name, or 0: only
// what is there. *taken says whether it is the name's now. `anew`: the name must be new.
std::uint64_t* open(std::string_view name, sync::Handle made, bool anew, bool* taken, int* error) noexcept;
// 0, or errno's value. *ended: a semaphore that is nobody's now, or 0.
int close(const std::uint64_t* word, sync::Handle* ended) noexcept;
int unlink(std::string_view name, sync::Handle* ended) noexcept;
bool is_named(const std::uint64_t* word) noexcept;

// Of the thread with that number; kThreadName characters. get: false: none was given.
void set_thread_name(std::uint64_t number, const char* name) noexcept;
bool get_thread_name(std::uint64_t number, char* name) noexcept;

// For remote.cpp, at process 0: one request as a process sends it, and its answer.
struct Request {
  enum class What : std::uint32_t { kOpen, kClose, kUnlink, kSetThread, kGetThread } what;
  bool anew;
  std::uint64_t object;  // semaphore, place or number of a thread
  std::uint32_t length;
  char name[kLongest + 1];
};
struct Answer {
  int error;
  bool taken;
  std::uint32_t place;
  sync::Handle ended;
  char name[kThreadName];
};
Answer serve(const Request& request) noexcept;

}  // namespace ayatori::tasks::names
