// SPDX-License-Identifier: Apache-2.0
#include <ayatori/net/blocking.hpp>

#include <sched.h>

#include "base/clock.hpp"
#include "base/waiter.hpp"

namespace ayatori::net::detail {

// Whoever makes room may need this CPU: it is offered at each miss, and left soon. By time, not by misses: where many threads
// want room, a miss takes as long as all others that yield.
void until_taken(Transport& transport, bool (*attempt)(void* data), void* data) {
  constexpr std::int64_t kSpinNs = 50'000;
  std::int64_t since_ns = -1;
  base::SpinThenSleep naps(0);  // W4
  do {
    if (transport.progress() != 0) {
      since_ns = -1;
      naps.reset();
      continue;
    }
    if (transport.wait_for_room(base::SpinThenSleep::kSleepNsMax)) continue;
    const std::int64_t now_ns = base::real_now_ns();
    if (since_ns < 0) since_ns = now_ns;
    if (now_ns - since_ns < kSpinNs)
      sched_yield();
    else
      naps.wait();
  } while (!attempt(data));
}

}  // namespace ayatori::net::detail
