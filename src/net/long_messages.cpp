// SPDX-License-Identifier: Apache-2.0
#include "net/long_messages.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <new>

#include "base/check.hpp"
#include "base/log.hpp"

namespace ayatori::net {
namespace {

// L6.
void drop(const Message& message) {
  static constinit std::atomic<bool> told{false};
  base::log_warn_once(told, "process {} sent {} bytes of a long message that make no sense: they are dropped",
                      message.source, message.size_bytes);
}

}  // namespace

LongMessages::LongMessages(Transport& transport, Deliver deliver)
    : transport_(transport), deliver_(deliver), outbox_(transport) {
  transport.set_handler(
      kHandler, [](void* self, const Message& message) { static_cast<LongMessages*>(self)->on_message(message); },
      this);
}

void LongMessages::send(ProcessId to, const Header& header) {
  const auto* const bytes = reinterpret_cast<const std::byte*>(&header);
  outbox_.send(to, kHandler, std::vector<std::byte>(bytes, bytes + sizeof header));
}

// --- the sender ---

bool LongMessages::start(const MessageParams& params) {
  AYT_CHECK(params.on_complete.function != nullptr, "a message of {} bytes needs a completion", params.size_bytes);
  {
    std::lock_guard lock(mutex_);
    if (outgoing_.size() == kUnderWayMax) return false;
    if ((gone_ >> params.destination & 1) == 0) {
      const std::uint64_t id = next_id_++;
      outgoing_.emplace(
          id, Outgoing{params.destination, params.handler, false, static_cast<const std::byte*>(params.payload),
                       params.size_bytes, 0, params.on_complete});
      send(params.destination, {Kind::kAsk, params.handler, id, params.size_bytes, 0});
      return true;
    }
  }
  params.on_complete({Outcome::kPeerFailed, 0, 0});  // it went after its standing was looked at (L5)
  return true;
}

bool LongMessages::under_way() {
  std::lock_guard lock(mutex_);
  return !outgoing_.empty();
}

// False: no room.
bool LongMessages::send_part(std::uint64_t id, Outgoing& outgoing) {
  const std::uint64_t bytes = std::min<std::uint64_t>(transport_.limits().payload_bytes_max - sizeof(Header),
                                                      outgoing.bytes - outgoing.sent_bytes);
  const Header header{Kind::kPart, outgoing.handler, id, outgoing.bytes, outgoing.sent_bytes};
  part_.resize(sizeof header + bytes);
  std::memcpy(part_.data(), &header, sizeof header);
  std::memcpy(part_.data() + sizeof header, outgoing.payload + outgoing.sent_bytes, bytes);
  if (!transport_.try_message_async({outgoing.to, kHandler, part_.data(), part_.size(), {}})) return false;
  outgoing.sent_bytes += bytes;
  return true;
}

void LongMessages::take_out(std::map<std::uint64_t, Outgoing>::iterator at, Outcome outcome, std::vector<Done>& done) {
  done.push_back({at->second.on_complete, outcome});
  if (at->second.granted) granted_.store(granted_.load(std::memory_order_relaxed) - 1, std::memory_order_relaxed);
  outgoing_.erase(at);
}

std::size_t LongMessages::progress() {
  std::size_t ran = 0;
  std::vector<Done> done;
  {
    std::lock_guard lock(mutex_);
    ran += outbox_.progress();
    for (auto at = outgoing_.begin(); at != outgoing_.end();) {  // L4
      const auto next = std::next(at);
      if (at->second.granted && send_part(at->first, at->second)) {
        ++ran;
        if (at->second.sent_bytes == at->second.bytes) take_out(at, Outcome::kOk, done);
      }
      at = next;
    }
  }
  for (const Done& d : done) d.callback({d.outcome, 0, 0});
  return ran;
}

void LongMessages::on_peer_failed(ProcessId process) {
  give_up_sending(process);
  std::lock_guard lock(mutex_);
  std::erase_if(incoming_, [&](const auto& entry) {
    if (entry.first.first != process) return false;
    incoming_bytes_ -= entry.second.bytes;
    return true;
  });
  grant_asks();
}

void LongMessages::on_peer_left(ProcessId process) { give_up_sending(process); }

void LongMessages::give_up_sending(ProcessId to) {
  std::vector<Done> done;
  {
    std::lock_guard lock(mutex_);
    gone_ |= std::uint64_t{1} << to;
    std::erase_if(asks_, [&](const Ask& ask) { return ask.key.first == to; });
    for (auto at = outgoing_.begin(); at != outgoing_.end();) {
      const auto next = std::next(at);
      if (at->second.to == to) take_out(at, Outcome::kPeerFailed, done);
      at = next;
    }
  }
  for (const Done& d : done) d.callback({d.outcome, 0, 0});
}

// --- the receiver ---

void LongMessages::on_message(const Message& message) {
  Header header;
  if (message.size_bytes < sizeof header) return drop(message);
  std::memcpy(&header, message.payload, sizeof header);
  std::vector<Done> done;
  Incoming whole{};
  {
    std::lock_guard lock(mutex_);
    switch (header.kind) {
      case Kind::kAsk:
        if (!may_ask(header, message.source)) return drop(message);
        asks_.push_back({{message.source, header.id}, static_cast<HandlerId>(header.handler), header.total_bytes});
        grant_asks();
        break;
      case Kind::kGrant:
      case Kind::kRefuse: {
        const auto found = outgoing_.find(header.id);
        if (found == outgoing_.end() || found->second.to != message.source) break;  // it was given up
        if (header.kind == Kind::kRefuse) {
          take_out(found, Outcome::kTooLarge, done);
        } else if (!found->second.granted) {
          found->second.granted = true;
          granted_.store(granted_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
        }
        break;
      }
      case Kind::kPart: take_part(header, message, &whole); break;
    }
  }
  for (const Done& d : done) d.callback({d.outcome, 0, 0});
  if (whole.arrived_bytes != 0)
    deliver_(transport_, whole.handler,
             {message.source, reinterpret_cast<const std::byte*>(whole.room.data()), whole.bytes, {}});
}

// L6. Whoever is gone has nothing more to send. A message for this class itself could hold the end of another one: each
// that came whole in another's handler would take stack.
bool LongMessages::may_ask(const Header& header, ProcessId source) const {
  const Key key{source, header.id};
  if (header.handler >= kHandlersMax || header.handler == kHandler || header.total_bytes > kBytesMax ||
      header.total_bytes <= transport_.limits().payload_bytes_max || (gone_ >> source & 1) != 0 ||
      incoming_.contains(key))
    return false;
  std::size_t waiting = 0;
  for (const Ask& ask : asks_) {
    if (ask.key == key) return false;
    waiting += ask.key.first == source;
  }
  return waiting < kUnderWayMax;
}

// Moves the message into *whole when this was its last part.
void LongMessages::take_part(const Header& header, const Message& message, Incoming* whole) {
  const auto found = incoming_.find({message.source, header.id});
  if (found == incoming_.end()) return;  // the sender was thought gone
  Incoming& incoming = found->second;
  const std::uint64_t bytes = message.size_bytes - sizeof header;
  if (header.offset > incoming.bytes || bytes > incoming.bytes - header.offset ||
      bytes > incoming.bytes - incoming.arrived_bytes)
    return drop(message);
  std::memcpy(reinterpret_cast<std::byte*>(incoming.room.data()) + header.offset, message.payload + sizeof header,
              bytes);
  incoming.arrived_bytes += bytes;
  if (incoming.arrived_bytes != incoming.bytes) return;
  incoming_bytes_ -= incoming.bytes;
  *whole = std::move(incoming);
  incoming_.erase(found);
  grant_asks();
}

// L1.
void LongMessages::grant_asks() {
  while (!asks_.empty()) {
    const Ask ask = asks_.front();
    if (incoming_bytes_ != 0 && incoming_bytes_ + ask.bytes > kGrantedBytesMax) return;
    asks_.pop_front();
    Kind answer = Kind::kGrant;
    try {
      incoming_.emplace(ask.key, Incoming{ask.handler, std::vector<std::uint64_t>((ask.bytes + 7) / 8), ask.bytes, 0});
      incoming_bytes_ += ask.bytes;
    } catch (const std::bad_alloc&) {
      answer = Kind::kRefuse;
    }
    send(ask.key.first, {answer, ask.handler, ask.key.second, ask.bytes, 0});
  }
}

}  // namespace ayatori::net
