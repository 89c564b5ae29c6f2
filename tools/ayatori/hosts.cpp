// SPDX-License-Identifier: Apache-2.0
#include "hosts.hpp"

#include <poll.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <utility>

#include "host_command.hpp"

namespace ayatori::tool {
HostsJob::HostsJob(const RunOptions& options) : options_(options), sinks_{Sink(STDOUT_FILENO), Sink(STDERR_FILENO)} {}

int HostsJob::run() {
  if (options_.stats)
    if (const int status = check_stats_file(options_.stats_file)) return status;
  stats_.resize(static_cast<std::size_t>(options_.processes));
  sigset_t taken;
  sigemptyset(&taken);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGCHLD}) sigaddset(&taken, signal);
  struct sigaction hup{};
  sigaction(SIGHUP, nullptr, &hup);
  if (hup.sa_handler == SIG_IGN) sigdelset(&taken, SIGHUP);  // nohup
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGCHLD, SIG_DFL);
  std::signal(SIGPIPE, SIG_IGN);
  sigprocmask(SIG_BLOCK, &taken, nullptr);
  signal_fd_ = above_standard(signalfd(-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signal_fd_) return fail(kExitStart, "cannot make a signal descriptor: {}", error_text(errno));
  guard_.start();
  deadline_ns_ = base::real_now_ns() + options_.start_timeout_ns;
  if (const int status = call_hosts(); status != 0) end(status, "");
  loop();
  if (options_.stats && started_) {
    const int failed = report_stats(stats_, options_.command.front(), options_.stats_file);
    if (status_ == 0) return failed;
  }
  return status_;
}

int HostsJob::call_hosts() {
  HostJob job;
  job.version = AYATORI_VERSION;
  if (getrandom(job.secret.data(), job.secret.size(), 0) != static_cast<ssize_t>(job.secret.size()) ||
      getrandom(&job.job_id, sizeof job.job_id, 0) != sizeof job.job_id)
    return fail(kExitStart, "cannot make the job's secret: {}", error_text(errno));
  job.label = options_.label;
  job.stats = options_.stats;
  job.folder = working_folder();
  job.knobs = knobs_of_environment();
  job.knobs.insert(job.knobs.end(), options_.environment.begin(), options_.environment.end());
  job.command = options_.command;
  const auto count = static_cast<int>(options_.hosts.size());
  for (int h = 0; h < count; ++h) {
    Host host;
    host.name = options_.hosts[static_cast<std::size_t>(h)];
    host.first = h * options_.processes / count;
    host.count = (h + 1) * options_.processes / count - host.first;
    job.hosts.insert(job.hosts.end(), static_cast<std::size_t>(host.count), host.name);
    hosts_.push_back(std::move(host));
  }
  for (Host& host : hosts_) {
    job.first = host.first;
    job.count = host.count;
    host.writer.add(FrameKind::kJob, pack(job));
    if (const int status = call(host); status != 0) return status;
  }
  return 0;
}

int HostsJob::call(Host& host) {
  host.command = command_for(options_.rsh, host.name, "host-agent");
  const base::Status status = start_command(host.command, &host.pid, &host.to, &host.from);  // H3
  return status.ok() ? 0 : fail(kExitStart, "{}", status.message());
}

void HostsJob::loop() {
  while (!all_ended() || sinks_[0].pending_bytes() != 0 || sinks_[1].pending_bytes() != 0) {
    turn();
    if (killed_ && all_ended()) break;  // whoever should read our output does not
  }
}

bool HostsJob::all_ended() const {
  return std::all_of(hosts_.begin(), hosts_.end(),
                     [](const Host& host) { return host.state == State::kEnded && host.pid < 0; });
}

void HostsJob::turn() {
  std::vector<pollfd> polls{{signal_fd_.get(), POLLIN, 0}};
  for (const Sink& sink : sinks_) polls.push_back({sink.pending_bytes() != 0 ? sink.fd() : -1, POLLOUT, 0});
  const bool full = sinks_[0].is_full() || sinks_[1].is_full();
  for (const Host& host : hosts_) {
    polls.push_back({host.from && !full ? host.from.get() : -1, POLLIN, 0});
    polls.push_back({host.to && !host.writer.empty() ? host.to.get() : -1, POLLOUT, 0});
  }
  int timeout_ms = -1;
  if (deadline_ns_ != 0)
    timeout_ms = static_cast<int>(std::max<std::int64_t>(0, deadline_ns_ - base::real_now_ns()) / base::kNsPerMs) + 1;
  if (poll(polls.data(), polls.size(), timeout_ms) > 0) {
    for (std::size_t i = 0; i < 2; ++i)
      if (polls[1 + i].revents != 0) sinks_[i].write_once();
    for (std::size_t h = 0; h < hosts_.size(); ++h) {
      if (polls[3 + 2 * h].revents != 0) read_host(hosts_[h]);
      if (polls[4 + 2 * h].revents != 0 && hosts_[h].to && !hosts_[h].writer.flush(hosts_[h].to.get()))
        hosts_[h].to.reset();  // its output's end says what there is to say
    }
    signalfd_siginfo signal;
    while (read(signal_fd_.get(), &signal, sizeof signal) == sizeof signal)
      on_signal(static_cast<int>(signal.ssi_signo));
  }
  if (deadline_ns_ != 0 && base::real_now_ns() >= deadline_ns_) on_deadline();
}

void HostsJob::read_host(Host& host) {
  const FrameReader::Arrived arrived = host.reader.fill(host.from.get());
  if (host.reader.greeted()) {
    Frame frame;
    while (host.state != State::kEnded && host.reader.next(&frame)) on_frame(host, frame);
  }
  if (host.reader.broken()) end(kExitStart, base::formatted("host {}: what its agent says makes no sense", host.name));
  if (arrived == FrameReader::Arrived::kEnd || host.reader.broken()) {
    host.from.reset();
    host.to.reset();
    if (host.pid < 0 && host.state != State::kEnded) on_silence(host);  // otherwise when its status is known
  }
}

void HostsJob::on_frame(Host& host, const Frame& frame) {
  Unpacker fields(frame.body);
  const auto is_its_own = [&host](std::uint64_t process) {  // H4
    const auto first = static_cast<std::uint64_t>(host.first);
    return process >= first && process - first < static_cast<std::uint64_t>(host.count);
  };
  switch (frame.kind) {
    case FrameKind::kReady:
      host.place = fields.text();
      host.state = State::kReady;
      return on_ready();
    case FrameKind::kRefused:
    case FrameKind::kReason: {
      const auto status = static_cast<int>(fields.number() & 0xff);
      const std::string_view why = fields.text();
      if (!why.empty()) return end(status, base::formatted("host {}: {}", host.name, why));
      if (!std::exchange(told_, true)) status_ = status;  // exit(0) inside the run: an end like another
      return end(status, "");
    }
    case FrameKind::kOutput: {
      const std::uint64_t stream = fields.number();
      return on_output(host, stream == 0 ? 0 : 1, fields.text());
    }
    case FrameKind::kCard:
    case FrameKind::kLeft:
      if (is_its_own(fields.number()) && fields.ok()) tell_others(host, frame.kind, frame.body);
      return;
    case FrameKind::kStats: {
      const std::uint64_t process = fields.number();
      StatsRow row{};
      for (std::uint64_t& value : row) value = fields.number();
      if (is_its_own(process) && fields.ended()) stats_[process] = row;
      return;
    }
    case FrameKind::kExit: {
      const auto status = static_cast<int>(fields.number() & 0xff);
      // Process 0's, or the first that is not zero.
      if (!told_ && status != 0 && (status_ == 0 || host.first == 0)) status_ = status;
      return end_host(host);
    }
    default: return;
  }
}

void HostsJob::on_ready() {
  if (started_ || ending_) return;
  if (std::any_of(hosts_.begin(), hosts_.end(), [](const Host& host) { return host.state != State::kReady; })) return;
  started_ = true;
  deadline_ns_ = 0;
  const bool loopback = std::all_of(hosts_.begin(), hosts_.end(),
                                    [this](const Host& host) { return host.place == hosts_.front().place; });
  for (Host& host : hosts_) host.writer.add(FrameKind::kStart, Packer().number(loopback ? 1 : 0).body());
}

// With labels each line belongs to a process: lines of several hosts do not mix.
void HostsJob::on_output(Host& host, int stream, std::string_view bytes) {
  Sink& sink = sinks_[stream];
  if (!options_.label) return sink.add(bytes);
  std::string& partial = host.partial[stream];
  partial += bytes;
  const std::size_t end = partial.rfind('\n');
  if (end == partial.npos) return;
  sink.add(std::string_view(partial).substr(0, end + 1));
  partial.erase(0, end + 1);
}

void HostsJob::end_host(Host& host) {
  host.state = State::kEnded;
  host.to.reset();
  for (int stream = 0; stream < 2; ++stream) {
    if (host.partial[stream].empty()) continue;
    sinks_[stream].add(std::exchange(host.partial[stream], {}) + "\n");
  }
}

// The command has ended, and so has what it said, without a last word of the agent.
void HostsJob::on_silence(Host& host) {
  const std::string how = status_text(host.command_status);
  if (!started_ && host.state == State::kCalled)
    end(kExitStart,
        base::formatted("host {}: `{}` {} before an agent answered; does it reach the host, and is {} there too?",
                        host.name, host.command, how, own_path()));
  else
    end(kExitStart,
        base::formatted("host {}: the connection is lost (`{}` {}); the job is ended", host.name, host.command, how));
  end_host(host);
}

void HostsJob::on_signal(int signal) {
  if (signal == SIGCHLD) return reap();
  if (all_ended()) killed_ = true;  // whoever should read our output does not
  if (ending_ || killed_) return;
  status_ = 128 + signal;
  const char* const text = sigdescr_np(signal);
  say(base::formatted("the job was sent signal {} ({}) and is ended", signal, text != nullptr ? text : "?"));
  told_ = true;
  if (!started_) return end(status_, "");
  ending_ = signalled_ = true;
  deadline_ns_ = base::real_now_ns() + kSignalNs;
  for (Host& host : hosts_)
    host.writer.add(FrameKind::kSignal, Packer().number(static_cast<std::uint64_t>(signal)).body());
}

void HostsJob::reap() {
  for (Host& host : hosts_) {
    if (host.pid < 0 || waitpid(host.pid, &host.command_status, WNOHANG) != host.pid) continue;
    host.pid = -1;
    // What it said last may still be on its way; without a reader of its own the end comes at once.
    for (int reads = 0; host.from && host.state != State::kEnded && reads < 1'000; ++reads) {
      const std::size_t before = host.reader.bytes();
      read_host(host);
      if (host.from && host.reader.bytes() == before) break;
    }
    if (host.state != State::kEnded && (!host.from || ending_ || killed_)) on_silence(host);
  }
}

void HostsJob::on_deadline() {
  if (!started_ && !ending_) {
    std::string silent;
    for (const Host& host : hosts_)
      if (host.state == State::kCalled) silent += base::formatted("{}{}", silent.empty() ? "" : ", ", host.name);
    return end(kExitStart, base::formatted("no answer from {} within {} s (AYATORI_START_TIMEOUT)", silent,
                                           options_.start_timeout_ns / base::kNsPerSecond));
  }
  if (signalled_) return end(status_, "");
  killed_ = true;
  deadline_ns_ = base::real_now_ns() + base::kNsPerSecond;
  for (Host& host : hosts_) {
    if (host.pid > 1) kill(-host.pid, SIGKILL);
    host.from.reset();
    host.to.reset();
    if (host.state != State::kEnded) end_host(host);
  }
}

// H1. Agents end by kEnd; a command that started none ends with its standard input, or is killed later.
void HostsJob::end(int status, const std::string& why) {
  if (!told_ && !why.empty()) {
    told_ = true;
    status_ = status;
    say(why);
  }
  if (status_ == 0) status_ = status;
  ending_ = true;
  signalled_ = false;
  deadline_ns_ = base::real_now_ns() + kEndNs;
  for (Host& host : hosts_) {
    if (host.state == State::kEnded) continue;
    if (host.state == State::kCalled && host.pid > 1) kill(-host.pid, SIGKILL);
    host.writer.add(FrameKind::kEnd);
  }
}

void HostsJob::tell_others(const Host& but, FrameKind kind, std::string_view body) {
  for (Host& host : hosts_)
    if (&host != &but && host.state == State::kReady) host.writer.add(kind, body);
}

void HostsJob::say(std::string_view line) { sinks_[1].add(base::formatted("ayatori: {}\n", line)); }

}  // namespace ayatori::tool
