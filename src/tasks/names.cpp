// SPDX-License-Identifier: Apache-2.0
#include "tasks/names.hpp"

#include <array>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <new>

#include "base/check.hpp"
#include "base/shared_lock.hpp"
#include "gas/space.hpp"
#include "tasks/address_table.hpp"
#include "tasks/remote.hpp"
#include "tasks/runtime.hpp"

namespace ayatori::tasks::names {

namespace {

using What = Request::What;

constinit std::array<std::uint64_t, kSemaphores> words{};  // N1

struct Semaphore {
  std::uint32_t opens;  // not closed yet
  bool linked;          // free: neither
  std::uint32_t length;
  char name[kLongest + 1];
};
struct ThreadName {
  std::uint64_t number;
  char name[kThreadName];
};
struct Table {
  base::SharedLock lock;
  std::array<Semaphore, kSemaphores> semaphores;  // Guarded by lock, as the names of threads.
};
// Constant after reserve().
constinit Table* table = nullptr;
constinit ThreadName* threads = nullptr;  // by stack slot

Semaphore* find(std::string_view name) noexcept {
  for (Semaphore& s : table->semaphores)
    if (s.linked && std::string_view(s.name, s.length) == name) return &s;
  return nullptr;
}
Semaphore* free_place() noexcept {
  for (Semaphore& s : table->semaphores)
    if (!s.linked && s.opens == 0) return &s;
  return nullptr;
}
std::uint32_t place_of(const Semaphore* s) noexcept { return static_cast<std::uint32_t>(s - table->semaphores.data()); }

// N2. Returns what it was.
sync::Handle end_if_unused(const Semaphore* s) noexcept {
  return s->linked || s->opens != 0 ? 0 : address_table::erase(&words[place_of(s)]);
}

void open_here(const Request& r, Answer& a) noexcept {
  const std::string_view name(r.name, r.length);
  Semaphore* s = find(name);
  if (s && r.anew) {
    a.error = EEXIST;
    return;
  }
  if (!s && r.object == 0) {
    a.error = ENOENT;
    return;
  }
  if (!s) {
    s = free_place();
    if (!s || address_table::replace(&words[place_of(s)], 0, r.object) != r.object) {
      a.error = ENFILE;
      return;
    }
    s->length = r.length;
    std::memcpy(s->name, r.name, r.length);
    s->linked = true;
    a.taken = true;
  }
  ++s->opens;
  a.place = place_of(s);
}

void close_here(const Request& r, Answer& a) noexcept {
  Semaphore* const s = r.object < kSemaphores ? &table->semaphores[r.object] : nullptr;
  if (!s || s->opens == 0) {
    a.error = EINVAL;
    return;
  }
  --s->opens;
  a.ended = end_if_unused(s);
}

void unlink_here(const Request& r, Answer& a) noexcept {
  Semaphore* const s = find({r.name, r.length});
  if (!s) {
    a.error = ENOENT;
    return;
  }
  s->linked = false;
  a.ended = end_if_unused(s);
}

// Null: no thread has such a number.
ThreadName* thread_name(std::uint64_t number) noexcept {
  const std::uint64_t slot = (number & 0xffff'ffff) - 1;
  return slot < gas::layout().slots ? &threads[slot] : nullptr;
}

// What goes to the native stack and back, as stacks may lie in the space. Set and read on one worker.
struct Exchange {
  Request request;
  Answer answer;
};
[[gnu::noinline]] Exchange& the_exchange() noexcept {
  thread_local Exchange slot;
  return slot;
}

void ask_native(void*) {
  Exchange& x = the_exchange();
  x.answer = sync::table_is_away() ? remote::ask_names(x.request) : serve(x.request);
}

Answer ask(What what, std::uint64_t object, std::string_view name, bool anew = false) noexcept {
  // On the stack first: a look at the name may fault, and the thread go on on another worker.
  Request r{what, anew, object, static_cast<std::uint32_t>(name.size()), {}};
  Answer a{};
  if (!name.empty()) std::memcpy(r.name, name.data(), name.size());
  the_exchange().request = r;
  call_native(&ask_native, nullptr);
  a = the_exchange().answer;  // call_native does not switch threads
  return a;
}

}  // namespace

void reserve() {
  table = new (gas::shared_map(sizeof(Table), "names of semaphores")) Table;
  threads = static_cast<ThreadName*>(
      gas::shared_map(std::size_t{gas::layout().slots} * sizeof(ThreadName), "names of threads"));
}

Answer serve(const Request& r) noexcept {
  AYT_CHECK(r.length <= kLongest, "a peer sent a name of {} characters", r.length);
  Answer a{};
  const std::lock_guard guard(table->lock);
  switch (r.what) {
    case What::kOpen: open_here(r, a); break;
    case What::kClose: close_here(r, a); break;
    case What::kUnlink: unlink_here(r, a); break;
    case What::kSetThread:
      if (ThreadName* const t = thread_name(r.object)) {
        t->number = r.object;
        std::memcpy(t->name, r.name, kThreadName);
      }
      break;
    case What::kGetThread: {
      const ThreadName* const t = thread_name(r.object);
      if (!t || t->number != r.object)
        a.error = ENOENT;
      else
        std::memcpy(a.name, t->name, kThreadName);
      break;
    }
  }
  return a;
}

std::uint64_t* open(std::string_view name, sync::Handle made, bool anew, bool* taken, int* error) noexcept {
  const Answer a = ask(What::kOpen, made, name, anew);
  *taken = a.taken;
  *error = a.error;
  return a.error == 0 ? &words[a.place] : nullptr;
}

int close(const std::uint64_t* word, sync::Handle* ended) noexcept {
  *ended = 0;
  if (!is_named(word)) return EINVAL;
  const Answer a = ask(What::kClose, static_cast<std::uint64_t>(word - words.data()), {});
  *ended = a.ended;
  return a.error;
}

int unlink(std::string_view name, sync::Handle* ended) noexcept {
  const Answer a = ask(What::kUnlink, 0, name);
  *ended = a.ended;
  return a.error;
}

bool is_named(const std::uint64_t* word) noexcept {
  const auto at = reinterpret_cast<std::uintptr_t>(word), first = reinterpret_cast<std::uintptr_t>(words.data());
  return at >= first && at < first + sizeof words;
}

void set_thread_name(std::uint64_t number, const char* name) noexcept {
  ask(What::kSetThread, number, {name, kThreadName});
}
bool get_thread_name(std::uint64_t number, char* name) noexcept {
  const Answer a = ask(What::kGetThread, number, {});
  std::memcpy(name, a.name, kThreadName);
  return a.error == 0;
}

}  // namespace ayatori::tasks::names
