// SPDX-License-Identifier: Apache-2.0
// How a thread asks the process that holds an object (sync.hpp, Ask), where processes share no memory. Any stack but where
// it says so; sync.cpp serves.
#pragma once

#include <cstdint>

#include "tasks/sync_object.hpp"

namespace ayatori::tasks::sync {

Call about(Ask ask, Handle h) noexcept;  // for nobody who waits, without a deadline
std::int64_t time_left(std::int64_t deadline_ns) noexcept;
void put_waiter(Call& c, const Descriptor* d);
// Asks, and suspends the caller until it is answered. What the answer says stands in the descriptor that it returns.
const Descriptor* ask_and_wait(const Call& call);
// Waits, with its worker, until it has been done: whoever is told of it afterwards may destroy the object.
std::uint64_t ask_value(const Call& call);
inline void tell(const Call& call) { ask_value(call); }

}  // namespace ayatori::tasks::sync
