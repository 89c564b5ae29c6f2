// SPDX-License-Identifier: Apache-2.0
// Part of the public interface, <ayatori/net.hpp>. The seam of the net layer (thesis ch. 4; the calls:
// 4.3.1): what every interconnect looks like from above. Programs get theirs from open(), the layers of the library hold a
// Transport&; wrappers (offloading: Requester -> ring -> Executor -> Completer) and tests are templates over
// TransportLike. One object is one process' end of the job's network; every member function may be called on any OS
// thread, never on a stack of the space, unless it says otherwise.
//
// N1. try_* never blocks: false means "no room now, nothing was done"; the caller retries after progress() or other work.
// N2. No order between two requests, not even to one address, nor between their completions. Only a completion orders.
// N3. An accepted request completes exactly once, with an error when its target is gone (N7) or its address is bad.
// N4. The completion may be called before try_* returns, on the caller's thread, or later on any thread that makes
//     progress, also at the same time as others: no caller holds a lock that its callback takes, callbacks are
//     thread-safe. A callback may issue requests and may not wait.
// N5. A completed read has filled its buffer; the bytes of a completed write or atomic are seen by whoever learns of the
//     completion. Aligned 8-byte words are moved whole where local and remote address are equal modulo 8 and the request is
//     kWholeWordBytesMax at most; nothing more is atomic but try_atomic_async, which is so with the CPU's own locked
//     instructions on that word only where Capabilities::coherent_atomics says so.
// N6. Handlers run on the native stack of a thread that makes progress, one at a time per process; they may issue
//     requests and reply, and may not wait. There is always room for a reply.
// N7. A dead peer is noticed within kFailureNoticeNsMax of real time where processes are real and somebody waits or a progress
//     thread runs; requests to it complete with kPeerFailed from then on, and so do those under way.
// N8. Handlers are set before start(); no message is delivered before. Collectives: every process issues the same sequence.
// N9. A list or strided request is checked whole before its first byte moves: completed with an error, it moved nothing. Its
//     pieces move in any order; where pieces overlap, each byte is that of one of them.
// N10. What this process issues to p after try_fence(p) takes effect there after the one-sided requests that it had issued
//     to p before: the one order without a completion. A message's effect is that its handler begins.
#pragma once

#include <ayatori/net/types.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>

namespace ayatori::net {

struct Capabilities {
  bool one_sided_read = false;  // completes though the target makes no progress
  bool one_sided_write = false;
  bool one_sided_atomic = false;
  bool coherent_atomics = false;  // N5
  bool direct_pointer = false;    // direct_pointer() may give a pointer
};

struct Counters {
  std::uint64_t messages_sent = 0;   // requests and replies to other processes
  std::uint64_t bytes_sent = 0;      // payload: writes, messages, replies
  std::uint64_t bytes_received = 0;  // payload: reads, messages, replies

  std::uint64_t messages_by_memory = 0;  // of messages_sent: by shared memory, or copied by the kernel
};

enum class Element : std::uint8_t { kU64, kI64, kF64 };
enum class ReduceOp : std::uint8_t { kSum, kMin, kMax, kAnd, kOr };  // kAnd, kOr: integers only

// Buffers of collectives are of any size (long ones travel in parts) and need no registration.
struct ReduceParams {
  const void* input = nullptr;
  void* output = nullptr;  // filled at the root, or in every process; may equal input
  std::size_t count = 0;   // elements of 8 bytes
  Element element = Element::kU64;
  ReduceOp op = ReduceOp::kSum;
  Callback on_complete;
  ProcessId root = kAllProcesses;  // kAllProcesses: allreduce
};

struct BroadcastParams {
  ProcessId root = 0;
  void* data = nullptr;  // read at the root, filled elsewhere
  std::size_t size_bytes = 0;
  Callback on_complete;
};

struct GatherParams {
  ProcessId root = kAllProcesses;  // kAllProcesses: allgather
  const void* input = nullptr;     // size_bytes of this process
  void* output = nullptr;          // processes() * size_bytes, by process; where it is filled. Does not overlap input
  std::size_t size_bytes = 0;      // the same in every process
  Callback on_complete;
};

struct AlltoallParams {
  const void* input = nullptr;  // processes() * size_bytes: part p goes to process p
  void* output = nullptr;       // processes() * size_bytes: part p came from process p. Does not overlap input
  std::size_t size_bytes = 0;   // of one part; the same in every process
  Callback on_complete;
};

struct Limits {
  std::size_t payload_bytes_max = 0;  // of an RPC, a reply, and a message that is sent at once
  std::size_t long_bytes_max =
      0;                       // of a message; longer ones than payload_bytes_max may ask the receiver for room first
  std::uint32_t rpcs_max = 0;  // under way per process
};

using HandlerFunction = void (*)(void* context, const Message& message);
using PeerFailureFunction = void (*)(void* context, ProcessId failed);

inline constexpr std::size_t kWholeWordBytesMax = 1024;
inline constexpr std::int64_t kFailureNoticeNsMax = 1'000'000'000;
inline constexpr std::int64_t kNoTimeout = -1;

class Transport {
 public:
  virtual ~Transport() = default;

  virtual ProcessId self() const noexcept = 0;
  virtual int processes() const noexcept = 0;
  // The job's hierarchy: what is here is reached sooner, by shared memory where the transport can. Any process of the job.
  virtual bool on_this_machine(ProcessId process) const noexcept = 0;
  virtual Capabilities capabilities() const noexcept = 0;
  virtual Limits limits() const noexcept = 0;
  virtual Counters counters() const noexcept = 0;

  // Makes [base, base + bytes) reachable by peers. kNoRegion: the transport cannot reach that memory, or its table is full.
  // Ids count from 0 in order of registration, so that processes which register alike know each other's ids. Peers
  // see it once they learn of it (message, barrier).
  virtual RegionId register_memory(void* base, std::size_t bytes, std::uint8_t rights = kAllRights) = 0;
  // No request to it is under way. May make progress, as wait() does, until peers have forgotten what they knew of it.
  virtual void unregister_memory(RegionId region) = 0;
  // The memory itself, when [address, address + bytes) is mapped here and coherent; else nullptr (no counters move).
  virtual void* direct_pointer(const RemoteAddress& address, std::size_t bytes) noexcept = 0;

  virtual bool try_read_async(const ReadParams& params) = 0;
  virtual bool try_write_async(const WriteParams& params) = 0;
  virtual bool try_atomic_async(const AtomicParams& params) = 0;
  virtual bool try_read_list_async(const ListParams& params) = 0;  // N9
  virtual bool try_write_list_async(const ListParams& params) = 0;
  virtual bool try_read_strided_async(const StridedParams& params) = 0;
  virtual bool try_write_strided_async(const StridedParams& params) = 0;
  // Completes when every one-sided request (all of the above) that this process issued before to `peer`, or to any process,
  // has completed at its target; with kPeerFailed when `peer` is gone.
  virtual bool try_flush_async(ProcessId peer, Callback on_complete) = 0;
  virtual bool try_fence(ProcessId peer) = 0;  // N10; kAllProcesses: a fence to each

  virtual void set_handler(HandlerId id, HandlerFunction function, void* context) = 0;  // N8
  virtual bool try_message_async(const MessageParams& params) = 0;
  virtual bool try_rpc_async(const RpcParams& params) = 0;
  // Answers; an answer to a process that is gone is dropped. Any thread, also after the handler returned. N6.
  virtual void reply(const ReplyToken& token, const void* payload, std::size_t size_bytes) = 0;

  virtual bool try_barrier_async(Callback on_complete) = 0;
  virtual bool try_broadcast_async(const BroadcastParams& params) = 0;
  virtual bool try_reduce_async(const ReduceParams& params) = 0;
  virtual bool try_gather_async(const GatherParams& params) = 0;
  virtual bool try_alltoall_async(const AlltoallParams& params) = 0;

  // Called once per failed peer, on a thread that makes progress, under the rules of a handler. Before start().
  virtual void set_peer_failure_handler(PeerFailureFunction function, void* context) = 0;
  virtual bool peer_failed(ProcessId process) const noexcept = 0;

  virtual void start() = 0;
  // Runs what has arrived; returns how many handlers and completions ran. Never blocks, may be called in a handler (does
  // nothing there).
  virtual std::size_t progress() = 0;
  // Makes progress until `until(data)` holds or the time is over (kNoTimeout: never); spins, then sleeps. Returns whether
  // it held. Not in handlers and callbacks.
  virtual bool wait(bool (*until)(void* data), void* data, std::int64_t timeout_ns) = 0;
  // Hints around several requests of the calling thread: what it issues in between may stay here, to be sent together at the
  // end. In between it neither waits nor makes progress; pairs do not nest.
  virtual void begin_batch() noexcept {}
  virtual void end_batch() {}
  // Ends a wait of this process whose condition another thread changed.
  virtual void wake() noexcept = 0;
  // For a thread to which try_* has just said "no room": sleeps until there is some again, timeout_ns at most, while others
  // make progress. True: try again. False: nobody would tell it of room, it has to poll. Not in handlers and callbacks.
  virtual bool wait_for_room(std::int64_t /*timeout_ns*/) { return false; }
};

// What a class must be to serve as a transport or below a wrapper.
template <class T>
concept TransportLike = std::derived_from<T, Transport> && !std::is_abstract_v<T>;

}  // namespace ayatori::net
