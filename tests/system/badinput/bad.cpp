// SPDX-License-Identifier: Apache-2.0
// `bad WHAT`: a program that does one thing wrong, or asks for more than there is. run.sh says how each must end.
#include <ayatori/ayatori.h>
#include <setjmp.h>
#include <signal.h>
#include <unistd.h>

#include <ayatori/ayatori.hpp>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

volatile int zero = 0;  // the compiler does not know

template <class F>
void elsewhere(F&& f) {
  ayatori::thread(ayatori::on(ayatori::process_count() - 1), std::forward<F>(f)).join();
}

int fail(const char* what) {
  std::printf("not right: %s\n", what);
  return 1;
}

// More memory than the space has: std::bad_alloc, null with ENOMEM, and everything works afterwards.
int out_of_memory() {
  try {
    std::vector<char> v(std::size_t{1} << 45);
    return fail("a vector larger than the space");
  } catch (const std::bad_alloc&) {
  }
  errno = 0;
  if (ayatori_malloc(std::size_t{1} << 45) != nullptr || errno != ENOMEM) return fail("malloc larger than the space");
  errno = 0;
  if (ayatori_calloc(std::size_t{1} << 33, std::size_t{1} << 33) != nullptr || errno != ENOMEM)
    return fail("calloc of a product that overflows");
  errno = 0;
  if (ayatori_aligned_alloc(3, 100) != nullptr || errno != EINVAL) return fail("an alignment of 3");
  for (const std::size_t size : {std::size_t{3} << 20, std::size_t{40'000}, std::size_t{200}}) {
    std::vector<void*> all;
    bool full = false;
    const auto fill = [&] {
      for (long i = 0; i < 10'000'000 && !full; ++i) {
        void* p = ayatori_malloc(size);
        if (!p) full = errno == ENOMEM;
        if (!p && !full) return;
        if (p) std::memset(p, 1, 100), all.push_back(p);
      }
    };
    try {
      fill();
    } catch (const std::bad_alloc&) {  // the vector's own memory
      full = true;
    }
    if (!full) return fail("filling the space");
    try {
      std::vector<char> v(size);
      v.resize(2 * size);
      // A little may be left: what was freed by the vector.
    } catch (const std::bad_alloc&) {
    }
    elsewhere([&] {
      for (void* p : all) ayatori_free(p);
    });
    all.clear();
    all.shrink_to_fit();
    bool room = false;
    for (int i = 0; i < 100 && !room; ++i) {  // memory comes back when its owners look
      void* p = ayatori_malloc(size);
      room = p != nullptr;
      ayatori_free(p);
      if (!room) ayatori::thread([] {}).join();
    }
    if (!room) return fail("memory after all was freed");
  }
  std::puts("fine");
  return 0;
}

// More threads than stacks: std::system_error, and room again after joins.
int out_of_stacks() {
  std::vector<ayatori::thread> threads;
  ayatori::mutex gate;
  gate.lock();
  bool full = false;
  try {
    for (long i = 0; i < 100'000; ++i)
      threads.emplace_back([&] {
        gate.lock();
        gate.unlock();
      });
  } catch (const std::system_error& e) {
    full = e.code() == std::errc::resource_unavailable_try_again;
  } catch (const std::bad_alloc&) {
    return fail("bad_alloc");
  }
  gate.unlock();
  for (auto& t : threads) t.join();
  if (!full) return fail("no end of stacks");
  ayatori::thread([] {}).join();
  std::puts("fine");
  return 0;
}

[[gnu::noinline]] int overflow(int depth) {
  volatile char room[2000];
  room[0] = static_cast<char>(depth);
  return zero != 0 ? 0 : overflow(depth + 1) + room[0];
}

sigjmp_buf back;
void jump_back(int) { siglongjmp(back, 1); }
void own_handler(int signal, siginfo_t* info, void*) {
  char line[100];
  const int n = std::snprintf(line, sizeof line, "the program's handler: signal %d at %p\n", signal, info->si_addr);
  if (write(STDOUT_FILENO, line, static_cast<std::size_t>(n)) < 0) _exit(9);
  _exit(42);
}

// The program's own handler for SIGSEGV is called for its own mistakes, and only for them.
int handled(bool jumps) {
  struct sigaction action{};
  if (jumps)
    action.sa_handler = jump_back;
  else
    action.sa_sigaction = own_handler, action.sa_flags = SA_SIGINFO;
  std::vector<int> v;
  elsewhere([&] { v.assign(100'000, 7); });
  ayatori::pinned here;
  sigaction(SIGSEGV, &action, nullptr);
  long sum = 0;
  for (const int x : v) sum += x;  // faults that are not the program's
  if (sum != 700'000) return fail("faults under a handler of the program");
  if (jumps) {
    static int i;  // keeps its value over the jump
    for (i = 0; i < 3; ++i)
      if (sigsetjmp(back, 1) == 0) *reinterpret_cast<volatile int*>(static_cast<std::uintptr_t>(zero) + 16) = 1;
    elsewhere([&] { v.assign(100'000, 8); });
    sum = 0;
    for (const int x : v) sum += x;
    std::puts(sum == 800'000 ? "fine" : "not right");
    return sum == 800'000 ? 0 : 1;
  }
  *reinterpret_cast<volatile int*>(static_cast<std::uintptr_t>(zero) + 16) = 1;
  return 0;
}

// Far behind a large allocation, where nothing was ever allocated.
void write_behind_the_heap() { static_cast<volatile char*>(ayatori_malloc(8 << 20))[64 << 20] = 1; }

int handled_in_the_space() {
  ayatori::pinned here;
  struct sigaction action{};
  action.sa_sigaction = own_handler, action.sa_flags = SA_SIGINFO;
  sigaction(SIGSEGV, &action, nullptr);
  write_behind_the_heap();
  return 0;
}

struct Talkative : std::runtime_error {
  using std::runtime_error::runtime_error;
};

[[gnu::noinline]] void throw_text(const char* text) {
  if (zero == 0) throw Talkative(text);
}

int bad(std::span<char*> args) {
  const std::string what = args.size() > 1 ? args[1] : "";
  if (what == "memory") return out_of_memory();
  if (what == "stacks") return out_of_stacks();
  if (what == "handled") return handled(false);
  if (what == "handled-jump") return handled(true);
  if (what == "null") elsewhere([] { *reinterpret_cast<volatile int*>(static_cast<std::uintptr_t>(zero)) = 1; });
  if (what == "wild")
    elsewhere([] { *reinterpret_cast<volatile int*>(static_cast<std::uintptr_t>(zero) + 0x123456789a8) = 1; });
  if (what == "wild-space") elsewhere(write_behind_the_heap);
  if (what == "handled-space") return handled_in_the_space();
  if (what == "readonly") elsewhere([] { *const_cast<volatile char*>("text") = 'x'; });
  if (what == "divide") elsewhere([] { zero = 1000 / zero; });
  if (what == "abort") elsewhere([] { std::abort(); });
  if (what == "free") elsewhere([] { ayatori_free(reinterpret_cast<char*>(ayatori_malloc(100)) + 16); });
  if (what == "overflow") elsewhere([] { (void)overflow(1); });
  if (what == "overflow-first") return overflow(1);
  if (what == "detached-throw") {
    ayatori::thread(ayatori::on(ayatori::process_count() - 1), [] {
      throw Talkative("said by a detached thread");
    }).detach();
    for (;;) ayatori::this_thread::yield();
  }
  if (what == "late-detach") {
    ayatori::thread t(ayatori::on(ayatori::process_count() - 1),
                      [] { throw Talkative("said before it was detached"); });
    ayatori::this_thread::sleep_for(std::chrono::milliseconds(50));
    t.detach();
    for (;;) ayatori::this_thread::yield();
  }
  if (what == "race-detach") {  // detached while the exception leaves it: told by one of both, never lost
    for (int i = 0;; ++i) {
      ayatori::thread t(ayatori::on(ayatori::process_count() - 1), [i] {
        for (int k = 0; k < i % 200; ++k) __builtin_ia32_pause();
        if (i >= 100) throw Talkative("said while it was detached");
      });
      t.detach();
    }
  }
  if (what == "first-throw") throw Talkative("said by the first thread");
  if (what == "noexcept") elsewhere([]() noexcept { throw_text("said in a noexcept function"); });
  if (what == "not-joined") {
    ayatori::thread t([] {});
    (void)t;
  }
  if (what == "exit") elsewhere([] { std::exit(3); });
  if (what == "exit-counted" || what == "exit-0-counted") {
    elsewhere([status = what == "exit-counted" ? 3 : 0] {
      const ayatori::pinned here;
      for (int i = 0; i < 5; ++i) ayatori::thread([] {}).join();
      std::exit(status);
    });
  }
  if (what == "_exit") elsewhere([] { _exit(4); });
  if (what == "exit-first") std::exit(5);
  if (what == "detached-sleep") {
    for (int i = 0; i < 10; ++i)
      ayatori::thread(ayatori::on(i % ayatori::process_count()), [] {
        for (;;) ayatori::this_thread::sleep_for(std::chrono::milliseconds(1));
      }).detach();
    std::puts("fine");
    return 6;
  }
  if (what == "detached-spin") {
    ayatori::atomic<int> running{0};
    for (int i = 0; i < ayatori::process_count(); ++i)
      ayatori::thread(ayatori::on(i), [i, &running] {
        if (i != 0) running.fetch_add(1);
        if (i == 0) return;
        while (zero == 0) {
        }
      }).detach();
    while (running.load() != ayatori::process_count() - 1) ayatori::this_thread::yield();
    std::puts("fine");
    return 7;
  }
  if (what == "joins-itself") {
    ayatori::thread t;
    ayatori::mutex m;
    bool right = false;
    {
      std::unique_lock lock(m);
      t = ayatori::thread([&] {
        std::lock_guard inner(m);
        try {
          t.join();
        } catch (const std::system_error& e) {
          right = e.code() == std::errc::resource_deadlock_would_occur;
        }
      });
    }
    t.join();
    if (!right) return fail("a thread that joins itself");
    try {
      t.join();
      return fail("join of a joined thread");
    } catch (const std::system_error& e) {
      if (e.code() != std::errc::invalid_argument) return fail("the error of join");
    }
    try {
      ayatori::thread(ayatori::on(1000), [] {});
      return fail("a process that is not there");
    } catch (const std::system_error& e) {
      if (e.code() != std::errc::invalid_argument) return fail("the error of on()");
    }
    std::puts("fine");
    return 0;
  }
  std::puts("nothing bad happened");
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::strcmp(argv[1], "outside") == 0) {
    try {
      ayatori::thread t([] {});
    } catch (const std::system_error& e) {
      std::puts(e.code() == std::errc::operation_not_permitted ? "fine" : "not right");
      return 0;
    }
    return 1;
  }
  return ayatori::run(argc, argv, [](auto args) { return bad(args); });
}
