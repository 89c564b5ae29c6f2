// SPDX-License-Identifier: Apache-2.0
// operator new and delete, exceptions, the C functions and the memory resource over the heap of a job of one process.
// A detail::SpaceNew stands in for a user-level thread.
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <memory_resource>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "ayatori/ayatori.h"
#include "ayatori/ayatori.hpp"
#include "heap_world.hpp"

namespace ayatori {
namespace {

using testing::alone;
using testing::kMiB;
namespace heap = gas::heap;

constexpr std::size_t kSpace = 1024 * kMiB;

template <class F>
void on_space(F&& f) {
  alone(kSpace, [&] {
    detail::SpaceNew scope;
    f();
  });
}

// Through a pointer that the compiler cannot see through: new expressions may otherwise be left out.
template <class T>
T* keep(T* p) {
  asm volatile("" : "+r"(p) : : "memory");
  return p;
}

struct alignas(256) Aligned {
  char bytes[300];
};

TEST(New, EveryFormGivesSpaceMemoryInScopeAndLocalMemoryOutside) {
  alone(kSpace, [] {
    for (const bool in_scope : {false, true}) {
      std::unique_ptr<detail::SpaceNew> scope;
      if (in_scope) scope.reset(new detail::SpaceNew);
      const auto check = [&](void* p) {
        EXPECT_NE(p, nullptr);
        EXPECT_EQ(in_space(p), in_scope);
      };
      int* a = keep(new int);
      int* b = keep(new int[10]);
      int* c = keep(new (std::nothrow) int);
      int* d = keep(new (std::nothrow) int[10]);
      auto* e = keep(new Aligned);
      auto* f = keep(new Aligned[2]);
      auto* g = keep(new (std::nothrow) Aligned);
      for (void* p : {(void*)a, (void*)b, (void*)c, (void*)d, (void*)e, (void*)f, (void*)g}) check(p);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(e) % 256, 0u);
      scope.reset();  // delete decides by the address
      delete a;
      delete[] b;
      ::operator delete(c, std::nothrow);
      ::operator delete[](d, sizeof(int[10]));
      delete e;
      delete[] f;
      ::operator delete(g, std::align_val_t{256}, std::nothrow);
    }
  });
}

TEST(New, ExhaustionThrowsAndAsksTheNewHandler) {
  on_space([] {
    EXPECT_THROW(keep(static_cast<char*>(::operator new(kSpace))), std::bad_alloc);
    EXPECT_EQ(keep(static_cast<char*>(::operator new(kSpace, std::nothrow))), nullptr);
    EXPECT_THROW(std::vector<char>(kSpace / 2), std::bad_alloc);
    static int calls;
    std::set_new_handler([] {
      if (++calls == 3) std::set_new_handler(nullptr);
    });
    EXPECT_THROW(keep(static_cast<char*>(::operator new(kSpace))), std::bad_alloc);
    EXPECT_EQ(calls, 3);
  });
}

TEST(New, ContainersAndClosuresLiveInTheSpace) {
  on_space([] {
    std::vector<std::string> words;
    for (int i = 0; i < 1000; ++i) words.push_back("a word long enough to be allocated, number " + std::to_string(i));
    EXPECT_TRUE(in_space(words.data()));
    EXPECT_TRUE(in_space(words[7].data()));
    std::map<std::string, std::function<int(int)>> functions;
    std::array<long, 20> big{};
    functions["f"] = [big](int x) { return x + static_cast<int>(big[3]); };
    EXPECT_EQ(functions["f"](4), 4);
    auto shared = std::make_shared<std::vector<int>>(100, 3);
    EXPECT_TRUE(in_space(shared.get()));
    std::ostringstream text;
    for (const auto& word : words) text << word << '\n';
    EXPECT_GT(text.str().size(), 40'000u);
  });
}

// Where the thrown object lies: in the space, also when the C++ library throws.
TEST(Exceptions, LieInTheSpace) {
  on_space([] {
    try {
      throw 42;
    } catch (const int& thrown) {
      EXPECT_TRUE(in_space(&thrown));
      EXPECT_EQ(thrown, 42);
    }
    try {
      (void)std::vector<int>(3).at(5);
      ADD_FAILURE();
    } catch (const std::out_of_range& thrown) {
      EXPECT_TRUE(in_space(&thrown));
      EXPECT_TRUE(in_space(thrown.what()));
    }
    try {
      (void)std::stoi("no number");
      ADD_FAILURE();
    } catch (const std::invalid_argument& thrown) {
      EXPECT_TRUE(in_space(&thrown));
    }
    try {
      std::promise<void> promise;
      promise.set_value();
      promise.set_value();
      ADD_FAILURE();
    } catch (const std::future_error& thrown) {
      EXPECT_TRUE(in_space(&thrown));
    }
  });
}

struct Counted {
  static int live;
  char bytes[5000];
  explicit Counted(int v) : value(v) { ++live; }
  Counted(const Counted& o) : value(o.value) { ++live; }
  ~Counted() { --live; }
  int value;
};
int Counted::live = 0;

int nested(int depth) {
  try {
    if (depth == 0) throw Counted(1);
    return nested(depth - 1);
  } catch (Counted& c) {
    try {
      throw std::runtime_error("inner");
    } catch (const std::runtime_error&) {
      c.value += 1;
    }
    throw;
  }
}

TEST(Exceptions, RethrowNestAndOutliveTheirHandlers) {
  on_space([] {
    for (int round = 0; round < 1000; ++round) {
      try {
        nested(10);
        ADD_FAILURE();
      } catch (const Counted& c) {
        ASSERT_EQ(c.value, 12);
      }
      std::exception_ptr kept;
      try {
        throw Counted(7);
      } catch (...) {
        kept = std::current_exception();
      }
      ASSERT_EQ(Counted::live, 1);
      for (int i = 0; i < 3; ++i) {
        try {
          std::rethrow_exception(kept);  // a dependent exception
        } catch (Counted& c) {
          ASSERT_EQ(c.value, 7);
          ASSERT_TRUE(in_space(&c));
          ASSERT_EQ(std::uncaught_exceptions(), 0);
        }
      }
      kept = nullptr;
      ASSERT_EQ(Counted::live, 0);
      try {
        try {
          throw std::runtime_error("cause");
        } catch (...) {
          std::throw_with_nested(std::logic_error("consequence"));
        }
      } catch (const std::logic_error& e) {
        try {
          std::rethrow_if_nested(e);
          ADD_FAILURE();
        } catch (const std::runtime_error& cause) {
          ASSERT_STREQ(cause.what(), "cause");
        }
      }
      kept = std::make_exception_ptr(Counted(5));
    }
    // Nothing is left over: make_exception_ptr's 5 KB objects would sum up to 5 MB.
    EXPECT_EQ(Counted::live, 0);
    EXPECT_LT(heap::usage(0).used_bytes, 3 * kMiB);
  });
}

TEST(Exceptions, OutsideAScopeLieInLocalMemory) {
  alone(kSpace, [] {
    std::exception_ptr kept;
    try {
      throw 42;
    } catch (const int& thrown) {
      EXPECT_FALSE(in_space(&thrown));
      kept = std::current_exception();
    }
    detail::SpaceNew scope;
    EXPECT_THROW(std::rethrow_exception(kept), int);
    kept = nullptr;
  });
}

TEST(CMemory, HasPosixSemantics) {
  alone(kSpace, [] {
    void* a = ayatori_malloc(0);
    void* b = ayatori_malloc(0);
    EXPECT_TRUE(in_space(a));
    EXPECT_NE(a, b);
    errno = 77;
    ayatori_free(a);
    ayatori_free(nullptr);
    EXPECT_EQ(errno, 77);
    EXPECT_EQ(ayatori_malloc(kSpace), nullptr);
    EXPECT_EQ(errno, ENOMEM);
    errno = 0;
    EXPECT_EQ(ayatori_calloc(std::size_t{1} << 40, std::size_t{1} << 40), nullptr);
    EXPECT_EQ(errno, ENOMEM);
    errno = 0;
    EXPECT_EQ(ayatori_aligned_alloc(48, 48), nullptr);
    EXPECT_EQ(errno, EINVAL);
    void* c = ayatori_aligned_alloc(8192, 10);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(c) % 8192, 0u);
    ayatori_free(c);
    auto* zeros = static_cast<char*>(ayatori_calloc(100, 7));
    for (int i = 0; i < 700; ++i) ASSERT_EQ(zeros[i], 0);
    ayatori_free(zeros);
    ayatori_free(b);
  });
}

TEST(CMemory, ReallocKeepsTheBytesThroughAllSizes) {
  alone(kSpace, [] {
    unsigned char* p = nullptr;
    std::size_t have = 0;
    const auto resize = [&](std::size_t bytes) {
      p = static_cast<unsigned char*>(ayatori_realloc(p, bytes));
      ASSERT_NE(p, nullptr);
      for (std::size_t i = 0; i < std::min(have, bytes); ++i) ASSERT_EQ(p[i], i * 31 % 256);
      for (std::size_t i = have; i < bytes; ++i) p[i] = static_cast<unsigned char>(i * 31);
      have = bytes;
    };
    for (std::size_t bytes = 1; bytes < 20 * kMiB; bytes += bytes / 3 + 1) resize(bytes);
    for (std::size_t bytes = 20 * kMiB; bytes > 1; bytes /= 3) resize(bytes);
    EXPECT_EQ(ayatori_realloc(p, kSpace), nullptr);
    EXPECT_EQ(p[0], 0);
    EXPECT_EQ(ayatori_realloc(p, 0), nullptr);
  });
}

TEST(CMemory, FreeOfForeignMemoryEndsTheJob) {
  EXPECT_DEATH(
      {
        testing::make_space(1, kSpace);
        testing::join_space(0);
        ayatori_free(std::malloc(10));
      },
      "free of 0x[0-9a-f]+: it is no address of the space");
}

TEST(Memory, AllocatorsAndTheResourceGiveSpaceMemory) {
  alone(kSpace, [] {
    std::vector<int, allocator<int>> numbers(1000, 3);
    EXPECT_TRUE(in_space(numbers.data()));
    std::pmr::vector<std::pmr::string> words(space_resource());
    words.emplace_back("a string that is too long for its own small room");
    EXPECT_TRUE(in_space(words.data()));
    EXPECT_TRUE(in_space(words[0].data()));
    EXPECT_EQ(*space_resource(), *space_resource());
    void* p = allocate(10, 1 << 15);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(p) % (1 << 15), 0u);
    deallocate(p);
    deallocate(nullptr);
    EXPECT_THROW((void)allocate(kSpace), std::bad_alloc);
  });
}

}  // namespace
}  // namespace ayatori
