// SPDX-License-Identifier: Apache-2.0
// A program of the communication library that does, in some of its processes, what programs should not.
// Usage: net_probe [PROCESS:ACTION[:STATUS]]...   the process is the job's number, `*` all
//   exit-before, kill-before, hang-before    before open()
//   exit-joined, kill-joined, hang-joined    afterwards, without closing
//   pause-joined                             afterwards, for STATUS seconds, while the others wait for it
//   return                                   status of main, after an orderly end
//   near                                     writes to all others, says what went by memory and to how many it did
//   memory, twice, forget                    checks: allocate_memory(); open() again; the end without Close
// Prints `joined P of N` and `pid P PID` in each process, `peers failed` where a barrier breaks, then `bye P`.
#include <ayatori/net.hpp>

#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "net/bootstrap/bootstrap.hpp"

namespace net = ayatori::net;

namespace {

struct Act {
  int process;  // -1: all
  std::string name;
  int status;
};

std::vector<Act> acts;

const Act* find(int process, const char* name) {
  for (const Act& act : acts)
    if (act.name == name && (act.process == process || act.process == -1)) return &act;
  return nullptr;
}

[[noreturn]] void hang() {
  while (true) pause();
}

// This process' number in the job, before open().
int told_number() {
  const net::bootstrap::Job& job = net::bootstrap::job();
  if (job.launched) return job.control->first_process + job.process_id;
  const char* const rank = std::getenv("PMIX_RANK");
  return rank != nullptr ? std::atoi(rank) : 0;
}

void before(int process, const char* when) {
  const std::string suffix = std::string("-") + when;
  if (const Act* act = find(process, ("exit" + suffix).c_str())) std::exit(act->status);
  if (find(process, ("kill" + suffix).c_str()) != nullptr) std::raise(SIGKILL);
  if (find(process, ("hang" + suffix).c_str()) != nullptr) hang();
  if (const Act* act = find(process, ("pause" + suffix).c_str())) sleep(static_cast<unsigned>(act->status));
}

int fail(const char* what) {
  std::printf("failed: %s\n", what);
  return 3;
}

int check_memory(net::Transport& job) {
  constexpr std::size_t kBytes = 100'000;
  auto* const first = static_cast<unsigned char*>(net::allocate_memory(kBytes));
  auto* const second = static_cast<unsigned char*>(net::allocate_memory(1));
  if (first == nullptr || second == nullptr || reinterpret_cast<std::uintptr_t>(first) % 4096 != 0)
    return fail("allocate_memory");
  std::memset(first, 0xff, kBytes);
  const net::RegionId region = job.register_memory(first, kBytes);
  if (region == net::kNoRegion) return fail("register_memory");
  job.unregister_memory(region);
  net::free_memory(first);
  auto* const again = static_cast<unsigned char*>(net::allocate_memory(kBytes));
  for (std::size_t i = 0; i < kBytes; ++i)
    if (again[i] != 0) return fail("memory that came back is not zero");
  net::free_memory(second);
  net::free_memory(again);
  net::free_memory(nullptr);
  if (net::allocate_memory(~std::size_t{0}) != nullptr) return fail("more memory than there is");
  return 0;
}

// Into memory that each allocates: with several processes of one machine in the arena, one after the other.
int write_to_all(net::Transport& job) {
  constexpr std::uint64_t kMark = 0x5ca1ab1e;
  const auto processes = static_cast<std::size_t>(job.processes());
  auto* const mine = static_cast<std::uint64_t*>(net::allocate_memory(processes * sizeof(std::uint64_t)));
  if (mine == nullptr) return fail("allocate_memory");
  const net::RegionId region = job.register_memory(mine, processes * sizeof(std::uint64_t));
  if (!net::barrier(job).ok()) return fail("a barrier");
  int near = 0;
  for (int p = 0; p < job.processes(); ++p) {
    if (p == job.self()) continue;
    near += job.on_this_machine(p) ? 1 : 0;
    std::uint64_t value = kMark + static_cast<std::uint64_t>(job.self());
    const std::uint64_t offset = static_cast<std::uint64_t>(job.self()) * sizeof value;
    if (!net::write(job, {p, region, offset}, &value, sizeof value).ok()) return fail("a write");
  }
  const net::Counters counters = job.counters();
  std::printf("near %d, %s by memory\n", near, counters.messages_by_memory == 0 ? "none" : "some");
  if (!net::barrier(job).ok()) return fail("a barrier");
  for (std::size_t p = 0; p < processes; ++p)
    if (static_cast<int>(p) != job.self() && mine[p] != kMark + p) return fail("what was written");
  job.unregister_memory(region);
  net::free_memory(mine);
  void* const more = net::allocate_memory(std::size_t{3} << 30);  // than any of them shares
  if (more == nullptr) return fail("memory of its own");
  net::free_memory(more);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string text = argv[i];
    const std::size_t first = text.find(':');
    const std::size_t second = text.find(':', first + 1);
    acts.push_back({text[0] == '*' ? -1 : std::atoi(text.c_str()), text.substr(first + 1, second - first - 1),
                    second != text.npos ? std::atoi(text.c_str() + second + 1) : 0});
  }
  setvbuf(stdout, nullptr, _IOLBF, 0);
  before(told_number(), "before");
  net::OwnedTransport job = net::open();
  const int self = job->self();
  std::printf("joined %d of %d\npid %d %d\n", self, job->processes(), self, static_cast<int>(getpid()));
  int status = 0;
  if (find(self, "memory") != nullptr) status = check_memory(*job);
  if (status == 0 && find(self, "near") != nullptr) status = write_to_all(*job);
  if (find(self, "twice") != nullptr) {
    std::string why;
    if (net::try_open({}, &why) != nullptr || why.find("second time") == why.npos) return fail("a second open()");
  }
  if (!net::barrier(*job).ok()) std::printf("peers failed\n");
  before(self, "joined");
  if (!net::barrier(*job).ok()) std::printf("peers failed\n");
  if (find(self, "forget") != nullptr) static_cast<void>(job.release());
  job.reset();
  std::printf("bye %d\n", self);
  if (const Act* act = find(self, "return")) status = act->status;
  return status;
}
