// SPDX-License-Identifier: Apache-2.0
// The heap in a job of one process: sizes, alignment, overlap, reuse, exhaustion, memory given back, misuse.
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "gas/heap/classes.hpp"
#include "heap_world.hpp"

namespace ayatori {
namespace {

using testing::alone;
using testing::in_child;
using testing::join_space;
using testing::kMiB;
using testing::make_space;
namespace heap = gas::heap;

constexpr std::size_t kSpace = 4096 * kMiB;

std::size_t resident_bytes(gas::PageIndex first, std::size_t pages) {
  std::vector<unsigned char> there(pages);
  EXPECT_EQ(mincore(gas::page_in(0, first), pages << gas::kPageShift, there.data()), 0);
  return static_cast<std::size_t>(std::count_if(there.begin(), there.end(), [](unsigned char c) { return c & 1; }))
         << gas::kPageShift;
}

TEST(HeapClasses, EachSizeGetsTheSmallestClassThatHoldsIt) {
  for (std::size_t bytes = 0; bytes <= heap::kClassBytesMax; ++bytes) {
    const std::uint32_t c = heap::class_of(bytes);
    ASSERT_LT(c, heap::kClasses);
    ASSERT_GE(heap::kSizeClasses[c].bytes, bytes);
    if (c > 0) {
      ASSERT_LT(heap::kSizeClasses[c - 1].bytes, std::max<std::size_t>(bytes, 1));
    }
  }
}

TEST(HeapClasses, TheIndexOfEachObjectOfEachSlabIsExact) {
  for (std::uint32_t c = 0; c < heap::kClasses; ++c) {
    const heap::SizeClass& row = heap::kSizeClasses[c];
    ASSERT_LE(row.capacity, heap::kSlabObjectsMax);
    for (std::uint32_t i = 0; i < row.capacity; ++i)
      ASSERT_EQ(heap::index_in_slab(c, std::size_t{i} * row.bytes), i) << row.bytes;
  }
}

TEST(Heap, EverySizeIsAlignedUsableAndItsOwn) {
  alone(kSpace, [] {
    std::vector<std::pair<std::byte*, std::size_t>> all;
    for (std::size_t bytes = 0; bytes < 3 * kMiB; bytes += 1 + bytes / 16) {
      auto* p = static_cast<std::byte*>(heap::allocate(bytes));
      ASSERT_NE(p, nullptr);
      ASSERT_TRUE(gas::contains(p));
      ASSERT_EQ(reinterpret_cast<std::uintptr_t>(p) % heap::kMinAlign, 0u);
      ASSERT_GE(heap::usable_size(p), bytes);
      all.emplace_back(p, heap::usable_size(p));
    }
    for (std::size_t i = 0; i < all.size(); ++i) std::memset(all[i].first, static_cast<int>(i), all[i].second);
    for (std::size_t i = 0; i < all.size(); ++i) {
      const auto [p, bytes] = all[i];
      ASSERT_EQ(p[0], static_cast<std::byte>(i));
      ASSERT_EQ(std::memcmp(p, p + 1, bytes - 1), 0);
      heap::deallocate(p);
    }
  });
}

TEST(Heap, AlignmentsUpToSixteenMebibytesHold) {
  alone(kSpace, [] {
    std::vector<void*> all;
    for (std::size_t align = 1; align <= 16 * kMiB; align *= 2) {
      for (const std::size_t bytes :
           {std::size_t{0}, std::size_t{1}, std::size_t{100}, std::size_t{5000}, std::size_t{70000}, 2 * kMiB}) {
        void* p = heap::allocate(bytes, std::max(align, heap::kMinAlign));
        ASSERT_NE(p, nullptr) << bytes << " at " << align;
        ASSERT_EQ(reinterpret_cast<std::uintptr_t>(p) % align, 0u);
        ASSERT_GE(heap::usable_size(p), bytes);
        std::memset(p, 1, bytes);
        all.push_back(p);
      }
    }
    for (void* p : all) heap::deallocate(p);
  });
}

TEST(Heap, ZeroedMemoryIsZeroAlsoWhenItIsUsedAgain) {
  alone(kSpace, [] {
    for (const std::size_t bytes : {std::size_t{64}, std::size_t{100000}, 2 * kMiB, 40 * kMiB}) {
      for (int round = 0; round < 3; ++round) {
        auto* p = static_cast<unsigned char*>(heap::allocate_zeroed(bytes));
        ASSERT_NE(p, nullptr);
        ASSERT_TRUE(std::all_of(p, p + bytes, [](unsigned char c) { return c == 0; })) << bytes;
        std::memset(p, 0xaa, bytes);
        heap::deallocate(p);
      }
    }
  });
}

// Threads allocate, fill, check and free at random; half of the frees are of another thread's objects.
TEST(Heap, ThreadsNeverShareAnObject) {
  alone(kSpace, [] {
    constexpr int kThreads = 4, kSlots = 2048;
    static std::atomic<std::byte*> slots[kSlots];
    const auto work = [](unsigned seed) {
      std::mt19937 random(seed);
      for (int i = 0; i < 200'000; ++i) {
        std::byte* mine = nullptr;
        if (random() % 8 != 0) {
          std::size_t bytes = 24 + random() % 400;
          if (random() % 64 == 0) bytes = random() % 200'000 + 24;
          mine = static_cast<std::byte*>(heap::allocate(bytes));
          if (mine == nullptr) std::abort();
          std::memcpy(mine, &bytes, sizeof bytes);
          std::memset(mine + sizeof bytes, static_cast<int>(bytes & 0x7f), bytes - sizeof bytes);
        }
        // acq_rel: hands the bytes over
        std::byte* other = slots[random() % kSlots].exchange(mine, std::memory_order_acq_rel);
        if (other == nullptr) continue;
        std::size_t bytes;
        std::memcpy(&bytes, other, sizeof bytes);
        for (std::size_t at = sizeof bytes; at < bytes; ++at)
          if (other[at] != static_cast<std::byte>(bytes & 0x7f)) std::abort();
        std::memset(other, 0xff, bytes);
        heap::deallocate(other);
      }
    };
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < kThreads; ++t) threads.emplace_back(work, t + 1);
    for (auto& t : threads) t.join();
    for (auto& slot : slots) heap::deallocate(slot.load());
    EXPECT_LT(heap::usage(0).used_bytes, 40 * kMiB);
  });
}

TEST(Heap, AnEndedThreadGivesItsCacheBack) {
  alone(kSpace, [] {
    for (int i = 0; i < 2000; ++i)
      std::thread([] {
        for (std::size_t bytes = 16; bytes < 60'000; bytes *= 2) heap::deallocate(heap::allocate(bytes));
      }).join();
    EXPECT_LT(heap::usage(0).touched_bytes, 16 * kMiB);
  });
}

TEST(Heap, FreedMemoryGoesBackToTheMachine) {
  alone(kSpace, [] {
    const gas::Layout& l = gas::layout();
    std::vector<void*> all;
    for (const std::size_t bytes : {std::size_t{48}, std::size_t{3000}, std::size_t{20'000}, std::size_t{300'000}}) {
      for (std::size_t sum = 0; sum < 128 * kMiB; sum += bytes) {
        all.push_back(heap::allocate(bytes));
        ASSERT_NE(all.back(), nullptr);
        std::memset(all.back(), 1, bytes);
      }
      EXPECT_GE(resident_bytes(l.arena_first, l.arena_pages), 128 * kMiB);
      std::shuffle(all.begin(), all.end(), std::mt19937(7));
      for (void* p : all) heap::deallocate(p);
      all.clear();
      // What a thread keeps at hand may hold a unit each.
      EXPECT_LE(heap::usage(0).used_bytes, 16 * kMiB) << bytes;
      EXPECT_LE(resident_bytes(l.arena_first, l.arena_pages), 24 * kMiB) << bytes;
      EXPECT_LE(heap::usage(0).touched_bytes, 200 * kMiB) << bytes;
    }
    void* const large = heap::allocate(256 * kMiB);
    std::memset(large, 1, 256 * kMiB);
    const gas::PageIndex first = gas::page_of(large);
    EXPECT_EQ(resident_bytes(first, 256 * kMiB >> gas::kPageShift), 256 * kMiB);
    heap::deallocate(large);
    EXPECT_EQ(resident_bytes(first, 256 * kMiB >> gas::kPageShift), 0u);
    for (int i = 0; i < 200; ++i) all.push_back(std::memset(heap::allocate(2 * kMiB), 1, 2 * kMiB));
    for (void* p : all) heap::deallocate(p);
    EXPECT_LE(resident_bytes(l.large_first, l.large_end - l.large_first), 64 * kMiB);
  });
}

TEST(Heap, ExhaustionGivesNullAndFreeingMakesRoomAgain) {
  alone(64 * kMiB, [] {
    for (const std::size_t bytes :
         {std::size_t{16}, std::size_t{1000}, std::size_t{9000}, std::size_t{65'536}, std::size_t{400'000}, kMiB}) {
      std::size_t counts[2];
      for (std::size_t& count : counts) {
        std::vector<void*> all;
        while (void* p = heap::allocate(bytes)) all.push_back(p);
        count = all.size();
        for (void* p : all) heap::deallocate(p);
      }
      EXPECT_GE(counts[0] * bytes, 8 * kMiB) << bytes;
      EXPECT_GE(counts[1] + counts[1] / 8 + 8, counts[0]) << bytes;
    }
    EXPECT_EQ(heap::allocate(100 * kMiB), nullptr);
    EXPECT_EQ(heap::allocate(~std::size_t{0}), nullptr);
    EXPECT_EQ(heap::allocate(~std::size_t{0} - 100, 4096), nullptr);
    EXPECT_EQ(heap::allocate(16, std::size_t{1} << 40), nullptr);
  });
}

TEST(Heap, BeforeItIsAttachedThereIsNone) {
  if (heap::ready()) GTEST_SKIP() << "the start-up code has run in this program";
  EXPECT_EQ(heap::allocate(8), nullptr);
  EXPECT_EQ(heap::allocate(8, 4096), nullptr);
  EXPECT_EQ(heap::allocate(4 * kMiB), nullptr);
  EXPECT_EQ(heap::allocate_zeroed(4 * kMiB), nullptr);
  heap::deallocate(nullptr);
  heap::tidy();
}

class HeapDeathTest : public ::testing::Test {
 protected:
  static void free_twice(std::size_t bytes) {
    make_space(1, kSpace);
    join_space(0);
    void* p = heap::allocate(bytes);
    heap::deallocate(p);
    heap::deallocate(p);
  }
  static void free_at(std::size_t bytes, std::ptrdiff_t offset) {
    make_space(1, kSpace);
    join_space(0);
    heap::deallocate(static_cast<std::byte*>(heap::allocate(bytes)) + offset);
  }
};

TEST_F(HeapDeathTest, FreeingTwiceOrWhatIsNoAllocationEndsTheJobWithItsAddress) {
  EXPECT_DEATH(free_twice(40), "free of 0x[0-9a-f]+: it has been freed before");
  EXPECT_DEATH(free_twice(100'000), "freed before");
  EXPECT_DEATH(free_twice(3 * kMiB), "no allocation");
  EXPECT_DEATH(free_at(40, 8), "no allocation");
  EXPECT_DEATH(free_at(400, 16), "no allocation");
  EXPECT_DEATH(free_at(100'000, 4096), "no allocation");
  EXPECT_DEATH(free_at(3 * kMiB, 4096), "no allocation");
  EXPECT_DEATH(free_at(40, -(std::ptrdiff_t{1} << 41)), "no address of the space");
}

}  // namespace
}  // namespace ayatori
