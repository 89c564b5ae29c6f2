// SPDX-License-Identifier: Apache-2.0
// RPC between user-level threads: handlers that may wait, lock, fork and touch memory of the space, for programs that use
// <ayatori/ayatori.hpp> and <ayatori/net.hpp> together. A handler of net alone runs on the transport's thread and may do
// none of that (net/transport.hpp N6).
//
//   net::OpenOptions options;
//   options.before_start = [](net::Transport& net) {
//     ayatori::on_rpc(net, net::kUserHandlers, [](const ayatori::rpc_request& r) { return work(r.as<Question>()); });
//   };
//   auto net = net::open(options);                       // in main, before ayatori::run: in every process
//   ... ayatori::run(...): Answer a; ayatori::call_rpc(*net, 1, net::kUserHandlers, &question, sizeof question, &a, sizeof a);
//
// Memory: what the asking thread wrote before it called is seen by the handler, what the handler wrote by the asker when it
// has the answer (docs/memory-model.md), on whatever process each of them runs. An asker that is no user-level thread takes
// no part in that.
//
// Bounds: at most AYATORI_RPC_THREADS handlers run at once in a process, and one more for each thread there that waits in
// call_rpc(); others wait in the order in which they came. A question holds nothing that another one needs while it waits, so
// handlers and the threads that they fork may ask in turn as deep as there are stacks, also back and forth. Who asks by
// net::rpc() and Transport::try_rpc_async() instead is answered too, and holds one of its process' Limits::rpcs_max
// meanwhile: no handler may wait for those that wait so. An answer to them is Limits::payload_bytes_max long at most; a longer
// one ends the job with one line, as the transport has no way to refuse it.
// Questions that have not begun are kept up to 64 MiB a process, a single one of any size: what comes on top fails with
// kTooLarge. One-way messages are not bounded: each is kept until its handler has run, whoever sends many paces himself.
// Known limits: a process that is asked has called on_rpc() too, for any handler: one that has not ends with an error over
// shared memory, and is cut off from the asker over a network. A handler that waits in another way (a lock, a barrier, a child that went to another process and asks there)
// keeps its turn. It begins when a worker looks for work: not while threads that neither wait nor yield hold all of them.
#pragma once

#include <ayatori/ayatori.hpp>
#include <ayatori/net.hpp>

#include <ranges>
#include <stdexcept>

namespace ayatori {

namespace detail {
struct Arrived;
}

// What somebody asks; its handler's, until that returns.
class rpc_request {
 public:
  rpc_request(const rpc_request&) = delete;
  rpc_request& operator=(const rpc_request&) = delete;

  int source() const noexcept { return source_; }  // the process that asked
  std::span<const std::byte> payload() const noexcept {
    return bytes_;
  }  // in the space: the handler's threads may read it
  bool wants_answer() const noexcept { return wants_answer_; }  // false: a one-way message
  // The payload as one T. Throws std::length_error when it is of another size.
  template <class T>
    requires std::is_trivially_copyable_v<T>
  T as() const {
    if (bytes_.size() != sizeof(T)) throw std::length_error("ayatori::rpc_request::as");
    T value;
    std::memcpy(&value, bytes_.data(), sizeof value);
    return value;
  }

 private:
  friend struct detail::Arrived;
  rpc_request(int source, std::span<const std::byte> bytes, bool wants_answer) noexcept
      : source_(source), bytes_(bytes), wants_answer_(wants_answer) {}
  int source_;
  std::span<const std::byte> bytes_;
  bool wants_answer_;
};

namespace detail {
using RpcAnswer = void (*)(const Arrived& arrived, const void* data, std::size_t bytes);
using RpcCall = void (*)(void* function, const rpc_request& request, const Arrived& arrived, RpcAnswer answer);
// `function` lives as long as the process.
void set_rpc_handler(net::Transport& transport, net::HandlerId id, RpcCall call, void* function);
}  // namespace detail

// RPCs and messages for handler `id` are answered by f(const rpc_request&), each in a detached thread of this process that
// stays here while f runs; its children may go elsewhere. What f returns is the answer: nothing, a trivially copyable value,
// or a range of such values in one piece (std::string, std::vector, std::span).
// Several run at once, so f must allow that; f itself and its captures are this process' own.
//
// Called before the transport starts (net::OpenOptions::before_start), on an OS thread. What comes before ayatori::run waits
// for it. When the run has ended nobody answers: call_rpc() gets kPeerFailed, also where the handler had begun (after a second
// at most, when this process makes progress), an RPC of the transport when this process closes it. An exception that leaves f
// ends the job with one line, and so does f that exits its thread.
template <class F>
void on_rpc(net::Transport& transport, net::HandlerId id, F f) {
  using Result = std::invoke_result_t<F&, const rpc_request&>;
  const auto call = [](void* function, const rpc_request& request, const detail::Arrived& arrived,
                       detail::RpcAnswer answer) {
    F& its = *static_cast<F*>(function);
    if constexpr (std::is_void_v<Result>) {
      its(request);
      answer(arrived, nullptr, 0);
    } else if constexpr (std::ranges::contiguous_range<Result> && std::ranges::sized_range<Result>) {
      static_assert(std::is_trivially_copyable_v<std::ranges::range_value_t<Result>>, "the elements travel as bytes");
      auto&& result = its(request);
      answer(arrived, std::ranges::data(result),
             std::ranges::size(result) * sizeof(std::ranges::range_value_t<Result>));
    } else {
      static_assert(std::is_trivially_copyable_v<Result>, "the result travels as bytes");
      const Result result = its(request);
      answer(arrived, &result, sizeof result);
    }
  };
  detail::set_rpc_handler(transport, id, call, new F(std::move(f)));
}

// Asks the handler that on_rpc() set in `process` and waits for the answer; the caller's worker runs other threads meanwhile.
// On a thread that is no user-level thread it makes progress, like net::rpc(). Buffers may lie in the space and be as long as
// a message (Limits::long_bytes_max). Outcomes: kOk, `reply` holds Completion::reply_bytes; kBadAddress, no such process or
// handler; kTooLarge, the answer has no room in `reply` or in this process, or the question none there; kPeerFailed, the process is gone or has
// ended its run.
net::Completion call_rpc(net::Transport& transport, int process, net::HandlerId id, const void* payload,
                         std::size_t bytes, void* reply = nullptr, std::size_t reply_bytes_max = 0);

}  // namespace ayatori
