// SPDX-License-Identifier: Apache-2.0
#include "host_command.hpp"

#include <sys/prctl.h>
#include <sys/wait.h>

#include <cerrno>
#include <csignal>
#include <utility>

#include "commands.hpp"

namespace ayatori::tool {
namespace {

std::string quoted(std::string_view text) {
  std::string word = "'";
  for (const char c : text) word += c == '\'' ? "'\\''" : std::string(1, c);
  return word + "'";
}

void replace_all(std::string& text, std::string_view from, const std::string& to) {
  for (std::size_t at = text.find(from); at != text.npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
}

}  // namespace

std::string own_path() { return own_folder() + "/ayatori"; }

std::string working_folder() {
  char path[4096];
  return getcwd(path, sizeof path) != nullptr ? path : "/";
}

std::string fill_template(std::string_view text, std::string_view host, std::string_view command) {
  std::string filled(text);
  // The command last: what stands in it is not looked at again.
  replace_all(filled, "{host}", quoted(host));
  replace_all(filled, "{command}", quoted(command));
  return filled;
}

std::string command_for(std::string_view text, std::string_view host, std::string_view word) {
  return fill_template(text, host, base::formatted("exec {} {}", quoted(own_path()), word));
}

base::Status start_command(const std::string& command, pid_t* pid, Fd* to, Fd* from) {
  Pipe in, out;
  if (!open_pipe(in) || !open_pipe(out)) return base::system_status(errno, "cannot make a pipe");
  const pid_t caller = getpid();
  *pid = fork();
  if (*pid < 0) return base::system_status(errno, "cannot fork");
  if (*pid == 0) {
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != caller) _exit(kExitStart);
    dup2(in.read.get(), STDIN_FILENO);
    dup2(out.write.get(), STDOUT_FILENO);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    std::signal(SIGPIPE, SIG_DFL);
    execl("/bin/sh", "sh", "-c", command.c_str(), static_cast<char*>(nullptr));
    _exit(kExitNotFound);
  }
  setpgid(*pid, *pid);  // both sides: whoever comes first
  *to = std::move(in.write);
  *from = std::move(out.read);
  fcntl(to->get(), F_SETFL, O_NONBLOCK);
  fcntl(from->get(), F_SETFL, O_NONBLOCK);
  return base::ok_status();
}

std::string status_text(int status) {
  return WIFEXITED(status) ? base::formatted("ended with status {}", WEXITSTATUS(status))
                           : base::formatted("was killed by signal {}", WTERMSIG(status));
}

}  // namespace ayatori::tool
