// SPDX-License-Identifier: Apache-2.0
#include "net/sim/script.hpp"

#include "base/check.hpp"

namespace ayatori::net::sim {

void Scripts::run(SimWorld& world, const std::function<void(SimTransport&)>& body) {
  Scripts scripts(world);
  for (ProcessId p = 0; p < world.params().processes; ++p) scripts.scripts_.push_back(std::make_unique<Script>());
  world.set_scripts(&scripts);
  for (ProcessId p = 0; p < world.params().processes; ++p) {
    Script& script = *scripts.scripts_[static_cast<std::size_t>(p)];
    script.thread = std::thread([&scripts, &script, &world, &body, p] {
      {
        std::unique_lock lock(scripts.mutex_);
        script.resume.wait(lock, [&] { return script.state == State::kRunning; });
      }
      try {
        if (world.alive(p)) body(world.transport(p));
      } catch (const SimKilled&) {  // Q3
      } catch (...) {
        script.error = std::current_exception();
      }
      std::lock_guard lock(scripts.mutex_);
      script.state = State::kDone;
      scripts.back_.notify_one();
    });
  }
  scripts.schedule();
  for (auto& script : scripts.scripts_) script->thread.join();
  world.set_scripts(nullptr);
  for (auto& script : scripts.scripts_)
    if (script->error) std::rethrow_exception(script->error);
}

void Scripts::resume(Script& script) {
  std::unique_lock lock(mutex_);
  script.state = State::kRunning;
  script.resume.notify_one();
  back_.wait(lock, [&] { return script.state != State::kRunning; });
}

void Scripts::schedule() {
  for (std::uint64_t turns = 0;; ++turns) {
    AYT_CHECK(turns <= world_.params().steps_max, "simulation: the scripts poll without end (seed {})",
              world_.params().seed);
    std::vector<Script*> ready;
    bool done = true;
    for (std::size_t p = 0; p < scripts_.size(); ++p) {
      Script& script = *scripts_[p];  // no script runs now: unguarded
      done = done && script.state == State::kDone;
      const bool killed = !world_.alive(static_cast<ProcessId>(p)) && script.state == State::kWaiting;  // Q3
      if (script.state == State::kReady || killed) ready.push_back(&script);
    }
    if (done) return;
    const bool events = world_.events_waiting() != 0;
    AYT_CHECK(events || !ready.empty(), "simulation: all processes wait for what never comes (seed {})",
              world_.params().seed);  // Q2
    if (!ready.empty() && (!events || world_.coin())) {
      resume(*ready[world_.random(ready.size())]);
      continue;
    }
    world_.step();
    Script& script = *scripts_[static_cast<std::size_t>(world_.last_process())];
    if (script.state == State::kWaiting) script.state = State::kReady;
  }
}

void Scripts::switch_out(ProcessId process, State state) {
  Script& script = *scripts_[static_cast<std::size_t>(process)];
  {
    std::unique_lock lock(mutex_);
    script.state = state;
    back_.notify_one();
    script.resume.wait(lock, [&] { return script.state == State::kRunning; });
  }
  if (!world_.alive(process)) throw SimKilled{};
}

}  // namespace ayatori::net::sim
