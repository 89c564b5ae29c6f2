// SPDX-License-Identifier: Apache-2.0
// The contract of both fault engines (engine.hpp, E1 to E3), each test in a child process of its own.
#include <fstream>

#include "unit/dsm/fault_fixture.hpp"

using namespace fault_test;

namespace {

class Engines : public testing::TestWithParam<const char*> {
 protected:
  void run(const std::function<void()>& body) {
    expect_child_passes([&] {
      start({GetParam(), 2});
      body();
    });
  }
};
INSTANTIATE_TEST_SUITE_P(Both, Engines, testing::Values("uffd", "mprotect"),
                         [](const auto& tested) { return std::string(tested.param); });

int reads() { return counters.reads.exchange(0); }
int writes() { return counters.writes.exchange(0); }
volatile char& at(gas::PageIndex page, std::size_t offset = 0) {
  return reinterpret_cast<volatile char*>(user(page))[offset];
}

TEST_P(Engines, NamesItself) {
  run([] { MUST(std::string(dsm::engine().name) == GetParam() && fallback_reason.empty()); });
}

TEST_P(Engines, AReadMissSeesTheBytesOfTheSystemView) {
  run([] {
    const gas::PageIndex p = foreign_page();
    system(p)[7] = std::byte{42};
    MUST(at(p, 7) == 42 && reads() == 1 && writes() == 0);
    MUST(at(p, 8) == 0 && reads() == 0);
    system(p)[8] = std::byte{43};
    MUST(at(p, 8) == 43);
  });
}

TEST_P(Engines, AReadPageFaultsAgainOnWriteAndThenNoMore) {
  run([] {
    const gas::PageIndex p = foreign_page();
    MUST(at(p) == 0 && reads() == 1);
    at(p) = 5;
    MUST(reads() == 0 && writes() == 1);
    at(p, 1) = 6;
    MUST(writes() == 0 && system(p)[0] == std::byte{5} && system(p)[1] == std::byte{6});
  });
}

TEST_P(Engines, AWriteMissIsOneFault) {
  run([] {
    const gas::PageIndex p = foreign_page();
    at(p, 100) = 5;
    MUST(reads() == 0 && writes() == 1 && system(p)[100] == std::byte{5} && at(p, 101) == 0 && reads() == 0);
  });
}

TEST_P(Engines, ALockedInstructionThatFailsIsAWrite) {
  run([] {
    auto* word = reinterpret_cast<std::atomic<int>*>(user(foreign_page()));
    int expected = 1;
    MUST(!word->compare_exchange_strong(expected, 2) && writes() == 1 && reads() == 0);
  });
}

TEST_P(Engines, ZapTakesAccessAndKeepsTheBytes) {
  run([] {
    const gas::PageIndex p = foreign_page();
    at(p) = 5;
    writes();
    zap(p, 1);
    MUST(at(p) == 5 && reads() == 1 && writes() == 0);
    at(p) = 6;
    MUST(writes() == 1);
    zap(p, 1);
    at(p) = 7;
    MUST(writes() == 1 && reads() == 0 && system(p)[0] == std::byte{7});
    zap(p, 1);
    zap(p, 1);
    MUST(at(p) == 7);
  });
}

TEST_P(Engines, MapReadNeverTakesWriteAccess) {
  run([] {
    const gas::PageIndex p = foreign_page();
    at(p + 3) = 1;
    at(p + 4) = 1;
    dsm::engine().map_read(p, 10);
    reads(), writes();
    at(p + 3) = 2;
    at(p + 4) = 2;
    MUST(writes() == 0);
    for (gas::PageIndex i = 0; i < 10; ++i) MUST(at(p + i) == (i == 3 || i == 4 ? 2 : 0));
    MUST(reads() == 0);
    at(p) = 1;
    at(p + 9) = 1;
    MUST(writes() == 2);
  });
}

// Every mixture of {unmapped, read-only, writable} over six pages ends writable.
TEST_P(Engines, MapWriteEndsWritableWhateverThePagesWere) {
  run([] {
    constexpr int kPages = 6;
    const gas::PageIndex p = foreign_page();
    for (int mixture = 0; mixture < 729; ++mixture) {
      zap(p, kPages);
      for (int i = 0, m = mixture; i < kPages; ++i, m /= 3) {
        if (m % 3 == 1) dsm::engine().map_read(p + static_cast<gas::PageIndex>(i), 1);
        if (m % 3 == 2) dsm::engine().map_write(p + static_cast<gas::PageIndex>(i), 1);
      }
      dsm::engine().map_write(p, kPages);
      reads(), writes();
      for (gas::PageIndex i = 0; i < kPages; ++i) at(p + i, static_cast<std::size_t>(mixture)) = 1;
      MUST(reads() == 0 && writes() == 0);
      dsm::engine().map_write(p, kPages);
    }
  });
}

// Pages of which some have memory, here or in the user view, and some have none.
TEST_P(Engines, MapFreshEndsWritableWhateverThePagesWere) {
  run([] {
    constexpr int kPages = 6;
    gas::PageIndex p = foreign_page();
    for (int mixture = 0; mixture < 729; ++mixture, p += kPages) {
      for (int i = 0, m = mixture; i < kPages; ++i, m /= 3) {
        if (m % 3 == 1) dsm::engine().map_read(p + static_cast<gas::PageIndex>(i), 1);
        if (m % 3 == 2) *gas::page_in(gas::layout().self, p + static_cast<gas::PageIndex>(i)) = std::byte{7};
      }
      dsm::engine().map_fresh(p, kPages);
      reads(), writes();
      for (int i = 0, m = mixture; i < kPages; ++i, m /= 3) {
        MUST(at(p + static_cast<gas::PageIndex>(i)) == (m % 3 == 2 ? 7 : 0));
        at(p + static_cast<gas::PageIndex>(i)) = 1;
      }
      MUST(reads() == 0 && writes() == 0);
    }
  });
}

TEST_P(Engines, RangesOfThousandsOfPages) {
  run([] {
    const gas::PageIndex p = foreign_page();
    dsm::engine().map_read(p, 5000);
    for (gas::PageIndex i = 0; i < 5000; i += 3) MUST(at(p + i) == 0);
    MUST(reads() == 0);
    dsm::engine().map_write(p + 1000, 2000);
    for (gas::PageIndex i = 1000; i < 3000; ++i) at(p + i) = 1;
    MUST(writes() == 0);
    zap(p, 5000);
    MUST(at(p + 2999) == 1 && reads() == 1);
  });
}

TEST_P(Engines, ErrnoSurvivesAFault) {
  run([] {
    errno = 4711;
    at(foreign_page()) = 1;
    MUST(errno == 4711);
  });
}

// Two threads write their own halves of the same pages while a third takes the pages away: no store is lost.
TEST_P(Engines, ThreadsFaultOnTheSamePagesWhileTheyAreTakenAway) {
  run([] {
    constexpr std::size_t kPages = 16;
    constexpr int kRounds = 300;
    const gas::PageIndex p = foreign_page();
    {
      Zapper zapper(p, kPages);
      std::thread threads[2];
      for (int t = 0; t < 2; ++t)
        threads[t] = std::thread([p, t] {
          dsm::enter_os_thread();
          for (int r = 0; r < kRounds; ++r)
            for (std::size_t i = 0; i < kPages; ++i) {
              auto* word = reinterpret_cast<volatile int*>(user(p + static_cast<gas::PageIndex>(i))) + t * 512 + r % 7;
              *word = *word + 1;
            }
          dsm::leave_os_thread();
        });
      for (auto& t : threads) t.join();
    }
    for (std::size_t i = 0; i < kPages; ++i)
      for (int t = 0; t < 2; ++t) {
        int sum = 0;
        for (int k = 0; k < 7; ++k)
          sum += reinterpret_cast<int*>(system(p + static_cast<gas::PageIndex>(i)))[t * 512 + k];
        MUST(sum == kRounds);
      }
  });
}

TEST_P(Engines, AThreadOfTheProgramWithoutAlternateStackMayFault) {
  run([] {
    std::thread([] {
      at(foreign_page()) = 9;
      MUST(at(foreign_page()) == 9);
    }).join();
    MUST(writes() == 1);
  });
}

TEST_P(Engines, AForeignStackSlotAndTheOwnOneFaultBelowTheUsedPart) {
  run([] {
    on_space_stack([] {
      volatile char deep[300 * 1024];
      for (std::size_t i = 0; i < sizeof deep; i += 512) deep[i] = 3;
      MUST(deep[512] == 3);
    });
  });
}

std::size_t mappings() {
  std::ifstream maps("/proc/self/maps");
  std::size_t n = 0;
  for (std::string line; std::getline(maps, line);) ++n;
  return n;
}

// Scattered access to far more pages than vm.max_map_count allows mappings for.
TEST_P(Engines, ScatteredPagesDoNotExhaustTheMappings) {
  expect_child_passes([] {
    start({GetParam(), 2, "auto", std::size_t{8} << 30});
    constexpr gas::PageIndex kTouches = 50'000;
    const gas::PageIndex p = foreign_page();
    for (gas::PageIndex i = 0; i < kTouches; ++i) {
      if (i % 3 != 0)
        at(p + 2 * i) = static_cast<char>(i);
      else
        MUST(at(p + 2 * i) == 0);
    }
    MUST(mappings() < 40000);
    for (gas::PageIndex i = 0; i < kTouches; ++i) MUST(at(p + 2 * i) == (i % 3 ? static_cast<char>(i) : 0));
  });
}

TEST(EngineChoice, AutoTakesUserfaultfdHere) {
  expect_child_passes([] {
    start({"auto", 2});
    MUST(std::string(dsm::engine().name) == "uffd" || !fallback_reason.empty());
  });
}

class Alone : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Both, Alone, testing::Values("uffd", "mprotect"),
                         [](const auto& tested) { return std::string(tested.param); });

TEST_P(Alone, OneProcessNeverFaults) {
  expect_child_passes([] {
    start({GetParam(), 1});
    at(foreign_page() - 5) = 1;
    on_space_stack([] {
      volatile char deep[300 * 1024];
      for (std::size_t i = 0; i < sizeof deep; i += 512) deep[i] = 3;
    });
    MUST(reads() == 0 && writes() == 0);
  });
}

TEST_P(Alone, ThousandsOfGuardsCostNoMappings) {
  expect_child_passes([] {
    start({GetParam(), 1});
    const std::size_t before = mappings();
    for (gas::SlotIndex s = 0; s < gas::layout().slots; ++s)
      dsm::engine().guard(gas::slot_first(s), kGuardPages, gas::layout().slot_pages);
    MUST(mappings() < before + 10);
  });
}

}  // namespace
