// SPDX-License-Identifier: Apache-2.0
#include "runtime.hpp"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstring>

namespace ayatori::sim {

namespace {
constexpr std::uint32_t kRedZoneBytes = 128;
constexpr std::uint32_t kContextBytes = 16;  // below the stack pointer; the lower word holds the saved context
}  // namespace

// ---------------------------------------------------------------- a run

bool Runtime::run(const Program& program) {
  program_ = &program;
  workers_ = machine_.shape().workers;
  over_ = false;
  running_ = ready_ = ending_ = 0;
  steals_ = 0;
  guarded_.assign(program.variables.size(), 0);
  for (Thread& t : threads_) {
    t.~Thread();
    new (&t) Thread;
  }
  for (Mutex& m : mutexes_) {
    m.holder = m.last_process = kNone;
    m.waiters.clear();
  }
  for (Process& p : processes_) {
    for (Queue& q : p.deques) q.clear();
    p.inbox.clear();
    p.placed.clear();
    p.free_slots.clear();
  }
  const int processes = machine_.shape().processes;
  for (std::size_t s = machine_.shape().slots; s-- > 0;)
    processes_[s % static_cast<std::size_t>(processes)].free_slots.push_back(static_cast<SlotIndex>(s));

  // The root starts at process 0, as a thread whose slot that process owns.
  thread(0).slot = processes_[0].free_slots.back();
  processes_[0].free_slots.pop_back();
  thread(0).depth = 32;
  thread(0).place = Place::kRunning;
  running_ = 1;
  for (int i = 0; i < processes * workers_; ++i) scheduler_.spawn(worker_entry, this);
  if (!scheduler_.run()) return false;
  scheduler_.spawn(verify_entry, this);
  return scheduler_.run();
}

void Runtime::worker_entry(void* self, int fiber) {
  auto& r = *static_cast<Runtime*>(self);
  const int p = fiber / r.workers_;
  r.machine_.serve(p);
  r.worker(p, fiber % r.workers_);
}

void Runtime::verify_entry(void* self, int) { static_cast<Runtime*>(self)->verify(); }

void Runtime::worker(int p, int w) {
  int current = p == 0 && w == 0 ? 0 : kNone;
  while (!over_) {
    if (current == kNone) {
      current = find_work(p, w);
      if (current == kNone) {
        if (running_ == 0 && ready_ == 0 && ending_ == 0 && !over_)
          fail("hang: no thread runs or is ready, the root has not ended");  // R3
        scheduler_.idle();
        continue;
      }
      scheduler_.busy();
      resume(p, current);
    }
    current = execute(p, w, current);
  }
}

// After the end: everything is released, then every process sees the same memory.
void Runtime::verify() {
  if (!machine_.quiet()) fail("a lock is held at the end");
  const Shape& shape = machine_.shape();
  for (std::size_t t = 0; t < program_->threads.size(); ++t)
    if (thread(static_cast<int>(t)).place != (t == 0 ? Place::kEnded : Place::kFreed))
      fail("thread %zu is left over", t);
  for (int p = 0; p < shape.processes; ++p) fences_.give(p);
  image_.assign(shape.heap_pages * gas::kPageBytes, 0);
  const auto put = [&](int i, std::uint64_t value) {
    const Variable& v = program_->variables[static_cast<std::size_t>(i)];
    std::memcpy(image_.data() + v.offset, &value, v.bytes);
  };
  for (const int v : program_->heap_variables) put(v, program_->variables[static_cast<std::size_t>(v)].value);
  for (const int v : program_->mutex_variables) put(v, guarded_[static_cast<std::size_t>(v)]);
  const auto first = static_cast<PageIndex>(machine_.heap_first() / gas::kPageBytes);
  for (PageIndex page = 0; page < shape.heap_pages; ++page) {
    const auto* at =
        reinterpret_cast<const std::uint8_t*>(machine_.page_in(machine_.owner_of(first + page), first + page));
    const std::uint8_t* expected = image_.data() + page * gas::kPageBytes;
    for (std::size_t i = 0; i < gas::kPageBytes; ++i)
      if (at[i] != expected[i])
        fail("at the end byte %zu of heap page %u is %u at its owner, not %u", i, page, at[i], expected[i]);
  }
  for (int p = 0; p < shape.processes; ++p) {
    machine_.serve(p);
    fences_.take(p);
    for (const int v : program_->heap_variables) read(p, 0, v, program_->variables[static_cast<std::size_t>(v)].value);
    for (const int v : program_->mutex_variables) read(p, 0, v, guarded_[static_cast<std::size_t>(v)]);
  }
  if (!machine_.quiet()) fail("a lock is held at the end");
}

// ---------------------------------------------------------------- memory

std::uint64_t Runtime::address(const Variable& v) const {
  if (v.thread < 0) return machine_.heap_first() + v.offset;
  return machine_.slot_end(thread(v.thread).slot) - v.offset;
}

std::uint64_t Runtime::context_address(int t) const {
  return machine_.slot_end(thread(t).slot) - thread(t).depth - kContextBytes;
}

PageIndex Runtime::first_used(int t) const {
  const std::uint64_t low = machine_.slot_end(thread(t).slot) - thread(t).depth - kContextBytes - kRedZoneBytes;
  return static_cast<PageIndex>(low / gas::kPageBytes);
}

void Runtime::read(int p, int t, int variable, std::uint64_t expected) {
  const Variable& v = program_->variables[static_cast<std::size_t>(variable)];
  const std::uint64_t value = machine_.load(p, address(v), v.bytes);
  if (value != expected)
    fail("thread %d on process %d reads %llx from variable %d of %s %d, page %llu offset %llu; legal is %llx", t, p,
         static_cast<unsigned long long>(value), variable, v.thread < 0 ? "heap" : "thread", v.thread,
         static_cast<unsigned long long>(address(v) / gas::kPageBytes),
         static_cast<unsigned long long>(address(v) % gas::kPageBytes), static_cast<unsigned long long>(expected));
}

void Runtime::write(int p, int variable, std::uint64_t value) {
  const Variable& v = program_->variables[static_cast<std::size_t>(variable)];
  trace("  p%d write variable %d page %llu offset %llu = %llx", p, variable,
        static_cast<unsigned long long>(address(v) / gas::kPageBytes),
        static_cast<unsigned long long>(address(v) % gas::kPageBytes), static_cast<unsigned long long>(value));
  // What a parent leaves on the stack of a thread to be is sometimes put there by the runtime, past the user view: the
  // page is used, but not mapped (C3, P5).
  if (v.thread > 0 && thread(v.thread).place == Place::kUnborn && scheduler_.random().percent(40)) {
    const std::uint64_t at = address(v);
    std::memcpy(machine_.page_in(p, static_cast<PageIndex>(at / gas::kPageBytes)) + at % gas::kPageBytes, &value,
                v.bytes);
    return;
  }
  machine_.store(p, address(v), v.bytes, value);
}

// A slot of this process's free ones, or a dead one of another process.
void Runtime::allocate_slot(int p, int t) {
  std::vector<SlotIndex>& own = processes_[p].free_slots;
  const bool elsewhere = scheduler_.random().percent(30);
  if (!own.empty() && !elsewhere) {
    thread(t).slot = own.back();
    own.pop_back();
    return;
  }
  const int n = machine_.shape().processes;
  const int first = scheduler_.random().between(0, n - 1);
  for (int i = 0; i < n; ++i) {
    const int q = (first + i) % n;
    std::vector<SlotIndex>& theirs = processes_[q].free_slots;
    if (theirs.empty()) continue;
    thread(t).slot = theirs.back();
    theirs.pop_back();
    if (q == p) return;
    machine_.lock_both(p, q);
    machine_.coherence().take_dead_slot(thread(t).slot, q, p);
    machine_.unlock_both(p, q);
    return;
  }
  fail("no slot is left");
}

// ---------------------------------------------------------------- places of threads

void Runtime::move(int t, Place from, Place to) {
  Thread& d = thread(t);
  if (d.place != from)
    fail("thread %d goes to place %d from %d, not from %d", t, static_cast<int>(to), static_cast<int>(d.place),
         static_cast<int>(from));  // R1
  running_ += (to == Place::kRunning) - (from == Place::kRunning);
  ready_ += (to == Place::kReady) - (from == Place::kReady);
  d.place = to;
}

void Runtime::save_context(int p, int t) {
  Thread& d = thread(t);
  d.context = scheduler_.random().next();
  d.has_context = true;
  machine_.store(p, context_address(t), 8, d.context);
}

void Runtime::resume(int p, int t) {
  Thread& d = thread(t);
  if (d.acquire_on_resume) {  // J4
    d.acquire_on_resume = false;
    fences_.take(p);
  }
  if (machine_.slot_owner(d.slot) != p) fail("thread %d is resumed by process %d, its stack is elsewhere", t, p);
  if (!d.has_context) return;
  d.has_context = false;
  if (machine_.load(p, context_address(t), 8) != d.context) fail("the saved context of thread %d is damaged", t);
}

// Something at process p made the waiting thread t resumable: it goes to the process that holds its stack.
void Runtime::wake(int p, int t) {
  Thread& d = thread(t);
  const int home = machine_.slot_owner(d.slot);
  if (home != p) {
    fences_.give(p);
    d.acquire_on_resume = true;
  }
  scheduler_.point();
  trace("p%d wakes thread %d at p%d", p, t, home);
  move(t, Place::kWaiting, Place::kReady);
  processes_[home].inbox.push_back(t);
}

// ---------------------------------------------------------------- work

int Runtime::find_work(int p, int w) {
  Process& mine = processes_[p];
  scheduler_.point();
  if (scheduler_.random().percent(10)) machine_.coherence().drop_idle(p);
  const bool inbox_first = scheduler_.random().percent(30);
  for (int turn = 0; turn < 2; ++turn) {
    if ((turn == 0) != inbox_first && !mine.deques[w].empty()) {
      const int t = mine.deques[w].pop_back();
      move(t, Place::kReady, Place::kRunning);
      thread(t).stayed = false;  // it left its worker: others may have run since
      return t;
    }
    if ((turn == 0) == inbox_first && !mine.inbox.empty()) {
      const int t = mine.inbox.pop_front();
      move(t, Place::kReady, Place::kRunning);
      return t;
    }
  }
  if (const int t = start_placed(p); t != kNone) return t;
  if (scheduler_.random().percent(50))
    if (const int t = steal_local(p, w); t != kNone) return t;
  return steal_remote(p);
}

int Runtime::steal_local(int p, int w) {  // P11: no fence
  for (int i = 0; i < workers_; ++i) {
    if (i == w || processes_[p].deques[i].empty()) continue;
    const int t = processes_[p].deques[i].pop_front();
    move(t, Place::kReady, Place::kRunning);
    thread(t).stayed = false;
    trace("p%d.%d steals thread %d from its sibling", p, w, t);
    return t;
  }
  return kNone;
}

int Runtime::steal_remote(int p) {
  if (machine_.shape().processes == 1) return kNone;
  int victim = scheduler_.random().between(0, machine_.shape().processes - 2);
  if (victim >= p) ++victim;
  Process& v = processes_[victim];
  const int which = scheduler_.random().between(0, workers_);
  Queue& from = which == workers_ ? v.inbox : v.deques[which];
  if (from.empty()) return kNone;
  int stolen = kNone;
  fences_.steal(
      victim, p,
      [&](SlotIndex* slot, PageIndex* used) {
        scheduler_.point();
        if (from.empty()) return false;
        stolen = from.pop_front();
        Thread& d = thread(stolen);
        move(stolen, Place::kReady, Place::kRunning);
        d.acquire_on_resume = false;  // the thief's own acquire covers it (J4)
        d.stayed = false;
        if (machine_.slot_owner(d.slot) != victim) fail("thread %d is queued where its stack is not", stolen);
        trace("p%d steals thread %d from p%d%s", p, stolen, victim, which == workers_ ? " (inbox)" : "");
        *slot = d.slot;
        *used = first_used(stolen);
        ++steals_;
        return true;
      },
      [&](SlotIndex, PageIndex used, PageIndex end) {
        if (used < end) machine_.map_write(p, used, end - used);
      });
  return stolen;
}

// A thread forked for this process: its new stack moves like a stolen one.
int Runtime::start_placed(int p) {
  Process& mine = processes_[p];
  if (mine.placed.empty()) return kNone;
  const int t = mine.placed.pop_front();
  move(t, Place::kReady, Place::kRunning);
  const int from = machine_.slot_owner(thread(t).slot);
  trace("p%d starts thread %d placed by p%d", p, t, from);
  if (from == p) return t;
  fences_.steal(
      from, p,
      [&](SlotIndex* slot, PageIndex* used) {
        *slot = thread(t).slot;
        *used = first_used(t);
        return true;
      },
      [&](SlotIndex, PageIndex used, PageIndex end) {
        if (used < end) machine_.map_write(p, used, end - used);
      });
  return t;
}

// ---------------------------------------------------------------- execution

int Runtime::end(int p, int w, int t) {
  trace("p%d.%d thread %d ends", p, w, t);
  if (t == 0) {
    move(t, Place::kRunning, Place::kEnded);
    over_ = true;
    return kNone;
  }
  Queue& deque = processes_[p].deques[w];
  scheduler_.point();
  int next = kNone;
  if (!deque.empty()) {
    next = deque.pop_back();
    move(next, Place::kReady, Place::kRunning);
    resume(p, next);
    scheduler_.point();
  }
  ++ending_;
  move(t, Place::kRunning, Place::kEnded);
  if (next != kNone && next == thread(t).parent && thread(t).stayed) {
    thread(t).word.finish_unstolen(tasks::JoinWord::done_at(p));  // R4
    --ending_;
    return next;
  }
  if (next != kNone) thread(next).stayed = false;
  thread(t).ended = fences_.tick();
  const std::uint64_t waiter = thread(t).word.finish(p);
  if (waiter != 0 && !machine_.bug(Bug::kDroppedWake)) wake(p, static_cast<int>(waiter / 2) - 2);  // J3
  --ending_;
  return next;
}

// Thread `child` has ended; the joiner runs at p.
void Runtime::join_passed(int p, int child) {
  fences_.pass(tasks::JoinWord::process_of(thread(child).word.load()), p, thread(child).ended);
}

int Runtime::execute(int p, int w, int t) {
  const std::vector<Op>& ops = program_->threads[static_cast<std::size_t>(t)];
  Thread& me = thread(t);
  for (;;) {
    scheduler_.point();
    if (me.next_op == ops.size()) return end(p, w, t);
    const Op op = ops[me.next_op++];
    switch (op.kind) {
      case Op::kRead: read(p, t, op.target, op.value); break;
      case Op::kWrite: write(p, op.target, op.value); break;
      case Op::kCall: me.depth += static_cast<std::uint32_t>(op.value); break;
      case Op::kReturn: me.depth -= static_cast<std::uint32_t>(op.value); break;
      case Op::kCompute:
        for (std::uint64_t i = 0; i < op.value; ++i) scheduler_.point();
        break;
      case Op::kAllocate:
        allocate_slot(p, op.target);
        thread(op.target).depth = 32;
        thread(op.target).parent = t;
        thread(op.target).word.reset();
        thread(op.target).ended = dsm::Coherence<Machine>::kUnknownTick;
        break;
      case Op::kFork: {
        Thread& child = thread(op.target);
        trace("p%d.%d thread %d forks %d in slot %u", p, w, t, op.target, child.slot);
        save_context(p, t);
        move(op.target, Place::kUnborn, Place::kRunning);
        child.stayed = true;
        move(t, Place::kRunning, Place::kReady);
        processes_[p].deques[w].push_back(t);
        return op.target;
      }
      case Op::kForkOn:
        trace("p%d.%d thread %d forks %d in slot %u on p%d", p, w, t, op.target, thread(op.target).slot,
              static_cast<int>(op.value));
        move(op.target, Place::kUnborn, Place::kReady);
        processes_[op.value].placed.push_back(op.target);
        break;
      case Op::kJoin: {
        Thread& child = thread(op.target);
        if (!tasks::JoinWord::is_done(child.word.load())) {
          scheduler_.point();
          save_context(p, t);
          move(t, Place::kRunning, Place::kWaiting);
          me.stayed = false;
          const std::uint64_t word = child.word.wait(static_cast<std::uint64_t>(t + 2) * 2);  // J2
          if (word == tasks::JoinWord::kRunning) {
            trace("p%d.%d thread %d waits for %d", p, w, t, op.target);
            return kNone;
          }
          if (!tasks::JoinWord::is_done(word)) fail("two threads join thread %d", op.target);
          move(t, Place::kWaiting, Place::kRunning);
          me.has_context = false;
        }
        join_passed(p, op.target);
        break;
      }
      case Op::kReap: {
        Thread& child = thread(op.target);
        move(op.target, Place::kEnded, Place::kFreed);
        processes_[machine_.slot_owner(child.slot)].free_slots.push_back(child.slot);
        break;
      }
      case Op::kYield:
        save_context(p, t);
        me.stayed = false;
        move(t, Place::kRunning, Place::kReady);
        processes_[p].inbox.push_back(t);
        return kNone;
      case Op::kLock: {
        Mutex& m = mutexes_[op.target];
        if (m.holder != kNone) {
          save_context(p, t);
          if (m.holder != kNone) {
            me.stayed = false;
            move(t, Place::kRunning, Place::kWaiting);
            m.waiters.push_back(t);
            return kNone;
          }
          me.has_context = false;
        }
        m.holder = t;
        const int last = m.last_process;
        if (last != kNone) fences_.pass(last, p);
        break;
      }
      case Op::kBump: {
        std::uint64_t& value = guarded_[op.target];
        read(p, t, op.target, value);
        const int bytes = program_->variables[op.target].bytes;
        value += op.value;
        if (bytes < 8) value &= (std::uint64_t{1} << (8 * bytes)) - 1;
        write(p, op.target, value);
        break;
      }
      case Op::kUnlock: {
        Mutex& m = mutexes_[op.target];
        if (m.holder != t) fail("mutex %d is not held by thread %d", op.target, t);
        m.last_process = p;
        m.holder = kNone;
        if (m.waiters.empty()) break;
        m.holder = m.waiters.pop_front();
        wake(p, m.holder);
        break;
      }
    }
  }
}

void Runtime::fail(const char* format, ...) {
  char text[256];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof(text), format, arguments);
  va_end(arguments);
  scheduler_.fail(text);
}

void Runtime::trace(const char* format, ...) {
  if (!machine_.shape().trace) return;
  char text[256];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof(text), format, arguments);
  va_end(arguments);
  std::printf("%s\n", text);
}

}  // namespace ayatori::sim
