// SPDX-License-Identifier: Apache-2.0
// `ayatori run --check` (AYATORI_CHECK): names, when the run has ended, what an ordinary program keeps that is not one
// object for all processes: plain globals and function-local statics that processes changed differently
// (check_globals.cpp), locks of the C and C++ libraries used on objects in the space (check_locks.cpp), and addresses of
// thread_locals that threads keep while they go on on other workers (check_thread_locals.cpp).
//
// K1. Without the knob nothing is done: no symbol is interposed, the cost is one look at a flag at the start and the end.
// K2. The program's result and exit status stay its own.
// K3. The memory of the report is shared by all members and made before the fork: symbol tables and addresses are equal.
#pragma once

#include "ult/thread.hpp"

namespace ayatori::api::check_mode {

void reserve(int processes);  // before the fork; reads the knob
void begin();                 // every member, before the run
void end();                   // every member, after the run: process 0 prints
// For ult::Hooks::moved; null: nothing to look at. After reserve().
void (*thread_moved_hook())(const ult::Descriptor*, int process, int worker);
void enter_worker(int worker);  // each worker's OS thread, before it runs threads
void end_at_exit();             // a member that calls exit() inside the run: prints what it knows by itself

}  // namespace ayatori::api::check_mode
