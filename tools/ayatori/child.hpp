// SPDX-License-Identifier: Apache-2.0
// Questions to libraries and commands of which nothing is known, not even that they come back: asked in a child process.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace ayatori::tool {

// What `work`, or the command that it becomes, writes to descriptor 1 within the time; nullopt: it took longer or did not end
// with status 0. Standard error is not heard. The child and what it has started are gone when this returns.
std::optional<std::string> ask_child(std::int64_t timeout_ns, const std::function<int()>& work);

}  // namespace ayatori::tool
