// SPDX-License-Identifier: Apache-2.0
// The heap in jobs of three processes: frees elsewhere, their delivery by releases, bounded growth. Releases are run by
// hand: a lock a process, begin_release, deliver_pending, also by processes that are not concerned.
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "heap_world.hpp"

namespace ayatori {
namespace {

using testing::at_home;
using testing::kMiB;
using testing::together;
namespace heap = gas::heap;

constexpr std::size_t kSpace = 4096 * kMiB;
constexpr int kProcesses = 3;
constexpr int kSlots = 1024;

struct Shared {
  base::SharedLock release_locks[kProcesses];
  std::atomic<int> arrived;
  std::atomic<std::byte*> slots[kSlots];
  std::atomic<std::uint64_t> bytes[kSlots];
};
Shared* shared = nullptr;
int self = 0;

void release(int p) {
  shared->release_locks[p].lock();
  heap::begin_release(p);
  heap::deliver_pending(p);
  shared->release_locks[p].unlock();
}
void release_self() { release(self); }

void wait_for_all() {
  const int round = shared->arrived.fetch_add(1) / kProcesses;
  base::Backoff backoff;
  while (shared->arrived.load() < (round + 1) * kProcesses) backoff.wait();
}

template <class F>
void members(F&& f) {
  shared = static_cast<Shared*>(gas::shared_map(sizeof(Shared), "a test"));
  together(kProcesses, kSpace, [&](int p) {
    self = p;
    heap::set_hooks({.request_release = release_self});
    f(p);
  });
}

// Through the owners' system views, page by page.
template <class F>
void each_piece(std::byte* object, std::size_t bytes, F&& f) {
  for (std::size_t at = 0; at < bytes;) {
    const std::size_t n = std::min(bytes - at, gas::kPageBytes - gas::offset_of(object + at) % gas::kPageBytes);
    f(at_home(object + at), n);
    at += n;
  }
}
void fill(std::byte* object, std::size_t bytes, int value) {
  each_piece(object, bytes, [&](std::byte* at, std::size_t n) { std::memset(at, value, n); });
}
bool holds(std::byte* object, std::size_t bytes, int value) {
  bool all = true;
  each_piece(object, bytes, [&](std::byte* at, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) all &= at[i] == static_cast<std::byte>(value);
  });
  return all;
}

// Two threads a process put filled objects into slots that all share and free what they find there.
TEST(HeapRemote, ProcessesNeverShareAnObject) {
  members([](int p) {
    const auto work = [](unsigned seed) {
      std::mt19937 random(seed);
      for (int i = 0; i < 40'000; ++i) {
        std::size_t bytes = 16 + random() % 300;
        if (random() % 64 == 0) bytes = 16 + random() % 150'000;
        if (random() % 2000 == 0) bytes = 2 * kMiB + random() % 100'000;
        auto* mine = random() % 8 == 0 ? nullptr : static_cast<std::byte*>(heap::allocate(bytes));
        if (mine != nullptr) {
          const int mark = static_cast<int>(bytes % 251);
          fill(mine, bytes, mark);
          std::memcpy(at_home(mine), &bytes, sizeof bytes);  // 16-byte aligned: on one page
        }
        std::byte* other = shared->slots[random() % kSlots].exchange(mine, std::memory_order_acq_rel);
        if (other != nullptr) {
          std::memcpy(&bytes, at_home(other), sizeof bytes);
          if (!holds(other + sizeof bytes, bytes - sizeof bytes, static_cast<int>(bytes % 251))) std::abort();
          fill(other, bytes, 255);
          heap::deallocate(other);
        }
        if (random() % 4096 == 0) release(static_cast<int>(random() % kProcesses));
        if (random() % 1024 == 0) heap::tidy();
      }
    };
    std::thread second(work, static_cast<unsigned>(p + 10));
    work(static_cast<unsigned>(p + 1));
    second.join();
    wait_for_all();
    if (p == 0)
      for (auto& slot : shared->slots) heap::deallocate(slot.load());
    wait_for_all();
    for (int round = 0; round < 2; ++round)
      for (int q = 0; q < kProcesses; ++q) release(q);
    wait_for_all();
    heap::tidy();
    EXPECT_EQ(heap::usage(p).pending_objects, 0u);
    EXPECT_EQ(heap::usage(p).pending_bytes, 0u);
    EXPECT_LT(heap::usage(p).used_bytes, 24 * kMiB);
  });
}

TEST(HeapRemote, AFreeElsewhereIsDeliveredByAReleaseThatBeganAfterIt) {
  members([](int p) {
    if (p == 0) {
      for (int i = 0; i < 3; ++i) shared->slots[i] = static_cast<std::byte*>(heap::allocate(300'000));
      EXPECT_EQ(heap::usage(0).used_bytes, 3 * std::size_t{5} << 16);
    }
    wait_for_all();
    if (p == 1) {
      heap::deallocate(shared->slots[0]);
      heap::begin_release(1);
      heap::deallocate(shared->slots[1]);  // while the release runs
      EXPECT_EQ(heap::usage(1).pending_objects, 2u);
      heap::deliver_pending(1);
      EXPECT_EQ(heap::usage(1).pending_objects, 1u);
    }
    wait_for_all();
    if (p == 0) {
      heap::tidy();
      EXPECT_EQ(heap::usage(0).used_bytes, 2 * std::size_t{5} << 16);
    }
    wait_for_all();
    if (p == 2) {
      heap::deallocate(shared->slots[2]);
      heap::deliver_pending(2);  // nobody called begin_release: one release later
      EXPECT_EQ(heap::usage(2).pending_objects, 1u);
      heap::deliver_pending(1);  // another process's
      EXPECT_EQ(heap::usage(1).pending_objects, 0u);
      heap::deliver_pending(2);
      EXPECT_EQ(heap::usage(2).pending_objects, 0u);
    }
    wait_for_all();
    if (p == 0) {
      heap::tidy();
      EXPECT_EQ(heap::usage(0).used_bytes, 0u);
    }
  });
}

TEST(HeapRemote, AProducerAndAConsumerDoNotGrow) {
  members([](int p) {
    constexpr int kObjects = 1'000'000;
    if (p == 2) return;
    for (int i = 0; i < kObjects; ++i) {
      auto& slot = shared->slots[i % kSlots];
      base::Backoff backoff;
      if (p == 0) {
        auto* object = static_cast<std::byte*>(heap::allocate(16 + i % 200));
        while (slot.load(std::memory_order_relaxed) != nullptr) backoff.wait();
        slot.store(object, std::memory_order_release);
      } else {
        std::byte* object;
        while ((object = slot.load(std::memory_order_acquire)) == nullptr) backoff.wait();
        slot.store(nullptr, std::memory_order_relaxed);
        heap::deallocate(object);
      }
    }
    if (p == 0) {
      EXPECT_LT(heap::usage(0).touched_bytes, 8 * kMiB);
    } else {
      EXPECT_LT(heap::usage(1).pending_objects, 2 * heap::kPendingObjects);
    }
  });
}

TEST(HeapRemote, ObjectsLieAtTheirAllocatorAndLargeOnesEverywhere) {
  members([](int p) {
    for (const std::size_t bytes : {std::size_t{16}, std::size_t{40'000}, std::size_t{900'000}})
      EXPECT_EQ(gas::static_owner(gas::page_of(heap::allocate(bytes))), p);
    const auto* large = static_cast<std::byte*>(heap::allocate(6 * kMiB));
    int pages[kProcesses] = {};
    for (std::size_t at = 0; at < 6 * kMiB; at += gas::kPageBytes) ++pages[gas::static_owner(gas::page_of(large + at))];
    for (const int n : pages) EXPECT_EQ(n, 2 * static_cast<int>(kMiB / gas::kPageBytes));
  });
}

TEST(HeapRemote, ALargeFreeWaitsForItsReleaseThenItsMemoryIsGivenBack) {
  members([](int p) {
    if (p != 1) return;
    heap::set_hooks({});
    auto* large = static_cast<std::byte*>(heap::allocate(40 * kMiB));
    heap::deallocate(large);
    EXPECT_NE(gas::find_segment(large), nullptr);
    heap::deliver_pending(1);
    heap::tidy();
    EXPECT_NE(gas::find_segment(large), nullptr);
    heap::deliver_pending(1);
    heap::tidy();
    EXPECT_EQ(gas::find_segment(large), nullptr);
    heap::set_hooks({.request_release = release_self});
    large = static_cast<std::byte*>(heap::allocate(40 * kMiB));
    heap::deallocate(large);
    EXPECT_EQ(gas::find_segment(large), nullptr);
  });
}

gas::PageIndex forgotten_first;
std::size_t forgotten_pages;

TEST(HeapRemote, PagesThatAreUsedAgainAreForgottenFirst) {
  members([](int p) {
    if (p != 1) return;
    heap::set_hooks({.request_release = release_self, .forget_pages = [](gas::PageIndex first, std::size_t pages) {
                       forgotten_first = first;
                       forgotten_pages = pages;
                     }});
    void* large = heap::allocate(2 * kMiB);
    EXPECT_EQ(forgotten_pages, 0u);
    heap::deallocate(large);
    void* again = heap::allocate(2 * kMiB);
    EXPECT_EQ(again, large);
    EXPECT_EQ(forgotten_first, gas::page_of(large));
    EXPECT_EQ(forgotten_pages, 2 * kMiB >> gas::kPageShift);
  });
}

std::atomic<int> native_calls;

TEST(HeapRemote, SlowPathsGoThroughTheNativeStack) {
  members([](int p) {
    if (p != 0) return;
    heap::set_hooks({.call_native = [](void (*function)(void*), void* argument) {
      EXPECT_FALSE(gas::contains(argument));
      ++native_calls;
      function(argument);
    }});
    void* small = heap::allocate(16);
    EXPECT_EQ(native_calls, 1);
    heap::deallocate(small);
    heap::deallocate(heap::allocate(16));
    EXPECT_EQ(native_calls, 1);
    heap::deallocate(heap::allocate(100'000));
    EXPECT_EQ(native_calls, 3);
  });
}

TEST(HeapRemoteDeathTest, FreeingTwiceElsewhereEndsTheJob) {
  EXPECT_DEATH(
      {
        testing::make_space(2, kSpace);
        auto** box = static_cast<void**>(gas::shared_map(4096, "a test"));
        if (const pid_t child = fork(); child == 0) {
          testing::join_space(1);
          *box = heap::allocate(64);
          _exit(0);
        } else {
          waitpid(child, nullptr, 0);
        }
        testing::join_space(0);
        heap::deallocate(*box);
        heap::deallocate(*box);
      },
      "freed before");
}

}  // namespace
}  // namespace ayatori
