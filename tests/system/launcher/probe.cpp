// SPDX-License-Identifier: Apache-2.0
// A program for the launcher's tests: has the bootstrap of the library and no layer above it. The first argument says
// what its members do.
#include <dirent.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "base/knobs.hpp"
#include "base/status.hpp"
#include "net/bootstrap/barrier.hpp"
#include "net/bootstrap/bootstrap.hpp"

namespace boot = ayatori::net::bootstrap;

namespace {

[[gnu::constructor(101)]] void start() {
  if (const ayatori::base::Status knobs = ayatori::base::load_knobs(); !knobs.ok())
    ayatori::base::exit_start_failure(knobs);
  boot::begin();
  boot::fork_members();
}

int self() { return boot::job().process_id; }

struct Arguments {
  std::vector<std::string> words;
  int number(std::size_t i) const { return i < words.size() ? std::atoi(words[i].c_str()) : 0; }
};

// ThreadSanitizer may hold a signal back until the next call: no pause().
[[noreturn]] void sleep_forever() {
  for (;;) usleep(20'000);
}

// All members are inside the run after this.
void enter_run() {
  boot::set_phase(boot::Phase::kRunning);
  if (boot::barrier_wait(*boot::job().control) != boot::BarrierResult::kPassed) sleep_forever();
}

int leave_run(int status) {
  boot::set_result(status);
  boot::barrier_wait(*boot::job().control);
  boot::set_phase(boot::Phase::kFinished);
  boot::get_result(status);
  return status;
}

void print_pid() {
  std::printf("pid %d %d\n", self(), getpid());
  std::fflush(stdout);
}

// member PROCESS does `act`, the others stay in the run.
template <class Act>
int one_acts(const Arguments& arguments, Act act) {
  enter_run();
  print_pid();
  boot::barrier_wait(*boot::job().control);
  if (self() == arguments.number(1)) act();
  sleep_forever();
}

void on_signal(int signal) {
  char line[64];
  const int bytes = std::snprintf(line, sizeof line, "signal %d %d\n", self(), signal);
  [[maybe_unused]] const auto written = write(STDOUT_FILENO, line, static_cast<std::size_t>(bytes));
}

int hello(const Arguments&) {
  enter_run();
  std::printf("hello from %d of %d\n", self(), boot::job().process_count);
  return leave_run(0);
}

// Without a run: status K0 K1 ...
int status(const Arguments& arguments) { return arguments.number(static_cast<std::size_t>(self()) + 1); }

int run_status(const Arguments& arguments) {
  enter_run();
  if (self() == 0) boot::set_result(arguments.number(1));
  boot::barrier_wait(*boot::job().control);
  return leave_run(99);  // the first result stands
}

int exits(const Arguments& arguments) {
  return one_acts(arguments, [&] { std::exit(arguments.number(2)); });
}
int exits_then_hangs(const Arguments& arguments) {
  std::atexit(sleep_forever);
  return one_acts(arguments, [&] { std::exit(arguments.number(2)); });
}
int quick_exits(const Arguments& arguments) {
  return one_acts(arguments, [&] { _exit(arguments.number(2)); });
}
int raises(const Arguments& arguments) {
  return one_acts(arguments, [&] { raise(arguments.number(2)); });
}
int aborts(const Arguments& arguments) {
  return one_acts(arguments, [] { std::abort(); });
}
int terminates(const Arguments& arguments) {
  return one_acts(arguments, [] { std::terminate(); });
}
int ends(const Arguments& arguments) {
  return one_acts(arguments, [&] { boot::end_job(arguments.number(2), "the reason"); });
}
// Everybody ends the job at once: one reason is told.
int all_end(const Arguments&) {
  enter_run();
  boot::end_job(40, "a reason among others");
}

// PROCESS leaves with STATUS; the others are in the run already, or come late.
int leaves_early(const Arguments& arguments) {
  if (self() == arguments.number(1)) {
    usleep(50'000);
    return arguments.number(2);
  }
  enter_run();
  sleep_forever();
}
int comes_late(const Arguments& arguments) {
  if (self() == arguments.number(1)) return arguments.number(2);
  usleep(300'000);
  enter_run();
  sleep_forever();
}

int lines(const Arguments& arguments) {
  enter_run();
  for (int i = 0; i < arguments.number(1); ++i) {
    std::printf("out %d %d abcdefghijklmnopqrstuvwxyz\n", self(), i);
    std::fprintf(stderr, "err %d %d ", self(), i);
    std::fprintf(stderr, "in two writes\n");
  }
  return leave_run(0);
}

// Two lines of so many letters, the second one without its end.
int huge(const Arguments& arguments) {
  std::string text(static_cast<std::size_t>(arguments.number(1)), static_cast<char>('a' + self()));
  text += "\n" + text;
  enter_run();
  std::fwrite(text.data(), 1, text.size(), stdout);
  return leave_run(0);
}

int reads(const Arguments&) {
  std::size_t bytes = 0;
  while (std::getchar() != EOF) ++bytes;
  std::printf("read %d %zu\n", self(), bytes);
  return 0;
}

int waits(const Arguments&) {
  enter_run();
  print_pid();
  sleep_forever();
}
int spins(const Arguments&) {
  enter_run();
  print_pid();
  for (std::atomic<int> turn = 0;;) ++turn;
}
// Has handlers, as the launcher sees it, but takes the signals by sigwaitinfo(): ThreadSanitizer's own handler loses one
// in some hundred when the machine is loaded.
template <class Act>
[[noreturn]] void takes(std::initializer_list<int> signals, Act act) {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : signals) {
    struct sigaction action{};
    action.sa_handler = [](int) {};
    sigaction(signal, &action, nullptr);
    sigaddset(&set, signal);
  }
  sigprocmask(SIG_BLOCK, &set, nullptr);
  enter_run();
  print_pid();
  for (;;)
    if (const int signal = sigwaitinfo(&set, nullptr); signal > 0) act(signal);
}
// Tells signals and goes on.
int stubborn(const Arguments&) { takes({SIGINT, SIGTERM, SIGHUP, SIGQUIT}, on_signal); }
// Ends by itself after a signal, with another status.
int polite(const Arguments&) {
  takes({SIGTERM}, [](int) { _exit(7); });
}

// A process of the program's own that outlives its parent; then member 0 crashes.
int leaves_orphan(const Arguments&) {
  enter_run();
  const pid_t child = fork();
  if (child == 0) {
    if (fork() != 0) _exit(0);
    std::printf("pid %d %d\n", 100 + self(), getpid());
    std::fflush(stdout);
    sleep_forever();
  }
  waitpid(child, nullptr, 0);
  boot::barrier_wait(*boot::job().control);
  usleep(50'000);
  if (self() == 0) std::abort();
  sleep_forever();
}
// exit() and end_job() in a child that is no member leave the job alone.
int forks_stray(const Arguments&) {
  enter_run();
  for (int i = 0; i < 2; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      if (i == 0) std::exit(5);
      boot::end_job(6, "a stray's reason");
    }
    int result = 0;
    waitpid(child, &result, 0);
    if (!WIFEXITED(result) || WEXITSTATUS(result) != 5 + i) std::abort();
  }
  return leave_run(0);
}

int rounds(const Arguments& arguments) {
  boot::JobControl& control = *boot::job().control;
  enter_run();
  const auto members = static_cast<std::uint64_t>(boot::job().process_count);
  for (int round = 0; round < arguments.number(1); ++round) {
    control.reserved[0].words[0].fetch_add(1, std::memory_order_relaxed);
    boot::barrier_wait(control);
    const std::uint64_t seen = control.reserved[0].words[0].load(std::memory_order_relaxed);
    if (seen != members * static_cast<std::uint64_t>(round + 1)) {
      std::printf("round %d: saw %lu arrivals\n", round, seen);
      std::abort();
    }
    boot::barrier_wait(control);
  }
  return leave_run(0);
}
// The last member does not come in time: the others take their arrivals back, then all pass.
int barrier_timeout(const Arguments&) {
  boot::JobControl& control = *boot::job().control;
  const bool last = self() == boot::job().process_count - 1;
  boot::set_phase(boot::Phase::kRunning);
  if (!last && boot::barrier_wait(control, 20'000'000) != boot::BarrierResult::kTimeout) return 1;
  if (last) usleep(200'000);
  return boot::barrier_wait(control) == boot::BarrierResult::kPassed ? leave_run(0) : 1;
}

int counts(const Arguments&) {
  enter_run();
  std::uint64_t values[boot::kStats];
  for (std::size_t i = 0; i < boot::kStats; ++i) values[i] = 100 * static_cast<std::uint64_t>(self() + 1) + i;
  boot::publish_stats(values);
  return leave_run(0);
}

// A wild store: every member's row tells another pid, argument 1. Then all wait, or process 1 dies (argument 2).
int lies(const Arguments& arguments) {
  enter_run();
  print_pid();
  boot::barrier_wait(*boot::job().control);
  boot::JobControl& control = *boot::job().control;
  usleep(20'000);  // what the launcher wants to know once, it knows
  for (int process = 0; process < boot::job().process_count; ++process)
    control.members[process].pid.store(arguments.number(1), std::memory_order_release);
  boot::barrier_wait(control);
  if (arguments.number(2) != 0 && self() == 1) raise(SIGKILL);
  sleep_forever();
}

int environment(const Arguments&) {
  std::string text;
  for (char** entry = environ; *entry != nullptr; ++entry)
    if (std::strncmp(*entry, "AYATORI", 7) == 0) text += std::string(" ") + *entry;
  std::printf("environment %d%s workers=%d\n", self(), text.c_str(), boot::job().workers);
  return 0;
}

// Descriptors above standard error: only the control socket.
int descriptors(const Arguments&) {
  DIR* const folder = opendir("/proc/self/fd");
  int count = 0;
  while (const dirent* const entry = readdir(folder))
    if (entry->d_name[0] != '.' && std::atoi(entry->d_name) != dirfd(folder)) ++count;
  std::printf("descriptors %d %d\n", self(), count);
  closedir(folder);
  return 0;
}

struct Act {
  const char* name;
  int (*act)(const Arguments&);
};
constexpr Act kActs[] = {
    {"hello", hello},
    {"status", status},
    {"run-status", run_status},
    {"exits", exits},
    {"exits-then-hangs", exits_then_hangs},
    {"quick-exits", quick_exits},
    {"raises", raises},
    {"aborts", aborts},
    {"terminates", terminates},
    {"ends", ends},
    {"all-end", all_end},
    {"leaves-early", leaves_early},
    {"comes-late", comes_late},
    {"lines", lines},
    {"huge", huge},
    {"reads", reads},
    {"waits", waits},
    {"spins", spins},
    {"stubborn", stubborn},
    {"polite", polite},
    {"leaves-orphan", leaves_orphan},
    {"forks-stray", forks_stray},
    {"rounds", rounds},
    {"barrier-timeout", barrier_timeout},
    {"counts", counts},
    {"lies", lies},
    {"environment", environment},
    {"descriptors", descriptors},
};

}  // namespace

int main(int argc, char** argv) {
  const Arguments arguments{{argv + 1, argv + argc}};
  const std::string_view name = argc > 1 ? argv[1] : "hello";
  for (const Act& act : kActs)
    if (name == act.name) return act.act(arguments);
  std::fprintf(stderr, "usage of %s: ACT ...\n", argv[0]);
  return 2;
}
