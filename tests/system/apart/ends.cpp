// SPDX-License-Identifier: Apache-2.0
// `ends CASE`: a job whose processes share no memory, and how its members come and go; ends.sh knows what is right.
#include <unistd.h>

#include <ayatori/ayatori.hpp>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <thread>
#include <vector>

namespace {

// Filled in the run on process 1; its destructor gives back large memory that process 0 deals out.
std::vector<double> numbers;
double* foreign = nullptr;  // memory of process 0

struct AtExit {
  ~AtExit() {
    if (foreign != nullptr) std::printf("process %d reads %g at its exit\n", ayatori::process_id(), *foreign);
  }
} at_exit;

int statics() {
  double* const mine = new double{7};
  ayatori::thread t(ayatori::on(1), [mine] {
    numbers.assign(1 << 20, 1.0);
    foreign = mine;
  });
  t.join();
  return 0;
}

// An unlock at a process that keeps the mutex, which is not locked.
int unlock() {
  auto* const m = new ayatori::mutex;
  ayatori::thread t(ayatori::on(1), [m] { m->unlock(); });
  t.join();
  return 0;
}

// Which part of this job's messages went by memory that its processes share.
int near() {
  std::vector<ayatori::thread> threads;
  std::vector<ayatori::stats> all(static_cast<std::size_t>(ayatori::process_count()));
  for (int round = 0; round < 50; ++round)
    for (int p = 0; p < ayatori::process_count(); ++p)
      threads.emplace_back(ayatori::on(p), [&all, p] { all[static_cast<std::size_t>(p)] = ayatori::snapshot(); });
  for (auto& t : threads) t.join();
  ayatori::stats sum;
  for (const ayatori::stats& each : all) {
    sum.messages_sent += each.messages_sent;
    sum.messages_by_memory += each.messages_by_memory;
  }
  const auto part = [&sum] { return 10 * sum.messages_by_memory > 9 * sum.messages_sent ? "most" : "some"; };
  std::printf("%s by memory\n", sum.messages_by_memory == 0 ? "none" : part());
  return sum.messages_sent != 0 ? 0 : 3;
}

// A thread of process 1 ends the program.
int leave(int status) {
  ayatori::thread t(ayatori::on(1), [status] { std::exit(status); });
  t.join();
  return 9;
}

// Threads that end elsewhere with what others wait for: the numbers of their stacks are used again, too.
int many() {
  long sum = 0;
  for (int round = 0; round < 200; ++round) {
    std::vector<ayatori::thread> threads;
    std::vector<long> parts(static_cast<std::size_t>(ayatori::process_count()));
    for (int p = 0; p < ayatori::process_count(); ++p)
      threads.emplace_back(ayatori::on(p), [&parts, p, round] { parts[static_cast<std::size_t>(p)] = p + round; });
    for (auto& t : threads) t.join();
    for (const long part : parts) sum += part;
  }
  std::printf("sum %ld\n", sum);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view name = argc > 1 ? argv[1] : "";
  const int self = ayatori::process_id();
  if (name == "late" && self == 1) std::this_thread::sleep_for(std::chrono::seconds(3));
  if (name == "early" && self == 1) return 4;
  const int status = ayatori::run(argc, argv, [name](auto) {
    if (name == "near") return near();
    if (name == "statics") return statics();
    if (name == "unlock") return unlock();
    if (name == "exit0" || name == "exit3") return leave(name.back() - '0');
    if (name == "many" || name == "late") return many();
    return 0;
  });
  if (name == "quick" && self == 1) _exit(0);
  if (name == "killed-after" && self == 1) std::abort();
  std::printf("process %d leaves main\n", self);
  return status;
}
