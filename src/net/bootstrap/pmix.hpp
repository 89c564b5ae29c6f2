// SPDX-License-Identifier: Apache-2.0
// The job as a PMIx server knows it: Slurm's (`srun --mpi=pmix`), Open MPI's mpirun. libpmix.so.2 is opened when it is needed,
// so that programs start without it; what is used of its interface is declared in pmix_abi.hpp.
//
// X1. What a server keeps waiting is waited for on a thread of its own, for timeout_ns at most: nothing in PMIx bounds it.
// X2. The secret and the addresses travel by put, commit, fence and get: the server gives them to the job's processes only.
// X3. The session with the server ends when the job is joined: later on, deaths are noticed by the transport, and by the
//     launcher, whose children the processes are.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "net/bootstrap/membership.hpp"

namespace ayatori::net::bootstrap {

inline constexpr const char* kPmixLibrary = "libpmix.so.2";

// Start-up thread only; once. Fills the membership; with several processes, make_card is called once.
base::Status join_pmix(MakeCard make_card, std::int64_t timeout_ns, Membership* result);

// For a launcher that joins in place of the program that it starts (tools/ayatori/pmix_agent.cpp), step by step.
struct PmixJob {
  int self = 0;
  int processes = 1;
  Secret secret{};
  std::uint64_t job = 0;
  bool loopback = false;           // that interface reaches all processes
  std::vector<std::string> hosts;  // of every process
};
class Pmix;
class PmixSession {
 public:
  PmixSession();
  // Waits for all others to do so, for timeout_ns at most (X1). Once.
  base::Status enter(std::int64_t timeout_ns, PmixJob* job);
  // What all give, by process: waits until all have, however long. Once, any one thread.
  base::Status exchange(const std::string& mine, std::vector<std::string>* all);
  void leave();

 private:
  std::shared_ptr<Pmix> pmix_;  // kept by a thread that is given up
};

}  // namespace ayatori::net::bootstrap
