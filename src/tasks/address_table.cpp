// SPDX-License-Identifier: Apache-2.0
#include "tasks/address_table.hpp"

#include <dlfcn.h>

#include <atomic>

#include "gas/space.hpp"

namespace ayatori::tasks::address_table {

namespace {

constexpr int kEntryBits = 24;
constexpr std::size_t kEntries = std::size_t{1} << kEntryBits;  // mapped lazily
constexpr std::size_t kProbes = 4096;

struct Entry {
  std::atomic<std::uint64_t> address;  // O1
  std::atomic<sync::Handle> handle;
};
constinit Entry* table = nullptr;  // constant after reserve()

std::size_t first_probe(std::uint64_t address) noexcept {
  return static_cast<std::size_t>((address >> 3) * 0x9e3779b97f4a7c15ULL >> (64 - kEntryBits));
}

// The entry of this address, made if `make`; null: there is none, or no room.
Entry* entry_of(const void* object, bool make) noexcept {
  const auto address = reinterpret_cast<std::uint64_t>(object);
  const std::size_t first = first_probe(address);
  for (std::size_t i = 0; i < kProbes; ++i) {
    Entry& e = table[(first + i) & (kEntries - 1)];
    std::uint64_t there = e.address.load(std::memory_order_relaxed);  // the handle carries the order
    if (there == 0 && make && e.address.compare_exchange_strong(there, address, std::memory_order_relaxed)) return &e;
    if (there == address) return &e;
    if (there == 0) return nullptr;
  }
  return nullptr;
}

}  // namespace

void reserve() {
  table = static_cast<Entry*>(gas::shared_map(kEntries * sizeof(Entry), "synchronisation objects by address"));
}

bool is_static(const void* address) noexcept {
  dl_find_object found;
  return _dl_find_object(const_cast<void*>(address), &found) == 0;  // NOLINT: asks only; takes no lock
}

sync::Handle find(const void* address) noexcept {
  if (sync::table_is_away()) return sync::ask_table(sync::Ask::kFindAddress, address, 0, 0);
  const Entry* e = entry_of(address, false);
  return e ? e->handle.load(std::memory_order_acquire) : 0;  // pairs with the exchange in replace()
}

sync::Handle replace(const void* address, sync::Handle before, sync::Handle handle) noexcept {
  if (sync::table_is_away()) return sync::ask_table(sync::Ask::kReplaceAddress, address, before, handle);
  Entry* e = entry_of(address, true);
  if (!e) return 0;
  // acq_rel: publishes the new object, or sees the other one's
  return e->handle.compare_exchange_strong(before, handle, std::memory_order_acq_rel) ? handle : before;
}

sync::Handle erase(const void* address) noexcept {
  if (sync::table_is_away()) return sync::ask_table(sync::Ask::kEraseAddress, address, 0, 0);
  Entry* e = entry_of(address, false);
  return e && e->handle.load(std::memory_order_relaxed) != 0 ? e->handle.exchange(0, std::memory_order_acq_rel) : 0;
}

}  // namespace ayatori::tasks::address_table
