// SPDX-License-Identifier: Apache-2.0
// On which of this machine's addresses to listen, so that other machines reach it and no more networks than necessary. Start-up
// thread, or one that PMIx keeps waiting; `ayatori doctor`.
#pragma once

#include <string>
#include <string_view>

#include "base/status.hpp"

namespace ayatori::net::bootstrap {

struct ChosenAddress {
  std::string number;     // "10.1.0.7"
  std::string interface;  // "eth0"
};

// Loopback only where it is asked for: the address that `wanted` means (AYATORI_NET_INTERFACE: an interface's name, an address,
// a network like 10.1.0.0/16); without it that of `host`, where this machine has it; else that of the default route, else the first
// of an interface that is up.
base::Status choose_address(std::string_view wanted, std::string_view host, ChosenAddress* address);

// All that this machine has, with their interfaces, for messages.
std::string addresses_text();

}  // namespace ayatori::net::bootstrap
