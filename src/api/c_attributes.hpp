// SPDX-License-Identifier: Apache-2.0
// Attributes of the C interface's threads and objects. Any thread and stack.
#pragma once

#include <cstdint>

#include "ayatori/ayatori.h"

namespace ayatori::api {

bool valid(const ayatori_thread_attr_t&) noexcept;
bool is_priority(int priority) noexcept;
bool fits(const ayatori_thread_attr_t&) noexcept;  // the stack that it asks for into what threads have
// The stack that lies in a slot, less its guard.
void describe_stack(ayatori_thread_attr_t* attr, std::uint32_t slot) noexcept;
int refuse_policy(int policy) noexcept;  // 0 for SCHED_OTHER, else why not

}  // namespace ayatori::api
