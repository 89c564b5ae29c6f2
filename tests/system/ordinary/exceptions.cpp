// SPDX-License-Identifier: Apache-2.0
// Exceptions in threads that migrate: thrown here, caught there, rethrown elsewhere.
#include <exception>
#include <stdexcept>
#include <string>
#include <vector>

#include "suite.hpp"

using suite::elsewhere;
using suite::kMigrations;
using suite::migrate;

namespace {

struct Mistake : std::runtime_error {
  Mistake(const std::string& what, int n) : std::runtime_error(what), number(n), data(100, n) {}
  int number;
  std::vector<int> data;
};

struct Guard {
  explicit Guard(int& c) : count(c) {}
  ~Guard() { ++count; }
  int& count;
};

[[gnu::noinline]] void throw_after_migration(int depth, int& destroyed, int n) {
  Guard guard(destroyed);
  if (depth == 0) {
    migrate();
    throw Mistake("thrown far from where its frames began, number " + std::to_string(n), n);
  }
  throw_after_migration(depth - 1, destroyed, n);
}

void nest(int depth) {
  try {
    if (depth == 0) throw Mistake("the innermost mistake, with a long text", 0);
    if (depth % 2 == 0)
      elsewhere([&] { nest(depth - 1); });
    else
      nest(depth - 1);
  } catch (...) {
    if (depth % 3 == 0) migrate();
    std::throw_with_nested(std::logic_error("level " + std::to_string(depth)));
  }
}

int depth_of(const std::exception& e) {
  try {
    std::rethrow_if_nested(e);
  } catch (const std::exception& inner) {
    return 1 + depth_of(inner);
  }
  return 0;
}

}  // namespace

CASE(throw_in_a_stolen_child_reaches_its_joiner) {
  for (int i = 0; i < kMigrations; ++i) {
    bool caught = false;
    ayatori::thread child([i] {
      migrate();  // the parent's continuation was stolen by now, this thread too
      throw Mistake("left a thread on another process", i);
    });
    try {
      child.join();
    } catch (const Mistake& m) {
      caught = m.number == i && m.data[99] == i && std::string(m.what()) == "left a thread on another process";
    }
    CHECK(caught && !child.joinable());
  }
}

CASE(throw_in_a_placed_thread_reaches_its_joiner) {
  for (int i = 0; i < kMigrations; ++i) {
    bool caught = false;
    try {
      elsewhere([i] { throw Mistake(std::string(200, 'm'), i); });
    } catch (const std::runtime_error& e) {  // by its base class
      caught = std::string(e.what()) == std::string(200, 'm') && dynamic_cast<const Mistake&>(e).number == i;
    }
    CHECK(caught);
  }
}

CASE(frames_on_both_sides_of_a_migration_unwind) {
  for (int i = 0; i < kMigrations; ++i) {
    int destroyed = 0;
    bool caught = false;
    try {
      throw_after_migration(5, destroyed, i);
    } catch (const Mistake& m) {
      migrate();
      caught = m.number == i && m.data[3] == i;
    }
    CHECK(caught && destroyed == 6);
  }
}

CASE(fork_inside_a_catch_block_then_rethrow) {
  for (int i = 0; i < kMigrations; ++i) {
    int seen = 0;
    try {
      try {
        throw Mistake("caught, forked, thrown again", i);
      } catch (const Mistake& m) {
        int from_child = 0;
        ayatori::thread child([&] {
          try {
            migrate();
            throw i;
          } catch (int n) {
            from_child = n + m.number;
          }
        });
        child.join();
        CHECK(from_child == 2 * i);
        migrate();
        throw;
      }
    } catch (const Mistake& m) {
      seen = m.number + 1;
    }
    CHECK(seen == i + 1 && !std::current_exception() && std::uncaught_exceptions() == 0);
  }
}

CASE(two_handlers_at_once_on_threads_that_cross) {
  for (int i = 0; i < kMigrations / 2; ++i) {
    const auto work = [&](int id) {
      try {
        throw Mistake("handler", id);
      } catch (const Mistake& m) {
        migrate();
        try {
          throw id * 2;
        } catch (int n) {
          migrate();
          CHECK(n == id * 2 && m.number == id);
        }
        try {
          throw;  // the outer one
        } catch (const Mistake& again) {
          CHECK(&again == &m && again.data[7] == id);
        }
      }
      CHECK(!std::current_exception());
    };
    ayatori::thread a(work, 10 * i), b(work, 10 * i + 1);
    work(10 * i + 2);
    a.join();
    b.join();
  }
}

CASE(nested_exceptions_over_processes) {
  for (int i = 0; i < kMigrations / 10; ++i) {
    int depth = -1;
    std::string outer;
    try {
      nest(10);
    } catch (const std::exception& e) {
      depth = depth_of(e);
      outer = e.what();
    }
    CHECK(depth == 11 && outer == "level 10");
    migrate();
  }
}

CASE(exception_pointers_travel) {
  for (int i = 0; i < kMigrations; ++i) {
    std::exception_ptr error;
    elsewhere([&] {
      try {
        throw Mistake("kept for later", i);
      } catch (...) {
        error = std::current_exception();
      }
    });
    bool caught = false;
    elsewhere([&] {
      try {
        std::rethrow_exception(std::exchange(error, nullptr));
      } catch (const Mistake& m) {
        caught = m.number == i;
      }
    });
    CHECK(caught && !error);
    migrate();
  }
}

CASE(exceptions_of_parallel_forms_reach_the_caller) {
  for (int i = 0; i < kMigrations / 4; ++i) {
    int caught = 0;
    std::vector<int> done(64);
    try {
      ayatori::parallel_for(0, 64, 1, [&](int k) {
        done[static_cast<std::size_t>(k)] = 1;
        if (k == 17) migrate();
        if (k == 17) throw Mistake("from a parallel_for", k);
      });
    } catch (const Mistake& m) {
      caught = m.number;
    }
    int sum = 0;
    for (const int d : done) sum += d;
    CHECK(caught == 17 && sum == 64);
    try {
      ayatori::parallel_invoke([] { migrate(); }, [] { throw 5; }, [] { throw 6; });
    } catch (int n) {
      caught = n;
    }
    CHECK(caught == 5);
  }
}

CASE(uncaught_exceptions_are_counted_per_thread) {
  struct Probe {
    int* seen;
    ~Probe() {
      int in_child = -1;
      ayatori::thread([&in_child] { in_child = std::uncaught_exceptions(); }).join();  // while this thread unwinds
      migrate();
      *seen = std::uncaught_exceptions() * 10 + in_child;
    }
  };
  for (int i = 0; i < kMigrations; ++i) {
    int seen = 0;
    try {
      Probe probe{&seen};
      throw i;
    } catch (int n) {
      CHECK(n == i);
    }
    CHECK_NOTE(seen == 10, std::to_string(seen));
    CHECK(std::uncaught_exceptions() == 0);
  }
}
