// SPDX-License-Identifier: Apache-2.0
// One-way messages longer than limits().payload_bytes_max, by rendezvous out of shorter ones, the same for every transport
// that owns one of these (a served one uses it for messages to itself: D8 of net/served/transport.hpp). Called by the
// transport: start() on any thread, on_message() in its handlers, progress() and on_peer_*() on threads that make progress.
//
// L1. Ask, grant, parts: the receiver gives room before a part is sent, so a sender cannot fill another's memory. Grants
//     under way hold kGrantedBytesMax in all, or one message; later asks wait in order.
// L2. Parts may arrive in any order (N2); each carries its place. The handler runs, with the whole message in one piece,
//     when all have come, on the thread that took the last one (N6).
// L3. The sender's completion: all parts were taken by the transport, the payload may be reused.
// L4. Parts leave as the transport has room, in turns between the messages under way: a long one holds up no other.
// L5. When the receiver is gone the message completes with kPeerFailed. When the sender failed its room is given back; when it
//     left in good order its last parts are still to come.
// L6. What makes no sense is a broken peer's and is dropped: asks that no sender has or may have under way at once, parts beyond
//     their message.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include <ayatori/net/transport.hpp>
#include "net/outbox.hpp"

namespace ayatori::net {

class LongMessages {
 public:
  static constexpr HandlerId kHandler = kNetHandlers + 3;
  static constexpr std::size_t kBytesMax = std::size_t{1} << 30;
  static constexpr std::size_t kGrantedBytesMax = std::size_t{64} << 20;
  static constexpr std::size_t kUnderWayMax = 64;  // per sender

  using Deliver = void (*)(Transport& transport, HandlerId handler, const Message& message);
  LongMessages(Transport& transport, Deliver deliver);  // takes kHandler

  // The target was checked; it has an on_complete, or nobody would know how long the payload is needed. False: kUnderWayMax
  // are under way.
  bool start(const MessageParams& params);

  // True when progress() has something to try. A hint.
  bool pending() const noexcept { return outbox_.pending() || granted_.load(std::memory_order_relaxed) != 0; }
  bool under_way();  // this process still sends
  std::size_t progress();
  void on_peer_failed(ProcessId process);
  void on_peer_left(ProcessId process);

 private:
  enum class Kind : std::uint32_t { kAsk, kGrant, kRefuse, kPart };
  struct Header {
    Kind kind;
    std::uint32_t handler;
    std::uint64_t id;  // the sender's
    std::uint64_t total_bytes;
    std::uint64_t offset;
  };
  struct Outgoing {
    ProcessId to;
    HandlerId handler;
    bool granted = false;
    const std::byte* payload;
    std::uint64_t bytes;
    std::uint64_t sent_bytes = 0;
    Callback on_complete;
  };
  struct Incoming {
    HandlerId handler;
    std::vector<std::uint64_t> room;  // 8-aligned, as a Message promises
    std::uint64_t bytes;
    std::uint64_t arrived_bytes = 0;
  };
  using Key = std::pair<ProcessId, std::uint64_t>;  // sender, id
  struct Ask {
    Key key;
    HandlerId handler;
    std::uint64_t bytes;
  };
  struct Done {
    Callback callback;
    Outcome outcome;
  };

  void on_message(const Message& message);
  void give_up_sending(ProcessId to);
  bool may_ask(const Header& header, ProcessId source) const;
  void take_part(const Header& header, const Message& message, Incoming* whole);
  void grant_asks();
  bool send_part(std::uint64_t id, Outgoing& outgoing);
  void send(ProcessId to, const Header& header);
  void take_out(std::map<std::uint64_t, Outgoing>::iterator at, Outcome outcome, std::vector<Done>& done);

  // Constant after construction.
  Transport& transport_;
  const Deliver deliver_;

  std::mutex mutex_;
  // Guarded by mutex_.
  Outbox outbox_;
  std::uint64_t next_id_ = 0;
  std::map<std::uint64_t, Outgoing> outgoing_;
  std::map<Key, Incoming> incoming_;
  std::deque<Ask> asks_;
  std::uint64_t incoming_bytes_ = 0;
  std::uint64_t gone_ = 0;       // bit: a process of which on_peer_*() told
  std::vector<std::byte> part_;  // room to put one together

  std::atomic<std::size_t> granted_{0};  // of outgoing_; written under mutex_
};

}  // namespace ayatori::net
