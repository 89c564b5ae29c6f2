// SPDX-License-Identifier: Apache-2.0
#include "net/offload/request.hpp"

#include "net/offload/tags.hpp"
#include "net/offload/thread_state.hpp"

namespace ayatori::net::offload {

template <bool kRpc>
void Request::complete(void* data, Completion completion) {
  auto& request = *static_cast<Request*>(data);
  {
    const CallbackScope scope;
    ++thread_state.completions;
    request.on_complete(completion);
  }
  if (!kRpc || request.end_part()) request.go_home();  // Q2
}
template void Request::complete<false>(void* request, Completion completion);
template void Request::complete<true>(void* request, Completion completion);

void Request::go_home() noexcept { pools->give_back(*this); }

}  // namespace ayatori::net::offload
