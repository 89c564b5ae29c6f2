// SPDX-License-Identifier: Apache-2.0
// The communication library alone: one-sided reads, writes and atomics, active messages and RPC, collectives between the
// processes of a job, without threads and memory of <ayatori/ayatori.hpp> (thesis ch. 4). CMake target ayatori::net, pkg-config
// ayatori-net; a program that is linked with ayatori::ayatori has it too.
//
//   auto net = ayatori::net::open();                        // joins the job that this process was started in
//   void* memory = ayatori::net::allocate_memory(4096);
//   const auto region = net->register_memory(memory, 4096);  // ids count from 0 in every process
//   ayatori::net::barrier(*net);
//   ayatori::net::write(*net, {1, region, 0}, &value, sizeof value);
//
// One binary runs alone (a job of one process), under `ayatori run -n N` (shared memory, or --transport tcp, ucx), under
// `ayatori run --hosts a,b,c`, and under a PMIx server: `srun --mpi=pmix`, Open MPI's mpirun (tcp, or ucx). docs/guide/clusters.md.
//
// Errors: what depends on a peer or on data is an Outcome of the request (types.hpp), a broken rule of transport.hpp ends
// the process with a line and status 134. Thread-safety: a Transport may be used by all threads of a process at once; the
// functions here say what they need. Units are in the names: bytes, nanoseconds.
#pragma once

#if __cplusplus < 202002L
#error "ayatori/net.hpp needs C++20: compile with -std=c++20 or later"
#endif

#include <ayatori/net/blocking.hpp>
#include <ayatori/net/transport.hpp>
#include <ayatori/net/types.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace ayatori::net {

struct OpenOptions {
  // "shm": processes of one machine that `ayatori run` has started; "tcp"; "ucx" (where UCX is installed); "shm+tcp" and
  // "shm+ucx": shared memory on a machine, the wire between; "auto": the first where it reaches all, else "shm+tcp". Empty:
  // what the knob AYATORI_TRANSPORT says. The same in all processes.
  std::string_view transport;
  // How long to wait for the other processes; 0: the knob AYATORI_START_TIMEOUT.
  std::int64_t timeout_ns = 0;
  // Called once, before the first message can arrive: for set_handler() and set_peer_failure_handler() (transport.hpp N8),
  // which are too late afterwards.
  std::function<void(Transport& net)> before_start;
};

// Leaves the job in good order: waits until what this process owes its peers is sent, for a second at most. For them the
// process is gone then; one that ends without it has failed. No request is under way and no other thread uses the transport.
struct Close {
  void operator()(Transport* net) const noexcept;
};
using OwnedTransport = std::unique_ptr<Transport, Close>;

// Joins this process to its job and returns when all processes of the job have called it and are connected. Once a process,
// on one thread. Where that fails, the process ends with status 125 after one line that says why, and with it the job.
OwnedTransport open(const OpenOptions& options = {});
// The same, but a failure is null and its line in *why.
OwnedTransport try_open(const OpenOptions& options, std::string* why);

// Memory that every transport can register: zeroed, at a multiple of 4,096; nullptr when there is none left (on one machine
// AYATORI_NET_MEMORY bounds it). Other memory can be registered where Transport::register_memory says so: with tcp and in jobs
// of one process any. Processes of a machine that srun or mpirun has started share what is allocated after open(). Any thread.
void* allocate_memory(std::size_t bytes) noexcept;
// Of allocate_memory(), unregistered; null is nothing. Any thread.
void free_memory(void* memory) noexcept;

}  // namespace ayatori::net
