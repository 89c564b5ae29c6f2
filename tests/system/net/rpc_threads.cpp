// SPDX-License-Identifier: Apache-2.0
// Handlers on user-level threads (<ayatori/rpc.hpp>): that yield, lock, fork, fault and ask in their turn, in both directions
// and round in circles; many at once with few turns and few slots; what comes before the run, an exception, the end.
// Usage: net_rpc_threads [all | throws | late | left | inside | turn | flood | long | exits | bogus]
#include <ayatori/rpc.hpp>

#include <pthread.h>
#include <time.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <numeric>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace net = ayatori::net;

namespace {

enum : net::HandlerId {
  kSum = net::kUserHandlers,
  kCount,
  kChain,
  kMeet,
  kPlus,
  kEcho,
  kThrow,
  kPoke,
  kFlag,
  kFork,
  kBack,
  kStay,
  kStays,
  kHold,
  kSize,
  kLong,
  kExit
};

std::atomic<bool> all_well{true};
void check(bool holds, const char* what) {
  if (!holds && all_well.exchange(false)) std::fprintf(stderr, "net_rpc_threads: wrong: %s\n", what);
}

net::Transport* the_net = nullptr;  // of this process

// What handlers do here, by process.
std::atomic<int> running{0}, most_running{0}, pokes{0};
std::atomic<bool> flag{false}, staying{false};
struct Running {
  Running() {
    int most = most_running.load();
    const int now = ++running;
    while (now > most && !most_running.compare_exchange_weak(most, now)) {
    }
    int local = 0;
    check(ayatori::worker_id() >= 0 && ayatori::in_space(&local), "a handler runs on a user-level thread");
  }
  ~Running() { --running; }
};

ayatori::global<ayatori::mutex> lock;
ayatori::global<std::array<long, 1024>> counts;  // guarded by lock, one by one
ayatori::global<ayatori::barrier> meeting(4);
ayatori::global<ayatori::barrier> begun(2);

struct Chain {
  int hops, at;
};

template <class T>
T ask(int process, net::HandlerId handler, const auto& question) {
  T answer{};
  const net::Completion done =
      ayatori::call_rpc(*the_net, process, handler, &question, sizeof question, &answer, sizeof answer);
  check(done.ok() && done.reply_bytes == sizeof answer, "an RPC is answered");
  return answer;
}

void set_handlers(net::Transport& transport) {
  the_net = &transport;
  // Forks, joins, and reads what the asker wrote.
  ayatori::on_rpc(transport, kSum, [](const ayatori::rpc_request& r) {
    const Running scope;
    const auto* values = r.as<const long*>();
    return ayatori::parallel_reduce(0, 1000, 50, 0L, [=](int i) { return values[i]; }, std::plus<>{});
  });
  // Yields under a lock that all processes take.
  ayatori::on_rpc(transport, kCount, [](const ayatori::rpc_request& r) {
    const Running scope;
    const std::lock_guard guard(*lock);
    const long before = (*counts)[r.as<std::size_t>()]++;
    ayatori::this_thread::yield();
    return before;
  });
  // Asks the next process, as often as it is told: round and round.
  ayatori::on_rpc(transport, kChain, [](const ayatori::rpc_request& r) {
    const Running scope;
    const auto chain = r.as<Chain>();
    if (chain.hops == 0) return 0;
    const int next = (chain.at + 1) % ayatori::process_count();
    return 1 + ask<int>(next, kChain, Chain{chain.hops - 1, next});
  });
  // Goes on when four are here at once.
  ayatori::on_rpc(transport, kMeet, [](const ayatori::rpc_request&) {
    const Running scope;
    meeting->arrive_and_wait();
  });
  ayatori::on_rpc(transport, kPlus, [](const ayatori::rpc_request& r) { return r.as<int>() + 1; });
  ayatori::on_rpc(transport, kEcho, [](const ayatori::rpc_request& r) {
    const auto bytes = r.payload();
    return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  });
  ayatori::on_rpc(transport, kThrow, [](const ayatori::rpc_request&) { throw std::runtime_error("no such planet"); });
  ayatori::on_rpc(transport, kPoke, [](const ayatori::rpc_request& r) {
    check(!r.wants_answer(), "a message wants no answer");
    ++pokes;
  });
  // Waits for a child that asks the asker, whose handler asks this process.
  ayatori::on_rpc(transport, kFork, [](const ayatori::rpc_request& r) {
    int answer = 0;
    ayatori::thread child([&answer, from = r.source(), number = r.as<int>()] {
      const ayatori::pinned here;
      answer = ask<int>(from, kBack, number);
    });
    child.join();
    return answer;
  });
  ayatori::on_rpc(transport, kBack, [](const ayatori::rpc_request& r) {
    return ask<int>((ayatori::process_id() + 1) % ayatori::process_count(), kPlus, r.as<int>());
  });
  ayatori::on_rpc(transport, kStay, [](const ayatori::rpc_request&) {
    staying = true;
    for (;;) ayatori::this_thread::yield();
  });
  ayatori::on_rpc(transport, kStays, [](const ayatori::rpc_request&) { return staying.load(); });
  ayatori::on_rpc(transport, kHold, [](const ayatori::rpc_request&) {
    begun->arrive_and_wait();
    const std::lock_guard guard(*lock);
  });
  ayatori::on_rpc(transport, kSize, [](const ayatori::rpc_request& r) { return r.payload().size(); });
  ayatori::on_rpc(transport, kLong, [](const ayatori::rpc_request&) {
    return std::string(the_net->limits().payload_bytes_max + 1, ' ');
  });
  ayatori::on_rpc(transport, kExit, [](const ayatori::rpc_request&) { pthread_exit(nullptr); });
  ayatori::on_rpc(transport, kFlag, [](const ayatori::rpc_request&) { flag = true; });
}

// On each process at once.
template <class F>
void everywhere(F f) {
  std::vector<ayatori::thread> threads;
  for (int p = 0; p < ayatori::process_count(); ++p)
    threads.emplace_back(ayatori::on(p), [f, p] {
      const ayatori::pinned here;
      f(p);
    });
  for (ayatori::thread& t : threads) t.join();
}

// Two threads that yield to each other, until a handler sets a flag.
void yield_until_asked() {
  const ayatori::pinned here;
  const int self = ayatori::process_id();
  std::thread asker([self] { check(net::message(*the_net, self, kFlag, nullptr, 0).ok(), "a message to oneself"); });
  const auto yields = [] {
    const ayatori::pinned stays;
    while (!flag) ayatori::this_thread::yield();
  };
  ayatori::thread other(yields);
  yields();
  other.join();
  asker.join();
}

// With one turn, which is held: an OS thread that asks lets another one run, which its answer needs.
void ask_from_outside() {
  const ayatori::pinned here;
  static std::atomic<bool> answered{false};
  std::unique_lock held(*lock);
  ayatori::thread holder(ayatori::on(1), [] {
    const ayatori::pinned stays;
    check(ayatori::call_rpc(*the_net, 0, kHold, nullptr, 0).ok(), "a question whose handler waits");
  });
  begun->arrive_and_wait();
  std::thread outside([] {
    check(ask<int>(1, kBack, 41) == 42, "what an OS thread asks");
    answered = true;
  });
  while (!answered) ayatori::this_thread::yield();
  outside.join();
  held.unlock();
  holder.join();
}

// With one turn, which is held: two questions of 30 MiB wait, two more are refused; then those are answered.
void flood() {
  const ayatori::pinned here;
  std::unique_lock held(*lock);
  ayatori::thread holder([] {
    const ayatori::pinned stays;
    check(ayatori::call_rpc(*the_net, 1, kHold, nullptr, 0).ok(), "who holds the turn");
  });
  begun->arrive_and_wait();
  const std::vector<std::byte> question(std::size_t{30} << 20);
  std::atomic<int> answered{0}, refused{0};
  std::vector<ayatori::thread> askers;
  for (int i = 0; i < 4; ++i)
    askers.emplace_back([&] {
      const ayatori::pinned stays;
      std::size_t size = 0;
      const net::Completion done =
          ayatori::call_rpc(*the_net, 1, kSize, question.data(), question.size(), &size, sizeof size);
      check(done.ok() ? size == question.size() : done.outcome == net::Outcome::kTooLarge, "a long question");
      ++(done.ok() ? answered : refused);
    });
  while (refused < 2) ayatori::this_thread::yield();
  held.unlock();
  for (ayatori::thread& t : askers) t.join();
  holder.join();
  check(answered == 2 && refused == 2, "questions wait up to a bound");
}

// Process 2 sends what is neither question nor answer, and answers to a question that process 1 was asked.
void bogus() {
  constexpr int kQuestion = net::kTasksHandlers + 32, kAnswer = net::kTasksHandlers + 33;  // as in tasks/handlers.cpp
  const ayatori::pinned here;
  std::unique_lock held(*lock);
  std::atomic<bool> released{false};
  ayatori::thread holder([&] {
    const ayatori::pinned stays;
    check(ayatori::call_rpc(*the_net, 1, kHold, nullptr, 0).ok() && released, "an answer of who was asked");
  });
  begun->arrive_and_wait();
  ayatori::thread(ayatori::on(2), [] {
    const ayatori::pinned stays;
    std::thread([] {
      const auto send = [](int handler, const void* data, std::size_t bytes) {
        check(net::message(*the_net, 0, static_cast<net::HandlerId>(handler), data, bytes).ok(), "a message");
      };
      for (std::uint64_t number = 0; number < 100; ++number) {
        const std::array<std::uint64_t, 2> answer{number, 0};
        send(kQuestion, answer.data(), 7);
        send(kAnswer, answer.data(), 7);
        send(kAnswer, answer.data(), sizeof answer);
      }
    }).join();
    ask<int>(0, kPlus, 1);  // comes after them, or nearly
  }).join();
  released = true;
  held.unlock();
  holder.join();
}

int root() {
  const int n = ayatori::process_count();
  everywhere([n](int self) {
    std::vector<long> values(1000);
    std::iota(values.begin(), values.end(), self);
    for (int p = 0; p < n; ++p)
      check(ask<long>(p, kSum, values.data()) == 999L * 1000 / 2 + 1000L * self,
            "a handler reads what its asker wrote");
    std::string answer(100, ' ');
    const std::string_view text = "cat's cradle";
    const net::Completion done =
        ayatori::call_rpc(*the_net, (self + 1) % n, kEcho, text.data(), text.size(), answer.data(), answer.size());
    check(done.ok() && answer.substr(0, done.reply_bytes) == text, "a range is an answer");
    check(ayatori::call_rpc(*the_net, self, net::HandlerId{250}, nullptr, 0).outcome == net::Outcome::kBadAddress,
          "a handler that nobody set");
    check(ayatori::call_rpc(*the_net, n, kEcho, nullptr, 0).outcome == net::Outcome::kBadAddress, "nobody is asked");
    char one = 0;
    check(ayatori::call_rpc(*the_net, 0, kEcho, text.data(), text.size(), &one, 1).outcome == net::Outcome::kTooLarge,
          "an answer that has no room");
  });
  // Many more askers than slots and turns, each of which needs turns of others.
  constexpr int kAskers = 300, kHops = 5;
  everywhere([n](int self) {
    ayatori::parallel_for(0, kAskers, 1, [=](int i) {
      const ayatori::pinned here;
      check(ask<int>((self + 1) % n, kChain, Chain{kHops, (self + 1) % n}) == kHops, "a circle of RPCs");
      ask<long>((self + i) % n, kCount, std::size_t{7});
    });
  });
  check((*counts)[7] == long{kAskers} * n, "a lock in handlers");
  everywhere(
      [n](int self) { check(ask<int>((self + 1) % n, kChain, Chain{40, (self + 1) % n}) == 40, "a long circle"); });
  // Four handlers of one process wait for each other: they run at the same time, whatever the number of workers.
  ayatori::parallel_for(0, 4, 1, [](int) {
    const ayatori::pinned here;
    check(ayatori::call_rpc(*the_net, 0, kMeet, nullptr, 0).ok(), "handlers that wait for each other");
  });
  check(most_running >= 4, "handlers run at once");
  everywhere([n](int self) {
    std::thread([&] { check(net::message(*the_net, (self + 1) % n, kPoke, nullptr, 0).ok(), "a message"); }).join();
    while (pokes == 0) ayatori::this_thread::yield();
  });
  yield_until_asked();
  return all_well ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view mode = argc > 1 ? argv[1] : "all";
  net::OpenOptions options;
  options.before_start = set_handlers;
  if (mode == "inside")  // opened in the run, by an OS thread of each process
    return ayatori::run(argc, argv, [options](auto) {
      everywhere([options](int) { std::thread([&] { net::open(options).release(); }).join(); });
      return root();
    });
  net::OwnedTransport owned = net::open(options);
  net::Transport& job = *owned;
  const int next = (job.self() + 1) % job.processes();
  // Comes before the run, is told in it: which may end before that in mode left.
  const bool comes_before = mode != "left";
  const int asked = 41;
  int answer = 0;
  std::atomic<bool> told{false};
  const net::Callback done{
      [](void* was_told, net::Completion c) { *static_cast<std::atomic<bool>*>(was_told) = c.ok(); }, &told};
  if (comes_before)
    net::until_taken(
        job, [&] { return job.try_rpc_async({next, kPlus, &asked, sizeof asked, &answer, sizeof answer, done}); });
  // Is not told before the run ends.
  std::thread asker;
  if (mode == "left" && job.self() == 0)
    asker = std::thread([&job, next] {
      check(ayatori::call_rpc(job, next, kStay, nullptr, 0).outcome == net::Outcome::kPeerFailed,
            "a question whose handler the run's end left behind");
    });
  const int status = ayatori::run(argc, argv, [=](auto) {
    if (mode == "left") {
      const ayatori::pinned here;
      while (!ask<bool>(1, kStays, 0)) ayatori::this_thread::yield();
      return all_well ? 0 : 1;
    }
    if (mode == "turn") {  // AYATORI_RPC_THREADS=1
      const ayatori::pinned here;
      check(ask<int>((ayatori::process_id() + 1) % ayatori::process_count(), kFork, 41) == 42, "a child that asks");
      return all_well ? 0 : 1;
    }
    if (mode == "outside") {  // AYATORI_RPC_THREADS=1
      ask_from_outside();
      return all_well ? 0 : 1;
    }
    if (mode == "flood") {  // AYATORI_RPC_THREADS=1
      flood();
      return all_well ? 0 : 1;
    }
    if (mode == "bogus") {
      bogus();
      return all_well ? 0 : 1;
    }
    if (mode == "long") std::thread([] { net::rpc(*the_net, 1, kLong, nullptr, 0, nullptr, 0); }).join();
    if (mode == "exits") ayatori::call_rpc(*the_net, 1, kExit, nullptr, 0);
    if (mode == "throws") ayatori::call_rpc(*the_net, ayatori::process_count() - 1, kThrow, nullptr, 0);
    return root();
  });
  if (comes_before)
    check(net::wait_until(job, [&] { return told.load(); }) && answer == 42, "what came before the run");
  if (asker.joinable()) asker.join();
  net::barrier(job);
  if (mode == "late") {  // nobody answers any more
    if (job.self() == 0) {
      check(
          net::rpc(job, next, kPlus, &asked, sizeof asked, &answer, sizeof answer).outcome == net::Outcome::kPeerFailed,
          "an RPC after the run");
    } else {
      owned.reset();
    }
  }
  if (status != 0 || !all_well) return 1;
  if (ayatori::process_id() == 0) std::printf("check: ok\n");
  return 0;
}
