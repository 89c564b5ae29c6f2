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

#include "base/status.hpp"
#include "net/bootstrap/membership.hpp"

namespace ayatori::net::bootstrap {

inline constexpr const char* kPmixLibrary = "libpmix.so.2";

// Start-up thread only; once. Fills the membership; with several processes, make_card is called once.
base::Status join_pmix(MakeCard make_card, std::int64_t timeout_ns, Membership* result);

// How many processes has the job?
base::Status ask_pmix_size(std::int64_t timeout_ns, int* processes);

}  // namespace ayatori::net::bootstrap
