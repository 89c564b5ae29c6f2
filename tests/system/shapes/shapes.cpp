// SPDX-License-Identifier: Apache-2.0
// Threads, locks, semaphores, latches and thread-local objects of the C++ interface: from every process, in the space and in static data.
#include <ayatori/ayatori.hpp>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

ayatori::global<ayatori::atomic<int>> failures;

void check(bool is, const char* what, int line) {
  if (is) return;
  failures->fetch_add(1);
  const ayatori::pinned pinned;
  std::printf("line %d: not true on process %d: %s\n", line, ayatori::process_id(), what);
}
#define CHECK(e) check((e), #e, __LINE__)

constexpr int kEach = 3, kRounds = 30;

// f(number) in kEach threads on every process; they begin there.
template <class F>
void everywhere(F f) {
  std::vector<ayatori::thread> threads;
  for (int i = 0; i < kEach * ayatori::process_count(); ++i)
    threads.emplace_back(ayatori::on(i % ayatori::process_count()), f, i);
  for (ayatori::thread& t : threads) t.join();
}
int all_threads() { return kEach * ayatori::process_count(); }

ayatori::global<ayatori::atomic<unsigned>> written_from;

struct Counted {
  long a = 0, b = 0;       // equal but while one writes
  unsigned processes = 0;  // where it was written
  void add() {
    ++a;
    processes |= 1u << ayatori::process_id();
    ayatori::this_thread::yield();
    CHECK(a == b + 1);
    ++b;
  }
  void expect(long n) const {
    CHECK(a == n && b == n);
    written_from->fetch_or(processes);
  }
};

// ---------------------------------------------------------------------------------------------------- locks

ayatori::recursive_mutex static_recursive;
ayatori::timed_mutex static_timed;
ayatori::shared_mutex static_shared;

template <class Mutex>
void exclusive(Mutex& mutex) {
  Counted counted;
  everywhere([&](int) {
    for (int i = 0; i < kRounds; ++i) {
      const std::lock_guard guard(mutex);
      counted.add();
    }
  });
  counted.expect(long{kRounds} * all_threads());
}

template <class Mutex>
void timed(Mutex& mutex) {
  mutex.lock();
  ayatori::thread([&] {
    CHECK(!mutex.try_lock());
    const auto before = Clock::now();
    CHECK(!mutex.try_lock_for(20ms) && Clock::now() - before >= 20ms);
    CHECK(!mutex.try_lock_until(Clock::now() + 20ms) && Clock::now() - before >= 40ms);
    CHECK(!mutex.try_lock_until(std::chrono::system_clock::now() - 1h) && !mutex.try_lock_for(-1h));
  }).join();
  ayatori::latch waits(1);
  ayatori::thread waiter([&] {
    waits.count_down();
    CHECK(mutex.try_lock_for(1h));
    mutex.unlock();
  });
  waits.wait();
  for (int i = 0; i < 20; ++i) ayatori::this_thread::yield();
  mutex.unlock();
  waiter.join();
  CHECK(mutex.try_lock_for(-1h));  // free
  mutex.unlock();
  CHECK(mutex.try_lock_for(std::chrono::hours::max()));
  mutex.unlock();
}

template <class Mutex>
void recursive(Mutex& mutex) {
  Counted counted;
  everywhere([&](int) {
    for (int i = 0; i < kRounds; ++i) {
      mutex.lock();
      CHECK(mutex.try_lock());
      CHECK(mutex.try_lock_for(1h));
      counted.add();
      mutex.unlock();
      ayatori::this_thread::yield();
      mutex.unlock();
      CHECK(counted.a == counted.b);  // still ours
      mutex.unlock();
    }
  });
  counted.expect(long{kRounds} * all_threads());
}

template <class Mutex>
void shared(Mutex& mutex) {
  Counted counted;
  everywhere([&](int n) {
    for (int i = 0; i < kRounds; ++i) {
      if ((i + n) % 4 == 0) {
        const std::unique_lock guard(mutex);
        counted.add();
      } else {
        const std::shared_lock guard(mutex);
        const long a = counted.a;
        ayatori::this_thread::yield();
        CHECK(a == counted.b);
      }
    }
  });
  CHECK(counted.a == counted.b && counted.a > 0);

  // All of them at once: each waits for the others while it reads.
  ayatori::latch reading(all_threads());
  everywhere([&](int) {
    const std::shared_lock guard(mutex);
    reading.arrive_and_wait();
  });

  mutex.lock();
  try {
    mutex.lock_shared();
    CHECK(!"it can be locked twice");
  } catch (const std::system_error& e) {
    CHECK(e.code() == std::errc::resource_deadlock_would_occur);
  }
  CHECK(!mutex.try_lock_shared() && !mutex.try_lock());
  ayatori::thread([&] {
    CHECK(!mutex.try_lock_shared_for(10ms) && !mutex.try_lock_shared_until(Clock::now() + 10ms));
  }).join();
  mutex.unlock();
  CHECK(mutex.try_lock_shared() && mutex.try_lock_shared_for(1h) && !mutex.try_lock());
  mutex.unlock_shared();
  mutex.unlock_shared();
}

// ---------------------------------------------------------------------------------------------------- semaphores, latches

ayatori::counting_semaphore<100> static_permits(2);
ayatori::binary_semaphore static_turn(1);
constexpr int kFew = 2;

void semaphores() {
  ayatori::counting_semaphore permits(kFew);
  for (int round = 0; round < 2; ++round) {
    struct {
      ayatori::mutex mutex;
      int inside = 0, most = 0, done = 0;
    } s;
    everywhere([&, round](int) {
      for (int i = 0; i < kRounds; ++i) {
        round == 0 ? permits.acquire() : static_permits.acquire();
        {
          const std::lock_guard guard(s.mutex);
          s.most = std::max(s.most, ++s.inside);
        }
        ayatori::this_thread::yield();
        {
          const std::lock_guard guard(s.mutex);
          --s.inside;
          ++s.done;
        }
        round == 0 ? permits.release() : static_permits.release();
      }
    });
    CHECK(s.done == kRounds * all_threads() && s.most <= kFew && s.inside == 0);
  }
  CHECK(permits.try_acquire() && permits.try_acquire_for(1h) && !permits.try_acquire());
  const auto before = Clock::now();
  CHECK(!permits.try_acquire_for(20ms) && Clock::now() - before >= 20ms);
  CHECK(!permits.try_acquire_until(Clock::now() + 20ms) && Clock::now() - before >= 40ms);
  int written = 0;
  ayatori::thread giver(ayatori::on(ayatori::process_count() - 1), [&] {
    written = 7;
    permits.release(3);
  });
  permits.acquire();
  CHECK(written == 7);
  CHECK(permits.try_acquire_until(Clock::now() + 1h));
  giver.join();
  CHECK(permits.try_acquire() && !permits.try_acquire());

  Counted counted;
  everywhere([&](int) {
    for (int i = 0; i < kRounds; ++i) {
      static_turn.acquire();
      counted.add();
      static_turn.release();
    }
  });
  counted.expect(long{kRounds} * all_threads());
  static_assert(ayatori::binary_semaphore::max() == 1 && decltype(static_permits)::max() == 100);
}

void latches() {
  std::vector<long> squares(static_cast<std::size_t>(all_threads()));
  ayatori::latch begin(1), done(all_threads() + 2);
  CHECK(!begin.try_wait());
  ayatori::thread starter([&] {
    for (int i = 0; i < 20; ++i) ayatori::this_thread::yield();
    done.count_down(0);
    done.count_down(2);
    begin.count_down();
  });
  everywhere([&](int n) {
    begin.wait();
    CHECK(begin.try_wait());
    squares[static_cast<std::size_t>(n)] = long{n} * n;
    done.arrive_and_wait();
    for (int i = 0; i < all_threads(); ++i) CHECK(squares[static_cast<std::size_t>(i)] == long{i} * i);
  });
  starter.join();
  CHECK(done.try_wait());
  done.wait();
  const ayatori::latch none(0);
  CHECK(none.try_wait());
  none.wait();
}

// ---------------------------------------------------------------------------------------------------- local

struct Tracked {
  static inline ayatori::global<ayatori::atomic<int>> alive{0};
  std::string text = "a text that is too long for the object itself";
  long sum = 0;
  Tracked() { alive->fetch_add(1); }
  ~Tracked() { alive->fetch_sub(1); }
};
ayatori::local<Tracked> static_local;

void locals() {
  struct Place {
    ayatori::local<long> count;
  };
  const auto place = std::make_unique<Place>();
  for (int round = 0; round < 3; ++round) {
    everywhere([&](int n) {
      CHECK(!static_local.has_value() && !place->count.has_value());
      for (int i = 0; i < kRounds; ++i) {
        static_local->sum += n;
        *place->count += 1;
        // A child that computes: others take over the rest of this thread.
        ayatori::thread([] {
          for (const auto end = Clock::now() + 50us; Clock::now() < end;) {
          }
        }).join();
      }
      CHECK(static_local->sum == long{n} * kRounds && *place->count == kRounds);
      CHECK(static_local->text == "a text that is too long for the object itself");
      CHECK(static_local.has_value());
    });
    CHECK(Tracked::alive->load() == 0);  // ended with their threads
  }
  ayatori::mutex mutex;
  std::vector<int> gone;  // where threads found themselves that began elsewhere
  everywhere([&](int n) {
    *place->count = n;
    const int began = ayatori::process_id();
    // The others have soon ended: their workers look for something to do.
    for (int i = 0; n == 0 && i < 20000 && ayatori::process_id() == began && ayatori::process_count() > 1; ++i)
      ayatori::thread([] {
        for (const auto end = Clock::now() + 1ms; Clock::now() < end;) {
        }
      }).join();
    CHECK(*place->count == n);
    const std::lock_guard guard(mutex);
    if (ayatori::process_id() != began) gone.push_back(n);
  });
  CHECK(ayatori::process_count() == 1 || !gone.empty());
}

// ---------------------------------------------------------------------------------------------------- old timers

// A wait with a time that ended early leaves its timer behind. It must not end a wait of that thread at the barrier that got
// the place of what it had waited for.
template <class Wait>
void old_timer(Wait wait) {
  constexpr auto kTime = 20ms;
  ayatori::atomic<int> released{0}, arriving{0};
  const auto semaphore = std::make_unique<ayatori::binary_semaphore>(0);
  const auto began = Clock::now();
  ayatori::thread waiter([&] {
    const ayatori::pinned here;
    (void)semaphore->try_acquire_for(kTime);  // waits: nobody has released
    while (released.load() == 0) ayatori::this_thread::yield();
    std::destroy_at(semaphore.get());
    ayatori::barrier barrier(2);  // in the same place of the runtime's table
    ayatori::thread partner([&] {
      const ayatori::pinned there;
      while (Clock::now() < began + 3 * kTime) ayatori::this_thread::yield();  // the timer is over
      arriving.store(1);
      barrier.arrive_and_wait();
    });
    wait(barrier);
    CHECK(arriving.load() == 1);
    partner.join();
    new (semaphore.get()) ayatori::binary_semaphore(0);
  });
  semaphore->release();
  released.store(1);
  waiter.join();
}

// ---------------------------------------------------------------------------------------------------- threads

// One that has ended gives its stack back when its object is moved: nothing else changes.
void moved_threads() {
  for (int place = -1; place < ayatori::process_count(); ++place) {
    const auto start = [place](auto f) {
      return place < 0 ? ayatori::thread(f) : ayatori::thread(ayatori::on(place), f);
    };
    for (int round = 0; round < kRounds; ++round) {
      int written = 0;
      ayatori::thread::id inside;
      ayatori::thread t = start([&written, &inside] {
        written = 7;
        inside = ayatori::this_thread::get_id();
      });
      const ayatori::thread::id before = t.get_id();
      ayatori::thread moved(std::move(t));
      CHECK(!t.joinable() && t.get_id() == ayatori::thread::id());
      CHECK(moved.joinable() && moved.get_id() == before);
      ayatori::thread other = start([] {});
      CHECK(other.get_id() != before);
      ayatori::thread last;
      last = std::move(moved);
      last.swap(other);
      CHECK(other.get_id() == before);
      // The thread object is joined elsewhere, too.
      ayatori::thread(ayatori::on(round % ayatori::process_count()), [&other, &written] {
        other.join();
        CHECK(written == 7);
      }).join();
      CHECK(inside == before && !other.joinable());
      bool refused = false;
      try {
        other.join();
      } catch (const std::system_error& e) {
        refused = e.code() == std::errc::invalid_argument;
      }
      CHECK(refused);
      if (round % 2 == 0)
        last.detach();
      else
        CHECK(last.join_nothrow() == nullptr);
      CHECK(!last.joinable());
      // An exception stays where it is.
      ayatori::thread throws = start([] { throw std::string("thrown"); });
      std::vector<ayatori::thread> many;
      many.push_back(std::move(throws));
      many.push_back(start([] {}));
      std::string caught;
      try {
        many[0].join();
      } catch (const std::string& what) {
        caught = what;
      }
      CHECK(caught == "thrown");
      many[1].join();
    }
  }
}

// One that runs on is asked nothing when its object is moved.
void moved_running() {
  constexpr std::uint64_t kMoves = 2000;
  ayatori::counting_semaphore<> go_on(0);
  ayatori::thread t(ayatori::on(ayatori::process_count() - 1), [&go_on] { go_on.acquire(); });
  {
    const ayatori::pinned pinned;
    const std::uint64_t before = ayatori::snapshot().messages_sent;
    for (std::uint64_t i = 0; i < kMoves; ++i) {
      ayatori::thread other(std::move(t));
      t = std::move(other);
    }
    CHECK(ayatori::snapshot().messages_sent - before < kMoves);
  }
  go_on.release();
  t.join();
}

int program(std::span<char*>) {
  old_timer([](ayatori::barrier& b) { b.arrive_and_wait(); });
  old_timer([](ayatori::barrier& b) { b.wait(b.arrive()); });
  ayatori::recursive_mutex recursive_one;
  ayatori::recursive_timed_mutex recursive_timed;
  ayatori::timed_mutex timed_one;
  ayatori::shared_timed_mutex shared_one;
  exclusive(recursive_one);
  exclusive(timed_one);
  exclusive(shared_one);
  exclusive(static_recursive);
  exclusive(static_timed);
  exclusive(static_shared);
  timed(timed_one);
  timed(recursive_timed);
  timed(shared_one);
  timed(static_timed);
  recursive(recursive_one);
  recursive(static_recursive);
  shared(shared_one);
  shared(static_shared);
  semaphores();
  latches();
  locals();
  moved_threads();
  moved_running();
  const unsigned from = written_from->load();
  CHECK(ayatori::process_count() == 1 || (from & (from - 1)) != 0);
  const int failed = failures->load();
  std::printf("check: %s\n", failed == 0 ? "ok" : "FAILED");
  return failed == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) { return ayatori::run(argc, argv, program); }
