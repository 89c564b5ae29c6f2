// SPDX-License-Identifier: Apache-2.0
#include "api/c_objects.hpp"

#include <atomic>
#include <exception>

#include "gas/space.hpp"
#include "tasks/address_table.hpp"

namespace ayatori::api {

namespace {

namespace sync = tasks::sync;
namespace table = tasks::address_table;

// `value` as of init_object. 0: no room.
Handle create_object(Kind kind, std::uint32_t type, std::uint32_t value) noexcept {
  Handle h = 0;
  try {
    switch (kind) {
      case Kind::kMutex: h = sync::mutex_create(); break;
      case Kind::kCondition: h = sync::condition_create(); break;
      case Kind::kBarrier: h = sync::barrier_create(value); break;
      case Kind::kSemaphore: h = sync::semaphore_create(value); break;
      case Kind::kRwLock: h = sync::rwlock_create(); break;
      case Kind::kFree: return 0;
    }
  } catch (const std::exception&) {
    return 0;
  }
  sync::set_type(h, type);
  return h;
}

void end_object(Handle h) noexcept {
  if (sync::alive(h, Kind::kMutex)) return sync::mutex_destroy(h);
  if (sync::alive(h, Kind::kCondition)) return sync::condition_destroy(h);
  if (sync::alive(h, Kind::kBarrier)) return sync::barrier_destroy(h);
  if (sync::alive(h, Kind::kSemaphore)) return sync::semaphore_destroy(h);
  if (sync::alive(h, Kind::kRwLock)) return sync::rwlock_destroy(h);
}

bool shared_static(const void* word, Reach reach) noexcept {
  return reach == Reach::kJob && !gas::contains(word) && table::is_static(word);
}

bool by_address(const void* word, Reach reach) noexcept { return gas::contains(word) || shared_static(word, reach); }

std::uint64_t load(std::uint64_t* word) noexcept {
  // acquire: pairs with the exchange in ensure_own(); elsewhere the program orders init and use
  return std::atomic_ref<std::uint64_t>(*word).load(std::memory_order_acquire);
}

// H4: threads of this process agree in the word.
Handle ensure_own(std::uint64_t* word, Kind kind, Handle made) noexcept {
  const std::atomic_ref<std::uint64_t> own(*word);
  std::uint64_t there = 0;
  while (!own.compare_exchange_strong(there, made, std::memory_order_acq_rel)) {
    if (!sync::alive(there, kind)) continue;  // left by what was here before
    end_object(made);
    return there;
  }
  return made;
}

}  // namespace

Handle find_object(std::uint64_t* word, Kind kind, Reach reach) noexcept {
  if (const Handle h = load(word); h != 0 && sync::alive(h, kind)) return h;
  // Only what may be known by its address is in the table.
  const Handle h = reach == Reach::kJob || gas::contains(word) ? table::find(word) : 0;
  return sync::alive(h, kind) ? h : 0;
}

Handle ensure_object(std::uint64_t* word, Kind kind, std::uint32_t type, Reach reach) noexcept {
  const bool in_space = gas::contains(word);
  const auto fits = [&](Handle h) { return sync::alive(h, kind) && (!in_space || sync::type_of(h) == type); };
  if (const Handle h = load(word); h != 0 && sync::alive(h, kind)) return h;
  Handle before = 0;
  if (reach == Reach::kJob || in_space) {
    before = table::find(word);
    if (fits(before)) return before;
  }
  const Handle made = create_object(kind, type, 0);
  if (made == 0) return 0;
  if (!by_address(word, reach)) return ensure_own(word, kind, made);
  for (;;) {
    const Handle there = table::replace(word, before, made);
    if (there == made) {
      end_object(before);  // H2
      return made;
    }
    if (there == 0 || fits(there)) {
      end_object(made);
      return there;
    }
    before = there;
  }
}

Handle init_object(std::uint64_t* word, Kind kind, std::uint32_t type, std::uint32_t value) noexcept {
  const bool is_static = shared_static(word, Reach::kJob);
  const Handle before = by_address(word, Reach::kJob) ? table::find(word) : 0;
  if (is_static) {
    *word = 0;  // H3
    if (sync::alive(before, kind)) return before;
  }
  const Handle made = create_object(kind, type, value);
  if (made == 0) return 0;
  if (!is_static) {
    if (before != 0) end_object(table::erase(word));  // H1: an initialiser's object was here, and was not destroyed
    *word = made;
    return made;
  }
  const Handle agreed = table::replace(word, before, made);
  if (agreed != made) end_object(made);
  return agreed;
}

void destroy_object(std::uint64_t* word, Handle handle) noexcept {
  if (load(word) == handle)
    *word = 0;
  else
    table::erase(word);
  end_object(handle);
}

}  // namespace ayatori::api
