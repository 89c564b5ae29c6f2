// SPDX-License-Identifier: Apache-2.0
// What a process must be told to take part in a job over UCX: the control connections are tcp's, and so is their config.
#pragma once

#include <string>

#include "net/tcp/config.hpp"

namespace ayatori::net::ucx {

struct UcxConfig : tcp::TcpConfig {
  // Network devices that UCX may use, with commas: "lo", "eth0", "mlx5_0:1". Empty: those of UCX_NET_DEVICES, else loopback.
  std::string devices;
  // UCX's names of transports, as in UCX_TLS: "tcp", "posix", "rc". Empty: those of UCX_TLS, else what UCX thinks best but
  // shared memory, over which a death may block the living (wire.hpp L6).
  std::string transports;
  // Where UCX has nothing but TCP (control.hpp C4); false: long data goes by UCX as well.
  bool long_data_by_line = true;
  // What UCX is seen to do with peers' memory by itself is left to it (memory.hpp M1); false: it is not tried.
  bool uses_reach = true;
};

}  // namespace ayatori::net::ucx
