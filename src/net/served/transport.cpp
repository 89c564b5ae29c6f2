// SPDX-License-Identifier: Apache-2.0
// Messages and what all requests share. one_sided.cpp: the others; serve.cpp: what arrives; progress.cpp: progress and
// waiting; life.cpp: start, heartbeats, the end.
#include "net/served/transport.hpp"

#include <string.h>
#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/check.hpp"
#include "net/served/issue.hpp"
#include "net/served/thread_state.hpp"
#include "net/shm/transport.hpp"

namespace ayatori::net::served {

ServedTransport::ServedTransport(const ServedConfig& config, const char* name)
    : limits_(limits_of(config)),
      self_(config.self),
      processes_(config.processes),
      epoll_(::epoll_create1(EPOLL_CLOEXEC)),
      requests_(config.requests_max),
      served_(config),
      name_(name),
      services_(*this, [](Transport& of, HandlerId id, const Message& message) {
        static_cast<ServedTransport&>(of).deliver(id, message);
      }) {
  AYT_CHECK(processes_ >= 1 && processes_ <= kMaxProcesses, "{} processes, 1 to {} possible", processes_,
            kMaxProcesses);
  AYT_CHECK(in_job(self_), "process {} of {}", self_, processes_);
  AYT_CHECK(config.payload_bytes_max <= kPayloadBytesLimit && config.inline_bytes_max >= kWholeWordBytesMax &&
                config.inline_bytes_max <= kSegmentBytesMax,
            "payloads of {} bytes, {} inline", config.payload_bytes_max, config.inline_bytes_max);
  if (!epoll_) base::fatal("{}: no epoll descriptor: {}", name_, strerrordesc_np(errno));
  AYT_CHECK(config.requests_max >= 1 && config.requests_max <= kRequestsLimit, "{} requests, 1 to {} possible",
            config.requests_max, kRequestsLimit);
  AYT_CHECK(config.heartbeat_interval_ns > 0 && config.heartbeat_timeout_ns >= 2 * config.heartbeat_interval_ns,
            "a heartbeat every {} ns, silence of {} ns", config.heartbeat_interval_ns, config.heartbeat_timeout_ns);
  if (config.world != nullptr) join_neighbours();
}

ServedTransport::~ServedTransport() = default;

// All answers that a peer can be owed at once (send_queue.hpp Q2), some heartbeats, and what a wire says about regions.
std::size_t ServedTransport::reply_bytes_max() const noexcept {
  const std::size_t longest = frame_bytes(std::max(served_.payload_bytes_max, served_.inline_bytes_max));
  return served_.requests_max * (longest + kHeaderBytes) + (64 + 4 * kRegionsMax) * kHeaderBytes;
}

Capabilities ServedTransport::capabilities() const noexcept {
  const bool served = served_.progress_thread;
  return {served, served, served, true, near_ != nullptr};
}

bool ServedTransport::peer_failed(ProcessId process) const noexcept {
  return peer(process).standing.load(std::memory_order_seq_cst) == Standing::kFailed;  // pairs with retire()
}

// --- completions ---

bool ServedTransport::has_room(const Callback& callback) const noexcept {
  return thread_state().completions.has_room(callback, served_.nested_completions_max);
}

bool ServedTransport::complete_now(const Callback& callback, Completion completion) {
  Completions& completions = thread_state().completions;
  if (!completions.has_room(callback, served_.nested_completions_max)) return false;
  completions.run(callback, completion);
  return true;
}

void ServedTransport::complete(std::uint32_t slot, Completion completion) {
  const Callback callback = requests_[slot].on_complete;
  if (requests_[slot].kind.load(std::memory_order_relaxed) == Request::Kind::kMessage)  // the caller's own
    long_messages_.fetch_sub(1, std::memory_order_relaxed);                             // only a number
  requests_.give_back(slot);
  thread_state().completions.run(callback, completion);
}

// --- messages ---

void ServedTransport::set_handler(HandlerId id, HandlerFunction function, void* context) {
  AYT_CHECK(!started_.load(std::memory_order_relaxed), "handler {} set after start", id);  // N8, one thread
  AYT_CHECK(id < kHandlersMax && handlers_[id].function == nullptr, "handler {} is out of range or taken", id);
  handlers_[id] = {function, context};
}

void ServedTransport::set_peer_failure_handler(PeerFailureFunction function, void* context) {
  AYT_CHECK(!started_.load(std::memory_order_relaxed), "peer failure handler set after start");  // N8, one thread
  peer_failure_ = function;
  peer_failure_context_ = context;
}

// Answers an RPC, or sends a message, of the wire's own: not counted, and there is always room (send_queue.hpp Q2) as long as
// the peer is told no more than it asks for.
void ServedTransport::tell(Peer& to, const FrameHeader& header, const void* body, std::size_t bytes) {
  FrameHeader told = header;
  told.body_bytes = static_cast<std::uint32_t>(bytes);
  {
    std::lock_guard lock(to.mutex);
    if (!to.open) return;
    std::byte* const room = to.queue.push_reply(told);
    if (room == nullptr) return accuse(to, "it asks for more answers than it may");
    std::memcpy(room, body, bytes);
  }
  kick(to);
}

bool ServedTransport::deliver(HandlerId id, const Message& message) {
  const Handler handler = handlers_[id];
  if (handler.function == nullptr || (id == LongMessages::kHandler && message.source != self_)) {  // D8
    accuse(peer(message.source), "a message for a handler that nobody set");
    return false;
  }
  handler.function(handler.context, message);
  return true;
}

bool ServedTransport::try_message_async(const MessageParams& params) {
  AYT_CHECK(params.handler < kHandlersMax, "handler {}", params.handler);
  if (!has_room(params.on_complete)) return false;
  if (!in_job(params.destination)) return complete_now(params.on_complete, {Outcome::kBadAddress, 0, 0});
  if (takes_near(params.destination, params.size_bytes)) return near_->try_message_async(params);
  if (params.size_bytes > LongMessages::kBytesMax) return complete_now(params.on_complete, {Outcome::kTooLarge, 0, 0});
  if (params.size_bytes > served_.payload_bytes_max)
    return params.destination == self_ ? services_.long_messages.start(params) : move_message(params);
  FrameHeader header;
  header.kind = FrameKind::kMessage;
  header.handler = params.handler;
  header.body_bytes = static_cast<std::uint32_t>(params.size_bytes);
  Peer& to = peer(params.destination);
  const bool is_home = to.process == self_;
  {
    std::lock_guard lock(to.mutex);
    if (is_home || to.open) {
      std::byte* const body = to.queue.push_request(header, false);
      if (body == nullptr) return false;
      if (params.size_bytes != 0) std::memcpy(body, params.payload, params.size_bytes);
      if (is_home) self_messages_.fetch_add(1, std::memory_order_relaxed);  // released by the mutex
    } else if (!is_gone(to)) {
      return false;  // not started
    }
  }
  if (is_gone(to)) return complete_now(params.on_complete, {Outcome::kPeerFailed, 0, 0});
  kick(to);
  count(to.process, 1, params.size_bytes, 0);
  return complete_now(params.on_complete, {});
}

bool ServedTransport::try_rpc_async(const RpcParams& params) {
  AYT_CHECK(params.handler < kHandlersMax, "handler {}", params.handler);
  if (!has_room(params.on_complete)) return false;
  if (!in_job(params.destination)) return complete_now(params.on_complete, {Outcome::kBadAddress, 0, 0});
  if (takes_near(params.destination, params.size_bytes)) return near_->try_rpc_async(params);
  if (params.size_bytes > served_.payload_bytes_max)
    return complete_now(params.on_complete, {Outcome::kTooLarge, 0, 0});
  const std::uint32_t slot = requests_.take(thread_state().stripe);
  if (slot == RequestTable::kNone) return false;
  Request& request = requests_[slot];
  request.process.store(params.destination, std::memory_order_relaxed);  // released by state
  request.kind.store(Request::Kind::kRpc, std::memory_order_relaxed);
  request.local = Walk(static_cast<std::byte*>(params.reply.pointer), params.reply_bytes_max);
  request.is_bulk = false;
  request.unanswered.store(false, std::memory_order_release);  // pairs with find()
  request.on_complete = params.on_complete;
  FrameHeader header;
  header.kind = FrameKind::kRpc;
  header.handler = params.handler;
  header.body_bytes = static_cast<std::uint32_t>(params.size_bytes);
  const bool is_home = params.destination == self_;
  const bool counted = !is_wires_own(params.handler);
  return issue(
      slot, peer(params.destination), header, params.size_bytes,
      [&](SendQueue& queue, const FrameHeader& numbered) {
        std::byte* const body = queue.push_request(numbered, false);
        if (body == nullptr) return false;
        if (params.size_bytes != 0) std::memcpy(body, params.payload, params.size_bytes);
        if (is_home) self_messages_.fetch_add(1, std::memory_order_relaxed);  // released by the mutex
        return true;
      },
      counted);
}

void ServedTransport::reply(const ReplyToken& token, const void* payload, std::size_t size_bytes) {
  AYT_CHECK(token.wanted(), "reply to a one-way message");
  AYT_CHECK(size_bytes <= served_.payload_bytes_max, "reply of {} bytes, {} possible", size_bytes,
            served_.payload_bytes_max);
  if ((token.slot & kNearSlot) != 0)
    return near_->reply({token.process, token.slot & ~kNearSlot, token.serial}, payload, size_bytes);
  FrameHeader header;
  header.kind = FrameKind::kReply;
  header.body_bytes = static_cast<std::uint32_t>(size_bytes);
  header.slot = token.slot;
  header.serial = token.serial;
  Peer& to = peer(token.process);
  {
    std::lock_guard lock(to.mutex);
    if (to.process != self_ && !to.open) return;
    std::byte* const body = to.queue.push_reply(header);
    if (body == nullptr) return accuse(to, "it asks for more answers than it may");
    if (size_bytes != 0) std::memcpy(body, payload, size_bytes);
  }
  kick(to);
  count(to.process, 1, size_bytes, 0);
}

// --- counters ---

void ServedTransport::count(ProcessId process, std::uint64_t messages, std::uint64_t sent,
                            std::uint64_t received) noexcept {
  if (process == self_) return;
  stripes_[thread_state().stripe % kStripes].add(messages, sent, received, false);
}

Counters ServedTransport::counters() const noexcept {
  Counters all = sum_of(stripes_);
  const Counters near = neighbour_counters();
  all.messages_sent += near.messages_sent;
  all.messages_by_memory = near.messages_by_memory;
  all.bytes_sent += near.bytes_sent;
  all.bytes_received += near.bytes_received;
  return all;
}

}  // namespace ayatori::net::served
