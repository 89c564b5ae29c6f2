// SPDX-License-Identifier: Apache-2.0
// A small fork-join runtime over the simulated machine: deques, inboxes, steals and joins through the very JoinWord and
// Fences of src/tasks/protocol.hpp, in the order in which the real runtime uses them. It runs one Program.
//
// Who uses it: main.cpp. Workers are fibers; the queues stand for the real lock-free ones: an operation is one step.
// R1. A thread is in one place: with one worker (running), in one deque, inbox or placement list (ready), behind a join
//     word or mutex (waiting), or ended. Each change of place is checked against the place before.
// R2. A thread that leaves its worker has its context stored on its own stack first (J2); whoever resumes it owns that
//     stack and finds the context unharmed.
// R3. A hang is seen at once: nothing runs, nothing is ready, and the root has not ended.
// R4. finish_unstolen() only for a thread that has stayed on one worker since its fork and whose parent that worker
//     pops: then nobody else can know the thread's handle yet.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "machine.hpp"
#include "program.hpp"

namespace ayatori::sim {

class Runtime {
 public:
  explicit Runtime(Machine& machine)
      : machine_(machine), scheduler_(machine.scheduler()), fences_(machine, machine.coherence()) {}

  // Runs the program on fresh fibers of the scheduler. False: scheduler().failure() says what broke.
  bool run(const Program& program);
  std::uint64_t steals() const noexcept { return steals_; }

 private:
  static constexpr int kNone = -1;
  static constexpr int kMaxThreads = static_cast<int>(kMaxSlots);
  static constexpr int kMaxWorkers = 3;
  static constexpr int kMaxMutexes = 2;

  enum class Place : std::uint8_t { kUnborn, kRunning, kReady, kWaiting, kEnded, kFreed };

  class Queue {  // bounded by the number of threads; capacity kept from run to run
   public:
    bool empty() const noexcept { return first_ == items_.size(); }
    void push_back(int t) { items_.push_back(t); }
    int pop_back() noexcept {
      const int t = items_.back();
      items_.pop_back();
      if (empty()) clear();
      return t;
    }
    int pop_front() noexcept {
      const int t = items_[first_++];
      if (empty()) clear();
      return t;
    }
    int front() const noexcept { return items_[first_]; }
    void clear() noexcept {
      items_.clear();
      first_ = 0;
    }

   private:
    std::vector<int> items_;
    std::size_t first_ = 0;
  };

  struct Thread {  // a descriptor: outside coherence
    tasks::JoinWord word;
    std::uint64_t ended = dsm::Coherence<Machine>::kUnknownTick;
    SlotIndex slot = gas::kNoSlot;
    std::uint32_t depth = 0;  // used bytes of the stack
    std::size_t next_op = 0;
    int parent = kNone;
    Place place = Place::kUnborn;
    bool stayed = false;             // on one worker since its fork (R4)
    bool acquire_on_resume = false;  // J4
    bool has_context = false;
    std::uint64_t context = 0;
  };
  struct Mutex {
    int holder = kNone;
    int last_process = kNone;
    Queue waiters;
  };
  struct Process {
    Queue deques[kMaxWorkers];
    Queue inbox;   // resumable; may be stolen from
    Queue placed;  // not started; only this process may take them
    std::vector<SlotIndex> free_slots;
  };

  static void worker_entry(void* self, int fiber);
  static void verify_entry(void* self, int fiber);
  void worker(int p, int w);
  void verify();

  int execute(int p, int w, int t);  // until t ends or leaves; returns the thread to go on with, or kNone
  int end(int p, int w, int t);
  int find_work(int p, int w);
  int steal_local(int p, int w);
  int steal_remote(int p);
  int start_placed(int p);
  void resume(int p, int t);
  void save_context(int p, int t);
  void wake(int p, int t);
  void join_passed(int p, int child);
  void allocate_slot(int p, int t);
  void move(int t, Place from, Place to);

  std::uint64_t address(const Variable& v) const;
  std::uint64_t context_address(int t) const;
  PageIndex first_used(int t) const;
  void read(int p, int t, int variable, std::uint64_t expected);
  void write(int p, int variable, std::uint64_t value);
  Thread& thread(int t) noexcept { return threads_[t]; }
  const Thread& thread(int t) const noexcept { return threads_[t]; }
  void fail(const char* format, ...) __attribute__((format(printf, 2, 3)));
  void trace(const char* format, ...) __attribute__((format(printf, 2, 3)));

  Machine& machine_;
  Scheduler& scheduler_;
  tasks::Fences<Machine> fences_;
  const Program* program_ = nullptr;
  Thread threads_[kMaxThreads];
  Process processes_[kMaxProcesses];
  Mutex mutexes_[kMaxMutexes];
  std::vector<std::uint64_t> guarded_;  // a variable each: value of those under a mutex
  std::vector<std::uint8_t> image_;     // the heap as it must be at the end
  int workers_ = 1;
  int running_ = 0, ready_ = 0;
  int ending_ = 0;  // workers in end(): a waiter may be in their hands
  bool over_ = false;
  std::uint64_t steals_ = 0;
};

}  // namespace ayatori::sim
