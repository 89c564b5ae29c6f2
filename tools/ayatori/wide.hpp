// SPDX-License-Identifier: Apache-2.0
// A job with several hosts, as seen by the part of it that runs on one of them: an ordinary job (job.hpp) whose members are told
// that there are others elsewhere, and whose launcher has somebody to tell, its agent (agent.cpp).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "frames.hpp"
#include "net/bootstrap/job_control.hpp"
#include "system.hpp"

namespace ayatori::tool {

// Messages with the agent, by a socket that keeps them apart. Neither side blocks; what does not fit is not sent: the messages of
// a job are few and short.
class Uplink {
 public:
  Uplink() = default;
  explicit Uplink(Fd socket) : socket_(std::move(socket)) {}
  int fd() const noexcept { return socket_.get(); }
  bool send(FrameKind kind, std::string_view body = {}) const;
  // False: there is none now; ended() tells whether one will come.
  bool receive(FrameKind* kind, std::string* body);
  bool ended() const noexcept { return ended_; }

 private:
  Fd socket_;
  bool ended_ = false;
};
bool open_uplink(Uplink& launcher, Uplink& agent);

struct WideJob {
  int processes = 1;  // of all hosts
  int first = 0;      // number of this host's process 0
  std::uint64_t job_id = 0;
  net::bootstrap::Secret secret{};
  bool loopback = false;           // it reaches all hosts
  bool has_launcher = true;        // one of the whole job, which says why it ends
  std::vector<std::string> hosts;  // by process
  Uplink uplink;
};

}  // namespace ayatori::tool
