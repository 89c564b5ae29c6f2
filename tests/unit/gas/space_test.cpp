// SPDX-License-Identifier: Apache-2.0
// Layout and ownership of the space in a job of three processes, seen from one.
#include <cstring>
#include <random>
#include <vector>

#include "heap_world.hpp"

namespace ayatori {
namespace {

using gas::Distribution;
using gas::PageIndex;
using testing::in_child;
using testing::kBase;
using testing::kMiB;

constexpr int kProcesses = 3;

template <class F>
void with_space(std::size_t place_bytes, F&& f) {
  in_child([&] {
    gas::Sizes sizes{};
    sizes.base = kBase;
    sizes.space_bytes = 2048 * kMiB;
    sizes.stack_bytes = 64 << 10;
    sizes.place_bytes = place_bytes;
    gas::reserve(kProcesses, sizes);
    gas::attach(1);
    f();
  });
}

// owner_run's promise: all pages of a run have one owner.
void expect_runs_agree(PageIndex first, std::size_t pages) {
  for (std::size_t at = 0; at < pages;) {
    const auto page = static_cast<PageIndex>(first + at);
    const std::size_t run = gas::owner_run(page);
    ASSERT_GE(run, 1u);
    for (std::size_t i = 0; i < std::min(run, pages - at); ++i)
      ASSERT_EQ(gas::owner_of(page + static_cast<PageIndex>(i)), gas::owner_of(page)) << page << " + " << i;
    at += run;
  }
}

TEST(Space, RangesFollowEachOtherAndArenasBelongToTheirProcesses) {
  with_space(kMiB, [] {
    const gas::Layout& l = gas::layout();
    EXPECT_LE(l.stack_end, l.globals_first);
    EXPECT_LT(l.globals_first, l.globals_end);
    EXPECT_LE(l.globals_end, l.arena_first);
    EXPECT_EQ(l.arena_first + l.arena_pages * kProcesses, l.arena_end);
    EXPECT_LE(l.arena_end, l.large_first);
    EXPECT_LE(l.large_end, l.pages);
    for (int p = 0; p < kProcesses; ++p) {
      const auto first = static_cast<PageIndex>(l.arena_first + l.arena_pages * static_cast<std::size_t>(p));
      EXPECT_EQ(gas::owner_of(first), p);
      EXPECT_EQ(gas::owner_of(first + static_cast<PageIndex>(l.arena_pages - 1)), p);
      EXPECT_EQ(gas::owner_run(first), l.arena_pages);
    }
  });
}

TEST(Space, TheUserViewIsTheProcessesOwnSystemView) {
  with_space(kMiB, [] {
    auto* p = static_cast<std::byte*>(gas::allocate_segment(kMiB, Distribution::kOnProcess, 0, 1));
    std::memset(p, 0x5a, 100);
    EXPECT_EQ(gas::page_in(1, gas::page_of(p))[99], std::byte{0x5a});
    EXPECT_EQ(gas::page_in(0, gas::page_of(p))[99], std::byte{0});
    gas::free_segment(p);
    EXPECT_EQ(gas::page_in(1, gas::page_of(p))[99], std::byte{0});
  });
}

TEST(Space, RunsAgreeWithOwnersInEveryDistribution) {
  for (const std::size_t place_bytes : {std::size_t{0}, std::size_t{64} << 10, kMiB, 4 * kMiB}) {
    with_space(place_bytes, [] {
      for (const std::size_t bytes : {kMiB, 3 * kMiB, 7 * kMiB + 5000}) {
        for (const auto distribution : {Distribution::kPlaced, Distribution::kOnProcess, Distribution::kBlock,
                                        Distribution::kCyclic, Distribution::kBlockCyclic}) {
          const void* p = gas::allocate_segment(bytes, distribution, 128 << 10, 2);
          ASSERT_NE(p, nullptr);
          const gas::Segment* segment = gas::find_segment(p);
          ASSERT_NE(segment, nullptr);
          EXPECT_EQ(segment->first, gas::page_of(p));
          expect_runs_agree(segment->first, segment->pages);
        }
      }
    });
  }
}

TEST(Space, PlacedSegmentsLieInOneBlockAProcess) {
  with_space(0, [] {
    for (const std::size_t mib : {3, 4, 64, 100}) {
      const void* p = gas::allocate_segment(mib * kMiB, Distribution::kPlaced, 0, 1);
      ASSERT_NE(p, nullptr);
      const PageIndex first = gas::page_of(p);
      std::size_t pages[kProcesses] = {};
      int last = 0;
      for (PageIndex page = first; page < first + mib * gas::kGranulePages; ++page) {
        const int owner = gas::owner_of(page);
        ASSERT_GE(owner, last) << "page " << page - first << " of " << mib << " MiB";
        last = owner;
        ++pages[owner];
      }
      for (const std::size_t count : pages) {
        EXPECT_GE(count + gas::kGranulePages, mib * gas::kGranulePages / kProcesses);
        EXPECT_LE(count, mib * gas::kGranulePages / kProcesses + gas::kGranulePages);
      }
    }
    // Fewer granules than processes: from the given process on.
    const void* p = gas::allocate_segment(2 * kMiB, Distribution::kPlaced, 0, 2);
    EXPECT_EQ(gas::owner_of(gas::page_of(p)), 2);
    EXPECT_EQ(gas::owner_of(gas::page_of(p) + gas::kGranulePages), 0);
  });
}

// Who mapped such a page as its own would keep it when it becomes somebody else's.
TEST(Space, NobodyOwnsWhatWasNeverAllocated) {
  for (const auto distribution : {Distribution::kPlaced, Distribution::kBlock}) {
    with_space(0, [distribution] {
      const void* p = gas::allocate_segment(6 * kMiB, distribution);
      const PageIndex end = gas::page_of(p) + 6 * gas::kGranulePages;
      EXPECT_EQ(gas::owner_of(end - 1), kProcesses - 1);
      EXPECT_EQ(gas::owner_of(end), gas::kNobody);
    });
  }
}

// When no place with the right owners is left, what is free serves.
TEST(Space, PlacedSegmentsUseTheWholeRange) {
  with_space(0, [] {
    std::vector<void*> all;
    for (void* p; (p = gas::allocate_segment(kMiB, Distribution::kPlaced, 0, 1)) != nullptr;) all.push_back(p);
    EXPECT_GT(all.size(), 200u);
    for (std::size_t i = 0; i < 9; ++i) gas::free_segment(all[20 + i]);
    EXPECT_EQ(gas::allocate_segment(9 * kMiB, Distribution::kPlaced), all[20]);
    EXPECT_EQ(gas::allocate_segment(kMiB, Distribution::kPlaced), nullptr);
  });
}

// G4: whatever is allocated and freed, a page never changes its owner.
TEST(Space, APageOfThePlacedRangeKeepsItsOwner) {
  for (const std::size_t place_bytes : {std::size_t{0}, std::size_t{64} << 10, kMiB, 4 * kMiB}) {
    with_space(place_bytes, [] {
      std::vector<int> owner(gas::layout().pages, -1);
      std::vector<void*> live(20, nullptr);
      std::mt19937 random(3);
      for (int i = 0; i < 3000; ++i) {
        void*& p = live[random() % live.size()];
        if (p != nullptr) gas::free_segment(p);
        p = gas::allocate_segment((1 + random() % 9) * kMiB, Distribution::kPlaced);
        if (p == nullptr) continue;
        const gas::Segment& s = *gas::find_segment(p);
        for (PageIndex page = s.first; page < s.first + s.pages; page += 16) {
          if (owner[page] == -1) owner[page] = gas::owner_of(page);
          ASSERT_EQ(gas::owner_of(page), owner[page]) << "page " << page << " after " << i;
        }
      }
    });
  }
}

TEST(Space, SegmentsOfTheOtherKindsAreNotUsedTwice) {
  with_space(kMiB, [] {
    void* p = gas::allocate_segment(2 * kMiB, Distribution::kCyclic);
    gas::free_segment(p);
    EXPECT_NE(gas::allocate_segment(2 * kMiB, Distribution::kCyclic), p);
    std::size_t count = 0;
    while (gas::allocate_segment(kMiB, Distribution::kPlaced) != nullptr) ++count;
    EXPECT_GT(count, 200u);
  });
}

}  // namespace
}  // namespace ayatori
