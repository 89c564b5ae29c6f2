// SPDX-License-Identifier: Apache-2.0
// What one machine offers for talking: transports, the launchers of clusters, addresses.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "doctor_report.hpp"

namespace ayatori::tool {

// The ports of RDMA devices that the kernel has, as "mlx5_0:1 InfiniBand ACTIVE".
std::vector<std::string> rdma_ports();

// `host`: its name in --hosts, or empty. *address: where a job of several machines would listen, or empty.
std::vector<Check> check_network(std::string_view host, const std::vector<std::string>& rdma, std::string* address);

// Of what UCX prints of itself: "tcp on eth0, lo; ...", shared memory and loops left out; *has_rdma: is any of it not tcp?
std::string ucx_devices(std::string_view printed, bool* has_rdma);

// UCX as this build would load it, asked in a child process (doctor_ucx.cpp): its version and, in lines after that, what it
// prints of itself. False: *text tells why there is none. `built`: was Ayatori built with UCX?
bool ask_ucx(std::string* text, bool* built);

}  // namespace ayatori::tool
