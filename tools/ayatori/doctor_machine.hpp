// SPDX-License-Identifier: Apache-2.0
// Judges what the kernel, the limits and the memory of one machine offer (machine.hpp): pure, so that tests can ask about
// machines that are not there.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "doctor_report.hpp"
#include "machine.hpp"

namespace ayatori::tool {

// What a job with the knobs in force asks of the machine.
struct Wanted {
  std::string engine = "auto";
  std::uint64_t space_base = 0, space_bytes = 0;
  int space_error = 0;  // of try_space()
  bool is_root = false;
  bool has_rdma = false;
};

std::vector<Check> judge_machine(const Machine& machine, const Wanted& wanted);

}  // namespace ayatori::tool
