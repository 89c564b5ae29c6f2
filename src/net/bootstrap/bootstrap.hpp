// SPDX-License-Identifier: Apache-2.0
// Start and end of a job's members on one machine. The launcher (tools/ayatori) execs the program once; in that first
// image the library's constructor calls begin(), lets the layers make and map their shared memory, and calls
// fork_members(), which returns in every member. All members are images of one exec: code, globals, libraries, TLS and
// vdso lie at the same addresses with ASLR on (docs/design, "members forked from one image").
//
// S1. begin() and fork_members() run on the only thread of the first image, before the program's own initialisers;
//     neither makes a thread, both are no-ops when called again.
// S2. Every member is a child of the launcher (a subreaper) and dies with it by PR_SET_PDEATHSIG, blocked or spinning.
// S3. Of several reasons for which a job ends, the first one recorded is told, once, by the launcher.
// S4. A process that the program forks itself is no member: end_job() and exit() in it end that process only.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "net/bootstrap/job_control.hpp"

namespace ayatori::net::bootstrap {

struct Job {
  int process_id = 0;     // among those of this machine: its row of the control memory
  int process_count = 1;  // on this machine
  int workers = 0;        // asked for each process; 0: CPUs / processes
  bool launched = false;
  int launcher_pid = 0;
  JobControl* control = nullptr;  // null before begin()

  // In the whole job, which may have several machines.
  bool is_wide() const noexcept { return control != nullptr && (control->flags & kWide) != 0; }
  int number() const noexcept { return control != nullptr ? control->first_process + process_id : process_id; }
  int processes() const noexcept { return control != nullptr ? control->job_processes : process_count; }
};
Job& job() noexcept;

// After base::load_knobs(). Finds the launcher's hand-over in the environment and maps the control memory; without a launcher: a job of one
// process, whose control memory is an anonymous shared mapping. Ends the process with 125 and a line when start-up
// fails.
void begin();

// Makes the other members; returns in all of them. Descriptors and shared mappings made before are inherited, private
// memory is copied.
void fork_members();

// Any thread of a member. kRunning on entering run(), kFinished when it returned; for net::open() kJoining, kJoined, and kFinished
// when its transport is closed. Entering ends the job when another
// member has already left without entering (J3). From the first kRunning on, exit() inside the run ends the job.
void set_phase(Phase phase);
Phase phase() noexcept;
// Called when a member calls exit() inside the run, before the program's exit handlers, on the calling thread's stack.
void set_exit_hook(void (*hook)() noexcept) noexcept;

// Ends the job: records `why` (unless a reason stands already), lets the launcher tell it and kill all members, and
// ends this process with `status`. Any thread, also in a signal handler: takes no lock, allocates nothing.
[[noreturn]] void end_job(int status, std::string_view why) noexcept;

// Has somebody ended the job, so that waiting for peers is vain? Any thread.
bool job_ending() noexcept;

// The status that run() returns in every member: the first one set wins. Returns the one in force.
int set_result(int status) noexcept;
// False: nobody has set it yet.
bool get_result(int& status) noexcept;

// The counters of this process in the order of kStatNames, at the end of the run or at exit() inside it (once). With a
// launcher they go to the control memory; without one, and with the knob AYATORI_STATS, to the file it names ("-": a
// table on standard error).
void publish_stats(std::span<const std::uint64_t> values);
// Are they wanted at all?
bool stats_wanted() noexcept;

}  // namespace ayatori::net::bootstrap
