// SPDX-License-Identifier: Apache-2.0
// Attributes of the C interface's threads and objects. Any thread and stack.
#pragma once

#include "ayatori/ayatori.h"

namespace ayatori::api {

bool valid(const ayatori_thread_attr_t&) noexcept;
bool is_priority(int priority) noexcept;
int refuse_policy(int policy) noexcept;  // 0 for SCHED_OTHER, else why not

}  // namespace ayatori::api
