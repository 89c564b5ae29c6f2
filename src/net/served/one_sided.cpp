// SPDX-License-Identifier: Apache-2.0
// Memory, reads, writes, atomics, fences and flushes: the origin's part, and the bounds that the target's (serve.cpp) asks for.
#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.hpp"
#include "net/atomics.hpp"
#include "net/pieces.hpp"
#include "net/served/issue.hpp"
#include "net/served/thread_state.hpp"
#include "net/served/transport.hpp"
#include "net/shm/transport.hpp"

namespace ayatori::net::served {

// --- memory ---

RegionId ServedTransport::register_memory(void* base, std::size_t bytes, std::uint8_t rights) {
  AYT_CHECK((rights & kAllRights) != 0 && (rights & ~(kAllRights | kRemapped)) == 0, "rights {}", rights);
  rights &= kAllRights;
  std::lock_guard lock(region_mutex_);
  for (RegionId id = 0; id < kRegionsMax; ++id) {
    Region& region = regions_[id];
    if (region.rights.load(std::memory_order_relaxed) != 0) continue;  // written under region_mutex_ only
    region.base = static_cast<std::byte*>(base);
    region.bytes = bytes;
    region.rights.store(rights, std::memory_order_release);  // pairs with find_region()
    if (near_ != nullptr) near_->register_at(id, base, bytes, rights);
    return id;
  }
  return kNoRegion;
}

void ServedTransport::unregister_memory(RegionId region) {
  std::lock_guard lock(region_mutex_);
  AYT_CHECK(region < kRegionsMax && regions_[region].rights.load(std::memory_order_relaxed) != 0,
            "region {} is not registered", region);
  if (near_ != nullptr) near_->unregister_memory(region);
  regions_[region].rights.store(0, std::memory_order_release);
}

void* ServedTransport::direct_pointer(const RemoteAddress& address, std::size_t bytes) noexcept {
  return is_near(address.process, address.region) ? near_->direct_pointer(address, bytes) : nullptr;
}

// kNoRights: the region is there all the same, so that who goes out of its bounds is told that first.
Outcome ServedTransport::find_region(RegionId region, std::uint8_t rights, const Region** found) const noexcept {
  if (region >= kRegionsMax) return Outcome::kBadAddress;
  *found = &regions_[region];
  const std::uint32_t granted = (*found)->rights.load(std::memory_order_acquire);  // pairs with register_memory()
  if (granted == 0) return Outcome::kBadAddress;
  return (granted & rights) == rights ? Outcome::kOk : Outcome::kNoRights;
}

Outcome ServedTransport::place(RegionId region, std::uint64_t offset, std::uint64_t bytes, std::uint8_t rights,
                               Walk* walk) const {
  const Region* found = nullptr;
  const Outcome outcome = find_region(region, rights, &found);
  if (outcome == Outcome::kBadAddress || !in_bounds(offset, bytes, found->bytes)) return Outcome::kBadAddress;
  *walk = Walk(found->base + offset, bytes);
  return outcome;
}

Outcome ServedTransport::place_list(RegionId region, std::vector<Piece>&& pieces, std::uint8_t rights,
                                    Walk* walk) const {
  const Region* found = nullptr;
  const Outcome outcome = find_region(region, rights, &found);
  if (outcome == Outcome::kBadAddress) return outcome;
  std::uint64_t total = 0;
  const Outcome checked = check_list({self_, region, pieces.data(), pieces.size(), {}}, found->bytes, &total);
  if (checked != Outcome::kOk) return checked;
  for (Piece& piece : pieces) piece.local = found->base + piece.offset;
  *walk = Walk(std::move(pieces), total);
  return outcome;
}

Outcome ServedTransport::place_strided(const StridedParams& params, std::uint8_t rights, Walk* walk) const {
  const Region* found = nullptr;
  const Outcome outcome = find_region(params.remote.region, rights, &found);
  if (outcome == Outcome::kBadAddress) return outcome;
  std::uint64_t total = 0;
  const Outcome checked = check_strided(params, found->bytes, &total);
  if (checked != Outcome::kOk) return checked;
  if (total != 0) *walk = Walk(found->base + params.remote.offset, params, params.remote_strides, total);
  return outcome;
}

Outcome ServedTransport::apply(const AtomicParams& params, std::uint64_t* value) const {
  Walk word;
  const Outcome outcome = place(params.target.region, params.target.offset, params.width_bytes, kAtomic, &word);
  if (outcome != Outcome::kOk) return outcome;
  std::byte* const memory = word.front(params.width_bytes).data();
  if (!is_aligned(memory, params.width_bytes)) return Outcome::kBadAddress;
  *value = apply_atomic(memory, params);
  return Outcome::kOk;
}

// --- reads and writes ---

// A read or write of `header.total` bytes that another process serves; fill(room) writes the descriptor.
template <class FillDescriptor>
bool ServedTransport::move(Request::Kind kind, ProcessId process, FrameHeader header, Walk&& local,
                           const Callback& done, FillDescriptor&& fill) {
  const bool reads = kind == Request::Kind::kRead;
  const std::uint32_t slot = requests_.take(thread_state().stripe);
  if (slot == RequestTable::kNone) return false;
  const bool is_short = header.total <= served_.inline_bytes_max;
  const bool is_message = kind == Request::Kind::kMessage;
  const std::uint64_t unasked_bytes_max = is_message ? peer(process).queue.segment_bytes() : kSegmentBytesMax;  // D8
  const bool awaits_go = !reads && header.total > unasked_bytes_max;
  const std::size_t descriptor = descriptor_bytes(header);
  header.kind = reads ? FrameKind::kRead : FrameKind::kWrite;
  header.body_bytes = static_cast<std::uint32_t>(descriptor + (!reads && is_short ? header.total : 0));

  Request& request = requests_[slot];
  request.process.store(process, std::memory_order_relaxed);  // released by state
  request.kind.store(kind, std::memory_order_relaxed);
  request.total = header.total;
  request.received = 0;
  request.is_bulk = !is_short;
  request.awaits_go = awaits_go;
  request.data_apart = false;
  request.unanswered.store(is_message && !awaits_go, std::memory_order_release);  // pairs with find()
  request.arriving = false;
  request.on_complete = done;
  Walk at_once;  // what leaves with the request
  (reads || awaits_go ? request.local : at_once) = std::move(local);

  const auto push = [&](SendQueue& queue, const FrameHeader& numbered) {
    std::byte* const body = queue.push_request(numbered, !is_short);
    if (body == nullptr) return false;
    if (reads && header.total > queue.segment_bytes()) await_long_data(peer(process));
    fill(body);
    if (!reads && is_short)
      gather(at_once, body + descriptor, header.total, header.total <= kWholeWordBytesMax);
    else if (!reads && !awaits_go)
      queue.push_bulk({Way::kToTarget, numbered.slot, numbered.serial, 0, std::move(at_once), false, is_message});
    if (is_message && !awaits_go) thread_state().own_message = numbered.serial;
    return true;
  };
  const bool taken = issue(slot, peer(process), header, reads ? 0 : header.total, push);
  const std::uint64_t message = std::exchange(thread_state().own_message, 0);
  if (message == 0) return taken;
  const auto is_out = [&] {
    std::lock_guard lock(peer(process).mutex);
    return peer(process).queue.take_handed_over(message);
  };
  if (is_short || is_out()) end_message(slot, message);
  return taken;
}

// One that nobody acknowledges (D8), when the wire has it.
void ServedTransport::end_message(std::uint32_t slot, std::uint64_t serial) {
  if (requests_.claim(slot, serial)) complete(slot, {});
}

bool ServedTransport::move_at_home(bool reads, Outcome outcome, Walk&& local, Walk&& remote, const Callback& done) {
  if (outcome == Outcome::kOk) copy_walk(reads ? local : remote, reads ? remote : local);
  return complete_now(done, {outcome, 0, 0});
}

bool ServedTransport::try_read_async(const ReadParams& params) {
  if (is_near(params.source_process, params.source.region)) return near_->try_read_async(params);
  if (is_neighbour(params.source_process) && near_->try_copy(params)) return true;
  if (!has_room(params.on_complete)) return false;
  if (!in_job(params.source_process) || params.size_bytes > kRegionBytesMax)
    return complete_now(params.on_complete, {Outcome::kBadAddress, 0, 0});
  Walk local(static_cast<std::byte*>(params.destination.pointer), params.size_bytes);
  if (params.source_process == self_) {
    Walk remote;
    const Outcome outcome = place(params.source.region, params.source.offset, params.size_bytes, kReadable, &remote);
    return move_at_home(true, outcome, std::move(local), std::move(remote), params.on_complete);
  }
  if ((reached_ >> params.source_process & 1) != 0) {
    const auto done = try_alone({Request::Kind::kRead, params.source_process, params.source,
                                 static_cast<std::byte*>(params.destination.pointer), params.size_bytes, nullptr,
                                 params.on_complete});
    if (done) return *done;
  }
  FrameHeader header;
  header.region = params.source.region;
  header.offset = params.source.offset;
  header.total = params.size_bytes;
  return move(Request::Kind::kRead, params.source_process, header, std::move(local), params.on_complete,
              [](std::byte*) {});
}

bool ServedTransport::try_write_async(const WriteParams& params) {
  if (is_near(params.destination_process, params.destination.region)) return near_->try_write_async(params);
  if (!has_room(params.on_complete)) return false;
  if (!in_job(params.destination_process) || params.size_bytes > kRegionBytesMax)
    return complete_now(params.on_complete, {Outcome::kBadAddress, 0, 0});
  Walk local(static_cast<std::byte*>(params.source.pointer), params.size_bytes);
  const RemoteAddress& to = params.destination;
  if (params.destination_process == self_) {
    Walk remote;
    const Outcome outcome = place(to.region, to.offset, params.size_bytes, kWritable, &remote);
    return move_at_home(false, outcome, std::move(local), std::move(remote), params.on_complete);
  }
  if ((reached_ >> params.destination_process & 1) != 0) {
    const auto done =
        try_alone({Request::Kind::kWrite, params.destination_process, to,
                   static_cast<std::byte*>(params.source.pointer), params.size_bytes, nullptr, params.on_complete});
    if (done) return *done;
  }
  FrameHeader header;
  header.region = to.region;
  header.offset = to.offset;
  header.total = params.size_bytes;
  return move(Request::Kind::kWrite, params.destination_process, header, std::move(local), params.on_complete,
              [](std::byte*) {});
}

// A message that is longer than a frame may be: D8.
bool ServedTransport::move_message(const MessageParams& params) {
  AYT_CHECK(params.on_complete.function != nullptr, "a message of {} bytes needs a completion", params.size_bytes);
  FrameHeader header;
  header.code = static_cast<std::uint8_t>(Shape::kMessage);
  header.handler = params.handler;
  header.total = params.size_bytes;
  Walk local(static_cast<std::byte*>(const_cast<void*>(params.payload)), params.size_bytes);
  long_messages_.fetch_add(1, std::memory_order_relaxed);  // only a number
  if (move(Request::Kind::kMessage, params.destination, header, std::move(local), params.on_complete,
           [](std::byte*) {}))
    return true;
  long_messages_.fetch_sub(1, std::memory_order_relaxed);
  return false;
}

bool ServedTransport::move_list(const ListParams& params, bool reads) {
  if (is_near(params.process, params.region))
    return reads ? near_->try_read_list_async(params) : near_->try_write_list_async(params);
  if (!has_room(params.on_complete)) return false;
  std::uint64_t total = 0;
  Outcome outcome = in_job(params.process) ? check_list(params, kRegionBytesMax, &total) : Outcome::kBadAddress;
  if (outcome != Outcome::kOk) return complete_now(params.on_complete, {outcome, 0, 0});
  const std::span<const Piece> pieces(params.pieces, params.count);
  Walk local(pieces, total);
  if (params.process == self_) {
    Walk remote;
    outcome = place_list(params.region, {pieces.begin(), pieces.end()}, reads ? kReadable : kWritable, &remote);
    return move_at_home(reads, outcome, std::move(local), std::move(remote), params.on_complete);
  }
  FrameHeader header;
  header.code = static_cast<std::uint8_t>(Shape::kList);
  header.handler = static_cast<std::uint16_t>(params.count);
  header.region = params.region;
  header.total = total;
  return move(reads ? Request::Kind::kRead : Request::Kind::kWrite, params.process, header, std::move(local),
              params.on_complete, [&](std::byte* room) {
                for (const Piece& piece : pieces) {
                  const WirePiece wire{piece.offset, piece.size_bytes};
                  std::memcpy(room, &wire, sizeof wire);
                  room += sizeof wire;
                }
              });
}

bool ServedTransport::move_strided(const StridedParams& params, bool reads) {
  if (is_near(params.remote.process, params.remote.region))
    return reads ? near_->try_read_strided_async(params) : near_->try_write_strided_async(params);
  if (!has_room(params.on_complete)) return false;
  const ProcessId process = params.remote.process;
  std::uint64_t total = 0;
  Outcome outcome = in_job(process) ? check_strided(params, kRegionBytesMax, &total) : Outcome::kBadAddress;
  if (outcome != Outcome::kOk) return complete_now(params.on_complete, {outcome, 0, 0});
  Walk local;
  if (total != 0) local = Walk(static_cast<std::byte*>(params.local.pointer), params, params.local_strides, total);
  if (process == self_) {
    Walk remote;
    outcome = place_strided(params, reads ? kReadable : kWritable, &remote);
    return move_at_home(reads, outcome, std::move(local), std::move(remote), params.on_complete);
  }
  FrameHeader header;
  header.code = static_cast<std::uint8_t>(Shape::kStrided);
  header.region = params.remote.region;
  header.offset = params.remote.offset;
  header.total = total;
  return move(reads ? Request::Kind::kRead : Request::Kind::kWrite, process, header, std::move(local),
              params.on_complete, [&](std::byte* room) {
                WireStrides wire{
                    params.block_bytes, static_cast<std::uint64_t>(params.levels), {}, params.remote_strides};
                std::copy(params.counts.begin(), params.counts.end(), wire.counts.begin());
                std::memcpy(room, &wire, sizeof wire);
              });
}

// --- atomics, flushes, fences ---

bool ServedTransport::try_atomic_async(const AtomicParams& params) {
  check_width(params);
  if (is_near(params.target_process, params.target.region)) return near_->try_atomic_async(params);
  if (!has_room(params.on_complete)) return false;
  if (!in_job(params.target_process)) return complete_now(params.on_complete, {Outcome::kBadAddress, 0, 0});
  if (params.target_process == self_) {
    Completion completion;
    completion.outcome = apply(params, &completion.value);
    return complete_now(params.on_complete, completion);
  }
  if ((reached_ >> params.target_process & 1) != 0) {
    const auto done = try_alone({Request::Kind::kAtomic, params.target_process, params.target, nullptr,
                                 params.width_bytes, &params, params.on_complete});
    if (done) return *done;
  }
  const std::uint32_t slot = requests_.take(thread_state().stripe);
  if (slot == RequestTable::kNone) return false;
  Request& request = requests_[slot];
  request.process.store(params.target_process, std::memory_order_relaxed);  // released by state
  request.kind.store(Request::Kind::kAtomic, std::memory_order_relaxed);
  request.is_bulk = false;
  request.unanswered.store(false, std::memory_order_release);  // pairs with find()
  request.on_complete = params.on_complete;
  FrameHeader header;
  header.kind = FrameKind::kAtomic;
  header.code = static_cast<std::uint8_t>(params.op);
  header.handler = params.width_bytes;
  header.body_bytes = sizeof params.expected;
  header.region = params.target.region;
  header.offset = params.target.offset;
  header.total = params.operand;
  return issue(slot, peer(params.target_process), header, 0, [&](SendQueue& queue, const FrameHeader& numbered) {
    std::byte* const body = queue.push_request(numbered, false);
    if (body != nullptr) std::memcpy(body, &params.expected, sizeof params.expected);
    return body != nullptr;
  });
}

bool ServedTransport::try_flush_async(ProcessId to, Callback on_complete) {
  if (!has_room(on_complete)) return false;
  if (to != kAllProcesses && !in_job(to)) return complete_now(on_complete, {Outcome::kBadAddress, 0, 0});
  if (to != kAllProcesses && is_gone(peer(to))) return complete_now(on_complete, {Outcome::kPeerFailed, 0, 0});
  const std::uint64_t serial = requests_.next_serial();
  if (!requests_.one_sided_waits(to, serial)) return complete_now(on_complete, {});
  std::lock_guard lock(flush_mutex_);
  if (flushes_.size() == served_.requests_max) return false;
  flushes_.push_back({to, serial, on_complete});
  flush_count_.store(static_cast<std::uint32_t>(flushes_.size()), std::memory_order_seq_cst);  // before a sleep's look
  return true;
}

bool ServedTransport::try_fence(ProcessId to) {
  AYT_CHECK(to == kAllProcesses || in_job(to), "fence to process {} of {}", to, processes_);
  // acquire: pairs with the handler's begin (D4)
  if ((to == kAllProcesses || to == self_) && self_messages_.load(std::memory_order_acquire) != 0) return false;
  if (services_.long_messages.under_way()) return false;  // parts of them are still to be pushed
  if (!fence_unqueued(to)) return false;
  for (const std::unique_ptr<Peer>& each : peers_) {
    if (to != kAllProcesses && to != each->process) continue;
    std::lock_guard lock(each->mutex);
    each->queue.fence();
  }
  return true;
}

}  // namespace ayatori::net::served
