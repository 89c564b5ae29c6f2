// SPDX-License-Identifier: Apache-2.0
// What a name of AYATORI_TRANSPORT or OpenOptions::transport means. Any thread.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/status.hpp"

namespace ayatori::net {

enum class Wire : std::uint8_t { kNone, kTcp, kUcx };

struct TransportChoice {
  bool shm = false;  // between processes of one machine, if they can
  Wire wire = Wire::kNone;
};

// kInvalid: there is no such transport, or it does not reach all of a job with `several_hosts`.
base::Status choose_transport(std::string_view name, bool several_hosts, TransportChoice* choice);

}  // namespace ayatori::net
