// SPDX-License-Identifier: Apache-2.0
// Small jobs for tests of the heap: a child with a space of one or several forked members, each run to its end. There
// is no coherence here: tests see contents through the owners' system views, and run releases by hand.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <utility>

#include "base/shared_lock.hpp"
#include "gas/heap.hpp"

namespace ayatori::testing {

namespace heap = gas::heap;

inline constexpr std::size_t kMiB = std::size_t{1} << 20;

// ThreadSanitizer has shadows where the space usually lies.
#ifdef __SANITIZE_THREAD__
inline constexpr std::uintptr_t kBase = 0x1000000000;
#else
inline constexpr std::uintptr_t kBase = 0x280000000000;
#endif

inline void make_space(int processes, std::size_t bytes) {
  gas::Sizes sizes{};
  sizes.base = kBase;
  sizes.space_bytes = bytes;
  sizes.stack_bytes = 64 << 10;
  sizes.place_bytes = kMiB;
  gas::reserve(processes, sizes);
  heap::reserve(processes);
}

inline void join_space(int self) {
  gas::attach(self);
  heap::attach(self);
}

// Runs f() in a child process; the test fails if something failed there or it did not end in peace.
template <class F>
void in_child(F&& f) {
  std::fflush(nullptr);
  const pid_t pid = fork();
  ASSERT_GE(pid, 0);
  if (pid == 0) {
    std::forward<F>(f)();
    std::fflush(nullptr);
    _exit(::testing::Test::HasFailure() ? 1 : 0);
  }
  int status = -1;
  ASSERT_EQ(waitpid(pid, &status, 0), pid);
  EXPECT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

// f() in a job of one process.
template <class F>
void alone(std::size_t space_bytes, F&& f) {
  in_child([&] {
    make_space(1, space_bytes);
    join_space(0);
    f();
  });
}

// f(p) in each of `processes` members at once.
template <class F>
void together(int processes, std::size_t space_bytes, F&& f) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer does not see what other processes order";
#endif
  in_child([&] {
    make_space(processes, space_bytes);
    pid_t pids[gas::kMaxProcesses];
    for (int p = 0; p < processes; ++p) {
      pids[p] = fork();
      ASSERT_GE(pids[p], 0);
      if (pids[p] != 0) continue;
      join_space(p);
      f(p);
      std::fflush(nullptr);
      _exit(::testing::Test::HasFailure() ? 1 : 0);
    }
    for (int p = 0; p < processes; ++p) {
      int status = -1;
      EXPECT_EQ(waitpid(pids[p], &status, 0), pids[p]);
      EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "process " << p << ", status " << status;
    }
  });
}

// Where the owner of an arena object has it.
inline std::byte* at_home(void* object) {
  return gas::system_view(gas::static_owner(gas::page_of(object))) + gas::offset_of(object);
}

}  // namespace ayatori::testing
