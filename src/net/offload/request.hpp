// SPDX-License-Identifier: Apache-2.0
// One offloaded request: the record behind a tag (thesis 4.4.1). The requester fills it, the ring carries its address, the
// executor hands `command` to the transport below, the completion from there runs the user's callback and sends the record
// home (tags.hpp). So one allocation without a lock gives tag, command slot and room for a payload; what waits for room
// below waits in place, on whatever list `next` links it into. Of requests that come through a submission queue the executor
// fills it, which has records of its own for them (executor.hpp E7).
//
// Q1. A record has one holder at a time: a pool, a requester, the ring, the executor, the transport below. Only the holder
//     touches it (`next` alone may be read by others, see tags.hpp).
// Q2. A record goes home when its completion has run, a fence's when it was issued. An RPC has two parts: the transport below
//     may read the payload, which lies in the record, until try_rpc_async returns, and may have completed it by then.
// Q3. Two cache lines travel between requester and executor for a read or write: the record's head, and its command.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>
#include <type_traits>

#include <ayatori/net/transport.hpp>

namespace ayatori::net::offload {

class TagPools;
struct Pool;

struct ReadList : ListParams {};
struct WriteList : ListParams {};
struct ReadStrided : StridedParams {};
struct WriteStrided : StridedParams {};
struct Flush {
  ProcessId peer;
  Callback on_complete;
};
struct Barrier {
  Callback on_complete;
};
struct Fence {
  ProcessId peer;
};
// Where a command waits for room (executor.hpp E3).
using Lane = std::int32_t;
inline constexpr Lane kCollectivesLane = kMaxProcesses;
inline constexpr Lane kEveryLane = -1;  // fences and flushes to all

struct alignas(64) Request {
  static constexpr std::size_t kCommandBytes = sizeof(StridedParams);  // the largest
  static constexpr std::size_t kSmallBytes = 192 - kCommandBytes;      // makes four cache lines of it

  // Constant after construction of the pools.
  TagPools* pools = nullptr;

  std::atomic<Request*> next{nullptr};
  Pool* home = nullptr;  // nullptr: the common stock
  Callback on_complete;  // the user's
  // Gives the command to the transport below; false: no room there (N1). Afterwards the record may be somebody else's.
  bool (*issue)(Transport& below, Request& request) = nullptr;
  Lane lane = 0;
  bool orders = false;                         // a fence or flush: executor.hpp E6
  std::atomic<std::uint32_t> parts{0};         // of an RPC (Q2) or a flush of several rings: those that have not ended
  std::atomic<Outcome> outcome{Outcome::kOk};  // of such a flush: not kOk where a part's was not

  alignas(64) std::byte command[kCommandBytes];
  alignas(8) std::byte small[kSmallBytes];  // a payload that fits

  // Writes the command down, `issue` included, and makes this record its completion. The copy is returned.
  template <class C>
  C& write_down(const C& its_command) noexcept;
  // True: that was the last. acq_rel: what the other parts did happens before what the last one does next.
  bool end_part() noexcept { return parts.fetch_sub(1, std::memory_order_acq_rel) == 1; }

 private:
  // The user's callback, then the way home.
  template <bool kRpc>
  static void complete(void* request, Completion completion);
  template <class C>
  static bool issue_as(Transport& below, Request& request);
  void go_home() noexcept;
};

template <class C>
C& Request::write_down(const C& its_command) noexcept {
  static_assert(sizeof(C) <= kCommandBytes && std::is_trivially_copyable_v<C>);
  C& copy = *new (command) C(its_command);
  issue = &issue_as<C>;
  orders = std::is_same_v<C, Fence> || std::is_same_v<C, Flush>;
  if constexpr (std::is_same_v<C, RpcParams>) parts.store(2, std::memory_order_relaxed);  // released by the ring
  if constexpr (!std::is_same_v<C, Fence>) copy.on_complete = {&complete<std::is_same_v<C, RpcParams>>, this};
  return copy;
}

// By value in and out: the transport below may look at its parameters until it returns.
inline bool issue_command(Transport& below, Fence fence) { return below.try_fence(fence.peer); }
inline bool issue_command(Transport& below, ReadParams params) { return below.try_read_async(params); }
inline bool issue_command(Transport& below, WriteParams params) { return below.try_write_async(params); }
inline bool issue_command(Transport& below, AtomicParams params) { return below.try_atomic_async(params); }
inline bool issue_command(Transport& below, ReadList params) { return below.try_read_list_async(params); }
inline bool issue_command(Transport& below, WriteList params) { return below.try_write_list_async(params); }
inline bool issue_command(Transport& below, ReadStrided params) { return below.try_read_strided_async(params); }
inline bool issue_command(Transport& below, WriteStrided params) { return below.try_write_strided_async(params); }
inline bool issue_command(Transport& below, Flush flush) {
  return below.try_flush_async(flush.peer, flush.on_complete);
}
inline bool issue_command(Transport& below, MessageParams params) { return below.try_message_async(params); }
inline bool issue_command(Transport& below, RpcParams params) { return below.try_rpc_async(params); }
inline bool issue_command(Transport& below, Barrier barrier) { return below.try_barrier_async(barrier.on_complete); }
inline bool issue_command(Transport& below, BroadcastParams params) { return below.try_broadcast_async(params); }
inline bool issue_command(Transport& below, ReduceParams params) { return below.try_reduce_async(params); }
inline bool issue_command(Transport& below, GatherParams params) { return below.try_gather_async(params); }
inline bool issue_command(Transport& below, AlltoallParams params) { return below.try_alltoall_async(params); }

template <class C>
bool Request::issue_as(Transport& below, Request& request) {
  if (!issue_command(below, *std::launder(reinterpret_cast<C*>(request.command)))) return false;
  if constexpr (std::is_same_v<C, Fence>) request.go_home();  // Q2
  if constexpr (std::is_same_v<C, RpcParams>) {
    if (request.end_part()) request.go_home();
  }
  return true;
}

}  // namespace ayatori::net::offload
