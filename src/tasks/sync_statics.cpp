// SPDX-License-Identifier: Apache-2.0
#include "tasks/sync_statics.hpp"

#include <unistd.h>

#include <atomic>
#include <mutex>
#include <system_error>

#include "base/check.hpp"
#include "base/shared_lock.hpp"
#include "gas/space.hpp"
#include "tasks/address_table.hpp"
#include "tasks/remote.hpp"
#include "tasks/runtime.hpp"
#include "tasks/sync_ask.hpp"

namespace ayatori::tasks::sync {

namespace {

struct Sharing {
  const void* where;
  Kind kind;
  Handle handle;  // of share: made, then agreed on; of unshare: 0 unless this was the last user
};
// Not on the caller's stack, which may lie in the space. Set and read on one worker.
[[gnu::noinline]] Sharing& sharing() {
  thread_local Sharing slot;
  return slot;
}

void share_native(void* argument) {
  auto& s = *static_cast<Sharing*>(argument);
  Pool& pool = *state.pool;
  pool.statics.lock();
  const Handle there = address_table::find(s.where);
  const bool lives = alive(there, s.kind) && state.objects[there].users != 0;
  s.handle = lives ? there : address_table::replace(s.where, there, s.handle);
  if (s.handle != 0) ++state.objects[s.handle].users;
  pool.statics.unlock();
}

void unshare_native(void* argument) {
  auto& s = *static_cast<Sharing*>(argument);
  Pool& pool = *state.pool;
  pool.statics.lock();
  if (--state.objects[s.handle].users != 0)
    s.handle = 0;
  else
    address_table::erase(s.where);
  pool.statics.unlock();
}

// Where processes share no memory, an object in static data is process 0's, and the others name it by its address: nobody
// is asked when it is constructed, which may be before there is a network.
constexpr Handle kNamed = Handle{1} << 63;
// Of process 0. No memory of the C library's heap: what main takes of it lies at the same addresses everywhere.
struct Statics {
  static constexpr int kMax = 4096;
  struct Entry {
    std::uintptr_t where;
    Handle handle;
    int users;
  };
  base::SharedLock lock;
  Entry entries[kMax];  // Guarded by lock.
  int count;            // Guarded by lock.

  Entry* find(std::uintptr_t where) noexcept {
    for (int i = 0; i < count; ++i)
      if (entries[i].where == where) return &entries[i];
    return nullptr;
  }
};
constinit Statics statics{};

// What all processes have for the object at `where`. Before there is a network, every process constructs what process 0 does.
Handle share_apart(const void* where, Kind kind, Handle made) {
  const auto address = reinterpret_cast<std::uintptr_t>(where);
  Handle agreed;
  if (self() == 0) {
    agreed = share_here(address, made, remote::connected() ? 1 : processes());
  } else if (!remote::connected()) {
    agreed = kNamed | address;
  } else {
    Call c = about(Ask::kShareStatic, 0);
    c.count = static_cast<std::int64_t>(address);
    c.other = made;
    agreed = ask_value(c);
  }
  if (agreed != made) destroy(made, kind);
  return agreed;
}
// What the caller is to end, or 0.
Handle unshare_apart(const void* where) {
  Call c = about(Ask::kUnshareStatic, 0);
  c.count = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(where));
  return self() == 0 ? unshare_here(static_cast<std::uintptr_t>(c.count)) : ask_value(c);
}

}  // namespace

Handle share_here(std::uintptr_t where, Handle made, int users) {
  const std::lock_guard guard(statics.lock);
  Statics::Entry* e = statics.find(where);
  if (!e) {
    AYT_CHECK(statics.count < Statics::kMax, "more than {} ayatori objects in static data", Statics::kMax);
    e = &statics.entries[statics.count++];
    *e = {where, made, 0};
  }
  e->users += users;
  return e->handle;
}
Handle unshare_here(std::uintptr_t where) {
  const std::lock_guard guard(statics.lock);
  Statics::Entry* const e = statics.find(where);
  if (!e || --e->users > 0) return 0;
  const Handle ended = e->handle;
  *e = statics.entries[--statics.count];
  return ended;
}

Handle local_handle(Handle h) {
  if ((h & kNamed) == 0) return h;
  const std::lock_guard guard(statics.lock);
  const Statics::Entry* const e = statics.find(h & ~kNamed);
  AYT_CHECK(e != nullptr, "process 0 never made the ayatori object in static data at {:#x} that another process uses",
            h & ~kNamed);
  return e->handle;
}

Handle construct(const void* where, Kind kind, std::ptrdiff_t expected) {
  const Handle made = kind == Kind::kBarrier     ? barrier_create(expected)
                      : kind == Kind::kSemaphore ? semaphore_create(static_cast<std::uint32_t>(expected))
                                                 : create(kind);
  if (kind == Kind::kRwLock) set_type(made, static_cast<std::uint32_t>(expected));
  if (gas::contains(where) || !address_table::is_static(where)) return made;
  if (state.member.load(std::memory_order_relaxed) == 0) state.member.store(getpid(), std::memory_order_relaxed);
  if (gas::apart()) return share_apart(where, kind, made);
  sharing() = {where, kind, made};
  call_native(&share_native, &sharing());
  const Handle agreed = sharing().handle;  // call_native does not switch threads
  if (agreed == made) return made;
  const bool alike = agreed != 0 && state.objects[agreed].type == state.objects[made].type;
  destroy(made, kind);
  if (agreed == 0) throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again), "ayatori");
  AYT_CHECK(alike, "an ayatori::barrier in static data was made for {} threads, by another process for {}", expected,
            state.objects[agreed].type);
  return agreed;
}

void destruct(const void* where, Handle h, Kind kind) noexcept {
  if (h == 0) return;
  if (gas::apart()) {
    if (gas::contains(where) || !address_table::is_static(where)) return destroy(h, kind);
    // A child that the program forked; or the job is over, and process 0 perhaps gone.
    if (getpid() != state.member.load(std::memory_order_relaxed) || finished()) return;
    return destroy(unshare_apart(where), kind);
  }
  if (object(h, kind).users == 0) return destroy(h, kind);
  if (getpid() != state.member.load(std::memory_order_relaxed))
    return;  // a child that the program forked: the object is its parent's
  sharing() = {where, kind, h};
  call_native(&unshare_native, &sharing());
  if (sharing().handle != 0) destroy(h, kind);
}

}  // namespace ayatori::tasks::sync
