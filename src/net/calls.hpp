// SPDX-License-Identifier: Apache-2.0
// Calls between processes whose arguments and results are of any size and whose functions may wait: they are served, in the
// order in which they come, on a thread of each process that is there for nothing else. What needs neither is better done
// as a plain RPC (transport.hpp N6).
//
// Who calls it: call() on native stacks, never in handlers, callbacks or served functions; post() anywhere but on a stack of
// the space, also in handlers.
// C1. A served function may wait for plain RPCs and one-sided requests, never for a call or for what a later call would
//     bring: so no two processes wait for each other.
// C2. Every call returns: with the result, or with nothing when its process is gone (N7). Nobody calls a process that has
//     left in order.
// C3. No order between two calls or posts, not even to one process (N2). What finds no room is kept and sent by the serving
//     thread, which serves nothing until it is sent: a served function may wait for whom it would reach.
#pragma once

#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <unordered_map>
#include <vector>

#include <ayatori/net/transport.hpp>

namespace ayatori::net {

using Bytes = std::vector<std::byte>;

class Calls {
 public:
  using FunctionId = std::uint32_t;
  static constexpr FunctionId kFunctionsMax = 32;
  // Returns the result; of a post it is dropped.
  using Function = Bytes (*)(void* context, ProcessId caller, std::span<const std::byte> argument);

  // Takes the handlers kNetHandlers + 4 and + 5. Before Transport::start().
  explicit Calls(Transport& transport);
  ~Calls();  // after the transport's end, or before start()
  Calls(const Calls&) = delete;
  Calls& operator=(const Calls&) = delete;

  void serve(FunctionId id, Function function, void* context);  // before start()
  void start();
  void stop();  // serves no more; what has come, and comes until the transport ends, is dropped

  std::optional<Bytes> call(ProcessId to, FunctionId id, std::span<const std::byte> argument);
  void post(ProcessId to, FunctionId id, Bytes argument);
  // For the transport's failure handler: its calls return.
  void on_peer_failed(ProcessId process);

 private:
  struct Header {
    std::uint64_t serial;  // 0: a post
    std::uint32_t function;
    std::uint32_t padding;
  };
  struct Served {
    ProcessId caller;
    Header header;
    Bytes argument;
  };
  struct Waiting {
    ProcessId process;
    bool done = false;
    std::optional<Bytes> result;
  };
  struct Kept {
    ProcessId to;
    HandlerId handler;
    Bytes message;
  };

  static void on_request(void* self, const Message& message);
  static void on_result(void* self, const Message& message);
  void send(ProcessId to, HandlerId handler, const Header& header, std::span<const std::byte> body);
  bool try_send(ProcessId to, HandlerId handler, Bytes& message);
  void retry_kept();
  void main();

  struct Row {
    Function function = nullptr;
    void* context = nullptr;
  };

  // Constant after start().
  Transport& transport_;
  std::array<Row, kFunctionsMax> functions_;

  std::mutex waiting_mutex_;
  std::uint64_t next_serial_ = 0;                        // Guarded by waiting_mutex_.
  std::unordered_map<std::uint64_t, Waiting*> waiting_;  // Guarded by waiting_mutex_.

  std::mutex mutex_;
  std::condition_variable news_;
  std::deque<Served> served_;  // Guarded by mutex_.
  std::deque<Kept> kept_;      // Guarded by mutex_.
  bool stop_ = false;          // Guarded by mutex_.
  std::thread thread_;
};

}  // namespace ayatori::net
