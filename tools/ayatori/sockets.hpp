// SPDX-License-Identifier: Apache-2.0
// Can somebody reach an address? Connections without a word on them: a listener that never accepts has the kernel complete
// them, which is what a firewall or a missing route keeps it from. One thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "system.hpp"

namespace ayatori::tool {

// On a port of the kernel's choice.
base::Status listen_at(const std::string& address, Fd* listener, std::uint16_t* port);

struct Target {
  std::string address;
  std::uint16_t port = 0;
};
// Tries all at once; for each what went wrong, empty: nothing did.
std::vector<std::string> try_to_connect(const std::vector<Target>& targets, std::int64_t timeout_ns);

}  // namespace ayatori::tool
