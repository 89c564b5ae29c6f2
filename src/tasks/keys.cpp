// SPDX-License-Identifier: Apache-2.0
#include "tasks/keys.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <new>
#include <utility>

#include "base/shared_lock.hpp"
#include "gas/heap.hpp"
#include "gas/space.hpp"
#include "tasks/address_table.hpp"
#include "tasks/runtime.hpp"
#include "tasks/sync.hpp"
#include "tasks/sync_ask.hpp"
#include "ult/current.hpp"
#include "ult/scheduler.hpp"

namespace ayatori::tasks::keys {

namespace {

// ------------------------------------------------------------------------------------------------ the table

constexpr std::uint32_t kIndexBits = 10;
static_assert(kKeys == 1u << kIndexBits);
constexpr std::uint32_t index_of(Key key) { return key & (kKeys - 1); }

struct Entry {
  std::atomic<Key> key;  // 0: free
  std::atomic<Destructor> destructor;
  std::uint32_t given;   // how often; guarded by the table's lock, as the rest
  std::uintptr_t where;  // K2; 0: not in static data
  std::uint64_t users;   // K2
};
struct Table {
  base::SharedLock lock;
  std::array<Entry, kKeys> entries;
};
constinit Table* table = nullptr;  // constant after reserve()

void end_entry(Entry& e) noexcept {
  e.key.store(0, std::memory_order_release);
  e.where = 0;
  e.users = 0;
}

// On its way to the native stack and back, as stacks may lie in the space.
struct TableCall {
  std::uintptr_t where;
  Destructor destructor;
  int process;
  Key key;
  bool done;
};
[[gnu::noinline]] TableCall& table_call() {
  thread_local TableCall call;
  return call;
}

const TableCall& on_native(void (*f)(void*), const TableCall& with) {
  TableCall& call = table_call();
  call = with;
  call_native(f, &call);
  return table_call();  // call_native does not switch threads
}

bool is_away() noexcept { return sync::table_is_away(); }
sync::Call about(sync::Ask ask, Key key) {
  sync::Call c = sync::about(ask, 0);
  c.count = key;
  return c;
}

std::uint64_t find(Key key) noexcept {
  return is_away() ? sync::ask_value(about(sync::Ask::kFindKey, key)) : find_here(key);
}

// ------------------------------------------------------------------------------------------------ values

constexpr std::uint32_t kBlock = 32;
struct Value {
  Key key;
  void* value;
};
struct Block {
  std::array<Value, kBlock> values;
};

}  // namespace

}  // namespace ayatori::tasks::keys

namespace ayatori::detail {

struct ThreadValues {
  std::array<tasks::keys::Block*, tasks::keys::kKeys / tasks::keys::kBlock> blocks;
  tasks::keys::AtExit at_exit;
  // K4. Sorted by nothing.
  tasks::sync::Handle* robust;
  std::size_t robust_count, robust_room;
};

}  // namespace ayatori::detail

namespace ayatori::tasks::keys {

namespace {

using detail::ThreadValues;
using ult::Descriptor;

// Of an OS thread of the program: ends them when that ends.
struct OsValues {
  ThreadValues* values = nullptr;
  ~OsValues();
};
[[gnu::noinline]] ThreadValues*& os_values() noexcept {
  thread_local OsValues mine;
  return mine.values;
}

void* zeroed(std::size_t bytes) noexcept {
  return ult::on_user_thread() ? gas::heap::allocate_zeroed(bytes) : std::calloc(1, bytes);
}
void free_zeroed(void* address) noexcept {
  if (ult::on_user_thread())
    gas::heap::deallocate(address);
  else
    std::free(address);
}

ThreadValues* values_of_caller() noexcept {
  return ult::on_user_thread() ? ult::current_thread()->values : os_values();
}

Value* place_of(ThreadValues* values, Key key) noexcept {
  if (!values) return nullptr;
  Block* const b = values->blocks[index_of(key) / kBlock];
  return b ? &b->values[index_of(key) % kBlock] : nullptr;
}

// Null: no memory.
ThreadValues* make_values() noexcept {
  ThreadValues* values = values_of_caller();
  if (values) return values;
  values = static_cast<ThreadValues*>(zeroed(sizeof(ThreadValues)));
  if (!values) return nullptr;
  if (ult::on_user_thread()) {
    Descriptor* const d = ult::current_thread();  // zeroed() may have gone elsewhere
    d->values = values;
    d->has_values = true;
  } else {
    os_values() = values;
  }
  return values;
}
Value* make_place(Key key) noexcept {
  ThreadValues* const values = make_values();
  if (!values) return nullptr;
  Block*& b = values->blocks[index_of(key) / kBlock];
  if (!b) b = static_cast<Block*>(zeroed(sizeof(Block)));
  return b ? &b->values[index_of(key) % kBlock] : nullptr;
}

// True: a destructor ran, which may have set values.
bool destroy_values(ThreadValues& values) noexcept {
  bool ran = false;
  for (Block* b : values.blocks) {
    if (!b) continue;
    for (Value& v : b->values) {
      if (!v.value) continue;
      void* const value = std::exchange(v.value, nullptr);
      const std::uint64_t found = find(v.key);
      if (found <= 1) continue;
      ran = true;
      reinterpret_cast<Destructor>(found)(value);  // NOLINT: code lies alike in all processes
    }
  }
  return ran;
}

void end(ThreadValues* values) noexcept {
  for (int i = 0; i < kRounds && destroy_values(*values); ++i) {
  }
  for (std::size_t i = values->robust_count; i-- > 0;) sync::leave_robust(values->robust[i]);  // K4
  while (void* const list = std::exchange(values->at_exit.list, nullptr)) values->at_exit.run(list);
}

void free_values(ThreadValues* values) noexcept {
  for (Block* b : values->blocks)
    if (b) free_zeroed(b);
  if (values->robust) free_zeroed(values->robust);
  free_zeroed(values);
}

OsValues::~OsValues() {
  if (!values) return;
  end(values);
  free_values(std::exchange(values, nullptr));
}

}  // namespace

void reserve() { table = new (gas::shared_map(sizeof(Table), "keys of thread-specific data")) Table; }

Key create_here(std::uintptr_t where, Destructor destructor, int process) noexcept {
  const std::uint64_t user = std::uint64_t{1} << process;
  Key made = 0;
  table->lock.lock();
  Entry* free_one = nullptr;
  for (Entry& e : table->entries) {
    const Key there = e.key.load(std::memory_order_relaxed);
    if (there == 0) {
      if (!free_one || e.given < free_one->given) free_one = &e;
    } else if (where != 0 && e.where == where && made == 0) {
      if ((e.users & user) == 0) {
        e.users |= user;
        made = there;
      } else {
        e.where = 0;  // it is another one's address from here on
      }
    }
  }
  if (made == 0 && free_one) {
    Entry& e = *free_one;
    e.given = (e.given + 1) % (1u << (32 - kIndexBits));
    if (e.given == 0) e.given = 1;
    e.where = where;
    e.users = user;
    e.destructor.store(destructor, std::memory_order_release);
    made = e.given << kIndexBits | static_cast<Key>(&e - table->entries.data());
    e.key.store(made, std::memory_order_release);  // pairs with find_here
  }
  table->lock.unlock();
  return made;
}

bool erase_here(Key key, int process) noexcept {
  const std::uint64_t user = std::uint64_t{1} << process;
  table->lock.lock();
  Entry& e = table->entries[index_of(key)];
  const bool found = key != 0 && e.key.load(std::memory_order_relaxed) == key;
  if (found) {
    if (e.where == 0 || (e.users & user) == 0 || e.users == user)
      end_entry(e);
    else
      e.users &= ~user;
  }
  table->lock.unlock();
  return found;
}

std::uint64_t find_here(Key key) noexcept {
  const Entry& e = table->entries[index_of(key)];
  if (key == 0 || e.key.load(std::memory_order_acquire) != key) return 0;
  const Destructor d =
      e.destructor.load(std::memory_order_acquire);            // who reads the next one's sees the end of this key
  if (e.key.load(std::memory_order_relaxed) != key) return 0;  // deleted meanwhile, perhaps given anew
  return d ? reinterpret_cast<std::uint64_t>(d) : 1;
}

Key create(const void* where, Destructor destructor) noexcept {
  const bool shared = !gas::contains(where) && address_table::is_static(where);
  const std::uintptr_t at = shared ? reinterpret_cast<std::uintptr_t>(where) : 0;
  if (is_away()) {
    sync::Call c = sync::about(sync::Ask::kCreateKey, 0);
    c.count = static_cast<std::int64_t>(at);
    c.other = reinterpret_cast<std::uint64_t>(destructor);
    return static_cast<Key>(sync::ask_value(c));
  }
  const auto native = [](void* argument) {
    auto& c = *static_cast<TableCall*>(argument);
    c.key = create_here(c.where, c.destructor, c.process);
  };
  return on_native(native, {at, destructor, self(), 0, false}).key;
}

bool erase(Key key) noexcept {
  if (is_away()) {
    const bool erased = sync::ask_value(about(sync::Ask::kEraseKey, key)) != 0;
    Value* const v = place_of(values_of_caller(), key);
    if (v && v->key == key && find(key) == 0) *v = {};  // set() believes that it lives
    return erased;
  }
  const auto native = [](void* argument) {
    auto& c = *static_cast<TableCall*>(argument);
    c.done = erase_here(c.key, c.process);
  };
  return on_native(native, {0, nullptr, self(), key, false}).done;
}

void* get(Key key) noexcept {
  const Value* const v = place_of(values_of_caller(), key);
  return v && v->key == key ? v->value : nullptr;
}

Set set(Key key, void* value) noexcept {
  Value* v = place_of(values_of_caller(), key);
  if (!v || v->key != key || !is_away())  // away: a key that this thread has set is believed to live
    if (find(key) == 0) return Set::kNoKey;
  if (!v) v = make_place(key);
  if (!v) return Set::kNoMemory;
  *v = {key, value};
  return Set::kDone;
}

AtExit* at_exit() noexcept {
  ThreadValues* const values = make_values();
  return values ? &values->at_exit : nullptr;
}

bool reserve_robust() noexcept {
  ThreadValues* const v = make_values();
  if (!v) return false;
  if (v->robust_count < v->robust_room) return true;
  const std::size_t room = v->robust_room == 0 ? 8 : 2 * v->robust_room;
  auto* const grown = static_cast<sync::Handle*>(zeroed(room * sizeof(sync::Handle)));
  if (!grown) return false;
  if (v->robust) {
    std::copy_n(v->robust, v->robust_count, grown);
    free_zeroed(v->robust);
  }
  v->robust = grown;
  v->robust_room = room;
  return true;
}

void add_robust(sync::Handle mutex) noexcept {
  ThreadValues* const v = values_of_caller();
  v->robust[v->robust_count++] = mutex;
}

void remove_robust(sync::Handle mutex) noexcept {
  ThreadValues* const v = values_of_caller();
  if (!v) return;
  for (std::size_t i = v->robust_count; i-- > 0;) {
    if (v->robust[i] != mutex) continue;
    v->robust[i] = v->robust[--v->robust_count];
    return;
  }
}

void end_values() noexcept {
  ThreadValues* const values = values_of_caller();
  end(values);
  Descriptor* const d = ult::current_thread();
  d->values = nullptr;
  d->has_values = false;
  free_values(values);
}

}  // namespace ayatori::tasks::keys
