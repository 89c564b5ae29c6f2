// SPDX-License-Identifier: Apache-2.0
// `ayatori doctor-agent`: what `ayatori doctor --hosts` starts on each host. Gets an errand by standard input, answers by
// standard output (frames.hpp), then tries to reach the other hosts. The end of standard input is its end.
#include <poll.h>

#include <csignal>
#include <cstdlib>

#include "commands.hpp"
#include "doctor.hpp"
#include "frames.hpp"
#include "sockets.hpp"
#include "system.hpp"

namespace ayatori::tool {
namespace {

class DoctorAgent {
 public:
  int run() {
    fcntl(STDIN_FILENO, F_SETFL, O_NONBLOCK);
    fcntl(STDOUT_FILENO, F_SETFL, O_NONBLOCK);
    std::signal(SIGPIPE, SIG_IGN);
    writer_.add_raw(kGreeting);
    while (!done_) turn();
    return 0;
  }

 private:
  void turn() {
    pollfd polls[] = {{STDIN_FILENO, POLLIN, 0}, {writer_.empty() ? -1 : STDOUT_FILENO, POLLOUT, 0}};
    if (poll(polls, std::size(polls), -1) <= 0) return;
    if (polls[1].revents != 0 && !writer_.flush(STDOUT_FILENO)) done_ = true;
    if (polls[0].revents == 0) return;
    if (reader_.fill(STDIN_FILENO) == FrameReader::Arrived::kEnd) done_ = true;
    Frame frame;
    while (!done_ && reader_.next(&frame)) on_frame(frame);
    if (reader_.broken()) done_ = true;
  }

  void on_frame(const Frame& frame) {
    if (frame.kind == FrameKind::kExamine) return on_examine(frame.body);
    if (frame.kind == FrameKind::kReach) return on_reach(frame.body);
    done_ = true;
  }

  void on_examine(std::string_view body) {
    const std::optional<Errand> errand = unpack_errand(body);
    if (!errand) {
      done_ = true;
      return;
    }
    const bool entered = chdir(errand->folder.c_str()) == 0;
    const int error = errno;
    for (const auto& [name, value] : errand->knobs) setenv(name.c_str(), value.c_str(), 1);
    HostReport report = examine(errand->host, errand->program);
    if (!entered)
      report.checks.push_back(problem("folder", base::formatted("{}: {}", errand->folder, error_text(error)),
                                      "Share this folder between the hosts, or call `ayatori` in one that all have."));
    listen("127.0.0.1", &loopback_, &report.loopback_port, report);
    if (!report.address.empty()) listen(report.address, &listener_, &report.port, report);
    writer_.add(FrameKind::kFindings, pack(report));
  }

  void listen(const std::string& address, Fd* listener, std::uint64_t* port, HostReport& report) {
    std::uint16_t number = 0;
    if (const base::Status status = listen_at(address, listener, &number); !status.ok())
      report.checks.push_back(problem("listening", status.message(), "Let this account listen there."));
    *port = number;
  }

  void on_reach(std::string_view body) {
    Unpacker fields(body);
    std::vector<Target> targets;
    for (std::uint64_t left = fields.number(); left != 0 && fields.ok(); --left) {
      Target target;
      target.address = fields.text();
      target.port = static_cast<std::uint16_t>(fields.number());
      targets.push_back(std::move(target));
    }
    if (!fields.ended()) {
      done_ = true;
      return;
    }
    Packer packer;
    packer.number(targets.size());
    for (const std::string& why : try_to_connect(targets, kReachNs)) packer.text(why);
    writer_.add(FrameKind::kReached, packer.body());
  }

  FrameReader reader_;
  FrameWriter writer_;
  Fd loopback_, listener_;  // nothing is accepted: connections stand, which is all that is asked
  bool done_ = false;
};

}  // namespace

int doctor_agent_command(int, char**) {
  if (isatty(STDIN_FILENO) || isatty(STDOUT_FILENO))
    return fail(kExitStart, "doctor-agent is for `ayatori doctor --hosts`, which starts it");
  return DoctorAgent().run();
}

}  // namespace ayatori::tool
