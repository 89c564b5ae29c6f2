// SPDX-License-Identifier: Apache-2.0
// Guards, crashes, and the program's own signal handlers beside ours.
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>

#include "unit/dsm/fault_fixture.hpp"

using namespace fault_test;

namespace {

struct Case {
  const char* engine;
  int processes;
};
class Signals : public testing::TestWithParam<Case> {
 protected:
  void begin() { start({GetParam().engine, GetParam().processes}); }
};
INSTANTIATE_TEST_SUITE_P(All, Signals,
                         testing::Values(Case{"uffd", 2}, Case{"mprotect", 2}, Case{"uffd", 1}, Case{"mprotect", 1}),
                         [](const auto& tested) {
                           return std::string(tested.param.engine) + (tested.param.processes == 1 ? "Alone" : "Shared");
                         });

// ThreadSanitizer has signal calls of its own, which the library leaves in place (src/dsm/fault/program_signals.cpp): what
// the library does for the program's handlers, masks and alternate stacks is not there.
#if defined(__SANITIZE_THREAD__)
#define NEEDS_SIGNAL_CALLS() GTEST_SKIP() << "ThreadSanitizer has the program's signal calls"
#else
#define NEEDS_SIGNAL_CALLS() (void)0
#endif

std::atomic<int> handled{0};
volatile sig_atomic_t handler_on_alternate_stack = 0;

void write_near_null() {
  volatile int* volatile p = reinterpret_cast<volatile int*>(8);
  *p = 1;
}

[[gnu::noinline]] int recurse(int depth) {
  volatile char frame[2000];
  frame[0] = static_cast<char>(depth);
  return depth < 0 ? 0 : recurse(depth + 1) + frame[0];
}

TEST_P(Signals, AStackOverflowIsReportedAsOne) {
  expect_child_exits_with(kOverflowStatus, [&] {
    begin();
    on_space_stack([] { recurse(0); });
  });
}

TEST_P(Signals, ANullDereferenceDiesOfSigsegv) {
  expect_child_dies_of(SIGSEGV, [&] {
    default_crashes();
    begin();
    on_space_stack([] { write_near_null(); });
  });
}

TEST_P(Signals, AJumpIntoTheSpaceDiesOfASignal) {
  const int status = child_status([&] {
    default_crashes();
    begin();
    reinterpret_cast<void (*)()>(user(foreign_page() - 1))();
  });
  EXPECT_TRUE(WIFSIGNALED(status) && (WTERMSIG(status) == SIGSEGV || WTERMSIG(status) == SIGBUS)) << status;
}

TEST_P(Signals, ASegvSentByKillDiesOfIt) {
  expect_child_dies_of(SIGSEGV, [&] {
    default_crashes();
    begin();
    kill(getpid(), SIGSEGV);
    pause();
  });
  expect_child_dies_of(SIGBUS, [&] {
    default_crashes();
    begin();
    raise(SIGBUS);
  });
}

TEST_P(Signals, AnIgnoredSegvSentByKillIsIgnored) {
  expect_child_passes([&] {
    begin();
    signal(SIGSEGV, SIG_IGN);
    raise(SIGSEGV);
    MUST(signal(SIGSEGV, SIG_DFL) == SIG_IGN);
  });
}

void skip_three_bytes(int, siginfo_t* info, void* context) {
  MUST(info->si_addr == reinterpret_cast<void*>(16));
  ++handled;
  static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_RIP] += 3;
}
void provoke() { asm volatile("movb %%al, (%%rdx)\n nop" : : "d"(16L), "a"(0) : "memory"); }  // 2 + 1 bytes

void with_handler(bool before, const std::function<void()>& begin) {
  struct sigaction set = {};
  set.sa_sigaction = skip_three_bytes;
  set.sa_flags = SA_SIGINFO;
  if (before) MUST(sigaction(SIGSEGV, &set, nullptr) == 0);
  begin();
  if (!before) MUST(sigaction(SIGSEGV, &set, nullptr) == 0);
  struct sigaction seen = {};
  MUST(sigaction(SIGSEGV, nullptr, &seen) == 0);
  MUST(seen.sa_sigaction == skip_three_bytes && (seen.sa_flags & SA_SIGINFO));
  on_space_stack([] {
    provoke();
    *reinterpret_cast<volatile char*>(user(foreign_page() - 1)) = 1;  // ours still works
    provoke();
  });
  MUST(handled == 2);
}

TEST_P(Signals, TheProgramsHandlerFromBeforeTheStartIsCalled) {
  NEEDS_SIGNAL_CALLS();
  expect_child_passes([&] { with_handler(true, [&] { begin(); }); });
}
TEST_P(Signals, TheProgramsHandlerFromLaterIsCalled) {
  NEEDS_SIGNAL_CALLS();
  expect_child_passes([&] { with_handler(false, [&] { begin(); }); });
}

TEST_P(Signals, AHandlerThatResetsItselfIsCalledOnce) {
  expect_child_dies_of(SIGSEGV, [&] {
    begin();
    struct sigaction set = {};
    set.sa_handler = [](int) { ++handled; };
    set.sa_flags = static_cast<int>(SA_RESETHAND);
    MUST(sigaction(SIGSEGV, &set, nullptr) == 0);
    write_near_null();  // returns to the fault, dies of the second
  });
}

TEST_P(Signals, OtherHandlersRunOnTheAlternateStack) {
  NEEDS_SIGNAL_CALLS();
  expect_child_passes([&] {
    begin();
    struct sigaction set = {}, seen = {};
    set.sa_handler = [](int) {
      char here;
      handler_on_alternate_stack = !gas::contains(&here);
    };
    sigfillset(&set.sa_mask);
    MUST(sigaction(SIGUSR1, &set, nullptr) == 0);
    on_space_stack([] {
      MUST(raise(SIGUSR1) == 0);
      MUST(handler_on_alternate_stack == 1);
    });
    MUST(sigaction(SIGUSR1, nullptr, &seen) == 0 && seen.sa_handler == set.sa_handler);
    MUST(sigismember(&seen.sa_mask, SIGUSR2) && sigismember(&seen.sa_mask, SIGSEGV));
    MUST((seen.sa_flags & SA_ONSTACK) == 0);
  });
}

// Handlers with all signals masked, and threads that blocked everything, may still touch the space.
TEST_P(Signals, FaultsAreServedWhileAllSignalsAreBlocked) {
  NEEDS_SIGNAL_CALLS();
  expect_child_passes([&] {
    begin();
    struct sigaction set = {};
    set.sa_handler = [](int) { *reinterpret_cast<volatile char*>(user(foreign_page() - 1)) = 1; };
    sigfillset(&set.sa_mask);
    MUST(sigaction(SIGUSR1, &set, nullptr) == 0);
    raise(SIGUSR1);
    sigset_t all, old;
    sigfillset(&all);
    MUST(pthread_sigmask(SIG_BLOCK, &all, &old) == 0);
    *reinterpret_cast<volatile char*>(user(foreign_page() - 2)) = 1;
    on_space_stack([&] {
      sigset_t now;
      MUST(sigprocmask(SIG_SETMASK, &all, nullptr) == 0 && sigprocmask(SIG_SETMASK, nullptr, &now) == 0);
      MUST(sigismember(&now, SIGUSR1) == 1);
      volatile char deep[100 * 1024];
      for (std::size_t i = 0; i < sizeof deep; i += 512) deep[i] = 3;
      raise(SIGUSR1);
      MUST(sigprocmask(SIG_SETMASK, &old, nullptr) == 0);
    });
  });
}

// A signal on the edge of a stack page: many signals while the stack grows into fresh pages.
TEST_P(Signals, SignalsArriveWhileTheStackGrows) {
  NEEDS_SIGNAL_CALLS();
  expect_child_passes([&] {
    begin();
    struct sigaction set = {};
    set.sa_handler = [](int) { ++handled; };
    MUST(sigaction(SIGUSR1, &set, nullptr) == 0);
    const pthread_t self = pthread_self();
    std::atomic<bool> stop{false};
    std::thread sender([&] {
      while (!stop) {
        pthread_kill(self, SIGUSR1);
        std::this_thread::yield();
      }
    });
    for (gas::SlotIndex slot = 0; slot < 30 || handled < 10; slot = (slot + 1) % 200)
      on_space_stack(
          [] {
            volatile char deep[200 * 1024];
            for (std::size_t i = sizeof deep; i > 600; i -= 512) deep[i - 1] = 3;
          },
          slot);
    stop = true;
    sender.join();
  });
}

TEST_P(Signals, TheProgramsAlternateStackDoesNotDisplaceOurs) {
  NEEDS_SIGNAL_CALLS();
  expect_child_passes([&] {
    begin();
    on_space_stack([&] {
      static char small[8192];
      stack_t wish{small, 0, sizeof small}, seen{};
      MUST(sigaltstack(&wish, &seen) == 0 && seen.ss_flags == SS_DISABLE);
      MUST(sigaltstack(nullptr, &seen) == 0 && seen.ss_sp == small);
      volatile char deep[100 * 1024];
      for (std::size_t i = 0; i < sizeof deep; i += 512) deep[i] = 3;
    });
  });
}

}  // namespace
