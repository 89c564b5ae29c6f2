// SPDX-License-Identifier: Apache-2.0
// The transports that can be measured: one row each. A new one is a row and a Fabric.
//
// F1. A Fabric is made by the driver, which has one thread, before the members are forked. Each member attaches its copy
//     once, and detaches it for an orderly leave.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>

#include <ayatori/net/transport.hpp>
#include "base/status.hpp"

namespace bench {

namespace net = ayatori::net;
namespace base = ayatori::base;

class Fabric {
 public:
  virtual ~Fabric() = default;
  virtual net::Transport& attach(net::ProcessId self) = 0;  // not started yet; region 0 is memory()
  virtual std::byte* memory() const noexcept = 0;           // of this member, zeroed
  virtual void detach() noexcept = 0;
};

struct FabricConfig {
  int processes = 2;
  std::size_t memory_bytes = 0;  // of each member
};

struct Variant {
  const char* name;
  const char* what;
  base::Status (*create)(const FabricConfig& config, std::unique_ptr<Fabric>* fabric);
  bool only_if_named = false;  // needs what not every machine has
};

std::span<const Variant> variants();
const Variant* find_variant(std::string_view name);  // nullptr: there is none

}  // namespace bench
