// SPDX-License-Identifier: Apache-2.0
#include "tasks/handlers.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>
#include <unordered_map>
#include <utility>
#include <vector>

#include <ayatori/net/blocking.hpp>
#include "base/check.hpp"
#include "base/clock.hpp"
#include "base/knobs.hpp"
#include "base/log.hpp"
#include "base/shared_lock.hpp"
#include "tasks/runtime.hpp"
#include "ult/current.hpp"

namespace ayatori::tasks::handlers {

// Constant but for `told`.
struct Handler {
  net::Transport* transport;
  net::HandlerId id;
  Function function;
  void* context;
  std::atomic<bool> told{false};  // H6
};

namespace {

using ult::Descriptor;
using ult::Worker;

// On the program's transport; the layer's own (remote.cpp) is another one.
constexpr net::HandlerId kQuestionHandler = net::kTasksHandlers + 32;
constexpr net::HandlerId kAnswerHandler = net::kTasksHandlers + 33;
constexpr net::HandlerId kProbeHandler = net::kTasksHandlers + 34;
constexpr std::int64_t kLookNs = base::kNsPerSecond;
constexpr std::size_t kWaitingBytesMax = std::size_t{64} << 20;  // H7

// What questions and answers begin with.
struct Question {
  std::uint64_t number;
  std::uint32_t handler;
  std::uint32_t padding = 0;
};
struct Answer {
  std::uint64_t number;  // kAllQuestions: of each that waits for the sender
  net::Outcome outcome;
  std::uint8_t padding[7] = {};
};
static_assert(sizeof(Question) == 16 && sizeof(Answer) == 16);
constexpr std::uint64_t kAllQuestions = 0;
struct Late {
  net::ProcessId to;
  Answer answer;
};

// Somebody waits. In the C library's memory; the message, then room for the answer behind it.
struct Ask {
  net::Transport* transport;
  net::MessageParams message;
  std::byte* room;
  std::size_t room_bytes;
  std::uint64_t number;
  Descriptor* thread;             // null: an OS thread
  net::Completion completion;     // published by `parts`
  std::atomic<int> parts{2};      // the message has left; there is an outcome
  std::atomic<bool> done{false};  // of an OS thread
  bool begun;                     // turn given up, and released
  bool accepted;                  // by the transport
};

// Private to the process.
struct State {
  net::Transport* transport = nullptr;                 // constant after the first set()
  std::array<Handler*, net::kHandlersMax> handlers{};  // constant when the transport has started

  base::SharedLock lock;
  std::int64_t running = 0;                         // Guarded by lock: functions, less the threads that ask (H2).
  ult::Start* first = nullptr;                      // Guarded by lock: they wait for a turn.
  ult::Start* last = nullptr;                       // Guarded by lock.
  std::unordered_map<std::uint64_t, Ask*> waiting;  // Guarded by lock: questions by number.
  std::uint64_t next_number = 1;                    // Guarded by lock.
  std::atomic<std::size_t> waiting_bytes{0};        // of questions that have not begun (H7): a number alone
  std::atomic<int> replies{0};                      // answers under way: a number alone
  std::vector<Late> late;                           // Guarded by lock: outcomes that found no room (H6).
  std::atomic<bool> any_late{false};                // a hint, exact under the lock
  bool looks = false;                               // Guarded by lock: a timer will look for those that are gone (H6).
};
State& state() noexcept {
  static State* const s = new State;  // outlives main: transports use it to the end
  return *s;
}

std::int64_t turns() noexcept {
  static const std::int64_t n = base::knob_int("AYATORI_RPC_THREADS");
  return n;
}

std::byte* room_for(std::size_t bytes) {
  void* const room = std::malloc(bytes);  // not of the space, on whatever thread
  AYT_CHECK(room != nullptr, "no memory for an RPC of {} bytes", bytes);
  return static_cast<std::byte*>(room);
}

// Between two tries of a user-level thread to find room: nobody tells when there is some.
void back_off(int tries) {
  constexpr int kYields = 16;
  constexpr std::int64_t kNapNs = 50'000;
  if (tries < kYields)
    ult::yield();
  else
    ult::sleep(kNapNs << std::min((tries - kYields) / 4, 4));
}

// --- outcomes without an answer; native stacks ---

// Without callback: the transport copies it. False: no room.
bool try_outcome(net::ProcessId to, const Answer& outcome) {
  return state().transport->try_message_async({to, kAnswerHandler, &outcome, sizeof outcome, {}});
}

void keep_late(const Late& late) {
  State& s = state();
  const std::lock_guard guard(s.lock);
  s.late.push_back(late);
  s.any_late.store(true, std::memory_order_relaxed);
}

// Where messages come and functions end; at the latest when the asker looks for those that are gone (H6).
void tell_late() {
  State& s = state();
  if (!s.any_late.load(std::memory_order_relaxed)) return;
  std::vector<Late> all;
  {
    const std::lock_guard guard(s.lock);
    all.swap(s.late);
    s.any_late.store(false, std::memory_order_relaxed);
  }
  for (const Late& late : all)
    if (!try_outcome(late.to, late.answer)) keep_late(late);
}

void tell(net::ProcessId to, std::uint64_t number, net::Outcome outcome) {
  tell_late();
  const Late late{to, {number, outcome}};
  if (!try_outcome(to, late.answer)) keep_late(late);
}

// --- turns (H2); native stacks ---

void come(ult::Start& start) {
  State& s = state();
  s.lock.lock();
  const bool at_once = s.first == nullptr && s.running < turns();
  if (at_once) {
    ++s.running;
  } else {
    start.next = nullptr;
    (s.first != nullptr ? s.last->next : s.first) = &start;
    s.last = &start;
  }
  s.lock.unlock();
  if (at_once) ult::start_here(start);
}

void leave_turn() {
  State& s = state();
  ult::Start* next = nullptr;
  s.lock.lock();
  --s.running;
  if (s.running < turns() && s.first != nullptr) {
    next = s.first;
    s.first = next->next;
    ++s.running;
  }
  s.lock.unlock();
  if (next != nullptr) ult::start_here(*next);
}

// Of a thread that has its answer: there may be more functions than the knob says until others end.
void take_turn(void*) {
  const std::lock_guard guard(state().lock);
  ++state().running;
}

// --- functions ---

void run(ult::Start& start) {
  auto* const arrival = static_cast<Arrival*>(&start);
  if (arrival->question != 0)
    state().waiting_bytes.fetch_sub(sizeof(Arrival) + arrival->bytes, std::memory_order_relaxed);
  arrival->handler->function(arrival->handler->context, *arrival);
  call_native(
      [](void* memory) {
        std::free(memory);
        leave_turn();
        tell_late();
      },
      arrival);
}

void hand_over(Handler& handler, const net::Message& message, std::uint64_t question, std::size_t skip) {
  const std::size_t bytes = message.size_bytes - skip;
  void* room = nullptr;
  if (question == 0) {
    room = room_for(sizeof(Arrival) + bytes);
  } else {  // H7
    std::atomic<std::size_t>& waiting = state().waiting_bytes;
    const std::size_t more = sizeof(Arrival) + bytes;
    const std::size_t before = waiting.fetch_add(more, std::memory_order_relaxed);
    if (before == 0 || before + more <= kWaitingBytesMax) room = std::malloc(more);
    if (room == nullptr) {
      waiting.fetch_sub(more, std::memory_order_relaxed);
      return tell(message.source, question, net::Outcome::kTooLarge);
    }
  }
  auto* const arrival = new (room) Arrival;
  arrival->invoke = run;
  arrival->acquire = message.source != self();  // H4
  arrival->handler = &handler;
  arrival->source = message.source;
  arrival->token = message.token;
  arrival->question = question;
  arrival->bytes = bytes;
  if (bytes != 0) std::memcpy(arrival + 1, message.payload + skip, bytes);
  come(*arrival);
}

// An RPC or message of the transport.
void on_message(void* context, const net::Message& message) {
  auto& handler = *static_cast<Handler*>(context);
  if (!finished()) return hand_over(handler, message, 0, 0);
  base::log_warn_once(handler.told,
                      "process {} sent a message for the threads of handler {} after the run had ended: it is dropped",
                      message.source, handler.id);
}

// What a peer sends is no reason to end: dropped, and told once.
void drop(const net::Message& message) {
  static std::atomic<bool> told{false};
  if (!told.exchange(true, std::memory_order_relaxed))
    base::log_warn("process {} sent a question or an answer of {} bytes that is none: it is dropped", message.source,
                   message.size_bytes);
}

void on_question(void*, const net::Message& message) {
  Question question;
  if (message.size_bytes < sizeof question) return drop(message);
  std::memcpy(&question, message.payload, sizeof question);
  if (question.number == kAllQuestions || message.token.wanted()) return drop(message);
  Handler* const handler = question.handler < net::kHandlersMax ? state().handlers[question.handler] : nullptr;
  if (handler != nullptr && !finished()) return hand_over(*handler, message, question.number, sizeof question);
  tell(message.source, question.number, handler == nullptr ? net::Outcome::kBadAddress : net::Outcome::kPeerFailed);
}

// --- asking ---

void end_part(Ask& a) {
  // acq_rel: what the other part left is seen by who goes on
  if (a.parts.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  if (a.thread != nullptr)
    ult::make_ready(a.thread, true);
  else
    a.done.store(true, std::memory_order_release);  // pairs with the look in ask()
}

// Takes the question to `asked` out of the table: whoever gets it brings its outcome.
Ask* take_ask(std::uint64_t number, net::ProcessId asked) {
  State& s = state();
  const std::lock_guard guard(s.lock);
  const auto found = s.waiting.find(number);
  if (found == s.waiting.end() || found->second->message.destination != asked) return nullptr;
  Ask* const ask = found->second;
  s.waiting.erase(found);
  return ask;
}

void fail(std::uint64_t number, net::ProcessId asked, net::Outcome outcome) {
  Ask* const ask = take_ask(number, asked);
  if (ask == nullptr) return;
  ask->completion = {outcome, 0, 0};
  end_part(*ask);
}

// Of those that `asked` will not answer.
void fail_all(net::ProcessId asked) {
  std::vector<std::uint64_t> lost;
  {
    const std::lock_guard guard(state().lock);
    for (const auto& [number, ask] : state().waiting)
      if (ask->message.destination == asked) lost.push_back(number);
  }
  for (const std::uint64_t number : lost) fail(number, asked, net::Outcome::kPeerFailed);
}

void on_answer(void*, const net::Message& message) {
  Answer answer;
  if (message.size_bytes < sizeof answer) return drop(message);
  std::memcpy(&answer, message.payload, sizeof answer);
  if (answer.outcome > net::Outcome::kPeerFailed) return drop(message);
  tell_late();
  if (answer.number == kAllQuestions) return fail_all(message.source);
  Ask* const ask = take_ask(answer.number, message.source);
  if (ask == nullptr) return;  // given up
  const std::size_t bytes = message.size_bytes - sizeof answer;
  ask->completion.outcome = answer.outcome;
  if (answer.outcome == net::Outcome::kOk && bytes > ask->room_bytes) ask->completion.outcome = net::Outcome::kTooLarge;
  if (ask->completion.ok()) {
    ask->completion.reply_bytes = static_cast<std::uint32_t>(bytes);
    if (bytes != 0) std::memcpy(ask->room, message.payload + sizeof answer, bytes);
  }
  end_part(*ask);
}

void on_sent(void* data, net::Completion completion) {
  auto& a = *static_cast<Ask*>(data);
  if (!completion.ok()) fail(a.number, a.message.destination, completion.outcome);
  end_part(a);
}

// On its way; in the C library's memory, the data behind it.
struct Reply {
  net::ProcessId to;
  Answer head;
};
static_assert(sizeof(Reply) == offsetof(Reply, head) + sizeof(Answer));

// What the asker's process has no memory for fails there too.
void on_answered(void* memory, net::Completion completion) {
  auto* const reply = static_cast<Reply*>(memory);
  if (!completion.ok() && completion.outcome != net::Outcome::kPeerFailed)
    tell(reply->to, reply->head.number, completion.outcome);
  std::free(memory);
  state().replies.fetch_sub(1, std::memory_order_relaxed);
}

bool is_process(net::ProcessId p) noexcept { return p >= 0 && p < net::kMaxProcesses; }

// A peer that is gone, by its own will or not, takes no message (H6).
void on_probed(void* process, net::Completion completion) {
  if (!completion.ok()) fail_all(static_cast<net::ProcessId>(reinterpret_cast<std::intptr_t>(process)));
}

// Somebody there waits for this process. Questions that its run left behind, waiting or begun, are answered here (H6).
void on_probe(void*, const net::Message& message) {
  tell_late();
  // Where there is no room, or an answer is still on its way, the next probe will do.
  if (finished() && state().replies.load(std::memory_order_relaxed) == 0)
    (void)try_outcome(message.source, {kAllQuestions, net::Outcome::kPeerFailed});
}

void probe(net::Transport& transport, net::ProcessId process) {
  (void)transport.try_message_async(
      {process, kProbeHandler, nullptr, 0, {on_probed, reinterpret_cast<void*>(std::intptr_t{process})}});  // NOLINT
}

void look_later(Descriptor* anybody);

bool look_for_lost(Descriptor* anybody, std::uint64_t) {
  State& s = state();
  tell_late();
  std::uint64_t peers = 0;
  {
    const std::lock_guard guard(s.lock);
    for (const auto& [number, ask] : s.waiting)
      if (is_process(ask->message.destination)) peers |= std::uint64_t{1} << ask->message.destination;
    s.looks = peers != 0;
  }
  for (net::ProcessId p = 0; p < net::kMaxProcesses; ++p)
    if ((peers >> p & 1) != 0) probe(*s.transport, p);
  if (peers != 0) look_later(anybody);
  return false;  // nobody waits for the time as such
}

void look_later(Descriptor* anybody) { ult::add_timer(anybody, base::real_now_ns() + kLookNs, look_for_lost, 0); }

// Enters the table. True: somebody must look for those that are gone from now on.
bool enter(Ask& a) {
  State& s = state();
  const std::lock_guard guard(s.lock);
  a.number = s.next_number++;
  std::launder(reinterpret_cast<Question*>(&a + 1))->number = a.number;
  s.waiting.emplace(a.number, &a);
  return a.thread != nullptr && !std::exchange(s.looks, true);
}

void* op_ask(Worker& w, Descriptor* self, void* argument) {
  auto& a = *static_cast<Ask*>(argument);
  const bool elsewhere = a.message.destination != tasks::self();
  if (!a.begun) {
    a.begun = true;
    if (enter(a)) look_later(self);
    leave_turn();                                  // whoever asks: it may be what a function waits for
    if (elsewhere) ult::config().hooks.release();  // H4
  }
  a.accepted = true;
  self->state = ult::ThreadState::kWaiting;
  self->needs_acquire = elsewhere;  // H4
  // From here on it may run elsewhere (U2).
  if (a.transport->try_message_async(a.message)) return ult::schedule(w);
  a.accepted = false;
  self->needs_acquire = false;
  return ult::resume_here(w, self);
}

}  // namespace

void set(net::Transport& transport, net::HandlerId id, Function function, void* context) {
  State& s = state();
  AYT_CHECK(!ult::on_user_thread(), "handlers are set where the transport is opened, on an OS thread");
  AYT_CHECK(id < net::kHandlersMax && s.handlers[id] == nullptr, "handler {} is out of range or taken", id);
  AYT_CHECK(s.transport == nullptr || s.transport == &transport, "handlers of a second transport");
  if (s.transport == nullptr) {
    s.transport = &transport;
    (void)turns();  // not first on a transport's thread
    transport.set_handler(kQuestionHandler, on_question, nullptr);
    transport.set_handler(kAnswerHandler, on_answer, nullptr);
    transport.set_handler(kProbeHandler, on_probe, nullptr);
  }
  s.handlers[id] = new Handler{&transport, id, function, context};
  transport.set_handler(id, on_message, s.handlers[id]);
}

net::HandlerId number_of(const Arrival& arrival) noexcept { return arrival.handler->id; }

void answer(const Arrival& arrival, const void* data, std::size_t bytes) {
  struct Sending {
    const Arrival& arrival;
    net::MessageParams message;
    bool released = false;
    bool accepted = false;
  };
  auto* const reply =
      new (room_for(sizeof(Reply) + bytes)) Reply{arrival.source, {arrival.question, net::Outcome::kOk}};
  if (bytes != 0) std::memcpy(static_cast<void*>(reply + 1), data, bytes);
  state().replies.fetch_add(1, std::memory_order_relaxed);
  auto* const sending = new (room_for(sizeof(Sending)))
      Sending{arrival, {arrival.source, kAnswerHandler, &reply->head, sizeof(Answer) + bytes, {on_answered, reply}}};
  const auto send = [](void* argument) {
    auto& s = *static_cast<Sending*>(argument);
    if (!std::exchange(s.released, true) && s.arrival.source != self()) ult::config().hooks.release();  // H4
    net::Transport& transport = *s.arrival.handler->transport;
    if (s.arrival.question != 0) {
      s.accepted = transport.try_message_async(s.message);
      return;
    }
    const auto* const answer = static_cast<const std::byte*>(s.message.payload);
    const std::size_t length = s.message.size_bytes - sizeof(Answer);
    // A reply of the transport carries no outcome.
    if (length > transport.limits().payload_bytes_max)
      base::fatal(
          "the handler {} of ayatori::on_rpc answers an RPC of the transport with {} bytes, {} are possible: "
          "more by ayatori::call_rpc()",
          s.arrival.handler->id, length, transport.limits().payload_bytes_max);
    transport.reply(s.arrival.token, answer + sizeof(Answer), length);
    s.message.on_complete({});
    s.accepted = true;
  };
  for (int tries = 0;; ++tries) {
    call_native(send, sending);
    if (sending->accepted) break;
    back_off(tries);
  }
  std::free(sending);
}

net::Completion ask(net::Transport& transport, net::ProcessId to, net::HandlerId handler, const void* payload,
                    std::size_t bytes, void* reply, std::size_t reply_bytes_max) {
  AYT_CHECK(state().transport == &transport, "call_rpc() needs an on_rpc() of the same transport in each process");
  Descriptor* const self = ult::on_user_thread() ? ult::current_thread() : nullptr;
  if (self != nullptr) ++self->pins;                                               // the transport is this process'
  reply_bytes_max = std::min(reply_bytes_max, transport.limits().long_bytes_max);  // no answer is longer
  auto* const a = new (room_for(sizeof(Ask) + sizeof(Question) + bytes + reply_bytes_max)) Ask{};
  auto* const question = new (a + 1) Question{0, handler};
  auto* const at = reinterpret_cast<std::byte*>(question + 1);
  if (bytes != 0) std::memcpy(at, payload, bytes);
  a->transport = &transport;
  a->message = {to, kQuestionHandler, question, sizeof *question + bytes, {on_sent, a}};
  a->room = at + bytes;
  a->room_bytes = reply_bytes_max;
  a->thread = self;
  if (self != nullptr) {
    for (int tries = 0;; ++tries) {
      ult::on_native(op_ask, a);
      if (a->accepted) break;
      back_off(tries);
    }
    call_native(take_turn, nullptr);
    --self->pins;
  } else {
    enter(*a);
    leave_turn();  // H2
    net::until_taken(transport, [&] { return transport.try_message_async(a->message); });
    const auto done = [&] { return a->done.load(std::memory_order_acquire); };  // pairs with end_part()
    while (!net::wait_until(transport, done, kLookNs)) {
      probe(transport, to);
      tell_late();
    }
    take_turn(nullptr);
  }
  const net::Completion completion = a->completion;
  if (completion.ok() && completion.reply_bytes != 0) std::memcpy(reply, a->room, completion.reply_bytes);
  std::free(a);
  return completion;
}

}  // namespace ayatori::tasks::handlers
