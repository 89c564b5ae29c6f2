// SPDX-License-Identifier: Apache-2.0
#include "launch.hpp"

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <new>

#include "alike.hpp"
#include "commands.hpp"

namespace ayatori::tool {
namespace {

namespace boot = net::bootstrap;

// The gdb commands of Ayatori: beside the installation's or the build tree's bin folder.
std::string gdb_script() { return own_folder() + "/../share/ayatori/ayatori.gdb"; }

std::vector<std::string> command_line(const RunOptions& options, const Program& program, std::string& path) {
  path = program.path;
  if (!options.gdb) return options.command;
  Program gdb;
  if (find_program("gdb", gdb) != 0) return {};
  path = gdb.path;
  std::vector<std::string> command = {"gdb", "-q", "-x", gdb_script(), "--args", program.path};
  command.insert(command.end(), options.command.begin() + 1, options.command.end());
  return command;
}

// This process's environment with the job's knobs.
std::vector<std::string> member_environment(const RunOptions& options, const std::string& boot_value) {
  std::vector<std::string> environment;
  const auto replaced = [&](std::string_view name) {
    if (is_launchers_own(name) || name == boot::kBootVariable) return true;
    for (const auto& knob : options.environment)
      if (name == knob.first) return true;
    return false;
  };
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    if (!replaced(text.substr(0, text.find('=')))) environment.emplace_back(text);
  }
  for (const auto& [name, value] : options.environment) environment.push_back(name + "=" + value);
  if (!boot_value.empty()) environment.push_back(std::string(boot::kBootVariable) + "=" + boot_value);
  return environment;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (std::string& text : texts) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

struct ChildPlan {
  const char* path;
  char* const* arguments;
  char* const* environment;
  const SignalState& signals;
  const Channel& channel;
  bool own_group, linked;
  int out_fd, err_fd;  // -1: inherited
  int error_fd;        // gets errno when the exec fails
  int go_fd;           // not executed before a byte comes; -1: at once
  pid_t launcher_pid;
};

// In the child, up to the exec: only system calls.
[[noreturn]] void become_first_image(const ChildPlan& plan) {
  if (plan.own_group) setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != plan.launcher_pid) _exit(kExitStart);
  if (plan.out_fd >= 0) dup2(plan.out_fd, STDOUT_FILENO);
  if (plan.err_fd >= 0) dup2(plan.err_fd, STDERR_FILENO);
  if (plan.linked) {
    fcntl(plan.channel.control_fd.get(), F_SETFD, 0);
    fcntl(plan.channel.members_socket.get(), F_SETFD, 0);
  }
  sigaction(SIGHUP, &plan.signals.hup, nullptr);
  sigaction(SIGTSTP, &plan.signals.tstp, nullptr);
  sigaction(SIGCHLD, &plan.signals.child, nullptr);
  sigaction(SIGPIPE, &plan.signals.pipe, nullptr);
  if (!plan.own_group) {
    // A shell's background job ignores the keyboard; in a group of its own only the launcher's signals come.
    sigaction(SIGINT, &plan.signals.interrupt, nullptr);
    sigaction(SIGQUIT, &plan.signals.quit, nullptr);
  }
  sigprocmask(SIG_SETMASK, &plan.signals.mask, nullptr);
  if (plan.go_fd >= 0) {
    fix_addresses();
    char go = 0;
    while (read(plan.go_fd, &go, sizeof go) < 0 && errno == EINTR) {
    }
  }
  execve(plan.path, plan.arguments, plan.environment);
  const int error = errno;
  [[maybe_unused]] const auto written = write(plan.error_fd, &error, sizeof error);
  _exit(kExitNotExecutable);
}

}  // namespace

int open_channel(const RunOptions& options, std::uint32_t flags, const WideJob* wide, Channel& channel) {
  channel.control_fd = above_standard(memfd_create(boot::kControlName, MFD_CLOEXEC));
  if (!channel.control_fd) return fail(kExitStart, "cannot make the control memory: {}", error_text(errno));
  if (ftruncate(channel.control_fd.get(), sizeof(boot::JobControl)) != 0)
    return fail(kExitStart, "cannot size the control memory: {}", error_text(errno));
  void* const memory =
      mmap(nullptr, sizeof(boot::JobControl), PROT_READ | PROT_WRITE, MAP_SHARED, channel.control_fd.get(), 0);
  if (memory == MAP_FAILED) return fail(kExitStart, "cannot map the control memory: {}", error_text(errno));
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  auto* const control = new (memory) boot::JobControl;
  control->bytes = sizeof(boot::JobControl);
  control->launcher_pid = getpid();
  control->process_count = options.processes;
  control->job_processes = options.processes;
  control->flags = flags | boot::kLoopback;
  control->job_id = static_cast<std::uint64_t>(getpid()) << 32 ^ static_cast<std::uint64_t>(now.tv_nsec) ^
                    static_cast<std::uint64_t>(now.tv_sec) << 10;
  if (getrandom(control->secret.data(), control->secret.size(), 0) != static_cast<ssize_t>(control->secret.size()))
    return fail(kExitStart, "cannot make the job's secret: {}", error_text(errno));
  if (wide != nullptr) {
    control->job_processes = wide->processes;
    control->first_process = wide->first;
    control->flags = flags | boot::kWide | (wide->loopback ? boot::kLoopback : 0u);
    control->job_id = wide->job_id;
    control->secret = wide->secret;
    for (std::size_t p = 0; p < wide->hosts.size(); ++p)
      wide->hosts[p].copy(control->cards[p].host, sizeof control->cards[p].host - 1);
  }
  channel.control = control;

  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
    return fail(kExitStart, "cannot make the control socket: {}", error_text(errno));
  channel.socket = above_standard(ends[0]);
  channel.members_socket = above_standard(ends[1]);
  if (!channel.socket || !channel.members_socket)
    return fail(kExitStart, "cannot make the control socket: {}", error_text(errno));
  return 0;
}

int start_first_image(const RunOptions& options, const Program& program, const SignalState& signals, int number,
                      Channel& channel, LabelMux& labels, FirstImage& first) {
  std::string path;
  std::vector<std::string> command = command_line(options, program, path);
  if (command.empty()) return kExitStart;
  const std::string boot_value =
      program.linked ? base::formatted("{},{}", channel.control_fd.get(), channel.members_socket.get()) : "";
  std::vector<std::string> environment = member_environment(options, boot_value);

  Pipe exec_error, go, out, err;
  const bool wide = (channel.control->flags & boot::kWide) != 0;
  const bool merged = (channel.control->flags & boot::kLabelMerged) != 0;
  if (!open_pipe(exec_error) || (wide && !open_pipe(go)) || (labels.takes_out() && !open_pipe(out)) ||
      (labels.takes_err() && !merged && !open_pipe(err)))
    return fail(kExitStart, "cannot make a pipe: {}", error_text(errno));

  // Who reads from a terminal must be in its foreground group, which the shell gave to this process: there all stay in
  // one group, and the keyboard's signals reach everybody without our help.
  first.own_group = tcgetpgrp(STDIN_FILENO) < 0 && !options.gdb;
  const std::vector<char*> arguments = pointers(command);
  const std::vector<char*> variables = pointers(environment);
  const ChildPlan plan{path.c_str(),
                       arguments.data(),
                       variables.data(),
                       signals,
                       channel,
                       first.own_group,
                       program.linked,
                       out.write.get(),
                       merged && out.write ? out.write.get() : err.write.get(),
                       exec_error.write.get(),
                       go.read.get(),
                       getpid()};
  first.pid = fork();
  if (first.pid < 0) return fail(kExitStart, "cannot start {}: {}", program.path, error_text(errno));
  if (first.pid == 0) become_first_image(plan);
  if (first.own_group) setpgid(first.pid, first.pid);  // both sides: whoever comes first
  channel.members_socket.reset();
  exec_error.write.reset();
  if (wide) {
    const bool traced = trace_exec(first.pid);
    constexpr char kGo = 1;
    if (write(go.write.get(), &kGo, sizeof kGo) != sizeof kGo)
      return fail(kExitStart, "cannot start {}: {}", program.path, error_text(errno));
    if (traced) fix_random_bytes(first.pid, channel.control->secret);
  }
  if (out.read) labels.add_stream(number, std::move(out.read), false);
  if (err.read) labels.add_stream(number, std::move(err.read), true);

  int error = 0;
  ssize_t bytes = 0;
  while ((bytes = read(exec_error.read.get(), &error, sizeof error)) < 0 && errno == EINTR) {
  }
  if (bytes == sizeof error) return fail(kExitNotExecutable, "{}: cannot be executed: {}", path, error_text(error));
  return 0;
}

}  // namespace ayatori::tool
