// SPDX-License-Identifier: Apache-2.0
#include "base/asymmetric_fence.hpp"

#include <errno.h>
#include <linux/membarrier.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/check.hpp"

namespace ayatori::base {

bool asymmetric_fences() noexcept {
  return syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0u, 0) == 0;
}

void heavy_fence() noexcept {
  if (syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0u, 0) != 0)
    fatal("membarrier(2) is refused, which it was not before: {}", strerror(errno));
}

}  // namespace ayatori::base
