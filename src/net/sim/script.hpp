// SPDX-License-Identifier: Apache-2.0
// Blocking code on a SimWorld: one script per process, each on an OS thread of its own of which exactly one runs at a
// time, chosen by the seed. For tests of code that waits; protocol machines run without (world.step()).
//
// Q1. A script runs until it waits or polls; then an event or another ready script is chosen. So a run follows from the
//     seed as without scripts (V1).
// Q2. A script that waits becomes ready after an event at its process. When all wait and no event is left, the run has
//     deadlocked: a check that names the seed.
// Q3. A killed process' script ends by SimKilled, thrown out of its next wait or poll; what it holds is unwound.
#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "net/sim/transport.hpp"
#include "net/sim/world.hpp"

namespace ayatori::net::sim {

struct SimKilled {};

class Scripts {
 public:
  // Runs body(transport) for every process to its end; rethrows the first exception that left one (not SimKilled).
  static void run(SimWorld& world, const std::function<void(SimTransport&)>& body);

  // For SimTransport, on the running script's thread.
  void yield(ProcessId process) { switch_out(process, State::kReady); }
  void block(ProcessId process) { switch_out(process, State::kWaiting); }

 private:
  enum class State { kReady, kRunning, kWaiting, kDone };
  struct Script {
    State state = State::kReady;
    std::condition_variable resume;
    std::exception_ptr error;
    std::thread thread;
  };

  explicit Scripts(SimWorld& world) : world_(world) {}
  void schedule();
  void resume(Script& script);
  void switch_out(ProcessId process, State state);

  SimWorld& world_;
  std::mutex mutex_;
  std::condition_variable back_;                  // to the scheduler
  std::vector<std::unique_ptr<Script>> scripts_;  // Guarded by mutex_.
};

inline void run_scripts(SimWorld& world, const std::function<void(SimTransport&)>& body) { Scripts::run(world, body); }

}  // namespace ayatori::net::sim
