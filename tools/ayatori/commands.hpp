// SPDX-License-Identifier: Apache-2.0
// The commands of `ayatori`: each parses its own arguments (argv[0] is the command's name) and returns the exit status.
#pragma once

#include <string>

namespace ayatori::tool {

int run_command(int argc, char** argv);           // run.cpp
int info_command(int argc, char** argv);          // info.cpp
int bench_command(int argc, char** argv);         // bench.cpp
int dump_command(int argc, char** argv);          // dump.cpp
int doctor_command(int argc, char** argv);        // doctor.cpp
int doctor_agent_command(int argc, char** argv);  // doctor_agent.cpp; started by `ayatori doctor --hosts`, not by users
int agent_command(int argc, char** argv);         // agent.cpp; started by `ayatori run --hosts`, not by users
int pmix_agent_command(int argc, char** argv);    // pmix_agent.cpp; what a program under PMIx becomes

// Folder of this executable; empty when /proc is not there.
std::string own_folder();

}  // namespace ayatori::tool
