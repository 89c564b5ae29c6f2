// SPDX-License-Identifier: Apache-2.0
// stop_source, stop_token, stop_callback, jthread.
#include <memory>

#include "cases.hpp"

namespace {

using ayatori::jthread;
using ayatori::stop_callback;
using ayatori::stop_source;
using ayatori::stop_token;

void tokens() {
  const stop_token none;
  CHECK(!none.stop_requested() && !none.stop_possible());
  stop_source empty(ayatori::nostopstate);
  CHECK(!empty.stop_possible() && !empty.request_stop() && !empty.stop_requested());
  CHECK(empty.get_token() == none);
  stop_token token;
  {
    stop_source source;
    token = source.get_token();
    stop_source copy = source;
    CHECK(copy == source && copy.get_token() == token && token != none);
    CHECK(token.stop_possible() && !token.stop_requested());
  }
  CHECK(!token.stop_possible());  // nobody can ask any more
  bool called = false;
  {
    const stop_callback never(token, [&] { called = true; });
  }
  CHECK(!called);
  stop_source source;
  token = source.get_token();
  CHECK(source.request_stop() && !source.request_stop() && token.stop_requested());
  source = stop_source(ayatori::nostopstate);
  CHECK(token.stop_possible() && token.stop_requested());
  const stop_callback at_once(token, [&] { called = true; });
  CHECK(called);
  called = false;
  stop_callback<std::function<void()>> other(none, [&] { called = true; });
  CHECK(!called);
}

void threads() {
  unsigned ran = 0;
  int data = 0, got = 0;
  {
    // Takes a token; asked by the destructor.
    std::vector<jthread> all;
    std::vector<unsigned> where(static_cast<std::size_t>(all_threads()));
    for (int i = 0; i < all_threads(); ++i)
      all.emplace_back(
          ayatori::on(i % ayatori::process_count()),
          [&where, i](const stop_token& token, int n) {
            where[static_cast<std::size_t>(i)] = here();
            CHECK(n == i);
            while (!token.stop_requested()) ayatori::this_thread::yield();
          },
          i);
    all.clear();
    for (const unsigned w : where) ran |= w;
    // Takes none.
    jthread plain([&ran] { ran |= here(); });
    CHECK(plain.joinable() && plain.get_id() != ayatori::thread::id());
    plain.join();
    CHECK(!plain.joinable());
    // Writes of who asks are visible to who finds that it was asked.
    jthread reader(ayatori::on(last()), [&](stop_token token) {
      while (!token.stop_requested()) ayatori::this_thread::yield();
      got = data;
    });
    yields(20);
    data = 42;
    CHECK(reader.request_stop() && !reader.request_stop());
    reader.join();
    CHECK(got == 42);
    reader = jthread([](stop_token token) {
      while (!token.stop_requested()) ayatori::this_thread::yield();
    });
    const stop_token outlives = reader.get_stop_token();
    reader = jthread();  // asks and joins
    CHECK(outlives.stop_requested() && !reader.get_stop_source().stop_possible());
    jthread thrower([] { throw 5; });
    try {
      thrower.join();
      CHECK(!"it returned");
    } catch (int five) {
      CHECK(five == 5);
    }
    jthread detached([done = std::make_shared<int>(0)](stop_token) {});
    detached.detach();
  }
  CHECK(ran == everybody());
}

void callbacks() {
  for (int round = 0; round < 20; ++round) {
    stop_source source;
    struct {
      ayatori::mutex mutex;
      int ran = 0;
      unsigned registered = 0;
      ayatori::thread::id by;
    } s;
    ayatori::latch ready(all_threads()), leave(1);
    std::vector<int> times(static_cast<std::size_t>(all_threads()));
    ayatori::atomic<int> first{0};
    ayatori::thread::id requester;
    ayatori::thread asks(ayatori::on(round % ayatori::process_count()), [&] {
      ready.wait();
      requester = ayatori::this_thread::get_id();
      first.fetch_add(source.request_stop() ? 1 : 0);
      // Every callback that was there has run, here.
      for (const int t : times) CHECK(t == 1);
      CHECK(s.by == requester);
      leave.count_down();
    });
    everywhere([&, token = source.get_token()](int n) {
      const unsigned began = here();
      const stop_callback callback(token, [&, n] {
        ++times[static_cast<std::size_t>(n)];
        const std::lock_guard lock(s.mutex);
        ++s.ran;
        s.by = ayatori::this_thread::get_id();
      });
      {
        const std::lock_guard lock(s.mutex);
        s.registered |= began;
      }
      ready.count_down();
      leave.wait();
      first.fetch_add(source.request_stop() ? 1 : 0);
    });
    asks.join();
    CHECK(first.load() == 1 && s.ran == all_threads() && s.registered == everybody());
  }
}

void deregistration() {
  for (int round = 0; round < 20; ++round) {
    // Waits while it runs in another thread.
    stop_source source;
    bool finished = false;
    ayatori::latch running(1), begun(1);
    auto callback = std::make_unique<stop_callback<std::function<void()>>>(source.get_token(), [&] {
      running.count_down();
      begun.wait();
      yields(50);
      finished = true;
    });
    ayatori::thread asks(ayatori::on(last()), [&] { source.request_stop(); });
    running.wait();
    begun.count_down();
    callback.reset();
    CHECK(finished);
    asks.join();
    // A callback that ends itself, and one that ends one that has not run and one that has.
    stop_source other;
    using Callback = stop_callback<std::function<void()>>;
    std::vector<std::unique_ptr<Callback>> all(3);
    int ran = 0;
    for (auto& one : all)
      one = std::make_unique<Callback>(other.get_token(), [&all, &ran] {
        ++ran;
        auto ended = std::move(all);
        all.clear();
      });
    ayatori::thread(ayatori::on(last()), [&] { CHECK(other.request_stop()); }).join();
    CHECK(ran == 1 && all.empty());
    // A source that goes while it asks.
    auto gone = std::make_unique<stop_source>();
    const stop_callback ends(gone->get_token(), [&gone] { gone.reset(); });
    CHECK(gone->request_stop());
    CHECK(!gone);
  }
}

// Callbacks come and go while it is asked: each runs at most once, and exactly once where it was there throughout.
void comings() {
  for (int round = 0; round < 10; ++round) {
    stop_source source;
    ayatori::atomic<long> twice{0}, missed{0};
    ayatori::latch going(all_threads());
    ayatori::thread asks(ayatori::on(round % ayatori::process_count()), [&] {
      going.wait();
      source.request_stop();
    });
    everywhere([&, token = source.get_token()](int) {
      going.count_down();
      for (bool over = false; !over;) {
        over = token.stop_requested();
        int ran = 0;
        {
          const stop_callback callback(token, [&ran] { ++ran; });
          if (over && ran != 1) missed.fetch_add(1);
          ayatori::this_thread::yield();
        }
        if (ran > 1) twice.fetch_add(1);
      }
    });
    asks.join();
    CHECK(twice.load() == 0 && missed.load() == 0);
  }
}

}  // namespace

void stops() {
  tokens();
  threads();
  callbacks();
  deregistration();
  comings();
}
