// SPDX-License-Identifier: Apache-2.0
// The constructor of programs that use the communication library alone. In programs with the whole library that one's start,
// which runs before (src/api/start.cpp), does the same on its way and leaves nothing to do here.
#include <memory>

#include "base/identity.hpp"
#include "base/knobs.hpp"
#include "net/bootstrap/bootstrap.hpp"
#include "net/member_network.hpp"
#include "net/open/memory.hpp"
#include "net/open/prepare.hpp"
#include "net/transport_choice.hpp"

extern "C" const int ayatori_no_start __attribute__((weak));

namespace ayatori::net {
namespace {

constinit shm::ShmWorld* the_world = nullptr;  // lives as long as the process

// After the library's (101), before the program's own initialisers.
__attribute__((constructor(102))) void start() {
  if (&ayatori_no_start != nullptr || bootstrap::job().control != nullptr) return;
  if (const base::Status loaded = base::load_knobs(); !loaded.ok()) base::exit_start_failure(loaded);
  bootstrap::begin();
  prepare_open();
  bootstrap::fork_members();
  const bootstrap::Job& job = bootstrap::job();
  base::set_identity(job.control->first_process + job.process_id, job.control->job_processes);
}

}  // namespace

void prepare_open() {
  const bootstrap::Job& job = bootstrap::job();
  if (!job.launched) return;
  TransportChoice choice;  // open() tells of one that is none
  const bool is_one = choose_transport(base::knob_string("AYATORI_TRANSPORT"), job.is_wide(), &choice).ok();
  const bool below_a_wire = is_one && choice.shm && choice.wire != Wire::kNone;
  if (job.is_wide() && !below_a_wire) return;
  std::unique_ptr<shm::ShmWorld> world;
  base::Status status;
  if (below_a_wire) {
    const served::ServedConfig config;
    status = make_neighbours(config.payload_bytes_max, config.requests_max, &world);
  } else {
    shm::ShmConfig config;
    config.processes = job.process_count;
    status = shm::ShmWorld::create(config, &world);
  }
  if (status.ok() && world != nullptr)
    status = memory::reserve(*world, job.processes(), base::knob_size("AYATORI_NET_MEMORY"));
  if (!status.ok()) base::exit_start_failure(status);
  the_world = world.release();
}

shm::ShmWorld* prepared_world() noexcept { return the_world; }

}  // namespace ayatori::net
