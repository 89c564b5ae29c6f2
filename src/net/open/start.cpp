// SPDX-License-Identifier: Apache-2.0
// The constructor of programs that use the communication library alone. In programs with the whole library that one's start,
// which runs before (src/api/start.cpp), does the same on its way and leaves nothing to do here.
#include <memory>

#include "base/identity.hpp"
#include "base/knobs.hpp"
#include "net/bootstrap/bootstrap.hpp"
#include "net/open/memory.hpp"
#include "net/open/prepare.hpp"

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
  if (!job.launched || (job.control->flags & bootstrap::kWide) != 0) return;
  shm::ShmConfig config;
  config.processes = job.process_count;
  std::unique_ptr<shm::ShmWorld> world;
  base::Status status = shm::ShmWorld::create(config, &world);
  if (status.ok()) status = memory::reserve(*world, base::knob_size("AYATORI_NET_MEMORY"));
  if (!status.ok()) base::exit_start_failure(status);
  the_world = world.release();
}

shm::ShmWorld* prepared_world() noexcept { return the_world; }

}  // namespace ayatori::net
