// SPDX-License-Identifier: Apache-2.0
// RPC between user-level threads. Thin: tasks/handlers.hpp starts the threads and waits.
#include <ayatori/rpc.hpp>

#include <cxxabi.h>

#include <exception>

#include "api/start.hpp"
#include "base/check.hpp"
#include "tasks/handlers.hpp"

namespace ayatori {

namespace detail {

namespace {
struct Registered {
  RpcCall call;
  void* function;
};
}  // namespace

struct Arrived {
  const tasks::handlers::Arrival& its;

  // On a stack of the space, where operator new gives memory of the space. What pthread_exit() throws has no object, which
  // UndefinedBehaviorSanitizer does not know.
  __attribute__((no_sanitize("undefined"))) static void run(void* context,
                                                            const tasks::handlers::Arrival& arrival) noexcept {
    const auto& registered = *static_cast<const Registered*>(context);
    try {
      const auto copy = std::make_unique_for_overwrite<std::byte[]>(arrival.bytes);
      if (arrival.bytes != 0) std::memcpy(copy.get(), arrival.payload(), arrival.bytes);
      const rpc_request request(arrival.source, {copy.get(), arrival.bytes}, arrival.wanted());
      registered.call(registered.function, request, {arrival},
                      [](const Arrived& arrived, const void* data, std::size_t bytes) {
                        if (arrived.its.wanted()) tasks::handlers::answer(arrived.its, data, bytes);
                      });
    } catch (const std::exception& error) {
      base::fatal("an exception left the handler {} of ayatori::on_rpc: {}", tasks::handlers::number_of(arrival),
                  error.what());
    } catch (const abi::__forced_unwind&) {  // pthread_exit(), which would take the worker with it
      base::fatal("the handler {} of ayatori::on_rpc exits its thread, which it may not",
                  tasks::handlers::number_of(arrival));
    } catch (...) {
      base::fatal("an exception left the handler {} of ayatori::on_rpc", tasks::handlers::number_of(arrival));
    }
  }
};

void set_rpc_handler(net::Transport& transport, net::HandlerId id, RpcCall call, void* function) {
  api::ensure_started();
  tasks::handlers::set(transport, id, Arrived::run, new Registered{call, function});
}

}  // namespace detail

net::Completion call_rpc(net::Transport& transport, int process, net::HandlerId id, const void* payload,
                         std::size_t bytes, void* reply, std::size_t reply_bytes_max) {
  return tasks::handlers::ask(transport, process, id, payload, bytes, reply, reply_bytes_max);
}

}  // namespace ayatori
