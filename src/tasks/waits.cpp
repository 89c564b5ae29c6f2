// SPDX-License-Identifier: Apache-2.0
#include "tasks/waits.hpp"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <deque>
#include <map>
#include <mutex>
#include <new>
#include <unordered_map>

#include "base/clock.hpp"
#include "base/format.hpp"
#include "gas/space.hpp"
#include "tasks/runtime.hpp"
#include "ult/cancellation.hpp"
#include "ult/current.hpp"
#include "ult/scheduler.hpp"

namespace ayatori::tasks::waits {

using ult::Descriptor;
using ult::Worker;

namespace {

// In the C library's memory, as its owner may be on any stack.
struct Wait {
  Call call;
  End end;
  bool may_be_cancelled;
  int fd;                // of the program; -1: none
  int copy;              // W3; -1: none
  std::uint32_t events;  // of epoll
  std::uint32_t sequence;
  std::int64_t deadline_ns;
  Descriptor* thread;
  Job* job;
  long result;  // of the job
};
using Times = std::multimap<std::int64_t, Wait*>;

constexpr int kEventsAtOnce = 64;
constexpr std::size_t kOsThreadsMax = 64;
constexpr std::size_t kOsStackBytes = 128 * 1024;
// Another process that shares memory cannot wake this one's reaper: it looks whether its threads are to be cancelled.
constexpr std::int64_t kLookForCancelledNs = 20 * base::kNsPerMs;

struct State {
  std::mutex lock;
  // Guarded by lock, down to `epoll`.
  std::unordered_map<Descriptor*, Wait*> waits;  // W4
  Times times;
  std::size_t cancellable = 0;  // of `waits`
  std::uint32_t sequence = 0;
  bool started = false;                   // the reaper
  bool refused = false;                   // there is none, and will be none
  int epoll = -1;                         // Constant once the reaper has started.
  int bell = -1;                          // wakes the reaper
  std::atomic<std::uint32_t> waiting{0};  // descriptors that are waited for; a hint

  std::mutex jobs_lock;
  std::condition_variable arrived;
  // Guarded by jobs_lock.
  std::deque<Job*> jobs;
  std::size_t os_threads = 0, idle = 0;
};

// Never destroyed: the reaper goes on while the process ends. First called on a native stack.
State& state() {
  static State& s = *new State;
  return s;
}

}  // namespace

struct Job {
  long number;
  long arguments[6];
  std::uint32_t sequence;
  Descriptor* thread;  // null: nobody waits any more. Guarded by State::lock.
  std::size_t bytes;
};

namespace {

void raise_bell(State& s) {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = write(s.bell, &one, sizeof one);
}

bool looks_for_cancelled(const State& s) { return s.cancellable != 0 && processes() > 1 && !gas::apart(); }

// Under the lock: W4. The thread is to be made ready without it.
Descriptor* take_out(State& s, Wait& wait, End end) {
  s.waits.erase(wait.thread);
  if (wait.deadline_ns != kNever) {
    auto [at, last] = s.times.equal_range(wait.deadline_ns);
    while (at != last && at->second != &wait) ++at;
    if (at != last) s.times.erase(at);
  }
  if (wait.may_be_cancelled) --s.cancellable;
  if (wait.copy >= 0) {
    epoll_ctl(s.epoll, EPOLL_CTL_DEL, wait.copy, nullptr);  // closing is not enough: the file is open elsewhere
    if (wait.copy != wait.fd) close(wait.copy);
    s.waiting.fetch_sub(1, std::memory_order_relaxed);
  }
  if (wait.job) wait.job->thread = nullptr;
  wait.end = end;
  return wait.thread;
}

// The caller's thread must not be touched afterwards.
void resume(Descriptor* d) { ult::make_ready(d, true); }

void take_events(State& s, const epoll_event* events, int count) {
  Descriptor* ready[kEventsAtOnce];
  int found = 0;
  {
    const std::lock_guard guard(s.lock);
    for (int i = 0; i < count; ++i) {
      Descriptor* const d = &ult::config().threads[events[i].data.u64 & 0xffffffff];
      const auto at = s.waits.find(d);
      if (at == s.waits.end() || at->second->sequence != events[i].data.u64 >> 32) continue;
      ready[found++] = take_out(s, *at->second, End::kReady);
    }
  }
  for (int i = 0; i < found; ++i) resume(ready[i]);
}

// Ends what is over; returns for how long the reaper may sleep, kNever without end.
std::int64_t take_times(State& s) {
  for (;;) {
    Descriptor* d = nullptr;
    {
      const std::lock_guard guard(s.lock);
      const std::int64_t now = base::real_now_ns();
      if (!s.times.empty() && s.times.begin()->first <= now) d = take_out(s, *s.times.begin()->second, End::kTimedOut);
      for (auto at = s.waits.begin(); !d && looks_for_cancelled(s) && at != s.waits.end(); ++at)
        if (at->second->may_be_cancelled && ult::refuses_to_wait(at->first)) {
          d = take_out(s, *at->second, End::kCancelled);
          break;
        }
      if (!d) {
        const std::int64_t left = s.times.empty() ? kNever : s.times.begin()->first - now;
        return looks_for_cancelled(s) ? std::min(left, kLookForCancelledNs) : left;
      }
    }
    resume(d);
  }
}

// The bell is in no epoll set: of a level-triggered event that workers look at as well, a sleeper may not be told.
void* reap(void*) {
  pthread_setname_np(pthread_self(), "ayatori-calls");
  State& s = state();
  epoll_event events[kEventsAtOnce];
  for (;;) {
    const std::int64_t left = take_times(s);
    const timespec time{left / base::kNsPerSecond, left % base::kNsPerSecond};
    pollfd both[] = {{s.bell, POLLIN, 0}, {s.epoll, POLLIN, 0}};
    if (ppoll(both, 2, left == kNever ? nullptr : &time, nullptr) <= 0) continue;
    if (both[0].revents != 0) {
      std::uint64_t rings;
      [[maybe_unused]] const auto got = read(s.bell, &rings, sizeof rings);
    }
    const int count = epoll_wait(s.epoll, events, kEventsAtOnce, 0);
    if (count > 0) take_events(s, events, count);
  }
}

// Their signals are handled on threads of the program.
bool start_os_thread(void* (*f)(void*), std::size_t stack_bytes) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize(&attributes, stack_bytes);
  pthread_t thread;
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const int error = pthread_create(&thread, &attributes, f, nullptr);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_attr_destroy(&attributes);
  return error == 0;
}

// Under the lock.
bool start_reaper(State& s) {
  if (s.started || s.refused) return s.started;
  s.epoll = epoll_create1(EPOLL_CLOEXEC);
  s.bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  s.started = s.epoll >= 0 && s.bell >= 0 && start_os_thread(reap, kOsStackBytes);
  s.refused = !s.started;
  return s.started;
}

// Under the lock. False: the wait has ended.
bool watch(State& s, Wait& wait) {
  wait.copy = fcntl(wait.fd, F_DUPFD_CLOEXEC, 0);
  if (wait.copy < 0) {
    // EBADF: the call says so. Else there are no descriptors left: the program's own one will do.
    if (errno == EBADF) {
      wait.end = End::kReady;
      return false;
    }
    wait.copy = wait.fd;
  }
  epoll_event event{};
  event.events = wait.events | EPOLLONESHOT;
  event.data.u64 = static_cast<std::uint64_t>(wait.sequence) << 32 | wait.thread->slot;
  if (epoll_ctl(s.epoll, EPOLL_CTL_ADD, wait.copy, &event) == 0) {
    s.waiting.fetch_add(1, std::memory_order_release);  // pairs with look()
    return true;
  }
  wait.end = errno == EPERM ? End::kReady : End::kRefused;  // a regular file never waits
  if (wait.copy != wait.fd) close(wait.copy);
  wait.copy = -1;
  return false;
}

// Under the lock: the wait is there to be ended. True: its time is the first, the reaper must know.
bool put_in(State& s, Wait& wait) {
  s.waits.emplace(wait.thread, &wait);
  if (wait.may_be_cancelled) ++s.cancellable;
  if (wait.may_be_cancelled && s.cancellable == 1 && looks_for_cancelled(s)) {
    if (wait.deadline_ns != kNever) s.times.emplace(wait.deadline_ns, &wait);
    return true;
  }
  if (wait.deadline_ns == kNever) return false;
  const auto at = s.times.emplace(wait.deadline_ns, &wait);
  return at == s.times.begin();
}

void begin(Worker&, Descriptor* self, Wait& wait) {
  self->state = wait.call == Call::kSleep ? ult::ThreadState::kSleeping : ult::ThreadState::kCalling;
  self->deadline_ns = wait.deadline_ns;
  ult::set_wait_object(self, nullptr);
  self->wait_value =
      static_cast<std::uint64_t>(static_cast<std::uint32_t>(wait.fd)) << 8 | static_cast<std::uint8_t>(wait.call);
  wait.thread = self;
}

void* op_wait(Worker& w, Descriptor* self, void* argument) {
  auto& wait = *static_cast<Wait*>(argument);
  State& s = state();
  bool waits = false;
  begin(w, self, wait);
  {
    const std::lock_guard guard(s.lock);
    wait.sequence = ++s.sequence;
    // X2: who cancels looks into the table, under the lock, after it has said so.
    if (ult::refuses_to_wait(self)) {
      wait.end = End::kCancelled;
    } else if (!start_reaper(s)) {
      wait.end = End::kRefused;
    } else if (wait.fd < 0 || watch(s, wait)) {
      waits = true;
      if (put_in(s, wait)) raise_bell(s);
    }
  }
  // From here on it may run elsewhere (U2).
  return waits ? ult::schedule(w) : ult::resume_here(w, self);
}

// ------------------------------------------------------------------------------------------------ calls of OS threads

void end_job(State& s, Job* job, long result) {
  Descriptor* d = nullptr;
  {
    const std::lock_guard guard(s.lock);
    if (job->thread) {
      Wait& wait = *s.waits.find(job->thread)->second;
      wait.result = result;
      d = take_out(s, wait, End::kReady);
    }
  }
  job->~Job();
  std::free(job);
  if (d) resume(d);
}

void* make_calls(void*) {
  pthread_setname_np(pthread_self(), "ayatori-call");
  State& s = state();
  void* scratch = nullptr;
  std::unique_lock guard(s.jobs_lock);
  for (;;) {
    ++s.idle;
    s.arrived.wait(guard, [&] { return !s.jobs.empty(); });
    --s.idle;
    Job* const job = s.jobs.front();
    s.jobs.pop_front();
    guard.unlock();
    bool wanted;
    {
      const std::lock_guard table(s.lock);
      wanted = job->thread != nullptr;
    }
    long* const a = job->arguments;
    long result = -1;
    if (wanted) {
      if (job->number == SYS_pread64 && a[1] == kScratch) {
        if (!scratch) scratch = std::malloc(kScratchBytes);
        a[1] = reinterpret_cast<long>(scratch);
      }
      result = syscall(job->number, a[0], a[1], a[2], a[3], a[4], a[5]);
      if (result < 0) result = -errno;
    }
    end_job(s, job, result);
    guard.lock();
  }
}

// Under jobs_lock: is there somebody for one call more?
bool has_os_thread(State& s) {
  if (s.idle > s.jobs.size()) return true;
  if (s.os_threads < kOsThreadsMax && start_os_thread(make_calls, kOsStackBytes)) ++s.os_threads;
  return s.os_threads != 0;
}

void* op_hand_over(Worker& w, Descriptor* self, void* argument) {
  auto& wait = *static_cast<Wait*>(argument);
  State& s = state();
  begin(w, self, wait);
  bool waits = false;
  {
    // Both locks: the call may end as soon as it is in the list.
    const std::lock_guard jobs(s.jobs_lock);
    const std::lock_guard guard(s.lock);
    if (ult::refuses_to_wait(self)) {
      wait.end = End::kCancelled;
    } else if ((wait.may_be_cancelled && !start_reaper(s)) || !has_os_thread(s)) {
      wait.end = End::kRefused;
    } else {
      wait.job->thread = self;
      s.jobs.push_back(wait.job);
      if (put_in(s, wait)) raise_bell(s);
      waits = true;
    }
  }
  if (!waits) {
    std::free(wait.job);
    return ult::resume_here(w, self);
  }
  s.arrived.notify_one();
  return ult::schedule(w);
}

bool may_be_cancelled(const Descriptor* d) noexcept {
  const std::uint64_t word = d->cancel.load(std::memory_order_relaxed);
  return word >> ult::kCancelBits == d->generation &&
         (word & (ult::kCancellable | ult::kCancelDisabled)) == ult::kCancellable;
}

// On the thread. Frees the wait.
End wait_here(ult::Operation operation, Wait* wait, long* result) {
  Descriptor* const self = ult::current_thread();
  ++self->pins;  // W1
  if (wait->may_be_cancelled) self->cancel_point.store(true, std::memory_order_relaxed);
  ult::on_native(operation, wait);
  if (wait->may_be_cancelled) self->cancel_point.store(false, std::memory_order_relaxed);
  --self->pins;
  const End end = wait->end;
  if (result) *result = wait->result;
  std::free(wait);
  return end;
}

Wait* new_wait(Call call, int fd, bool cancellable) {
  void* const memory = std::malloc(sizeof(Wait));
  if (!memory) return nullptr;
  return new (memory) Wait{
      call, End::kReady, cancellable && may_be_cancelled(ult::current_thread()), fd, -1, 0, 0, kNever, nullptr, nullptr,
      0};
}

constexpr const char* kNames[] = {"read", "write",  "a receiving call", "a sending call", "accept", "connect",
                                  "poll", "select", "epoll_wait",       "sleep",          "wait",   "fsync"};
static_assert(std::size(kNames) == static_cast<std::size_t>(Call::kCount));

}  // namespace

End wait_for(Call call, int fd, std::uint32_t events, std::int64_t deadline_ns) {
  Wait* const wait = new_wait(call, fd, true);
  if (!wait) return End::kRefused;
  wait->events = events;
  wait->deadline_ns = deadline_ns;
  return wait_here(op_wait, wait, nullptr);
}

Job* new_job(long number, std::size_t bytes) {
  void* const memory = std::malloc(sizeof(Job) + bytes);
  return memory ? new (memory) Job{number, {}, 0, nullptr, bytes} : nullptr;
}
long* arguments(Job* job) noexcept { return job->arguments; }
std::byte* memory(Job* job) noexcept { return reinterpret_cast<std::byte*>(job + 1); }

End hand_over(Call call, int fd, Job* job, bool cancellable, long* result) {
  Wait* const wait = new_wait(call, fd, cancellable);
  if (!wait) {
    std::free(job);
    return End::kRefused;
  }
  wait->job = job;
  return wait_here(op_hand_over, wait, result);
}

bool cancelled() noexcept {
  const Descriptor* d = ult::current_thread();
  return may_be_cancelled(d) && ult::is_cancelled(d->cancel.load(std::memory_order_relaxed));
}

bool end_cancelled(Descriptor* d) noexcept {
  State& s = state();
  {
    const std::lock_guard guard(s.lock);
    const auto at = s.waits.find(d);
    if (at == s.waits.end()) return false;
    // X3: it may be a wait that nobody may end.
    if (!at->second->may_be_cancelled || !ult::refuses_to_wait(d)) return true;
    take_out(s, *at->second, End::kCancelled);
  }
  resume(d);
  return true;
}

void look() {
  State& s = state();
  // Pairs with watch(): who sees a descriptor sees `epoll`, too.
  if (s.waiting.load(std::memory_order_acquire) == 0) return;
  epoll_event events[kEventsAtOnce];
  const int count = epoll_wait(s.epoll, events, kEventsAtOnce, 0);
  if (count > 0) take_events(s, events, count);
}

std::string describe(std::uint64_t value) {
  const auto call = value & 0xff;
  const auto fd = static_cast<std::int32_t>(value >> 8);
  if (call >= std::size(kNames)) return "waits in a call of the C library";
  if (fd < 0) return base::formatted("waits in {}", kNames[call]);
  return base::formatted("waits in {}, descriptor {}", kNames[call], fd);
}

}  // namespace ayatori::tasks::waits
