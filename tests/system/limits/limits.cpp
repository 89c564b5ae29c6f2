// SPDX-License-Identifier: Apache-2.0
// `limits CASE [ARGUMENT]`: one program at one limit; run.sh knows the status and the lines that are right.
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <ayatori/ayatori.hpp>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <system_error>
#include <vector>

namespace {

using std::chrono::milliseconds;

int on_turn(int i) { return i % ayatori::process_count(); }

// Two threads live at a time; each ends in another process.
int few_stacks() {
  for (int i = 0; i < 500; ++i) {
    ayatori::thread t(ayatori::on(on_turn(i)), [] { ayatori::this_thread::yield(); });
    t.join();
  }
  return 0;
}

int nested_stacks() {
  for (int i = 0; i < 2000; ++i) {
    ayatori::thread outer(ayatori::on(on_turn(i)), [] {
      ayatori::thread middle([] {
        ayatori::thread inner([] { ayatori::this_thread::yield(); });
        inner.join();
      });
      middle.join();
    });
    outer.join();
  }
  return 0;
}

// Threads until there are no more: nearly one for each stack that there is, and as many again after they ended. (256 MiB
// have 128 MiB of stacks of 1 MiB.)
int exhausted() {
  for (int round = 0; round < 2; ++round) {
    ayatori::mutex held;
    held.lock();
    std::vector<ayatori::thread> threads;
    threads.reserve(1000);
    bool refused = false;
    try {
      while (threads.size() < 1000) threads.emplace_back([&held] { const std::lock_guard<ayatori::mutex> lock(held); });
    } catch (const std::system_error& e) {
      refused = e.code() == std::errc::resource_unavailable_try_again;
    }
    held.unlock();
    for (auto& t : threads) t.join();
    std::printf("%zu threads\n", threads.size());
    if (!refused || threads.size() < 110) return 1;
  }
  return 0;
}

struct AtExit {
  ~AtExit() { std::fprintf(stderr, "static destructor in process %d\n", ayatori::process_id()); }
} at_exit;

[[noreturn]] void for_ever(char how) {
  for (;;) {
    if (how == 'y') ayatori::this_thread::yield();
    if (how == 's') ayatori::this_thread::sleep_for(std::chrono::microseconds(1));
    if (how == 'd') ayatori::thread([] {}).detach();
    if (how == 'f') ayatori::thread([] {}).join();
  }
}

int end(char how) {
  for (int p = 0; p < ayatori::process_count(); ++p) ayatori::thread(ayatori::on(p), [how] { for_ever(how); }).detach();
  ayatori::this_thread::sleep_for(milliseconds(50));
  return 3;
}

// The longest sleep is longer than a short one.
int sleep() {
  ayatori::atomic<int> woken{0};
  ayatori::thread([&woken] {
    ayatori::this_thread::sleep_for(std::chrono::nanoseconds::max());
    woken.store(1);
  }).detach();
  ayatori::this_thread::sleep_for(milliseconds(100));
  return woken.load();
}

// Into the guard of a stack that the caller is not on: the lowest byte of a slot of 1 MiB some slots away.
[[gnu::noinline]] void write_wild() {
  volatile char here = 0;
  const std::uintptr_t slot = std::uintptr_t{1} << 20;
  *reinterpret_cast<volatile char*>((reinterpret_cast<std::uintptr_t>(&here) & ~(slot - 1)) + 3 * slot + 8) = 1;
}
void handle_wild(int, siginfo_t*, void*) { _exit(5); }
int wild(bool handled) {
  if (handled) {
    struct sigaction action = {};
    action.sa_sigaction = handle_wild;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGSEGV, &action, nullptr);
  }
  ayatori::thread t([] { write_wild(); });
  t.join();
  return 0;
}

[[gnu::noinline]] int recurse(int depth) {
  volatile char frame[1000];
  frame[0] = static_cast<char>(depth);
  return depth < 0 ? 0 : recurse(depth + 1) + frame[0];
}

// System calls on an address of the space where nothing is: EFAULT, and nothing is lost.
int unallocated() {
  int bad = 0;
  // The last pages of the space, which is 1 GiB long and aligned to that.
  const std::uintptr_t gib = std::uintptr_t{1} << 30;
  auto* nothing = reinterpret_cast<char*>((reinterpret_cast<std::uintptr_t>(&bad) | (gib - 1)) + 1 - 8192);
  const auto refuses = [&bad](const char* what, long result) {
    if (result == -1 && errno == EFAULT) return;
    std::printf("%s: %ld (%s)\n", what, result, std::strerror(errno));
    ++bad;
  };
  const int file = open("/proc/self/exe", O_RDONLY);
  refuses("read", read(file, nothing, 10));
  refuses("read of much", read(file, nothing, 100'000));
  refuses("open", open(nothing, O_RDONLY));
  struct stat* s = reinterpret_cast<struct stat*>(nothing);
  refuses("fstat", fstat(file, s));
  int ends[2];
  socketpair(AF_UNIX, SOCK_DGRAM, 0, ends);
  if (send(ends[0], "hello", 5, 0) != 5) ++bad;
  refuses("recv", recv(ends[1], nothing, 10, 0));
  char word[10];
  if (recv(ends[1], word, sizeof word, MSG_DONTWAIT) != 5) {
    std::puts("the datagram is lost");
    ++bad;
  }
  refuses("write", write(ends[0], nothing, 10));
  return bad;
}

int one_case(const std::string& name, const std::string& argument) {
  if (name == "few_stacks") return few_stacks();
  if (name == "nested_stacks") return nested_stacks();
  if (name == "exhausted") return exhausted();
  if (name == "end") return end(argument[0]);
  if (name == "sleep") return sleep();
  if (name == "wild") return wild(argument == "handled");
  if (name == "overflow") return recurse(0);
  if (name == "unallocated") return unallocated();
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  const int status = ayatori::run(
      argc, argv, [](auto args) { return one_case(args.size() > 1 ? args[1] : "", args.size() > 2 ? args[2] : ""); });
  std::fprintf(stderr, "after run in process %d\n", ayatori::process_id());
  return status;
}
