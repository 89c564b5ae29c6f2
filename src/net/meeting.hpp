// SPDX-License-Identifier: Apache-2.0
// How processes of one machine that were started apart (by srun, mpirun, or as several hosts of one machine) come to share
// memory: the first of them makes a world (shm/world.hpp W9) and hands it to the others over sockets in the kernel's abstract
// names, which leave no file behind. Who cannot take part talks to everybody over the wire. Start-up thread.
//
// G1. Each opens its meeting before it gives its card, which names it; the members of a meeting are those of one place whose
//     cards name one. So all know, without asking, who they are and who is the first.
// G2. Strangers reach the sockets, too: both sides look at the other's user, and prove that they know the job's secret.
// G3. The first waits for everybody, or the end of its time, and tells those who are in who all are in. Who has said that it is
//     in and does not get that word cannot go on: the others may believe that it is in.
// G4. Members look whether the others' process ids still live: a process of another pid namespace stays out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "base/status.hpp"
#include "net/bootstrap/membership.hpp"
#include "net/served/descriptor.hpp"
#include "net/shm/world.hpp"

namespace ayatori::net {

class Meeting {
 public:
  // Not opened where the machine refuses: then this process takes no part.
  void open() noexcept;
  const std::string& name() const noexcept { return name_; }  // for the card; empty: not open

  // The world of `config`, whose members are found here, with those of them that came; nullptr: nobody else did, or this
  // process is not among them. A status that is not ok: G3. What keeps somebody out is a warning in the log, by the first, who
  // waits for half of timeout_ns at most, and never for more than 10 s. Once.
  base::Status meet(const bootstrap::Membership& job, shm::ShmConfig config, std::size_t shared_bytes,
                    std::int64_t timeout_ns, std::unique_ptr<shm::ShmWorld>* world);

 private:
  served::Descriptor socket_;
  std::string name_;
};

}  // namespace ayatori::net
