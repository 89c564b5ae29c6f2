// SPDX-License-Identifier: Apache-2.0
// Memory of peers that UCX reaches by itself (transport.hpp U4, U6): keys, and requests that need no serving.
#include <poll.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "base/check.hpp"
#include "base/clock.hpp"
#include "base/log.hpp"
#include "net/atomics.hpp"
#include "net/pieces.hpp"
#include "net/served/issue.hpp"
#include "net/served/thread_state.hpp"
#include "net/ucx/transport.hpp"

namespace ayatori::net::ucx {

using served::FrameHeader;
using served::FrameKind;
using served::Peer;
using served::Request;
using served::RequestTable;

namespace {

// Of all three the payload is a RegionWord.
constexpr HandlerId kAskHandler = served::kWireHandlers;  // an RPC; the answer: KeyAnswer and the key
constexpr HandlerId kForgetHandler = kAskHandler + 1;
constexpr HandlerId kForgottenHandler = kAskHandler + 2;
static_assert(kForgottenHandler < served::kWireHandlersEnd);

struct KeyAnswer {
  std::uint64_t base;
  std::uint64_t bytes;
  std::uint32_t rights;
  std::uint8_t known;  // KnownRegion::State
  std::uint8_t atomics;
  std::uint16_t key_bytes;
};
static_assert(sizeof(KeyAnswer) == 24);

constexpr ProcessId kNobody = -1;  // of an operation: it is nobody's any more

// Beside the connection, on which nothing may have been read yet.
bool has_hung_up(const UcxPeer& peer) {
  pollfd line{peer.line.socket.fd(), POLLRDHUP, 0};
  return !peer.line.socket || ::poll(&line, 1, 0) != 0;
}

}  // namespace

struct KeyAsk {
  UcxTransport* net;
  UcxPeer* of;
  RegionWord word;
  std::array<std::byte, sizeof(KeyAnswer) + kKeyBytesMax> answer{};

  static void on_answer(void* ask, Completion completion) {
    auto& mine = *static_cast<KeyAsk*>(ask);
    mine.net->learn_key(*mine.of, mine.word.region, completion);
  }
};

UcxPeer::UcxPeer(ProcessId number, const served::FrameLimits& limits, std::size_t request_bytes,
                 std::size_t reply_bytes)
    : Peer(number, limits, request_bytes, reply_bytes, kSegmentBytes, 1), line(limits), inbox(limits) {}
UcxPeer::~UcxPeer() = default;

// --- this process' regions ---

void UcxTransport::set_key_handlers() {
  // An answer with a key is one message.
  const Reaches& reaches = wire_->reaches();
  exposes_ = (reaches.registered.moves || reaches.allocated.moves) &&
             config_.payload_bytes_max >= sizeof(KeyAnswer) + kKeyBytesMax;
  if (!exposes_) return;
  for (std::uint32_t slot = 0; slot < requests_.slots(); ++slot) ops_.push_back(std::make_unique<MemoryOp>());
  op_of_.assign(requests_.slots(), kNobody);
  set_handler(
      kAskHandler, [](void* self, const Message& message) { static_cast<UcxTransport*>(self)->on_ask(message); }, this);
  set_handler(
      kForgetHandler, [](void* self, const Message& message) { static_cast<UcxTransport*>(self)->on_forget(message); },
      this);
  set_handler(
      kForgottenHandler,
      [](void* self, const Message& message) { static_cast<UcxTransport*>(self)->on_forgotten(message); }, this);
}

RegionId UcxTransport::register_memory(void* base, std::size_t bytes, std::uint8_t rights) {
  const RegionId region = ServedTransport::register_memory(base, bytes, rights);
  if (region == kNoRegion || !exposes_) return region;
  std::array<std::byte, kKeyBytesMax> key;
  Reach reach;
  const std::size_t length = (rights & kRemapped) != 0 ? 0 : wire_->expose(region, base, bytes, key, &reach);
  std::lock_guard lock(exposed_mutex_);
  Exposed& exposed = exposed_[region];
  exposed.state = length != 0 ? KnownRegion::State::kReached : KnownRegion::State::kServed;
  exposed.atomics = reach.atomics;
  exposed.rights = rights & kAllRights;
  exposed.base = reinterpret_cast<std::uint64_t>(base);
  exposed.bytes = bytes;
  exposed.key.assign(key.begin(), key.begin() + static_cast<std::ptrdiff_t>(length));
  return region;
}

void UcxTransport::unregister_memory(RegionId region) {
  if (exposes_ && region < served::kRegionsMax) conceal(region);
  ServedTransport::unregister_memory(region);
}

void UcxTransport::conceal(RegionId region) {
  struct Wait {
    UcxTransport& net;
    Exposed& exposed;
  } mine{*this, exposed_[region]};
  RegionWord word{region, 0};
  std::uint64_t told = 0;
  {
    std::lock_guard lock(exposed_mutex_);
    Exposed& exposed = mine.exposed;
    exposed.state = KnownRegion::State::kUnknown;
    exposed.key.clear();
    told = exposed.forgetting = std::exchange(exposed.told, 0);
    word.round = ++exposed.round;
    // Behind the answer with the key, and before any with the next: on_ask() answers under this lock.
    for (std::uint64_t left = told; left != 0; left &= left - 1)
      tell_region(kForgetHandler, wire(peer(std::countr_zero(left))), word);
  }
  const auto forgotten = [](void* wait) {
    const auto& w = *static_cast<Wait*>(wait);
    std::lock_guard lock(w.net.exposed_mutex_);
    std::uint64_t left = w.exposed.forgetting;
    for (; left != 0; left &= left - 1)
      if (!w.net.is_gone(w.net.peer(std::countr_zero(left)))) return false;
    return true;
  };
  if (told != 0 && may_wait() && !wait(forgotten, &mine, kForgetNs))
    base::log_warn("ucx: a peer has not said in {} ms that it forgot region {}", kForgetNs / 1'000'000, region);
  wire_->conceal(region);
}

// The peer hears it once for each time it asked, and answers as often.
void UcxTransport::tell_region(HandlerId handler, UcxPeer& to, const RegionWord& word) {
  FrameHeader header;
  header.kind = FrameKind::kMessage;
  header.handler = handler;
  tell(to, header, &word, sizeof word);
}

// Who sent it, and of which region; nullptr: it makes no sense.
UcxPeer* UcxTransport::teller(const Message& message, RegionWord* word) {
  UcxPeer& from = wire(peer(message.source));
  if (message.size_bytes == sizeof *word) std::memcpy(word, message.payload, sizeof *word);
  if (from.process != self_ && message.size_bytes == sizeof *word && word->region < served::kRegionsMax) return &from;
  accuse(from, "a message about a region that makes no sense");
  return nullptr;
}

void UcxTransport::on_ask(const Message& message) {
  RegionWord word{};
  UcxPeer* const from = teller(message, &word);
  if (from == nullptr) return;
  if (!message.token.wanted()) return accuse(*from, "it asks for a key and does not want it");
  FrameHeader header;
  header.kind = FrameKind::kReply;
  header.slot = message.token.slot;
  header.serial = message.token.serial;
  std::array<std::byte, sizeof(KeyAnswer) + kKeyBytesMax> out;
  std::lock_guard lock(exposed_mutex_);
  Exposed& exposed = exposed_[word.region];
  if (exposed.state != KnownRegion::State::kUnknown) exposed.told |= bit_of(from->process);
  const KeyAnswer answer{exposed.base,    exposed.bytes,
                         exposed.rights,  static_cast<std::uint8_t>(exposed.state),
                         exposed.atomics, static_cast<std::uint16_t>(exposed.key.size())};
  std::memcpy(out.data(), &answer, sizeof answer);
  std::copy(exposed.key.begin(), exposed.key.end(), out.begin() + sizeof answer);
  tell(*from, header, out.data(), sizeof answer + exposed.key.size());
}

void UcxTransport::on_forgotten(const Message& message) {
  RegionWord word{};
  const UcxPeer* const from = teller(message, &word);
  if (from == nullptr) return;
  std::lock_guard lock(exposed_mutex_);
  Exposed& exposed = exposed_[word.region];
  if (exposed.round == word.round) exposed.forgetting &= ~bit_of(from->process);
}

// --- regions of others ---

void UcxTransport::on_forget(const Message& message) {
  RegionWord word{};
  UcxPeer* const from = teller(message, &word);
  if (from == nullptr) return;
  {
    std::lock_guard lock(from->mutex);
    KnownRegion& known = from->regions[word.region];
    if (known.state == KnownRegion::State::kReached) from->old_keys.push_back(std::exchange(known.key, nullptr));
    if (known.state != KnownRegion::State::kAsked) known.state = KnownRegion::State::kUnknown;
    // No request to it is under way, says the contract; one of who breaks it still has its key.
    if (from->first_op == nullptr && from->ops_under_way == 0) drop_old_keys(*from);
  }
  tell_region(kForgottenHandler, *from, word);
}

void UcxTransport::ask_key(UcxPeer& of, RegionId region) {
  auto made = std::make_unique<KeyAsk>(KeyAsk{this, &of, {region, 0}});
  KeyAsk& ask = *made;
  {
    std::lock_guard lock(of.mutex);
    if (of.regions[region].state != KnownRegion::State::kUnknown) return;  // somebody else does
    of.regions[region].state = KnownRegion::State::kAsked;
    of.regions[region].ask = std::move(made);
  }
  RpcParams params;
  params.destination = of.process;
  params.handler = kAskHandler;
  params.payload = &ask.word;
  params.size_bytes = sizeof ask.word;
  params.reply = ask.answer.data();
  params.reply_bytes_max = ask.answer.size();
  params.on_complete = {KeyAsk::on_answer, &ask};
  if (try_rpc_async(params)) return;
  std::lock_guard lock(of.mutex);
  of.regions[region].ask.reset();
  of.regions[region].state = KnownRegion::State::kUnknown;
}

void UcxTransport::learn_key(UcxPeer& of, RegionId region, Completion completion) {
  KeyAnswer answer{};
  count(of.process, 0, 0, -std::uint64_t{completion.reply_bytes});  // no user's
  const bool is_dying = completion.ok() && has_hung_up(of);         // M4
  std::lock_guard lock(of.mutex);
  KnownRegion& known = of.regions[region];
  const std::unique_ptr<KeyAsk> ask = std::move(known.ask);
  known.state = KnownRegion::State::kServed;
  if (!completion.ok()) return;  // the peer is gone, or its answers are too short for a key
  if (completion.reply_bytes >= sizeof answer) std::memcpy(&answer, ask->answer.data(), sizeof answer);
  if (completion.reply_bytes < sizeof answer || completion.reply_bytes != sizeof answer + answer.key_bytes ||
      answer.bytes > kRegionBytesMax || answer.base > kRegionBytesMax)
    return accuse(of, "a key that makes no sense");
  if (answer.known == static_cast<std::uint8_t>(KnownRegion::State::kUnknown))
    known.state = KnownRegion::State::kUnknown;
  if (answer.known != static_cast<std::uint8_t>(KnownRegion::State::kReached)) return;
  AYT_CHECK(polls(), "an answer outside progress");  // L1
  if (is_dying) return;
  std::vector<std::byte> room(kKeyRoomBytes);
  std::memcpy(room.data(), ask->answer.data() + sizeof answer, answer.key_bytes);
  known.key = wire_->learn(of.process, room.data());
  known.state = known.key != nullptr ? KnownRegion::State::kReached : KnownRegion::State::kServed;
  known.atomics = answer.atomics;
  known.rights = answer.rights;
  known.base = answer.base;
  known.bytes = answer.bytes;
}

// --- requests ---

// Whether UCX's copy, whatever its steps, moves whole what has to be (N5).
bool UcxTransport::moves_words(const Alone& request, std::uint64_t base) noexcept {
  const std::uint64_t remote = base + request.remote.offset;
  const auto local = reinterpret_cast<std::uint64_t>(request.local);
  if (request.bytes > kWholeWordBytesMax || (remote - local) % 8 != 0) return true;
  if (remote % 8 != 0) return remote % 8 + request.bytes < 16;  // no whole word in it
  return request.bytes % 8 == 0 || request.bytes < 8;
}

std::optional<bool> UcxTransport::try_alone(const Alone& request) {
  const RegionId region = request.remote.region;
  if (region >= served::kRegionsMax || request.bytes == 0 || is_neighbour(request.process)) return std::nullopt;
  UcxPeer& to = wire(peer(request.process));
  const bool is_atomic = request.kind == Request::Kind::kAtomic;
  KnownRegion::State state{};
  std::uint64_t base = 0;
  std::uint64_t bytes = 0;
  std::uint32_t rights = 0;
  void* key = nullptr;
  {
    std::lock_guard lock(to.mutex);
    const KnownRegion& known = to.regions[region];
    state = known.state;
    if (state == KnownRegion::State::kReached && is_atomic && (known.atomics & mask_of(request.atomic->op)) == 0)
      state = KnownRegion::State::kServed;
    base = known.base;
    bytes = known.bytes;
    rights = known.rights;
    key = known.key;
  }
  if (state == KnownRegion::State::kUnknown) ask_key(to, region);
  if (state != KnownRegion::State::kReached) return std::nullopt;
  if (!is_atomic && !moves_words(request, base)) return std::nullopt;
  // As the target does: served::ServedTransport::place(), apply().
  std::uint32_t needed = kAtomic;
  if (request.kind == Request::Kind::kRead) needed = kReadable;
  if (request.kind == Request::Kind::kWrite) needed = kWritable;
  const std::uint64_t address = base + request.remote.offset;
  if (!in_bounds(request.remote.offset, request.bytes, bytes))
    return complete_now(request.on_complete, {Outcome::kBadAddress, 0, 0});
  if ((rights & needed) != needed) return complete_now(request.on_complete, {Outcome::kNoRights, 0, 0});
  if (is_atomic && address % request.bytes != 0) return complete_now(request.on_complete, {Outcome::kBadAddress, 0, 0});

  const std::uint32_t slot = requests_.take(served::thread_state().stripe);
  if (slot == RequestTable::kNone) return false;
  Request& waits = requests_[slot];
  waits.process.store(request.process, std::memory_order_relaxed);  // released by state
  waits.kind.store(request.kind, std::memory_order_relaxed);
  waits.unanswered.store(true, std::memory_order_release);  // nobody looks at the rest: RequestTable::find()
  waits.on_complete = request.on_complete;
  MemoryOp& op = *ops_[slot];
  op = {};
  op.bytes = request.bytes;
  op.local = request.local;
  op.remote = address;
  op.key = key;
  op.slot = slot;
  op.process = request.process;
  if (is_atomic) {
    op.kind = MemoryOp::Kind::kAtomic;
    op.atomic = request.atomic->op;
    op.width_bytes = request.atomic->width_bytes;
    op.operand = request.atomic->operand;
    op.value = request.atomic->expected;
  } else {
    op.kind = request.kind == Request::Kind::kRead ? MemoryOp::Kind::kRead : MemoryOp::Kind::kWrite;
  }
  const std::uint64_t sent = request.kind == Request::Kind::kWrite ? request.bytes : 0;
  requests_by_ucx_.fetch_add(1, std::memory_order_relaxed);
  return issue(slot, to, {}, sent, [&](served::SendQueue&, const FrameHeader& numbered) {
    if (to.regions[region].key != key) return false;  // unregistered meanwhile: once more
    op.serial = numbered.serial;
    (to.last_op != nullptr ? to.last_op->next : to.first_op) = &op;
    to.last_op = &op;
    return true;
  });
}

// What ends at once waits for the next poll all the same: whoever sends may hold a lock that a completion takes.
void UcxTransport::send_ops(UcxPeer& to) {
  if ((reached_ & bit_of(to.process)) == 0) return;
  MemoryOp* first = nullptr;
  {
    std::lock_guard lock(to.mutex);
    if (to.deaf || !to.open) return;
    first = std::exchange(to.first_op, nullptr);
    to.last_op = nullptr;
  }
  if (first == nullptr) return;
  for (const MemoryOp* each = first; each != nullptr; each = each->next) {
    ++to.ops_under_way;
    op_of_[each->slot] = to.process;
  }
  wire_->operate(to.process, first);
  if (wire_->has_ended()) wire_news_.store(true, std::memory_order_seq_cst);  // Sleepers Z1
}

bool UcxTransport::has_ops(UcxPeer& to) {
  std::lock_guard lock(to.mutex);
  return !to.deaf && (to.first_op != nullptr || to.ops_under_way != 0);
}

std::size_t UcxTransport::end_ops() {
  std::size_t ran = 0;
  wire_news_.store(false, std::memory_order_relaxed);  // whoever sets it has the poll lock, too
  for (MemoryOp* next = wire_->take_ended(); next != nullptr;) {
    const MemoryOp op = *next;  // its slot is given back below
    const std::unique_ptr<MemoryOp> orphan(op.process == kNobody ? next : nullptr);
    next = op.next;
    if (orphan != nullptr) continue;
    UcxPeer& to = wire(peer(op.process));
    --to.ops_under_way;
    op_of_[op.slot] = kNobody;
    if (op.failed && !to.deaf) give_up(to, "UCX could not reach its memory");
    // What failed ends with its peer: before that a flush would think it done.
    if (op.failed || leaving_ || !requests_.claim(op.slot, op.serial)) continue;
    Completion completion;
    if (op.kind == MemoryOp::Kind::kAtomic) completion.value = op.value;
    if (op.kind == MemoryOp::Kind::kRead) count(op.process, 0, 0, op.bytes);
    ++ran;
    complete(op.slot, completion);
  }
  return ran;
}

// --- ends ---

// The polling thread, under the peer's mutex. False: not yet (M3).
bool UcxTransport::let_go(UcxPeer& of) {
  if ((reached_ & bit_of(of.process)) == 0) return true;
  const std::int64_t now_ns = base::real_now_ns();
  if (of.let_go_ns == 0) of.let_go_ns = now_ns;
  const bool is_late = now_ns - of.let_go_ns > kLetGoNs;
  of.first_op = of.last_op = nullptr;
  if (of.ops_under_way == 0) drop_keys(of);  // before their endpoint ends, says UCX
  // What goes to one that left in good order ends by itself.
  if ((!of.left || is_late) && !std::exchange(of.broken_off, true)) {
    wire_->break_off(of.process);
    of.let_go_ns = now_ns;
    return of.ops_under_way == 0;
  }
  if (of.ops_under_way != 0 && !is_late) return false;
  if (of.ops_under_way != 0) {
    // UCX 1.13 forgets atomics that had to wait when their endpoint was closed.
    base::log_warn("ucx: UCX has not given back {} requests to process {}", of.ops_under_way, of.process);
    for (std::size_t slot = 0; slot < ops_.size(); ++slot) {
      if (op_of_[slot] != of.process || ops_[slot]->waits == 0) continue;
      ops_[slot]->process = kNobody;
      static_cast<void>(ops_[slot].release());  // UCX's; end_ops() deletes it if it ever ends
      ops_[slot] = std::make_unique<MemoryOp>();
      op_of_[slot] = kNobody;
      --of.ops_under_way;
    }
    for (KnownRegion& known : of.regions) known.key = nullptr;  // UCX's, too
    of.old_keys.clear();
  }
  return of.ops_under_way == 0;
}

void UcxTransport::drop_old_keys(UcxPeer& of) {
  for (void* const key : std::exchange(of.old_keys, {})) wire_->drop(key);
}

void UcxTransport::drop_keys(UcxPeer& of) {
  for (KnownRegion& known : of.regions) {
    if (known.key != nullptr) wire_->drop(std::exchange(known.key, nullptr));
    known.state = KnownRegion::State::kServed;
  }
  drop_old_keys(of);
}

// Before the wire ends. Nobody else uses the object any more.
void UcxTransport::forget_keys() {
  if (!exposes_) return;
  const void* const before = std::exchange(served::thread_state().polls, this);
  leaving_ = true;
  const std::int64_t end_ns = base::real_now_ns() + 2 * kLetGoNs;
  for (const std::unique_ptr<Peer>& each : peers_) {
    UcxPeer& of = wire(*each);
    if (of.process == self_) continue;
    while (of.ops_under_way != 0 && base::real_now_ns() < end_ns) {
      {
        std::lock_guard lock(of.mutex);
        if (let_go(of)) break;
      }
      wire_->progress(*this);
      end_ops();
    }
    std::lock_guard lock(of.mutex);
    if (of.ops_under_way == 0) drop_keys(of);
  }
  served::thread_state().polls = before;
}

}  // namespace ayatori::net::ucx
