// SPDX-License-Identifier: Apache-2.0
#include "net/sim/transport.hpp"

#include <algorithm>
#include <cstring>

#include "base/check.hpp"
#include "net/atomics.hpp"
#include "net/pieces.hpp"
#include "net/sim/script.hpp"

namespace ayatori::net::sim {
namespace {

constexpr std::int64_t kPartNs = 1;  // between the parts of a transfer (V3), besides jitter

}  // namespace

SimTransport::SimTransport(SimWorld& world, ProcessId self)
    : world_(world),
      self_(self),
      orders_(static_cast<std::size_t>(world.params().processes)),
      noticed_(static_cast<std::size_t>(world.params().processes), false),
      services_(*this, [](Transport& of, HandlerId id, const Message& message) {
        static_cast<SimTransport&>(of).run_handler(id, message);
      }) {}

// --- addresses ---

RegionId SimTransport::register_memory(void* base, std::size_t bytes, std::uint8_t rights) {
  AYT_CHECK((rights & kAllRights) != 0 && (rights & ~(kAllRights | kRemapped)) == 0, "rights {}", rights);
  rights &= kAllRights;
  const Region region{static_cast<std::byte*>(base), bytes, rights};
  for (RegionId id = 0; id < regions_.size(); ++id) {
    if (regions_[id].rights != 0) continue;
    regions_[id] = region;
    return id;
  }
  regions_.push_back(region);
  return static_cast<RegionId>(regions_.size() - 1);
}

void SimTransport::unregister_memory(RegionId region) {
  AYT_CHECK(region < regions_.size() && regions_[region].rights != 0, "region {} is not registered", region);
  regions_[region].rights = 0;
}

Outcome SimTransport::resolve(RegionId id, std::uint64_t offset, std::size_t bytes, std::uint8_t rights,
                              std::byte** memory) {
  if (id >= regions_.size() || regions_[id].rights == 0) return Outcome::kBadAddress;
  const Region& region = regions_[id];
  if (offset > region.bytes || bytes > region.bytes - offset) return Outcome::kBadAddress;
  if ((region.rights & rights) != rights) return Outcome::kNoRights;
  *memory = region.base + offset;
  return Outcome::kOk;
}

void* SimTransport::direct_pointer(const RemoteAddress& address, std::size_t bytes) noexcept {
  std::byte* memory = nullptr;
  if (!world_.params().direct_pointer || check_target(address.process) != Outcome::kOk) return nullptr;
  return peer(address.process).resolve(address.region, address.offset, bytes, kReadable | kWritable, &memory) ==
                 Outcome::kOk
             ? memory
             : nullptr;
}

Outcome SimTransport::check_target(ProcessId process) const noexcept {
  if (process < 0 || process >= processes()) return Outcome::kBadAddress;
  return peer_failed(process) ? Outcome::kPeerFailed : Outcome::kOk;
}

// --- requests under way (E1) ---

void SimTransport::complete_later(const Callback& callback, Completion completion) {
  if (callback.function == nullptr) return;
  world_.at(world_.params().overhead_ns, self_, [callback, completion] { callback(completion); });
}

std::uint64_t SimTransport::open_request(const Request& request) {
  const std::uint64_t serial = next_serial_++;
  requests_.emplace(serial, request);
  one_sided_ += request.one_sided;
  rpcs_ += request.rpc;
  return serial;
}

void SimTransport::complete_request(std::uint64_t serial, Completion completion) {
  const auto found = requests_.find(serial);
  if (found == requests_.end()) return;
  const Request request = found->second;
  requests_.erase(found);
  one_sided_ -= request.one_sided;
  rpcs_ -= request.rpc;
  request.on_complete(completion);
  finish_flushes();
}

void SimTransport::answer(ProcessId from, ProcessId to, std::uint64_t serial, std::size_t bytes, Completion completion,
                          std::function<void()> before) {
  SimTransport& asker = peer(to);
  world_.send({PacketKind::kAnswer, from, to, bytes, 0}, [&asker, serial, completion, before = std::move(before)] {
    if (before && asker.requests_.contains(serial)) before();
    asker.complete_request(serial, completion);
  });
}

void SimTransport::in_parts(ProcessId where, const std::byte* memory, std::size_t bytes,
                            std::function<void(std::size_t, std::size_t)> part, std::function<void()> then) {
  const std::size_t head = (8 - (reinterpret_cast<std::uintptr_t>(memory) & 7)) & 7;
  if (!world_.params().tear_transfers || bytes < head + 16 || world_.coin()) {
    if (bytes != 0) part(0, bytes);
    then();
    return;
  }
  const std::size_t words = (bytes - head) / 8;
  const std::size_t cut = head + 8 * (1 + world_.random(words - 1));
  part(0, cut);
  world_.at(
      kPartNs + static_cast<std::int64_t>(world_.random(static_cast<std::uint64_t>(world_.params().jitter_ns) + 1)),
      where, [part = std::move(part), then = std::move(then), cut, bytes] {
        part(cut, bytes - cut);
        then();
      });
}

bool SimTransport::try_read_async(const ReadParams& params) {
  if (one_sided_ >= world_.params().requests_max) return false;
  const ProcessId target = params.source_process;
  const Outcome outcome = check_target(target);
  if (outcome != Outcome::kOk) {
    complete_later(params.on_complete, {outcome, 0, 0});
    return true;
  }
  const std::uint64_t serial = open_request({target, true, false, {}, 0, params.on_complete});
  if (target != self_) ++counters_.messages_sent;
  send_one_sided({PacketKind::kRead, self_, target, 0, 0}, [this, params, target, serial] {
    std::byte* memory = nullptr;
    const std::size_t bytes = params.size_bytes;
    const Outcome at_target =
        peer(target).resolve(params.source.region, params.source.offset, bytes, kReadable, &memory);
    if (at_target != Outcome::kOk) return answer(target, self_, serial, 0, {at_target, 0, 0});
    auto bounce = std::make_shared<std::vector<std::byte>>(bytes);
    in_parts(
        target, memory, bytes,
        [bounce, memory](std::size_t first, std::size_t size) {
          std::memcpy(bounce->data() + first, memory + first, size);
        },
        [this, bounce, target, serial, params] {
          answer(target, self_, serial, bounce->size(), {}, [this, bounce, target, params] {
            if (!bounce->empty()) std::memcpy(params.destination.pointer, bounce->data(), bounce->size());
            if (target != self_) counters_.bytes_received += bounce->size();
          });
        });
  });
  return true;
}

bool SimTransport::try_write_async(const WriteParams& params) {
  if (one_sided_ >= world_.params().requests_max) return false;
  const ProcessId target = params.destination_process;
  const Outcome outcome = check_target(target);
  if (outcome != Outcome::kOk) {
    complete_later(params.on_complete, {outcome, 0, 0});
    return true;
  }
  const std::size_t bytes = params.size_bytes;
  const std::uint64_t serial = open_request({target, true, false, {}, 0, params.on_complete});
  const auto* source = static_cast<const std::byte*>(params.source.pointer);
  auto taken = std::make_shared<std::vector<std::byte>>();
  const bool early = world_.coin();  // V2
  if (early) taken->assign(source, source + bytes);
  if (target != self_) {
    ++counters_.messages_sent;
    counters_.bytes_sent += bytes;
  }
  send_one_sided(
      {PacketKind::kWrite, self_, target, bytes, 0}, [this, params, target, serial, source, taken, early, bytes] {
        if (!early && !world_.alive(self_)) return;  // its memory is gone
        if (!early) taken->assign(source, source + bytes);
        std::byte* memory = nullptr;
        const Outcome at_target =
            peer(target).resolve(params.destination.region, params.destination.offset, bytes, kWritable, &memory);
        if (at_target != Outcome::kOk) return answer(target, self_, serial, 0, {at_target, 0, 0});
        in_parts(
            target, memory, bytes,
            [taken, memory](std::size_t first, std::size_t size) {
              std::memcpy(memory + first, taken->data() + first, size);
            },
            [this, target, serial] { answer(target, self_, serial, 0, {}); });
      });
  return true;
}

bool SimTransport::try_atomic_async(const AtomicParams& params) {
  check_width(params);
  if (one_sided_ >= world_.params().requests_max) return false;
  const ProcessId target = params.target_process;
  const Outcome outcome = check_target(target);
  if (outcome != Outcome::kOk) {
    complete_later(params.on_complete, {outcome, 0, 0});
    return true;
  }
  const std::uint64_t serial = open_request({target, true, false, {}, 0, params.on_complete});
  if (target != self_) ++counters_.messages_sent;
  send_one_sided({PacketKind::kAtomic, self_, target, params.width_bytes, 0}, [this, params, target, serial] {
    std::byte* memory = nullptr;
    Completion completion;
    completion.outcome =
        peer(target).resolve(params.target.region, params.target.offset, params.width_bytes, kAtomic, &memory);
    if (completion.ok() && !is_aligned(memory, params.width_bytes)) completion.outcome = Outcome::kBadAddress;
    if (completion.ok()) completion.value = apply_atomic(memory, params);
    answer(target, self_, serial, params.width_bytes, completion);
  });
  return true;
}

// --- many pieces at once (N9) ---

bool SimTransport::move_list(const ListParams& params, bool reads) {
  if (one_sided_ >= world_.params().requests_max) return false;
  Moves moves;
  for (std::size_t i = 0; i < std::min(params.count, kPiecesMax); ++i) {
    const Piece& piece = params.pieces[i];
    moves.push_back({piece.offset, static_cast<std::byte*>(piece.local), piece.size_bytes});
  }
  move_pieces(
      params.process, params.region, std::move(moves),
      [params](std::uint64_t region_bytes) {
        std::uint64_t bytes = 0;
        return check_list(params, region_bytes, &bytes);
      },
      params.on_complete, reads);
  return true;
}

bool SimTransport::move_strided(const StridedParams& params, bool reads) {
  if (one_sided_ >= world_.params().requests_max) return false;
  Moves moves;
  std::uint64_t bytes = 0;
  const Check check = [params](std::uint64_t region_bytes) {
    std::uint64_t total = 0;
    return check_strided(params, region_bytes, &total);
  };
  const Outcome shape = check_strided(params, ~std::uint64_t{0}, &bytes);
  if (shape == Outcome::kOk)
    for_each_block(params, [&](std::int64_t remote, std::int64_t local) {
      moves.push_back({params.remote.offset + static_cast<std::uint64_t>(remote),
                       static_cast<std::byte*>(params.local.pointer) + local, params.block_bytes});
    });
  move_pieces(params.remote.process, params.remote.region, std::move(moves), check, params.on_complete, reads);
  return true;
}

void SimTransport::move_pieces(ProcessId target, RegionId region, Moves moves, Check check, const Callback& on_complete,
                               bool reads) {
  const Outcome outcome = check_target(target);
  if (outcome != Outcome::kOk) return complete_later(on_complete, {outcome, 0, 0});
  for (std::size_t i = moves.size(); i > 1; --i) std::swap(moves[i - 1], moves[world_.random(i)]);  // N9
  std::size_t bytes = 0;
  for (const Move& move : moves) bytes += move.bytes;
  const std::uint64_t serial = open_request({target, true, false, {}, 0, on_complete});
  if (target != self_) {
    ++counters_.messages_sent;
    if (!reads) counters_.bytes_sent += bytes;
  }
  auto list = std::make_shared<const Moves>(std::move(moves));
  const Packet packet{reads ? PacketKind::kRead : PacketKind::kWrite, self_, target, reads ? 0 : bytes, 0};
  send_one_sided(packet, [this, target, region, list, check = std::move(check), serial, bytes, reads] {
    if (!world_.alive(self_)) return;  // its memory is gone
    std::byte* base = nullptr;
    SimTransport& there = peer(target);
    Outcome at_target = there.resolve(region, 0, 0, reads ? kReadable : kWritable, &base);
    if (at_target == Outcome::kOk) at_target = check(there.regions_[region].bytes);
    if (at_target != Outcome::kOk) return answer(target, self_, serial, 0, {at_target, 0, 0});
    auto bounce = std::make_shared<std::vector<std::byte>>();  // of a read
    const auto move_some = [list, base, reads, bounce](std::size_t first, std::size_t last) {
      for (std::size_t i = first; i < last; ++i) {
        const Move& move = (*list)[i];
        if (move.bytes == 0) continue;
        if (reads)
          bounce->insert(bounce->end(), base + move.offset, base + move.offset + move.bytes);
        else
          std::memcpy(base + move.offset, move.local, move.bytes);
      }
    };
    const auto done = [this, target, serial, list, bounce, bytes, reads] {
      answer(target, self_, serial, reads ? bytes : 0, {}, [this, target, list, bounce, bytes, reads] {
        if (!reads) return;
        const std::byte* from = bounce->data();
        for (const Move& move : *list) {
          if (move.bytes != 0) std::memcpy(move.local, from, move.bytes);
          from += move.bytes;
        }
        if (target != self_) counters_.bytes_received += bytes;
      });
    };
    in_parts(
        target, nullptr, list->size() * 8,
        [move_some](std::size_t first, std::size_t size) { move_some(first / 8, (first + size) / 8); }, done);
  });
}

// --- order ---

void SimTransport::send_one_sided(const Packet& packet, std::function<void()> arrive) {
  Order& order = orders_[static_cast<std::size_t>(packet.to)];
  const std::int64_t arrival_ns = world_.send(packet, std::move(arrive), {}, order.not_before_ns);
  order.last_effect_ns = std::max(order.last_effect_ns, arrival_ns + kPartNs + world_.params().jitter_ns);
}

bool SimTransport::try_fence(ProcessId peer) {
  AYT_CHECK(peer == kAllProcesses || (peer >= 0 && peer < processes()), "fence to process {} of {}", peer, processes());
  for (ProcessId to = 0; to < processes(); ++to) {
    Order& order = orders_[static_cast<std::size_t>(to)];
    if (peer == kAllProcesses || peer == to) order.not_before_ns = order.last_effect_ns + 1;
  }
  return true;
}

bool SimTransport::try_flush_async(ProcessId peer, Callback on_complete) {
  const Outcome outcome = peer == kAllProcesses ? Outcome::kOk : check_target(peer);
  if (outcome != Outcome::kOk) {
    complete_later(on_complete, {outcome, 0, 0});
    return true;
  }
  flushes_.push_back({next_serial_, peer, on_complete});
  world_.at(world_.params().overhead_ns, self_, [this] { finish_flushes(); });
  return true;
}

void SimTransport::finish_flushes() {
  std::vector<Flush> done;
  std::erase_if(flushes_, [&](const Flush& flush) {
    const bool waits = std::any_of(requests_.begin(), requests_.lower_bound(flush.before), [&](const auto& entry) {
      const Request& request = entry.second;
      return request.one_sided && (flush.peer == kAllProcesses || flush.peer == request.target);
    });
    if (!waits) done.push_back(flush);
    return !waits;
  });
  for (const Flush& flush : done) {
    const bool gone = flush.peer != kAllProcesses && peer_failed(flush.peer);
    complete_later(flush.on_complete, {gone ? Outcome::kPeerFailed : Outcome::kOk, 0, 0});
  }
}

// --- messages ---

void SimTransport::set_handler(HandlerId id, HandlerFunction function, void* context) {
  AYT_CHECK(!started_, "handler {} set after start", id);  // N8
  AYT_CHECK(id < kHandlersMax && handlers_[id].function == nullptr, "handler {} is out of range or taken", id);
  handlers_[id] = {function, context};
}

void SimTransport::set_peer_failure_handler(PeerFailureFunction function, void* context) {
  AYT_CHECK(!started_, "peer failure handler set after start");  // N8
  peer_failure_ = function;
  peer_failure_context_ = context;
}

void SimTransport::start() {
  AYT_CHECK(!started_, "started twice");
  started_ = true;
  for (auto& message : early_) world_.at(0, self_, std::move(message));
  early_.clear();
}

void SimTransport::run_handler(HandlerId id, const Message& message) {
  const Handler handler = handlers_[id];
  AYT_CHECK(handler.function != nullptr, "process {} sent a message for handler {}, which nobody set", message.source,
            id);
  handler.function(handler.context, message);
}

void SimTransport::deliver(const Message& message, HandlerId id) {
  if (message.source != self_) counters_.bytes_received += message.size_bytes;
  run_handler(id, message);
  --inbox_;
}

void SimTransport::post_message(ProcessId to, HandlerId handler, const void* payload, std::size_t bytes,
                                std::uint64_t rpc_serial) {
  // 8-aligned, as a Message promises
  auto copy = std::make_shared<std::vector<std::uint64_t>>((bytes + 7) / 8);
  if (bytes != 0) std::memcpy(copy->data(), payload, bytes);
  SimTransport& receiver = peer(to);
  ++receiver.inbox_;
  if (to != self_) {
    ++counters_.messages_sent;
    counters_.bytes_sent += bytes;
  }
  const ProcessId from = self_;
  const auto run = [&receiver, copy, bytes, handler, from, rpc_serial] {
    Message message{from, reinterpret_cast<const std::byte*>(copy->data()), bytes, {}};
    if (rpc_serial != 0) message.token = {from, 0, rpc_serial};
    receiver.deliver(message, handler);
  };
  const PacketKind kind = rpc_serial != 0 ? PacketKind::kRpc : PacketKind::kMessage;
  world_.send(
      {kind, self_, to, bytes, handler},
      [&receiver, run] {
        if (receiver.started_)
          run();
        else
          receiver.early_.push_back(run);  // N8
      },
      [&receiver] { --receiver.inbox_; }, orders_[static_cast<std::size_t>(to)].not_before_ns);
}

bool SimTransport::try_message_async(const MessageParams& params) {
  AYT_CHECK(params.handler < kHandlersMax, "handler {}", params.handler);
  Outcome outcome = check_target(params.destination);
  if (params.size_bytes > LongMessages::kBytesMax) outcome = Outcome::kTooLarge;
  if (outcome == Outcome::kOk) {
    if (params.size_bytes > world_.params().payload_bytes_max) return services_.long_messages.start(params);
    if (peer(params.destination).inbox_ >= world_.params().inbox_messages) return false;
    post_message(params.destination, params.handler, params.payload, params.size_bytes, 0);
  }
  complete_later(params.on_complete, {outcome, 0, 0});
  return true;
}

bool SimTransport::try_rpc_async(const RpcParams& params) {
  AYT_CHECK(params.handler < kHandlersMax, "handler {}", params.handler);
  Outcome outcome = check_target(params.destination);
  if (params.size_bytes > world_.params().payload_bytes_max) outcome = Outcome::kTooLarge;
  if (outcome != Outcome::kOk) {
    complete_later(params.on_complete, {outcome, 0, 0});
    return true;
  }
  if (rpcs_ >= world_.params().rpcs_max || peer(params.destination).inbox_ >= world_.params().inbox_messages)
    return false;
  const std::uint64_t serial =
      open_request({params.destination, false, true, params.reply, params.reply_bytes_max, params.on_complete});
  post_message(params.destination, params.handler, params.payload, params.size_bytes, serial);
  return true;
}

void SimTransport::reply(const ReplyToken& token, const void* payload, std::size_t size_bytes) {
  AYT_CHECK(token.wanted(), "reply to a one-way message");
  AYT_CHECK(size_bytes <= world_.params().payload_bytes_max, "reply of {} bytes, {} possible", size_bytes,
            world_.params().payload_bytes_max);
  auto copy = std::make_shared<std::vector<std::byte>>(size_bytes);
  if (size_bytes != 0) std::memcpy(copy->data(), payload, size_bytes);
  if (token.process != self_) {
    ++counters_.messages_sent;
    counters_.bytes_sent += size_bytes;
  }
  SimTransport& asker = peer(token.process);
  const ProcessId from = self_;
  world_.send({PacketKind::kAnswer, self_, token.process, size_bytes, 0}, [&asker, token, copy, from] {
    const auto found = asker.requests_.find(token.serial);
    if (found == asker.requests_.end()) return;  // given up
    Completion completion;
    completion.reply_bytes = static_cast<std::uint32_t>(copy->size());
    if (copy->size() > found->second.reply_bytes_max)
      completion.outcome = Outcome::kTooLarge;
    else if (!copy->empty())
      std::memcpy(found->second.reply.pointer, copy->data(), copy->size());
    if (from != asker.self_) asker.counters_.bytes_received += copy->size();
    asker.complete_request(token.serial, completion);
  });
}

// --- progress ---

void SimTransport::notice_failure(ProcessId failed) {
  noticed_[static_cast<std::size_t>(failed)] = true;
  std::vector<std::uint64_t> unanswered;
  for (const auto& [serial, request] : requests_)
    if (request.target == failed) unanswered.push_back(serial);
  for (const std::uint64_t serial : unanswered) complete_request(serial, {Outcome::kPeerFailed, 0, 0});
  services_.on_peer_failed(failed);
  if (peer_failure_ != nullptr) peer_failure_(peer_failure_context_, failed);
}

void SimTransport::after_event() {
  if (!services_.pending()) return;
  services_.progress();
  if (!services_.pending() || retry_planned_) return;
  retry_planned_ = true;
  world_.at(world_.params().latency_ns, self_, [this] { retry_planned_ = false; });
}

std::size_t SimTransport::progress() {
  if (world_.in_event()) return 0;
  after_event();  // what a collective called outside events left behind
  if (world_.scripts() != nullptr) {
    world_.scripts()->yield(self_);
    return 1;
  }
  return world_.step() ? 1 : 0;
}

bool SimTransport::wait(bool (*until)(void* data), void* data, std::int64_t timeout_ns) {
  AYT_CHECK(!world_.in_event(), "a handler or completion must not wait");  // N4, N6
  const std::int64_t end_ns = world_.now_ns() + timeout_ns;
  if (timeout_ns != kNoTimeout) world_.at(timeout_ns, self_, {});
  while (!until(data)) {
    if (timeout_ns != kNoTimeout && world_.now_ns() >= end_ns) return false;
    after_event();
    if (world_.scripts() != nullptr) {
      world_.scripts()->block(self_);
    } else {
      AYT_CHECK(world_.step(), "simulation: process {} waits for what never comes (seed {})", self_,
                world_.params().seed);
    }
  }
  return true;
}

void SimTransport::wake() noexcept { world_.at(0, self_, {}); }

}  // namespace ayatori::net::sim
