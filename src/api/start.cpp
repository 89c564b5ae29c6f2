// SPDX-License-Identifier: Apache-2.0
// Start of the library in a process: the constructor that runs before the program's own initialisers, in this order:
// settings, bootstrap, shared memory of every layer, fork of the members, then each layer in each member.
#include "api/start.hpp"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>

#include "api/c_cancel.hpp"
#include "api/check_mode.hpp"
#include "base/identity.hpp"
#include "base/knobs.hpp"
#include "base/log.hpp"
#include "dsm/dsm.hpp"
#include "dsm/fault/shadow.hpp"
#include "gas/heap.hpp"
#include "gas/space.hpp"
#include "net/bootstrap/bootstrap.hpp"
#include "net/bootstrap/surroundings.hpp"
#include "net/job_network.hpp"
#include "net/open/prepare.hpp"
#include "tasks/binding.hpp"
#include "tasks/keys.hpp"
#include "tasks/names.hpp"
#include "tasks/overflow.hpp"
#include "tasks/remote.hpp"
#include "tasks/runtime.hpp"
#include "tasks/sync.hpp"
#include "tasks/waiting_calls.hpp"
#include "ult/scheduler.hpp"

extern "C" const int ayatori_no_start __attribute__((weak));

namespace ayatori::api {

namespace {

struct Started {
  std::string engine_reason;
};
Started& started() {
  static Started s;
  return s;
}

// Processes of the job on this process' machine.
int neighbours() {
  const net::bootstrap::Job& job = net::bootstrap::job();
  if (!job.is_wide()) return job.process_count;
  const net::bootstrap::Card* const cards = job.control->cards;
  return static_cast<int>(std::count_if(cards, cards + job.processes(), [&](const net::bootstrap::Card& card) {
    return std::string_view(card.host) == cards[job.number()].host;
  }));
}

int default_workers(int processes) {
  cpu_set_t set;
  CPU_ZERO(&set);
  const int cpus = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
  return std::clamp(cpus / processes, 1, ult::kMaxWorkers);
}

int workers_asked(int neighbours) {
  const int asked = net::bootstrap::job().workers;
  const int workers = asked > 0 ? asked : static_cast<int>(base::knob_int("AYATORI_WORKERS"));
  return workers > 0 ? workers : default_workers(neighbours);
}

void forget_pages(gas::PageIndex first, std::size_t pages) {
  if (tasks::processes() == 1) return;
  struct Range {
    gas::PageIndex first;
    std::size_t pages;
  };
  thread_local Range range;  // not on the stack: that may lie in the space
  range = {first, pages};
  tasks::call_native(
      [](void* r) {
        const Range& x = *static_cast<Range*>(r);
        dsm::protocol().forget_range(tasks::self(), x.first, x.pages);  // concerns this process alone
      },
      &range);
}

// Before the program's own initialisers (priority 101), but after the C library's.
__attribute__((constructor(101))) void start() {
  static constinit bool begun = false;
  if (begun) return;  // set before there is a second thread
  begun = true;
  if (&ayatori_no_start != nullptr) return;  // unit tests set up what they need themselves
  const base::Status loaded = base::load_knobs();
  if (!loaded.ok()) {
    std::fprintf(stderr, "ayatori: %s\n", std::string(loaded.message()).c_str());
    std::_Exit(125);
  }
  namespace boot = net::bootstrap;
  boot::begin();
  boot::hand_over_to_launcher();
  const int processes = boot::job().processes();
  gas::Sizes sizes{};
  sizes.base = base::knob_size("AYATORI_SPACE_BASE");
  sizes.space_bytes = base::knob_size("AYATORI_SPACE_SIZE");
  sizes.stack_bytes = base::knob_size("AYATORI_STACK_SIZE");
  sizes.place_bytes = base::knob_size("AYATORI_PLACE_BLOCK");
  const bool wide = boot::job().is_wide();
  net::TransportChoice transport;
  if (const base::Status status = net::choose_transport(base::knob_string("AYATORI_TRANSPORT"), wide, &transport);
      !status.ok())
    boot::end_job(base::kStartFailureExit, status.message());
  if (processes > 1 && transport.wire != net::Wire::kNone) {
    const std::uint64_t layout[] = {sizes.base, sizes.space_bytes, sizes.stack_bytes, sizes.place_bytes};
    if (const base::Status status = net::reserve_job_network(transport, layout); !status.ok())
      base::exit_start_failure(status);
    if (base::knob_bool("AYATORI_CHECK"))
      boot::end_job(base::kStartFailureExit,
                    "--check compares what processes of one machine share, and these share nothing (--transport, "
                    "--hosts): leave one of them out");
    gas::set_apart();
  }
  gas::reserve(processes, sizes);
  dsm::fault::shadow::share(sizes.base, sizes.space_bytes);
  gas::heap::reserve(processes);
  dsm::reserve(processes);
  tasks::reserve(processes);
  tasks::sync::reserve();
  tasks::keys::reserve();
  tasks::names::reserve();
  check_mode::reserve(processes);
  if (&net::prepare_open != nullptr) net::prepare_open();
  tasks::binding::prepare(boot::job().process_count, workers_asked(boot::job().process_count));
  boot::fork_members();
  const boot::Job& job = boot::job();
  const int self = job.number();
  base::set_identity(self, processes);
  gas::attach(self);
  dsm::Hooks hooks;
  hooks.stack_overflow = tasks::overflow::report_fault;
  hooks.is_beyond_stack = tasks::overflow::is_beyond_stack;
  hooks.releasing = gas::heap::begin_release;
  hooks.released = gas::heap::deliver_pending;
  hooks.connect = tasks::remote::connect;
  dsm::attach(self, hooks, &started().engine_reason);
  gas::heap::attach(self);
  gas::heap::Hooks heap_hooks;
  heap_hooks.request_release = [] { tasks::call_native([](void*) { dsm::release(tasks::self()); }, nullptr); };
  heap_hooks.forget_pages = forget_pages;
  heap_hooks.call_native = tasks::call_native;
  if (gas::apart()) {
    tasks::remote::attach();
    tasks::remote::set_heap_hooks(heap_hooks);
  }
  gas::heap::set_hooks(heap_hooks);
  tasks::attach(self, workers_asked(neighbours()), {check_mode::thread_moved_hook(), check_mode::enter_worker});
  tasks::waiting_calls::start(end_cancelled);
}

}  // namespace

const std::string& engine_reason() { return started().engine_reason; }
void ensure_started() noexcept { start(); }

}  // namespace ayatori::api
