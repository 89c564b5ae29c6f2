// SPDX-License-Identifier: Apache-2.0
// Handlers of a program's own transport (net::open) that run on user-level threads, and threads that ask other processes
// by RPC: net knows nothing of threads, so here is the way between the two. Behind <ayatori/rpc.hpp>.
//
// Who calls it: set() the OS thread that opens the transport; what set() registers the transport's threads; answer()
// user-level threads; ask() any thread.
// H1. What a message brings is copied before the transport's handler returns, and handed to a thread of this process that
//     stays here while the function runs. Messages that come before the run wait for it.
// H2. At most AYATORI_RPC_THREADS functions run at once, the rest wait in the order in which they came. Each thread here that
//     waits in ask() lets one more run: a function may wait for it, and what it waits for may need a turn here.
// H3. A question and its answer are messages of their own, which the transports' threads take in without waiting; while a
//     thread waits for its answer it holds nothing that another one needs. So A -> B -> A -> ... goes on however many ask.
//     (An RPC of the transport holds a slot until it is answered; functions answer those too, from askers that wait so.)
// H4. A question passes between two processes like a lock (protocol.hpp): the asker's process releases and the function's
//     acquires before it begins, the reverse with the answer.
// H5. A thread has one question under way: threads of the job bound what lies here, and their RPCs' slots the rest.
// H6. Each question is answered or fails: with kPeerFailed when its process has ended its run, or is gone, which is looked
//     for every kLookNs while somebody waits; an outcome that finds no room is kept for later. RPCs of the transport that
//     come after the run are dropped, and told once.
// H7. Questions that have not begun hold kWaitingBytesMax at most, or there is one of them alone; what comes on top fails with
//     kTooLarge. RPCs of the transport are bounded by their slots, messages by nothing.
#pragma once

#include <cstddef>
#include <cstdint>

#include <ayatori/net/transport.hpp>
#include "ult/scheduler.hpp"

namespace ayatori::tasks::handlers {

struct Handler;

// A message on its way to its function; in the C library's memory, the payload behind it.
struct Arrival : ult::Start {
  Handler* handler = nullptr;
  net::ProcessId source = -1;
  net::ReplyToken token;       // of an RPC of the transport
  std::uint64_t question = 0;  // of ask(); 0: none
  std::size_t bytes = 0;

  bool wanted() const noexcept { return question != 0 || token.wanted(); }

  const std::byte* payload() const noexcept { return reinterpret_cast<const std::byte*>(this + 1); }
};

// Called on a user-level thread; answers where the token is wanted. Throws nothing.
using Function = void (*)(void* context, const Arrival& arrival);

void set(net::Transport& transport, net::HandlerId id, Function function, void* context);
net::HandlerId number_of(const Arrival& arrival) noexcept;
void answer(const Arrival& arrival, const void* data, std::size_t bytes);  // wanted, and once

// Waits for the answer: a user-level thread lets others run, another one makes progress. The process has called set() for some
// handler. kBadAddress: there is no such process, or nobody set that handler there; kTooLarge: the answer has no room.
net::Completion ask(net::Transport& transport, net::ProcessId to, net::HandlerId handler, const void* payload,
                    std::size_t bytes, void* reply, std::size_t reply_bytes_max);

}  // namespace ayatori::tasks::handlers
