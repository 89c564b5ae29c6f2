// SPDX-License-Identifier: Apache-2.0
#include <ayatori/net/blocking.hpp>

#include <sched.h>
#include <time.h>

#include <algorithm>

#include "base/clock.hpp"

namespace ayatori::net::detail {

// Whoever makes room may need this CPU: it is offered at each miss, and left soon. By time, not by misses: where many threads
// want room, a miss takes as long as all others that yield.
void until_taken(Transport& transport, bool (*attempt)(void* data), void* data) {
  constexpr std::int64_t kSpinNs = 50'000, kNapNsMin = 50'000, kNapNsMax = 1'000'000;
  std::int64_t since_ns = -1;
  std::int64_t nap_ns = kNapNsMin;
  do {
    if (transport.progress() != 0) {
      since_ns = -1;
      nap_ns = kNapNsMin;
      continue;
    }
    if (transport.wait_for_room(kNapNsMax)) continue;
    const std::int64_t now_ns = base::real_now_ns();
    if (since_ns < 0) since_ns = now_ns;
    if (now_ns - since_ns < kSpinNs) {
      sched_yield();
      continue;
    }
    const timespec nap{0, nap_ns};
    nanosleep(&nap, nullptr);
    nap_ns = std::min(2 * nap_ns, kNapNsMax);
  } while (!attempt(data));
}

}  // namespace ayatori::net::detail
