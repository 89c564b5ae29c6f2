// SPDX-License-Identifier: Apache-2.0
// Are processes that were started apart alike enough for threads to move between them? A moved stack holds addresses of code,
// of libraries and of the space, and the stack protector's secret; setjmp() mixes another one in.
//
// The launcher makes them alike (tools/ayatori/alike.hpp: no randomisation of addresses, one secret); here it is checked.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "net/bootstrap/job_control.hpp"

namespace ayatori::net::bootstrap {

// Of this process, before anything is loaded later than at its start. `settings`: what the layout of the space depends on.
// Start-up thread.
Likeness likeness_of_this_process(std::span<const std::uint64_t> settings);

// Empty, or in which way which process differs from process 0 and what to do about it.
std::string unlike_text(const std::vector<Card>& cards);

}  // namespace ayatori::net::bootstrap
