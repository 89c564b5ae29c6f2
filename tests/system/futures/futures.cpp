// SPDX-License-Identifier: Apache-2.0
// promise, future, shared_future; who holds the last one of a state; exceptions on several processes.
#include <chrono>
#include <memory>
#include <optional>

#include "cases.hpp"

namespace {

using namespace std::chrono_literals;
using ayatori::future;
using ayatori::future_status;
using ayatori::promise;
using ayatori::shared_future;

void values() {
  unsigned set_on = 0, got_on = 0;
  for (int round = 0; round < 30; ++round) {
    const ayatori::on there(round % ayatori::process_count()), elsewhere((round + 1) % ayatori::process_count());
    promise<Tracked> texts;
    promise<std::unique_ptr<int>> moved;
    promise<int&> reference;
    promise<void> nothing;
    int target = 0, data = 0;
    future<Tracked> text = texts.get_future();
    auto moves = moved.get_future();
    auto refers = reference.get_future();
    auto ends = nothing.get_future();
    CHECK(text.valid() && text.wait_for(0s) == future_status::timeout);
    ayatori::thread sets(there, [&, texts = std::move(texts)]() mutable {
      set_on |= here();
      if (round % 2 == 0) yields(5);
      data = round + 1;
      texts.set_value(Tracked(long_text(round)));
      moved.set_value(std::make_unique<int>(round));
      reference.set_value(target);
      nothing.set_value();
    });
    ayatori::thread gets(elsewhere, [&, text = std::move(text)]() mutable {
      got_on |= here();
      if (round % 3 == 0) text.wait();
      CHECK(text.get().text == long_text(round) && !text.valid());
      CHECK(data == round + 1);
      CHECK(*moves.get() == round);
      refers.get() = 5;
      ends.get();
    });
    sets.join();
    gets.join();
    CHECK(target == 5);
  }
  CHECK(set_on == everybody() && got_on == everybody());
}

void errors() {
  future<int> none;
  CHECK(!none.valid());
  EXPECT_ERROR(no_state, none.get());
  EXPECT_ERROR(no_state, none.wait());
  EXPECT_ERROR(no_state, (void)none.wait_for(1s));
  promise<int> p;
  auto f = p.get_future();
  EXPECT_ERROR(future_already_retrieved, (void)p.get_future());
  p.set_value(1);
  EXPECT_ERROR(promise_already_satisfied, p.set_value(2));
  EXPECT_ERROR(promise_already_satisfied, p.set_exception(std::make_exception_ptr(3)));
  CHECK(f.wait_for(0s) == future_status::ready && f.get() == 1);
  EXPECT_ERROR(no_state, f.get());
  promise<int> gone = std::move(p);
  EXPECT_ERROR(no_state, (void)p.get_future());  // NOLINT: moved from
  EXPECT_ERROR(no_state, p.set_value(1));        // NOLINT
  // Broken ones, on another process.
  for (int round = 0; round < 10; ++round) {
    std::optional<promise<Tracked>> breaks(std::in_place);
    auto broken = breaks->get_future();
    ayatori::thread ends(ayatori::on(last()), [&] { breaks.reset(); });
    EXPECT_ERROR(broken_promise, broken.get());
    ends.join();
    CHECK(!broken.valid());
  }
  struct Throws {
    Throws() = default;
    Throws(const Throws&) { throw 1; }
  };
  promise<Throws> again;
  auto waits = again.get_future();
  try {
    again.set_value(Throws());
    CHECK(!"it returned");
  } catch (int) {
  }
  CHECK(waits.wait_for(0s) == future_status::timeout);
  again.set_exception(std::make_exception_ptr(std::runtime_error("later")));
  CHECK(waits.wait_until(std::chrono::system_clock::now() + 1h) == future_status::ready);
}

void timed() {
  for (int round = 0; round < 5; ++round) {
    promise<int> p;
    const shared_future<int> f = p.get_future().share();
    const auto before = std::chrono::steady_clock::now();
    CHECK(f.wait_for(10ms) == future_status::timeout && std::chrono::steady_clock::now() - before >= 10ms);
    CHECK(f.wait_until(std::chrono::steady_clock::now() - 1h) == future_status::timeout);
    ayatori::thread sets(ayatori::on(last()), [&] { p.set_value(round); });
    CHECK(f.wait_for(std::chrono::hours::max()) == future_status::ready && f.get() == round);
    sets.join();
    // Somebody of the same worker sets it while this thread only looks.
    promise<void> q;
    auto looked_at = q.get_future();
    ayatori::thread other([&] {
      yields(3);
      q.set_value();
    });
    while (looked_at.wait_for(0s) != future_status::ready) {
    }
    other.join();
  }
}

void many() {
  for (int round = 0; round < 15; ++round) {
    promise<Tracked> p;
    shared_future<Tracked> f = p.get_future().share();
    CHECK(f.valid());
    ayatori::atomic<unsigned> got_on{0};
    const Tracked* at = nullptr;
    ayatori::thread sets(ayatori::on(round % ayatori::process_count()), [&, p = std::move(p)]() mutable {
      yields(round % 4);
      p.set_value(Tracked(long_text(round)));
    });
    if (round % 2 == 0) at = &f.get();
    // Copies of copies; the last one goes somewhere.
    everywhere([&, f](int) {
      got_on.fetch_or(here());
      const shared_future<Tracked> mine = f;
      for (int i = 0; i < 3; ++i) CHECK(mine.get().text == long_text(round));
      CHECK(at == nullptr || at == &mine.get());
      CHECK(mine.wait_for(0s) == future_status::ready);
    });
    f = shared_future<Tracked>();
    sets.join();
    CHECK(got_on.load() == everybody());
  }
  CHECK(Tracked::alive->load() == 0);
  promise<void> start;
  const shared_future<void> started = start.get_future().share();
  ayatori::atomic<int> running{0};
  ayatori::thread starter([&] {
    yields(10);
    start.set_value();
  });
  everywhere([&](int) {
    started.get();
    running.fetch_add(1);
  });
  starter.join();
  CHECK(running.load() == all_threads());
  int target = 0;
  promise<int&> r;
  const shared_future<int&> refers = r.get_future().share();
  r.set_value(target);
  refers.get() = 3;
  CHECK(target == 3);
}

// The state goes with whoever is the last, wherever.
void last_owners() {
  for (int round = 0; round < 40; ++round) {
    auto p = std::make_unique<promise<Tracked>>();
    auto f = std::make_unique<future<Tracked>>(p->get_future());
    ayatori::thread a(ayatori::on(round % ayatori::process_count()), [&] {
      if (round % 4 != 3) p->set_value(Tracked(long_text(round)));
      p.reset();
    });
    ayatori::thread b(ayatori::on((round + 1) % ayatori::process_count()), [&] {
      if (round % 2 == 0) yields(3);
      f.reset();
    });
    a.join();
    b.join();
    CHECK(Tracked::alive->load() == 0);
  }
}

// ---------------------------------------------------------------------------------------------------- exceptions

[[noreturn]] void make_mistake(int n) { throw Tracked(long_text(n)); }

template <class F>
void expect_mistake(F f, int n, int line) {
  try {
    f();
    check(false, "it returned", line, "");
  } catch (const Tracked& t) {
    check(t.text == long_text(n), t.text.c_str(), line, "");
  }
}

// By a handler that ends before, at the same time as, or after who gets it has got it.
void from_handlers() {
  for (int round = 0; round < 60; ++round) {
    promise<int> p;
    auto f = p.get_future();
    ayatori::latch got(1);
    ayatori::thread sets(ayatori::on(last()), [&] {
      try {
        make_mistake(round);
      } catch (...) {
        p.set_exception(std::current_exception());
        if (round % 3 == 0) got.wait();
        if (round % 3 == 1) yields(2);
      }
    });
    expect_mistake([&] { f.get(); }, round, __LINE__);
    got.count_down();
    sets.join();
  }
  CHECK(Tracked::alive->load() == 0);
}

void for_many() {
  for (int round = 0; round < 20; ++round) {
    promise<void> p;
    shared_future<void> f = p.get_future().share();
    ayatori::thread sets(ayatori::on(round % ayatori::process_count()), [&, p = std::move(p)]() mutable {
      try {
        make_mistake(round);
      } catch (...) {
        if (round % 2 == 0) p.set_exception(std::current_exception());
      }
      if (round % 2 != 0) p.set_exception(std::make_exception_ptr(Tracked(long_text(round))));
    });
    // It goes up through threads, is held, and thrown again.
    everywhere([&, f](int n) {
      std::exception_ptr held;
      for (int i = 0; i < 3; ++i) {
        ayatori::thread inner(ayatori::on((n + i) % ayatori::process_count()), [&] { f.get(); });
        if (std::exception_ptr error = inner.join_nothrow()) {
          held = error;
          expect_mistake([&] { std::rethrow_exception(held); }, round, __LINE__);
        } else {
          CHECK(!"it returned");
        }
        try {
          f.get();
        } catch (...) {
          held = std::current_exception();
          if (i == 1) ayatori::this_thread::yield();
          const std::exception_ptr copy = held;
          expect_mistake([&] { std::rethrow_exception(copy); }, round, __LINE__);
        }
      }
    });
    f = shared_future<void>();
    sets.join();
  }
  CHECK(Tracked::alive->load() == 0);
}

// From one promise to the next.
void handed_on() {
  for (int round = 0; round < 20; ++round) {
    std::vector<promise<int>> promises(6);
    std::vector<future<int>> results;
    std::vector<ayatori::thread> threads;
    for (auto& p : promises) results.push_back(p.get_future());
    for (std::size_t i = 1; i < promises.size(); ++i)
      threads.emplace_back(ayatori::on(static_cast<int>(i) % ayatori::process_count()), [&, i] {
        try {
          promises[i].set_value(results[i - 1].get());
        } catch (const Tracked&) {
          promises[i].set_exception(std::current_exception());
          yields(2);
        }
      });
    promises[0].set_exception(std::make_exception_ptr(Tracked(long_text(round))));
    expect_mistake([&] { results.back().get(); }, round, __LINE__);
    for (auto& t : threads) t.join();
  }
  CHECK(Tracked::alive->load() == 0);
}

}  // namespace

void futures() {
  values();
  errors();
  timed();
  many();
  last_owners();
}

void exceptions() {
  from_handlers();
  for_many();
  handed_on();
}
