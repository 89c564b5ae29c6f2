// SPDX-License-Identifier: Apache-2.0
#include <ayatori/net/blocking.hpp>

#include "base/waiter.hpp"

namespace ayatori::net::detail {

void until_taken(Transport& transport, bool (*attempt)(void* data), void* data) {
  base::SpinThenSleep spin;  // W4
  do {
    if (transport.progress() != 0)
      spin.reset();
    else
      spin.wait();
  } while (!attempt(data));
}

}  // namespace ayatori::net::detail
