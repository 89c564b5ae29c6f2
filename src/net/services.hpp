// SPDX-License-Identifier: Apache-2.0
// What a transport builds out of its messages: collectives and long messages. A transport owns one, calls progress() where it
// makes progress and tells it of peers that are gone.
#pragma once

#include "net/collectives.hpp"
#include "net/long_messages.hpp"

namespace ayatori::net {

struct Services {
  Services(Transport& transport, LongMessages::Deliver deliver, const Letters& letters = {})
      : collectives(transport, letters), long_messages(transport, deliver) {}

  bool pending() const noexcept { return collectives.pending() || long_messages.pending(); }
  std::size_t progress() {
    std::size_t ran = collectives.pending() ? collectives.progress() : 0;
    if (long_messages.pending()) ran += long_messages.progress();
    return ran;
  }
  // Whoever is about to sleep should make progress instead.
  bool news() { return collectives.kept() || collectives.letters_came() || long_messages.pending(); }
  // Before an orderly leave: others still wait for something of ours.
  bool owes() { return collectives.kept() || long_messages.under_way(); }
  void on_peer_failed(ProcessId process) {
    collectives.on_peer_failure();
    long_messages.on_peer_failed(process);
  }
  void on_peer_left(ProcessId process, std::uint64_t collective_calls) {
    collectives.on_peer_left(collective_calls);
    long_messages.on_peer_left(process);
  }

  Collectives collectives;
  LongMessages long_messages;
};

// A transport whose collectives are those of its services.
class ServicedTransport : public Transport {
 public:
  bool try_barrier_async(Callback on_complete) final { return services().collectives.start_barrier(on_complete); }
  bool try_broadcast_async(const BroadcastParams& params) final {
    return services().collectives.start_broadcast(params);
  }
  bool try_reduce_async(const ReduceParams& params) final { return services().collectives.start_reduce(params); }
  bool try_gather_async(const GatherParams& params) final { return services().collectives.start_gather(params); }
  bool try_alltoall_async(const AlltoallParams& params) final { return services().collectives.start_alltoall(params); }

 private:
  virtual Services& services() noexcept = 0;  // made by the transport itself, whose set_handler() they call
};

}  // namespace ayatori::net
