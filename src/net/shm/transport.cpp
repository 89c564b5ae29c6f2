// SPDX-License-Identifier: Apache-2.0
#include "net/shm/transport.hpp"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/uio.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include "base/check.hpp"
#include "base/clock.hpp"
#include "base/futex.hpp"
#include "net/atomics.hpp"
#include "net/completions.hpp"
#include "net/copy.hpp"
#include "net/pieces.hpp"
#include "net/shm/thread_state.hpp"

namespace ayatori::net::shm {
namespace {

[[gnu::noinline]] ThreadState& make_thread_state() {
  thread_local ThreadState state;
  own_thread_state = &state;
  if (state.number != ThreadState::kNoNumber) short_way_thread = &state;
  return state;
}

// Without the guard of a thread_local that has a destructor: this is on the way of every request.
ThreadState& thread_state() {
  ThreadState* const state = own_thread_state;
  return state != nullptr ? *state : make_thread_state();
}

// While it lives, progress() does nothing on this thread.
class ProgressScope {
 public:
  explicit ProgressScope(ThreadState& state) : state_(state) { state_.in_progress = true; }
  ~ProgressScope() { state_.in_progress = false; }
  ProgressScope(const ProgressScope&) = delete;
  ProgressScope& operator=(const ProgressScope&) = delete;

 private:
  ThreadState& state_;
};

void close_words(RegionEntry& entry) noexcept {
  entry.readable_words.store(0, std::memory_order_release);
  entry.writable_words.store(0, std::memory_order_release);
}

}  // namespace

// --- on the way of every request: inlined into each, fields by value (a copied address would wait for the stores that made it) ---

static_assert(ShmTransport::kStripes == ThreadState::kNumbers + 1);

inline Outcome ShmTransport::resolve_region(ProcessId process, RegionId region, std::uint8_t rights,
                                            const RegionEntry** entry) const noexcept {
  if (process < 0 || process >= world_.config().processes || region >= kRegionsMax) return Outcome::kBadAddress;
  if (world_.standing(process) != Standing::kMember) return Outcome::kPeerFailed;
  *entry = &world_.member(process).regions[region];
  const std::uint32_t granted = (*entry)->rights.load(std::memory_order_acquire);  // pairs with register_memory()
  if (granted == 0) return Outcome::kBadAddress;
  return (granted & rights) == rights ? Outcome::kOk : Outcome::kNoRights;
}

inline Outcome ShmTransport::resolve(ProcessId process, RegionId region, std::uint64_t offset, std::size_t bytes,
                                     std::uint8_t rights, std::byte** memory) const noexcept {
  const RegionEntry* entry = nullptr;
  const Outcome outcome = resolve_region(process, region, rights, &entry);
  if (outcome != Outcome::kOk && outcome != Outcome::kNoRights) return outcome;
  if (!in_bounds(offset, bytes, entry->bytes)) return Outcome::kBadAddress;
  *memory = entry->base + offset;
  return outcome;
}

inline bool ShmTransport::has_room(const Callback& callback) const noexcept {
  return callback.function == nullptr ||
         thread_state().completions.has_room(callback, world_.config().nested_completions_max);
}

inline bool ShmTransport::complete_now(const Callback& callback, Completion completion) {
  if (callback.function == nullptr) return true;
  Completions& completions = thread_state().completions;
  if (!completions.has_room(callback, world_.config().nested_completions_max)) return false;
  completions.run(callback, completion);
  return true;
}

// A thread with a number has its stripe alone.
inline void ShmTransport::count(unsigned number, ProcessId peer, std::uint64_t messages, std::uint64_t sent,
                                std::uint64_t received) noexcept {
  if (peer == self_) return;
  stripes_[number].add(messages, sent, received, number != ThreadState::kNoNumber);
}

ShmTransport::ShmTransport(ShmWorld& world, ProcessId self, const ShmOptions& options)
    : world_(world),
      self_(self),
      member_(world.member(self)),
      options_(options),
      ring_(world.ring(self)),
      pending_(std::make_unique<Pending[]>(world.config().rpcs_max)),
      services_(
          *this,
          [](Transport& of, HandlerId id, const Message& message) {
            static_cast<ShmTransport&>(of).deliver(id, message);
          },
          Letters(
              world.letters(), world.config().processes, self,
              [](void* of, ProcessId to) { static_cast<ShmTransport*>(of)->rouse(to); }, this)) {
  AYT_CHECK(self >= 0 && self < world.config().processes, "process {} of {}", self, world.config().processes);
  for (std::size_t p = 0; p < word_regions_.size(); ++p) word_regions_[p] = (&world.member(0) + p)->regions;  // W6
  static constinit const std::array<RegionEntry, kRegionsMax> kNone{};
  word_regions_[static_cast<std::size_t>(self)] = kNone.data();
  for (std::uint32_t first = 0; first < kRpcsLimit; first += 64) {
    const std::uint32_t here = std::clamp<std::int64_t>(std::int64_t{world.config().rpcs_max} - first, 0, 64);
    // relaxed: before threads exist
    taken_slots_[first / 64].store(here == 64 ? 0 : ~std::uint64_t{0} << here, std::memory_order_relaxed);
  }
  if (options.deliver != nullptr) member_.by_descriptor.store(1, std::memory_order_relaxed);  // before it sleeps
  world_.freeze(self);
}

ShmTransport::~ShmTransport() {
  if (started_.load(std::memory_order_relaxed))  // same thread; S6
    wait([](void* self) { return !static_cast<ShmTransport*>(self)->services_.owes(); }, this, kLeaveNs);
  stop_.store(true, std::memory_order_seq_cst);  // pairs with progress_thread_main() and sleep()
  if (progress_thread_.joinable()) {
    world_.ring_doorbell(self_);
    progress_thread_.join();
  }
  world_.mark_left(self_, services_.collectives.calls());  // S6
}

// --- addresses ---

RegionId ShmTransport::register_memory(void* base, std::size_t bytes, std::uint8_t rights) {
  AYT_CHECK((rights & kAllRights) != 0 && (rights & ~(kAllRights | kRemapped)) == 0, "rights {}", rights);
  rights &= kAllRights;
  if (!world_.is_shared(base, bytes)) return kNoRegion;
  std::lock_guard lock(region_mutex_);
  for (RegionId id = 0; id < kRegionsMax; ++id) {
    if (reaches(self_, id)) continue;
    enter_region(id, base, bytes, rights, true);
    return id;
  }
  return kNoRegion;
}

void ShmTransport::register_at(RegionId region, void* base, std::size_t bytes, std::uint8_t rights) {
  std::lock_guard lock(region_mutex_);
  enter_region(region, base, bytes, rights, world_.is_shared(base, bytes));
}

// Under region_mutex_.
void ShmTransport::enter_region(RegionId region, void* base, std::size_t bytes, std::uint8_t rights,
                                bool shared) noexcept {
  RegionEntry& entry = member_.regions[region];
  entry.base = static_cast<std::byte*>(base);
  entry.bytes = bytes;
  if (!shared) return entry.own_rights.store(rights, std::memory_order_release);  // pairs with try_copy()
  entry.rights.store(rights, std::memory_order_release);                          // pairs with resolve() and reaches()
  const std::size_t words = bytes < 8 || !is_aligned(base, 8) ? 0 : bytes - 7;
  // seq_cst: pairs with change_standing(), which closes them before and after (W5)
  entry.readable_words.store((rights & kReadable) != 0 ? words : 0, std::memory_order_seq_cst);
  entry.writable_words.store((rights & kWritable) != 0 ? words : 0, std::memory_order_seq_cst);
  if (world_.standing(self_) != Standing::kMember) close_words(entry);
}

void ShmTransport::unregister_memory(RegionId region) {
  std::lock_guard lock(region_mutex_);
  AYT_CHECK(region < kRegionsMax, "region {} of {}", region, kRegionsMax);
  RegionEntry& entry = member_.regions[region];
  close_words(entry);
  const std::uint32_t before =
      entry.rights.exchange(0, std::memory_order_release) | entry.own_rights.exchange(0, std::memory_order_release);
  AYT_CHECK(before != 0, "region {} is not registered", region);
}

bool ShmTransport::try_copy(const ReadParams& params) {
  if (params.size_bytes <= kWholeWordBytesMax ||
      params.source.region >= kRegionsMax ||  // N5: the kernel promises nothing
      copies_refused_.load(std::memory_order_relaxed) || !has_room(params.on_complete))
    return false;
  if (is_gone(params.source_process)) return false;
  const Member& owner = world_.member(params.source_process);
  const RegionEntry& entry = owner.regions[params.source.region];
  // acquire: pairs with enter_region()
  if ((entry.own_rights.load(std::memory_order_acquire) & kReadable) == 0 ||
      !in_bounds(params.source.offset, params.size_bytes, entry.bytes))
    return false;
  const iovec here{params.destination.pointer, params.size_bytes};
  const iovec there{entry.base + params.source.offset, params.size_bytes};
  const pid_t pid = owner.pid.load(std::memory_order_relaxed);  // it has registered memory
  const ssize_t copied = ::process_vm_readv(pid, &here, 1, &there, 1, 0);
  if (copied != static_cast<ssize_t>(params.size_bytes) || is_gone(params.source_process)) {
    if (copied < 0 && (errno == EPERM || errno == ENOSYS)) copies_refused_.store(true, std::memory_order_relaxed);
    return false;
  }
  count(thread_state().number, params.source_process, 1, 0, params.size_bytes);
  complete_now(params.on_complete, {});
  return true;
}

void* ShmTransport::direct_pointer(const RemoteAddress& address, std::size_t bytes) noexcept {
  std::byte* memory = nullptr;
  return resolve(address.process, address.region, address.offset, bytes, kReadable | kWritable, &memory) == Outcome::kOk
             ? memory
             : nullptr;
}

// --- one-sided requests (S1; words of 8 bytes: words.cpp) ---

bool ShmTransport::read_any(const ReadParams& params) {
  if (!has_room(params.on_complete)) return false;
  std::byte* memory = nullptr;
  const RemoteAddress& source = params.source;
  const Outcome outcome =
      resolve(params.source_process, source.region, source.offset, params.size_bytes, kReadable, &memory);
  if (outcome == Outcome::kOk) {
    copy_bytes(static_cast<std::byte*>(params.destination.pointer), memory, params.size_bytes);
    count(thread_state().number, params.source_process, 1, 0, params.size_bytes);
  }
  return complete_now(params.on_complete, {outcome, 0, 0});
}

bool ShmTransport::write_any(const WriteParams& params) {
  if (!has_room(params.on_complete)) return false;
  std::byte* memory = nullptr;
  const RemoteAddress& destination = params.destination;
  const Outcome outcome = resolve(params.destination_process, destination.region, destination.offset, params.size_bytes,
                                  kWritable, &memory);
  if (outcome == Outcome::kOk) {
    copy_bytes(memory, static_cast<const std::byte*>(params.source.pointer), params.size_bytes);
    count(thread_state().number, params.destination_process, 1, params.size_bytes, 0);
  }
  return complete_now(params.on_complete, {outcome, 0, 0});
}

bool ShmTransport::try_atomic_async(const AtomicParams& params) {
  check_width(params);
  if (!has_room(params.on_complete)) return false;
  std::byte* memory = nullptr;
  Completion completion;
  completion.outcome =
      resolve(params.target_process, params.target.region, params.target.offset, params.width_bytes, kAtomic, &memory);
  if (completion.ok() && !is_aligned(memory, params.width_bytes)) completion.outcome = Outcome::kBadAddress;
  if (completion.ok()) {
    completion.value = apply_atomic(memory, params);
    count(thread_state().number, params.target_process, 1, 0, 0);
  }
  return complete_now(params.on_complete, completion);
}

// --- many pieces at once (N9) ---

bool ShmTransport::complete_moved(ProcessId peer, const Callback& callback, Outcome outcome, std::uint64_t bytes,
                                  bool reads) {
  if (outcome == Outcome::kOk) count(thread_state().number, peer, 1, reads ? 0 : bytes, reads ? bytes : 0);
  return complete_now(callback, {outcome, 0, 0});
}

bool ShmTransport::move_list(const ListParams& params, bool reads) {
  if (!has_room(params.on_complete)) return false;
  const RegionEntry* entry = nullptr;
  Outcome outcome = resolve_region(params.process, params.region, reads ? kReadable : kWritable, &entry);
  std::uint64_t bytes = 0;
  if (outcome == Outcome::kOk) outcome = check_list(params, entry->bytes, &bytes);
  if (outcome == Outcome::kOk) {
    for (std::size_t i = 0; i < params.count; ++i) {
      const Piece& piece = params.pieces[i];
      std::byte* const remote = entry->base + piece.offset;
      auto* const local = static_cast<std::byte*>(piece.local);
      copy_bytes(reads ? local : remote, reads ? remote : local, piece.size_bytes);
    }
  }
  return complete_moved(params.process, params.on_complete, outcome, bytes, reads);
}

bool ShmTransport::move_strided(const StridedParams& params, bool reads) {
  if (!has_room(params.on_complete)) return false;
  const RegionEntry* entry = nullptr;
  const RemoteAddress& from = params.remote;
  Outcome outcome = resolve_region(from.process, from.region, reads ? kReadable : kWritable, &entry);
  std::uint64_t bytes = 0;
  if (outcome == Outcome::kOk) outcome = check_strided(params, entry->bytes, &bytes);
  if (outcome == Outcome::kOk) {
    for_each_block(params, [&](std::int64_t remote_shift, std::int64_t local_shift) {
      std::byte* const remote = entry->base + from.offset + remote_shift;
      std::byte* const local = static_cast<std::byte*>(params.local.pointer) + local_shift;
      copy_bytes(reads ? local : remote, reads ? remote : local, params.block_bytes);
    });
  }
  return complete_moved(from.process, params.on_complete, outcome, bytes, reads);
}

bool ShmTransport::try_read_list_async(const ListParams& params) { return move_list(params, true); }
bool ShmTransport::try_write_list_async(const ListParams& params) { return move_list(params, false); }
bool ShmTransport::try_read_strided_async(const StridedParams& params) { return move_strided(params, true); }
bool ShmTransport::try_write_strided_async(const StridedParams& params) { return move_strided(params, false); }

// S1: whatever was issued is done.
bool ShmTransport::try_flush_async(ProcessId peer, Callback on_complete) {
  const Outcome outcome = peer == kAllProcesses ? Outcome::kOk : check_target(peer, 0, 0);
  return complete_now(on_complete, {outcome, 0, 0});
}

bool ShmTransport::try_fence(ProcessId peer) {
  AYT_CHECK(peer == kAllProcesses || (peer >= 0 && peer < processes()), "fence to process {} of {}", peer, processes());
  fence_.fetch_add(1, std::memory_order_seq_cst);  // S1: done on this thread; a locked instruction lies between
  return true;
}

// --- messages ---

void ShmTransport::set_handler(HandlerId id, HandlerFunction function, void* context) {
  AYT_CHECK(!started_.load(std::memory_order_relaxed), "handler {} set after start", id);  // N8, one thread
  AYT_CHECK(id < kHandlersMax && handlers_[id].function == nullptr, "handler {} is out of range or taken", id);
  handlers_[id] = {function, context};
}

void ShmTransport::set_peer_failure_handler(PeerFailureFunction function, void* context) {
  AYT_CHECK(!started_.load(std::memory_order_relaxed), "peer failure handler set after start");  // N8, one thread
  peer_failure_ = function;
  peer_failure_context_ = context;
}

bool ShmTransport::is_gone(ProcessId process) const noexcept {
  // seq_cst: after an RPC's Pending was published; pairs with give_up()
  return world_.standing(process) != Standing::kMember ||
         (given_up_.load(std::memory_order_seq_cst) >> process & 1) != 0;
}

Outcome ShmTransport::check_target(ProcessId process, std::size_t bytes, std::size_t bytes_max) const noexcept {
  if (process < 0 || process >= world_.config().processes) return Outcome::kBadAddress;
  if (bytes > bytes_max) return Outcome::kTooLarge;
  return is_gone(process) ? Outcome::kPeerFailed : Outcome::kOk;
}

bool ShmTransport::push(ProcessId to, const WireHeader& header, const void* payload) {
  MpscRing ring = world_.ring(to);
  bool wake = false;
  const MpscRing::Claim claim = ring.claim(self_, sizeof header + header.bytes, &wake);
  if (claim.data != nullptr) {
    std::memcpy(claim.data, &header, sizeof header);
    copy_private(claim.data + sizeof header, payload, header.bytes);
    ring.publish(claim, self_);
    count(thread_state().number, to, 1, header.bytes, 0);
  }
  if (wake) world_.ring_doorbell(to);
  return claim.data != nullptr;
}

bool ShmTransport::try_message_async(const MessageParams& params) {
  AYT_CHECK(params.handler < kHandlersMax, "handler {}", params.handler);
  if (!has_room(params.on_complete)) return false;
  const Outcome outcome = check_target(params.destination, params.size_bytes, LongMessages::kBytesMax);
  if (outcome == Outcome::kOk) {
    if (params.size_bytes > world_.config().payload_bytes_max) return services_.long_messages.start(params);
    WireHeader header{};
    header.handler = params.handler;
    header.source = static_cast<std::uint16_t>(self_);
    header.bytes = static_cast<std::uint32_t>(params.size_bytes);
    header.reply_slot = kNoReply;
    if (!push(params.destination, header, params.payload)) return false;
  }
  return complete_now(params.on_complete, {outcome, 0, 0});
}

bool ShmTransport::try_rpc_async(const RpcParams& params) {
  AYT_CHECK(params.handler < kHandlersMax, "handler {}", params.handler);
  if (!has_room(params.on_complete)) return false;
  const Outcome outcome = check_target(params.destination, params.size_bytes, world_.config().payload_bytes_max);
  if (outcome != Outcome::kOk) return complete_now(params.on_complete, {outcome, 0, 0});
  const std::uint32_t slot = take_reply_slot();
  if (slot == kNoReply) return false;

  Pending& pending = pending_[slot];
  const std::uint64_t serial = (pending.state.load(std::memory_order_relaxed) >> 1) + 1;  // the slot is ours
  pending.process.store(params.destination, std::memory_order_relaxed);                   // released by state
  pending.reply = params.reply;
  pending.reply_bytes_max = params.reply_bytes_max;
  pending.on_complete = params.on_complete;
  // release: the fields. Before the look at standing below: on x86 the locked instructions of push() lie between
  pending.state.store(serial * 2 + 1, std::memory_order_release);

  WireHeader header{};
  header.handler = params.handler;
  header.source = static_cast<std::uint16_t>(self_);
  header.bytes = static_cast<std::uint32_t>(params.size_bytes);
  header.reply_slot = slot;
  header.serial = serial;
  const bool pushed = push(params.destination, header, params.payload);
  // Either the peer's end is seen here, or fail_pending() sees our Pending.
  const bool gone = is_gone(params.destination);
  if (pushed && !gone) return true;
  if (!claim_pending(slot, serial)) return true;  // completed already: answered, or failed
  if (gone) {
    fail_rpc(slot);
    return true;
  }
  free_reply_slot(slot);
  return false;
}

// Wakes a peer for news that do not pass through its ring (S4).
void ShmTransport::rouse(ProcessId peer) noexcept {
  if (world_.ring(peer).rouse()) world_.ring_doorbell(peer);
}

void ShmTransport::reply(const ReplyToken& token, const void* payload, std::size_t size_bytes) {
  AYT_CHECK(token.wanted(), "reply to a one-way message");
  AYT_CHECK(size_bytes <= world_.config().reply_bytes_max, "reply of {} bytes, {} possible", size_bytes,
            world_.config().reply_bytes_max);
  if (world_.standing(token.process) != Standing::kMember) return;
  ReplySlot& slot = world_.reply_slot(token.process, token.slot);
  // Stores alone, of one line: a look at it before would fetch it, and lose it again to the asker, who polls it.
  slot.bytes = static_cast<std::uint32_t>(size_bytes);
  copy_private(world_.reply_memory(token.process, token.slot, size_bytes), payload, size_bytes);
  // release: the answer, pairs with reap_answers(); seq_cst: before the look at the sleep bit (S4)
  const std::uint64_t before = slot.done.exchange(token.serial, std::memory_order_seq_cst);
  AYT_CHECK(before < token.serial, "an RPC of process {} was answered twice", token.process);
  count(thread_state().number, token.process, 1, size_bytes, 0);
  rouse(token.process);
}

std::uint32_t ShmTransport::take_reply_slot() noexcept {
  const std::uint32_t words = (world_.config().rpcs_max + 63) / 64;
  std::uint32_t index = thread_state().number * words / kStripes;  // threads begin at different words
  for (std::uint32_t i = 0; i < words; ++i, index = index + 1 == words ? 0 : index + 1) {
    std::uint64_t taken = taken_slots_[index].load(std::memory_order_relaxed);  // the CAS validates it
    while (~taken != 0) {
      // acquire: pairs with free_reply_slot(); seq_cst: pairs with news(), the message goes out after it (S4)
      if (taken_slots_[index].compare_exchange_weak(taken, taken | (taken + 1), std::memory_order_seq_cst,
                                                    std::memory_order_relaxed))
        return index * 64 + static_cast<std::uint32_t>(std::countr_one(taken));
    }
  }
  return kNoReply;
}

void ShmTransport::free_reply_slot(std::uint32_t slot) noexcept {
  // release: pairs with take_reply_slot()
  taken_slots_[slot / 64].fetch_and(~(std::uint64_t{1} << (slot % 64)), std::memory_order_release);
}

template <class Each>
void ShmTransport::for_each_taken_slot(Each&& each) const {
  const std::uint32_t slots = world_.config().rpcs_max;
  for (std::uint32_t first = 0; first < slots; first += 64) {
    std::uint64_t taken = taken_slots_[first / 64].load(std::memory_order_seq_cst);  // pairs with take_ (S4)
    if (slots - first < 64) taken &= (std::uint64_t{1} << (slots - first)) - 1;
    for (; taken != 0; taken &= taken - 1)
      if (!each(first + static_cast<std::uint32_t>(std::countr_zero(taken)))) return;
  }
}

// Is there an answer for the RPC that waits in the slot?
bool ShmTransport::answered(std::uint32_t slot, std::uint64_t* serial, std::memory_order order) const noexcept {
  *serial = world_.reply_slot(self_, slot).done.load(order);
  // acquire: a slot that was taken again has a later serial
  return pending_[slot].state.load(std::memory_order_acquire) == *serial * 2 + 1;
}

bool ShmTransport::claim_pending(std::uint32_t slot, std::uint64_t serial) noexcept {
  std::uint64_t expected = serial * 2 + 1;
  return pending_[slot].state.compare_exchange_strong(expected, serial * 2, std::memory_order_acq_rel);  // S2
}

// After claim_pending().
void ShmTransport::complete_rpc(std::uint32_t slot, Completion completion) {
  const Callback callback = pending_[slot].on_complete;
  free_reply_slot(slot);
  thread_state().completions.run(callback, completion);
}

// After claim_pending(), without an answer.
void ShmTransport::fail_rpc(std::uint32_t slot) {
  const Pending& pending = pending_[slot];
  const Callback callback = pending.on_complete;
  // relaxed: ours since claim_pending(). A peer that was given up and lives may still answer: the slot stays taken (S2).
  if (world_.standing(pending.process.load(std::memory_order_relaxed)) != Standing::kMember)
    free_reply_slot(slot);
  else
    orphans_[slot / 64].fetch_or(std::uint64_t{1} << (slot % 64),
                                 std::memory_order_release);  // pairs with free_orphans()
  thread_state().completions.run(callback, {Outcome::kPeerFailed, 0, 0});
}

void ShmTransport::free_orphans() {
  for (std::size_t word = 0; word < orphans_.size(); ++word) {
    std::uint64_t bits = orphans_[word].load(std::memory_order_acquire);  // pairs with fail_rpc()
    for (; bits != 0; bits &= bits - 1) {
      const auto slot = static_cast<std::uint32_t>(word * 64 + static_cast<std::size_t>(std::countr_zero(bits)));
      const Pending& pending = pending_[slot];  // relaxed: nobody changes it while the bit stands
      const ProcessId process = pending.process.load(std::memory_order_relaxed);
      const std::uint64_t serial = pending.state.load(std::memory_order_relaxed) >> 1;
      // acquire: pairs with reply()
      const bool over = world_.standing(process) != Standing::kMember || world_.mark_if_ended(process) ||
                        world_.reply_slot(self_, slot).done.load(std::memory_order_acquire) == serial;
      const std::uint64_t bit = std::uint64_t{1} << (slot % 64);
      if (over && (orphans_[word].fetch_and(~bit, std::memory_order_relaxed) & bit) != 0) free_reply_slot(slot);
    }
  }
}

// --- progress ---

std::size_t ShmTransport::reap_answers() {
  std::size_t ran = 0;
  for_each_taken_slot([&](std::uint32_t slot) {
    std::uint64_t serial = 0;
    if (!answered(slot, &serial, std::memory_order_acquire) || !claim_pending(slot, serial))
      return true;  // pairs with reply()
    const std::uint32_t bytes = world_.reply_slot(self_, slot).bytes;
    const Pending& pending = pending_[slot];
    Completion completion;
    completion.reply_bytes = bytes;
    if (bytes > pending.reply_bytes_max)
      completion.outcome = Outcome::kTooLarge;
    else
      copy_private(static_cast<std::byte*>(pending.reply.pointer), world_.reply_memory(self_, slot, bytes), bytes);
    // relaxed: ours since claim_pending()
    count(thread_state().number, pending.process.load(std::memory_order_relaxed), 0, 0, bytes);
    complete_rpc(slot, completion);
    ++ran;
    return true;
  });
  return ran;
}

void ShmTransport::deliver(HandlerId id, const Message& message) {
  if (options_.deliver != nullptr) return options_.deliver(options_.context, id, message);
  const Handler handler = handlers_[id];
  AYT_CHECK(handler.function != nullptr, "process {} sent a message for handler {}, which nobody set", message.source,
            id);
  handler.function(handler.context, message);
}

std::size_t ShmTransport::drain_ring() {
  // Only then may a claim be a dead one's (R6). relaxed: by progress()
  const bool some_gone = world_.epoch() != 0 || given_up_.load(std::memory_order_relaxed) != 0;
  if ((ring_.looks_empty() && !some_gone) || !consumer_lock_.try_lock()) return 0;
  std::size_t ran = 0;
  bool owes_look = false;
  for (int i = 0; i < kMessagesPerProgress; ++i) {
    MpscRing::Front front = ring_.front(some_gone);
    if (front.kind == MpscRing::Peek::kEmpty) break;
    if (front.kind == MpscRing::Peek::kPad) {
      ring_.pop(front);
      continue;
    }
    if (front.kind == MpscRing::Peek::kBusy) {
      const bool given_up = (given_up_.load(std::memory_order_relaxed) >> front.process & 1) != 0;  // by progress()
      if (world_.standing(front.process) != Standing::kFailed && !(given_up && world_.mark_if_ended(front.process)))
        break;
      front = ring_.front();  // what it published before it died counts
      if (front.kind == MpscRing::Peek::kBusy) {
        ring_.skip(front);
        continue;
      }
      if (front.kind == MpscRing::Peek::kPad) continue;
    }
    WireHeader header;
    std::memcpy(&header, front.data, sizeof header);
    count(thread_state().number, header.source, 0, 0, header.bytes);
    Message message{header.source, front.data + sizeof header, header.bytes, {}};
    if (header.reply_slot != kNoReply) message.token = {header.source, header.reply_slot, header.serial};
    deliver(header.handler, message);
    ++ran;
    // Before the pop, whose store waits for a line from afar: a locked instruction behind it would wait with it.
    owes_look = !ring_.is_last(front);
    if (!owes_look) rouse_sleepers();
    ring_.pop(front);
  }
  if (owes_look) rouse_sleepers();
  consumer_lock_.unlock();
  return ran;
}

void ShmTransport::fail_pending(ProcessId process) {
  for (std::uint32_t slot = 0; slot < world_.config().rpcs_max; ++slot) {
    const std::uint64_t state = pending_[slot].state.load(std::memory_order_seq_cst);  // pairs with try_rpc_async()
    if ((state & 1) == 0 || pending_[slot].process.load(std::memory_order_relaxed) != process) continue;  // see state
    if (claim_pending(slot, state >> 1)) fail_rpc(slot);
  }
}

void ShmTransport::give_up(ProcessId process) {
  given_up_.fetch_or(std::uint64_t{1} << process, std::memory_order_seq_cst);  // pairs with is_gone()
  fail_pending(process);
}

std::size_t ShmTransport::notice_peers() {
  std::unique_lock lock(notice_mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return 0;
  const std::uint64_t epoch = world_.epoch();
  std::size_t ran = 0;
  for (ProcessId p = 0; p < processes(); ++p) {
    const Standing standing = world_.standing(p);
    if (standing == noticed_[p]) continue;
    noticed_[p] = standing;
    ran += 1 + reap_answers();  // those that were sent before it went
    fail_pending(p);
    if (standing == Standing::kFailed) {
      services_.on_peer_failed(p);
      if (peer_failure_ != nullptr) peer_failure_(peer_failure_context_, p);
    } else {
      // relaxed: released by standing
      services_.on_peer_left(p, world_.member(p).collective_calls.load(std::memory_order_relaxed));
    }
  }
  noticed_epoch_.store(epoch, std::memory_order_release);  // pairs with news(): only avoids a second look
  return ran;
}

bool ShmTransport::news() {
  if (world_.epoch() != noticed_epoch_.load(std::memory_order_acquire)) return true;
  bool waits = false;
  for_each_taken_slot([&](std::uint32_t slot) {
    std::uint64_t serial = 0;
    waits = answered(slot, &serial, std::memory_order_seq_cst);  // S4, pairs with reply()
    return !waits;
  });
  return waits || services_.news();
}

std::size_t ShmTransport::progress() {
  ThreadState& thread = thread_state();
  if (thread.in_progress || thread.completions.running() || !started_.load(std::memory_order_acquire)) return 0;
  const ProgressScope scope(thread);
  const std::size_t handled = drain_ring();
  std::size_t ran = reap_answers();
  if (world_.epoch() != noticed_epoch_.load(std::memory_order_relaxed)) ran += notice_peers();  // notice_mutex_ orders
  if (services_.pending()) ran += services_.progress();
  if (ran != 0) rouse_sleepers();
  polls_.store(polls_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);  // a hint (S5)
  return handled + ran;
}

// After callbacks ran.
void ShmTransport::rouse_sleepers() noexcept {
  // S4: a read-modify-write, so that either we see the sleeper's count or it sees what our callbacks did
  if (sleepers_.fetch_add(0, std::memory_order_seq_cst) != 0) world_.ring_doorbell(self_);
}

// --- waiting ---

bool ShmTransport::runs_here() noexcept {
  const ThreadState& thread = thread_state();
  return thread.in_progress || thread.completions.running();
}

std::int64_t ShmTransport::arm() noexcept { return ring_.prepare_sleep() && !news() ? kSleepSliceNs : kNapNsMin; }

void ShmTransport::sleep(bool (*until)(void*), void* data, std::int64_t limit_ns, std::int64_t nap_ns) {
  sleepers_.fetch_add(1, std::memory_order_seq_cst);  // S4, pairs with progress()
  const std::uint32_t rings = member_.doorbell.load(std::memory_order_seq_cst);
  if (!(until != nullptr && until(data)) && !stop_.load(std::memory_order_seq_cst)) {  // pairs with the destructor
    const bool armed = ring_.prepare_sleep() && !news();
    base::futex_wait(member_.doorbell, rings, armed ? limit_ns : std::min(limit_ns, nap_ns));
  }
  sleepers_.fetch_sub(1, std::memory_order_seq_cst);
}

void ShmTransport::look_for_dead(std::int64_t now_ns) noexcept {
  std::int64_t last = last_look_ns_.load(std::memory_order_relaxed);  // a rate limit, no more
  if (now_ns - last < kLookForDeadNs || !last_look_ns_.compare_exchange_strong(last, now_ns, std::memory_order_relaxed))
    return;
  world_.look_for_dead(self_);
}

bool ShmTransport::wait(bool (*until)(void* data), void* data, std::int64_t timeout_ns) {
  ThreadState& thread = thread_state();
  AYT_CHECK(!thread.in_progress && !thread.completions.running(), "a handler or completion must not wait");  // N4, N6
  if (until(data)) return true;
  const std::int64_t start_ns =
      timeout_ns == kNoTimeout ? 0 : base::real_now_ns();  // a clock costs as much as an answer
  int misses = 0;
  std::int64_t nap_ns = kNapNsMin / 4;
  while (true) {
    if (progress() != 0) {
      misses = 0;
      nap_ns = kNapNsMin / 4;
    }
    if (until(data)) return true;
    // Short pauses: an answer takes about a microsecond, and base::SpinThenSleep would look every ten.
    const bool tired = ++misses > kMissesBeforeSleep;
    if (!tired) {
      if (misses < kMissesFast)
        base::cpu_pause();
      else if (misses % kMissesPerYield == 0)
        sched_yield();
      else
        for (int i = 0; i < kPausesPerMiss; ++i) base::cpu_pause();
      if (timeout_ns == kNoTimeout) continue;
    }
    const std::int64_t now_ns = base::real_now_ns();
    if (timeout_ns != kNoTimeout && now_ns - start_ns >= timeout_ns) return until(data);
    if (!tired) continue;
    std::int64_t limit_ns = kSleepSliceNs;
    if (timeout_ns != kNoTimeout) limit_ns = std::min(limit_ns, timeout_ns - (now_ns - start_ns));
    sleep(until, data, limit_ns, nap_ns);
    nap_ns = std::min(nap_ns * 2, kNapNsMax);
    look_for_dead(now_ns);
  }
}

void ShmTransport::start() {
  AYT_CHECK(!started_.load(std::memory_order_relaxed), "started twice");  // one thread
  started_.store(true, std::memory_order_release);                        // pairs with progress()
  if (!options_.progress_thread) return;
  sigset_t all, before;  // the program's signals are not this thread's business
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  progress_thread_ = std::thread([this] { progress_thread_main(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void ShmTransport::progress_thread_main() {
  pthread_setname_np(pthread_self(), "ayatori-net");
  std::int64_t nap_ns = kNapNsMin;
  bool alone = true;
  while (!stop_.load(std::memory_order_acquire)) {  // pairs with the destructor
    const std::uint32_t rings = member_.doorbell.load(std::memory_order_acquire);
    if (progress() == 0) {
      const std::uint32_t polls = polls_.load(std::memory_order_relaxed);  // a hint
      if (alone) {
        nap_ns = kNapNsMin;
        sleep(nullptr, nullptr, kSleepSliceNs, kNapNsMin);
      } else {
        base::futex_wait(member_.doorbell, rings, nap_ns);
        nap_ns = std::min(nap_ns * 2, kNapNsMax);
      }
      alone = polls_.load(std::memory_order_relaxed) == polls;  // S5
    }
    look_for_dead(base::real_now_ns());
  }
}

// --- counters ---

Counters ShmTransport::counters() const noexcept {
  Counters all = sum_of(stripes_);
  all.messages_by_memory = all.messages_sent;
  return all;
}

}  // namespace ayatori::net::shm
