// SPDX-License-Identifier: Apache-2.0
// One simulated process' end of a SimWorld. Called by whatever drives the world: its thread, or the one script that runs.
//
// E1. Requests under way are kept in `requests_` until the first of answer and failure notice takes them out: so each
//     completes once.
// E2. Room: requests_max for reads, writes and atomics, rpcs_max for RPCs, inbox_messages per receiver for messages and RPCs
//     together (given back when a message was handled or lost). Answers need none.
// E3. A fence (N10) is a time: what is sent to the peer later arrives after the last part (V3) of what was sent before.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <vector>

#include <ayatori/net/transport.hpp>
#include "net/services.hpp"
#include "net/sim/world.hpp"

namespace ayatori::net::sim {

class SimTransport final : public ServicedTransport {
 public:
  SimTransport(SimWorld& world, ProcessId self);

  ProcessId self() const noexcept override { return self_; }
  int processes() const noexcept override { return world_.params().processes; }
  bool on_this_machine(ProcessId process) const noexcept override { return process == self(); }
  Capabilities capabilities() const noexcept override {
    return {true, true, true, true, world_.params().direct_pointer};
  }
  Limits limits() const noexcept override {
    return {world_.params().payload_bytes_max, LongMessages::kBytesMax, world_.params().rpcs_max};
  }
  Counters counters() const noexcept override { return counters_; }

  RegionId register_memory(void* base, std::size_t bytes, std::uint8_t rights) override;
  void unregister_memory(RegionId region) override;
  void* direct_pointer(const RemoteAddress& address, std::size_t bytes) noexcept override;

  bool try_read_async(const ReadParams& params) override;
  bool try_write_async(const WriteParams& params) override;
  bool try_atomic_async(const AtomicParams& params) override;
  bool try_read_list_async(const ListParams& params) override { return move_list(params, true); }
  bool try_write_list_async(const ListParams& params) override { return move_list(params, false); }
  bool try_read_strided_async(const StridedParams& params) override { return move_strided(params, true); }
  bool try_write_strided_async(const StridedParams& params) override { return move_strided(params, false); }
  bool try_flush_async(ProcessId peer, Callback on_complete) override;
  bool try_fence(ProcessId peer) override;

  void set_handler(HandlerId id, HandlerFunction function, void* context) override;
  bool try_message_async(const MessageParams& params) override;
  bool try_rpc_async(const RpcParams& params) override;
  void reply(const ReplyToken& token, const void* payload, std::size_t size_bytes) override;

  void set_peer_failure_handler(PeerFailureFunction function, void* context) override;
  bool peer_failed(ProcessId process) const noexcept override { return noticed_[static_cast<std::size_t>(process)]; }

  void start() override;
  // Lets the world go on by one event, or another script run.
  std::size_t progress() override;
  bool wait(bool (*until)(void* data), void* data, std::int64_t timeout_ns) override;  // virtual time
  void wake() noexcept override;

  // For SimWorld.
  void notice_failure(ProcessId failed);
  void after_event();

 private:
  Services& services() noexcept override { return services_; }

  struct Region {
    std::byte* base;
    std::size_t bytes;
    std::uint8_t rights;  // 0: free
  };
  struct Request {
    ProcessId target;
    bool one_sided;  // counts for requests_max and flush
    bool rpc;
    LocalAddress reply;
    std::size_t reply_bytes_max;
    Callback on_complete;
  };
  struct Flush {
    std::uint64_t before;  // serial
    ProcessId peer;
    Callback on_complete;
  };
  struct Order {                      // of what goes to one peer (E3)
    std::int64_t last_effect_ns = 0;  // of one-sided requests issued so far
    std::int64_t not_before_ns = 0;   // that of the last fence
  };
  struct Move {  // a piece of a list or strided request
    std::uint64_t offset;
    std::byte* local;
    std::size_t bytes;
  };
  using Moves = std::vector<Move>;
  using Check = std::function<Outcome(std::uint64_t region_bytes)>;
  struct Handler {
    HandlerFunction function = nullptr;
    void* context = nullptr;
  };

  Outcome resolve(RegionId region, std::uint64_t offset, std::size_t bytes, std::uint8_t rights, std::byte** memory);
  Outcome check_target(ProcessId process) const noexcept;
  void complete_later(const Callback& callback, Completion completion);
  std::uint64_t open_request(const Request& request);
  void complete_request(std::uint64_t serial, Completion completion);  // E1
  void answer(ProcessId from, ProcessId to, std::uint64_t serial, std::size_t bytes, Completion completion,
              std::function<void()> before = {});
  void deliver(const Message& message, HandlerId handler);
  void run_handler(HandlerId id, const Message& message);
  void post_message(ProcessId to, HandlerId handler, const void* payload, std::size_t bytes, std::uint64_t rpc_serial);
  // Applies `part(first, bytes)` at once or in two parts (V3), then `then`; at process `where`.
  void in_parts(ProcessId where, const std::byte* memory, std::size_t bytes,
                std::function<void(std::size_t, std::size_t)> part, std::function<void()> then);
  bool move_list(const ListParams& params, bool reads);
  bool move_strided(const StridedParams& params, bool reads);
  void move_pieces(ProcessId target, RegionId region, Moves moves, Check check, const Callback& on_complete,
                   bool reads);
  void send_one_sided(const Packet& packet, std::function<void()> arrive);
  SimTransport& peer(ProcessId process) { return world_.transport(process); }
  void finish_flushes();

  SimWorld& world_;
  const ProcessId self_;
  std::array<Handler, kHandlersMax> handlers_;
  PeerFailureFunction peer_failure_ = nullptr;
  void* peer_failure_context_ = nullptr;
  std::vector<Region> regions_;
  std::map<std::uint64_t, Request> requests_;  // by serial
  std::vector<Flush> flushes_;
  std::vector<Order> orders_;  // by peer
  std::uint64_t next_serial_ = 1;
  std::uint32_t one_sided_ = 0;  // under way
  std::uint32_t rpcs_ = 0;       // under way
  std::uint32_t inbox_ = 0;      // messages under way to this process
  std::vector<bool> noticed_;
  Counters counters_;
  bool started_ = false;
  bool retry_planned_ = false;
  std::vector<std::function<void()>> early_;  // messages that came before start()
  Services services_;
};

static_assert(TransportLike<SimTransport>);

}  // namespace ayatori::net::sim
