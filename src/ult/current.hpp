// SPDX-License-Identifier: Apache-2.0
// Is the caller a user-level thread? Apart, so that operator new includes no more than this.
#pragma once

namespace ayatori::ult {

// Decided by the stack the caller runs on: false on native stacks, before and after the job, on foreign OS threads.
bool on_user_thread() noexcept;

}  // namespace ayatori::ult
