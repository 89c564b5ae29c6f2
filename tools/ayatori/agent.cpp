// SPDX-License-Identifier: Apache-2.0
// `ayatori host-agent`: what `ayatori run --hosts` starts on each host. It gets the job by standard input, answers by standard
// output (frames.hpp), runs its part as an ordinary job in a child process, and carries what its members and other hosts tell
// each other. One thread, one poll loop.
//
// A1. Nothing of the job stands on a command line or in the environment: secret, addresses, program come by the channel.
// A2. The end of standard input is the launcher's end, however it came: the part is killed, the agent ends.
// A3. The child dies with the agent (parent-death signal), the members with the child (job.hpp).
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "commands.hpp"
#include "frames.hpp"
#include "host_job.hpp"
#include "job.hpp"
#include "net/bootstrap/place.hpp"
#include "program.hpp"
#include "report.hpp"
#include "system.hpp"
#include "wide.hpp"

namespace ayatori::tool {

namespace {

constexpr std::int64_t kEndNs = 3 * base::kNsPerSecond;    // for the part to end when it is told
constexpr std::int64_t kFlushNs = 2 * base::kNsPerSecond;  // for the last frames to leave
constexpr std::size_t kWriterBytesMax = 1u << 20;
constexpr std::size_t kReadBytes = 64 * 1024;

class Agent {
 public:
  int run() {
    fcntl(STDIN_FILENO, F_SETFL, O_NONBLOCK);
    fcntl(STDOUT_FILENO, F_SETFL, O_NONBLOCK);
    std::signal(SIGPIPE, SIG_IGN);
    sigset_t taken;
    sigemptyset(&taken);
    for (const int signal : {SIGCHLD, SIGHUP, SIGINT, SIGTERM}) sigaddset(&taken, signal);
    sigprocmask(SIG_BLOCK, &taken, nullptr);
    signal_fd_ = Fd(signalfd(-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK));
    if (!signal_fd_) return fail(kExitStart, "cannot make a signal descriptor: {}", error_text(errno));
    writer_.add_raw(kGreeting);
    while (!done_) turn();
    return status_;
  }

 private:
  void turn() {
    pollfd polls[] = {{signal_fd_.get(), POLLIN, 0},
                      {launcher_gone_ ? -1 : STDIN_FILENO, POLLIN, 0},
                      {writer_.empty() ? -1 : STDOUT_FILENO, POLLOUT, 0},
                      {uplink_.ended() ? -1 : uplink_.fd(), POLLIN, 0},
                      {reads(0) ? output_[0].get() : -1, POLLIN, 0},
                      {reads(1) ? output_[1].get() : -1, POLLIN, 0}};
    const std::int64_t now_ns = base::real_now_ns();
    const int timeout_ms =
        deadline_ns_ == 0 ? -1
                          : static_cast<int>(std::max<std::int64_t>(0, deadline_ns_ - now_ns) / base::kNsPerMs) + 1;
    if (poll(polls, std::size(polls), timeout_ms) > 0) {
      signalfd_siginfo signal;
      while (read(signal_fd_.get(), &signal, sizeof signal) == sizeof signal)
        on_signal(static_cast<int>(signal.ssi_signo));
      if (polls[1].revents != 0) read_launcher();
      if (polls[3].revents != 0) read_uplink();
      for (int i = 0; i < 2; ++i)
        if (polls[4 + i].revents != 0) read_output(i);
    }
    if (!writer_.flush(STDOUT_FILENO)) {
      writer_ = {};
      on_launcher_gone();
    }
    if (deadline_ns_ != 0 && base::real_now_ns() >= deadline_ns_) on_deadline();
    if (leaving_ && writer_.empty()) done_ = true;
  }

  bool reads(int stream) const { return output_[stream] && writer_.pending_bytes() < kWriterBytesMax; }

  void read_launcher() {
    if (reader_.fill(STDIN_FILENO) == FrameReader::Arrived::kEnd) return on_launcher_gone();  // A2
    Frame frame;
    while (reader_.next(&frame)) on_frame(frame);
    if (reader_.broken()) on_launcher_gone();
  }

  void on_frame(const Frame& frame) {
    Unpacker fields(frame.body);
    switch (frame.kind) {
      case FrameKind::kJob: return on_job(frame.body);
      case FrameKind::kStart: return start(fields.number() != 0);
      case FrameKind::kSignal:
        // The part forwards it, as a job does that is sent one.
        if (const auto signal = static_cast<int>(fields.number()); child_ > 1 && signal > 0 && signal < 32)
          kill(child_, signal);
        return;
      case FrameKind::kEnd: return end();
      case FrameKind::kCard:
      case FrameKind::kLeft:
        if (uplink_.fd() >= 0) uplink_.send(frame.kind, frame.body);
        return;
      default: return;
    }
  }

  void on_job(std::string_view body) {
    std::optional<HostJob> job = unpack_host_job(body);
    if (!job) return refuse(kExitStart, "the launcher's words make no sense here: is it the same version?");
    if (job->version != AYATORI_VERSION)
      return refuse(kExitStart,
                    base::formatted("ayatori is version {} there, {} at the launcher", AYATORI_VERSION, job->version));
    job_ = std::move(*job);
    if (chdir(job_.folder.c_str()) != 0)
      return refuse(kExitStart, base::formatted("cannot enter the folder {}: {}", job_.folder, error_text(errno)));
    for (const auto& [name, value] : job_.knobs) setenv(name.c_str(), value.c_str(), 1);
    std::string why;
    if (const int status = find_program(job_.command.front(), program_, &why); status != 0) return refuse(status, why);
    if (!program_.linked)
      return refuse(kExitStart, base::formatted("{}: not linked with Ayatori, so it cannot be one job on several hosts",
                                                program_.path));
    writer_.add(FrameKind::kReady, Packer().text(net::bootstrap::place_of_this_process()).body());
  }

  void start(bool loopback) {
    Pipe out, err;
    Uplink theirs;
    if (child_ > 0 || program_.path.empty()) return;
    if (!open_pipe(out) || !open_pipe(err) || !open_uplink(theirs, uplink_))
      return refuse(kExitStart, base::formatted("cannot make a pipe: {}", error_text(errno)));
    const pid_t agent = getpid();
    child_ = fork();
    if (child_ < 0) return refuse(kExitStart, base::formatted("cannot fork: {}", error_text(errno)));
    if (child_ == 0) run_part(agent, loopback, out.write.get(), err.write.get(), std::move(theirs));
    output_[0] = std::move(out.read);
    output_[1] = std::move(err.read);
    for (const Fd& fd : output_) fcntl(fd.get(), F_SETFL, O_NONBLOCK);
  }

  // In the child.
  [[noreturn]] void run_part(pid_t agent, bool loopback, int out, int err, Uplink uplink) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // A3
    if (getppid() != agent) _exit(kExitStart);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    std::signal(SIGPIPE, SIG_DFL);
    uplink_ = Uplink();  // the agent's end
    setpgid(0, 0);       // what the remote shell's group is sent is for the agent
    const Fd null(open("/dev/null", O_RDONLY | O_CLOEXEC));
    if (!null) _exit(kExitStart);
    dup2(null.get(), STDIN_FILENO);
    dup2(out, STDOUT_FILENO);
    dup2(err, STDERR_FILENO);
    RunOptions options;
    options.processes = job_.count;
    options.label = job_.label;
    options.stats = job_.stats;
    options.environment = job_.knobs;
    options.command = job_.command;
    WideJob wide;
    wide.processes = static_cast<int>(job_.hosts.size());
    wide.first = job_.first;
    wide.job_id = job_.job_id;
    wide.secret = job_.secret;
    wide.loopback = loopback;
    wide.hosts = job_.hosts;
    wide.uplink = std::move(uplink);
    int status = 0;
    {
      Job job(options, program_, &wide);
      status = job.run();
      if (job_.stats && job.control() != nullptr) tell_stats(*job.control(), wide.uplink);
    }
    _exit(status);
  }

  void tell_stats(const net::bootstrap::JobControl& control, const Uplink& uplink) const {
    const std::vector<StatsRow> rows = stats_of(control);
    for (std::size_t process = 0; process < rows.size(); ++process) {
      Packer packer;
      packer.number(static_cast<std::uint64_t>(job_.first) + process);
      for (const std::uint64_t value : rows[process]) packer.number(value);
      uplink.send(FrameKind::kStats, packer.body());
    }
  }

  void read_uplink() {
    FrameKind kind;
    std::string body;
    while (uplink_.receive(&kind, &body)) writer_.add(kind, body);
  }

  void read_output(int stream) {
    char room[kReadBytes];
    const ssize_t bytes = read(output_[stream].get(), room, sizeof room);
    if (bytes > 0)
      writer_.add(
          FrameKind::kOutput,
          Packer().number(static_cast<std::uint64_t>(stream)).text({room, static_cast<std::size_t>(bytes)}).body());
    else if (bytes == 0 || (errno != EAGAIN && errno != EINTR))
      output_[stream].reset();
  }

  void on_signal(int signal) {
    if (signal != SIGCHLD) return on_launcher_gone();
    int status = 0;
    while (true) {
      const pid_t pid = waitpid(-1, &status, WNOHANG);
      if (pid <= 0) return;
      if (pid != child_) continue;
      const bool killed = WIFSIGNALED(status);
      on_part_gone(killed ? 128 + WTERMSIG(status) : WEXITSTATUS(status), killed);
    }
  }

  // Its last words first; what a stranger who still holds a pipe writes is not waited for.
  void on_part_gone(int status, bool killed) {
    child_ = -1;
    read_uplink();
    if (killed && deadline_ns_ == 0)
      writer_.add(
          FrameKind::kReason,
          Packer()
              .number(static_cast<std::uint64_t>(status))
              .text(base::formatted("the launcher there was killed by signal {}; the job is ended", status - 128))
              .body());
    for (int stream = 0; stream < 2; ++stream) {
      for (int reads = 0; output_[stream] && reads < 64; ++reads) {
        const std::size_t before = writer_.pending_bytes();
        read_output(stream);
        if (writer_.pending_bytes() == before) break;
      }
      output_[stream].reset();
    }
    writer_.add(FrameKind::kExit, Packer().number(static_cast<std::uint64_t>(status)).body());
    leave(launcher_gone_ ? kExitStart : 0);
  }

  void refuse(int status, std::string_view why) {
    writer_.add(FrameKind::kRefused, Packer().number(static_cast<std::uint64_t>(status)).text(why).body());
    leave(0);
  }

  void leave(int status) {
    status_ = status;
    leaving_ = true;
    deadline_ns_ = base::real_now_ns() + kFlushNs;
  }

  void end() {
    if (child_ <= 1) return leave(0);
    uplink_.send(FrameKind::kEnd);
    if (deadline_ns_ == 0) deadline_ns_ = base::real_now_ns() + kEndNs;
  }

  void on_launcher_gone() {
    if (std::exchange(launcher_gone_, true)) return;
    status_ = kExitStart;
    if (child_ > 1)
      end();
    else
      done_ = true;
  }

  void on_deadline() {
    if (leaving_ || child_ <= 1) {
      done_ = true;
      return;
    }
    kill(child_, SIGKILL);  // the members die with it
    deadline_ns_ = base::real_now_ns() + kEndNs;
  }

  HostJob job_;
  Program program_;
  Fd signal_fd_;
  FrameReader reader_;
  FrameWriter writer_;
  Uplink uplink_;
  Fd output_[2];     // of the part
  pid_t child_ = 0;  // -1: it has ended
  bool launcher_gone_ = false;
  bool leaving_ = false;  // as soon as everything is written
  bool done_ = false;
  std::int64_t deadline_ns_ = 0;
  int status_ = 0;
};

}  // namespace

int agent_command(int, char**) {
  if (isatty(STDIN_FILENO) || isatty(STDOUT_FILENO))
    return fail(kExitStart, "host-agent is for `ayatori run --hosts`, which starts it");
  return Agent().run();
}

}  // namespace ayatori::tool
