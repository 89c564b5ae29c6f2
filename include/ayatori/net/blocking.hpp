// SPDX-License-Identifier: Apache-2.0
// Part of the public interface, <ayatori/net.hpp>. Waiting forms of the transport's calls (thesis 4.3.1), for start-up code,
// tests and cold paths. Called on native stacks of OS threads, of as many as one likes at once, never in handlers, callbacks
// or on a stack of the space: whoever runs user-level threads uses the asynchronous calls.
//
// B1. Each call returns after its request completed, whatever the outcome (Completion::outcome says which); a full ring is
//     waited for.
#pragma once

#include <ayatori/net/transport.hpp>

#include <atomic>
#include <cstdint>
#include <type_traits>
#include <utility>

namespace ayatori::net {

// Waits until condition() holds.
template <class Condition>
bool wait_until(Transport& transport, Condition&& condition, std::int64_t timeout_ns = kNoTimeout) {
  return transport.wait([](void* data) -> bool { return (*static_cast<std::remove_reference_t<Condition>*>(data))(); },
                        const_cast<void*>(static_cast<const void*>(&condition)), timeout_ns);
}

namespace detail {
void until_taken(Transport& transport, bool (*attempt)(void* data), void* data);
}

// Repeats a try_* call until there is room. Where it is made by other processes, they wake nobody for it: so this polls, less
// and less often, unless the transport can tell (Transport::wait_for_room).
template <class Attempt>
void until_taken(Transport& transport, Attempt&& attempt) {
  if (attempt()) return;
  detail::until_taken(
      transport, [](void* data) -> bool { return (*static_cast<std::remove_reference_t<Attempt>*>(data))(); },
      const_cast<void*>(static_cast<const void*>(&attempt)));
}

// One completion to wait for; reusable after each wait.
class Event {
 public:
  Callback callback() noexcept { return {&Event::complete, this}; }
  bool done() const noexcept { return done_.load(std::memory_order_acquire); }  // pairs with the release in complete()
  Completion wait(Transport& transport) {
    transport.wait([](void* self) { return static_cast<Event*>(self)->done(); }, this, kNoTimeout);
    done_.store(false, std::memory_order_relaxed);  // nobody else looks: the request has completed
    return completion_;
  }

 private:
  static void complete(void* self, Completion completion) {
    auto& event = *static_cast<Event*>(self);
    event.completion_ = completion;
    event.done_.store(true, std::memory_order_release);  // pairs with done()
  }
  std::atomic<bool> done_{false};
  Completion completion_;
};

namespace detail {
// Issues `attempt(callback)` until there is room, then waits for its completion (B1).
template <class Attempt>
Completion run_blocking(Transport& transport, Attempt&& attempt) {
  Event event;
  until_taken(transport, [&] { return attempt(event.callback()); });
  return event.wait(transport);
}
}  // namespace detail

inline Completion read(Transport& transport, const RemoteAddress& source, LocalAddress destination, std::size_t bytes) {
  return detail::run_blocking(transport, [&](Callback done) {
    return transport.try_read_async({source.process, source, destination, bytes, done});
  });
}
inline Completion write(Transport& transport, const RemoteAddress& destination, LocalAddress source,
                        std::size_t bytes) {
  return detail::run_blocking(transport, [&](Callback done) {
    return transport.try_write_async({destination.process, destination, source, bytes, done});
  });
}
inline Completion atomic(Transport& transport, const RemoteAddress& target, AtomicOp op, std::uint64_t operand,
                         std::uint64_t expected = 0, std::uint8_t width_bytes = 8) {
  return detail::run_blocking(transport, [&](Callback done) {
    return transport.try_atomic_async({target.process, target, op, operand, expected, done, width_bytes});
  });
}
inline Completion read_list(Transport& transport, ProcessId from, RegionId region, const Piece* pieces,
                            std::size_t count) {
  return detail::run_blocking(
      transport, [&](Callback done) { return transport.try_read_list_async({from, region, pieces, count, done}); });
}
inline Completion write_list(Transport& transport, ProcessId to, RegionId region, const Piece* pieces,
                             std::size_t count) {
  return detail::run_blocking(
      transport, [&](Callback done) { return transport.try_write_list_async({to, region, pieces, count, done}); });
}
inline Completion read_strided(Transport& transport, StridedParams params) {
  return detail::run_blocking(transport, [&](Callback done) {
    params.on_complete = done;
    return transport.try_read_strided_async(params);
  });
}
inline Completion write_strided(Transport& transport, StridedParams params) {
  return detail::run_blocking(transport, [&](Callback done) {
    params.on_complete = done;
    return transport.try_write_strided_async(params);
  });
}
inline Completion message(Transport& transport, ProcessId to, HandlerId handler, const void* payload,
                          std::size_t bytes) {
  return detail::run_blocking(
      transport, [&](Callback done) { return transport.try_message_async({to, handler, payload, bytes, done}); });
}
inline Completion rpc(Transport& transport, ProcessId to, HandlerId handler, const void* payload, std::size_t bytes,
                      LocalAddress reply, std::size_t reply_bytes_max) {
  return detail::run_blocking(transport, [&](Callback done) {
    return transport.try_rpc_async({to, handler, payload, bytes, reply, reply_bytes_max, done});
  });
}
inline Completion flush(Transport& transport, ProcessId peer = kAllProcesses) {
  return detail::run_blocking(transport, [&](Callback done) { return transport.try_flush_async(peer, done); });
}
inline void fence(Transport& transport, ProcessId peer = kAllProcesses) {
  until_taken(transport, [&] { return transport.try_fence(peer); });
}
inline Completion barrier(Transport& transport) {
  return detail::run_blocking(transport, [&](Callback done) { return transport.try_barrier_async(done); });
}
inline Completion broadcast(Transport& transport, ProcessId root, void* data, std::size_t bytes) {
  return detail::run_blocking(transport,
                              [&](Callback done) { return transport.try_broadcast_async({root, data, bytes, done}); });
}
inline Completion reduce(Transport& transport, const void* input, void* output, std::size_t count, Element element,
                         ReduceOp op, ProcessId root = kAllProcesses) {
  return detail::run_blocking(transport, [&](Callback done) {
    return transport.try_reduce_async({input, output, count, element, op, done, root});
  });
}
inline Completion gather(Transport& transport, const void* input, void* output, std::size_t bytes,
                         ProcessId root = kAllProcesses) {
  return detail::run_blocking(
      transport, [&](Callback done) { return transport.try_gather_async({root, input, output, bytes, done}); });
}
inline Completion alltoall(Transport& transport, const void* input, void* output, std::size_t bytes) {
  return detail::run_blocking(
      transport, [&](Callback done) { return transport.try_alltoall_async({input, output, bytes, done}); });
}

}  // namespace ayatori::net
