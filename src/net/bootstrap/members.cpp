// SPDX-License-Identifier: Apache-2.0
// fork_members(): the first image makes members 1..n-1 by forking twice: the process in between exits at once, so that
// the member becomes a child of the launcher, which is a subreaper, and not of the first image. Start-up thread only.
//
// M1. Plain fork(): what the C library keeps of itself (thread id, locks, buffers) is right in every member.
// M2. The member's pid stands in the control memory before the launcher can reap it: the process in between writes it.
// M3. The parent-death signal is set after the launcher became the parent (it would fire at the adoption), and the
//     parent is looked at once more after setting it.
// M4. At most four descriptors are open at a time for labels: 64 members start with RLIMIT_NOFILE 256.
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>

#include "base/clock.hpp"
#include "base/format.hpp"
#include "base/futex.hpp"
#include "base/identity.hpp"
#include "base/status.hpp"
#include "net/bootstrap/internal.hpp"

namespace ayatori::net::bootstrap {
namespace {

constexpr std::int64_t kLookNs = 10 * base::kNsPerMs;
constexpr int kSendTries = 2'000;  // of 1 ms

[[noreturn]] void fail_member(int process, const char* what, int error_number) {
  char text[128];
  char why[256];
  const std::size_t bytes =
      base::print_to(why, "cannot start process {}: {}: {}", job().control->first_process + process, what,
                     strerror_r(error_number, text, sizeof text));
  end_job(base::kStartFailureExit, {why, bytes});
}

// The pipes through which a member's output goes to the launcher.
struct LabelPipes {
  int ends[2][2] = {{-1, -1}, {-1, -1}};  // of standard output and error: read, write
};

void close_pair(int (&pair)[2]) {
  for (int& fd : pair) {
    if (fd >= 0) close(fd);
    fd = -1;
  }
}

// Above 0, 1 and 2, which may be closed here.
void open_pipe(int process, int (&pair)[2]) {
  if (pipe2(pair, O_CLOEXEC) != 0) fail_member(process, "pipe", errno);
  for (int& fd : pair) {
    if (fd > STDERR_FILENO) continue;
    const int above = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    if (above < 0) fail_member(process, "pipe", errno);
    close(fd);
    fd = above;
  }
}

LabelPipes open_pipes(int process, std::uint32_t flags) {
  LabelPipes pipes;
  if ((flags & kLabelOut) != 0) open_pipe(process, pipes.ends[0]);
  if ((flags & kLabelErr) != 0 && (flags & kLabelMerged) == 0) open_pipe(process, pipes.ends[1]);
  return pipes;
}

// Gives the read ends to the launcher. Descriptors in flight are limited for each user: others may hold them for a
// moment (ETOOMANYREFS).
void send_streams(int process, const LabelPipes& pipes) {
  int fds[2];
  std::size_t count = 0;
  for (const auto& pair : pipes.ends)
    if (pair[0] >= 0) fds[count++] = pair[0];
  if (count == 0) return;
  Message message{MessageKind::kStreams, process};
  iovec part{&message, sizeof message};
  alignas(cmsghdr) char room[CMSG_SPACE(sizeof fds)] = {};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = room;
  header.msg_controllen = CMSG_SPACE(count * sizeof(int));
  cmsghdr* const rights = CMSG_FIRSTHDR(&header);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(count * sizeof(int));
  std::memcpy(CMSG_DATA(rights), fds, count * sizeof(int));
  for (int tries = 0; sendmsg(internal::state().socket_fd, &header, MSG_NOSIGNAL) < 0;) {
    if (errno == EINTR) continue;
    if (errno != ETOOMANYREFS || ++tries > kSendTries) fail_member(process, "handing its output over", errno);
    const timespec nap{0, 1'000'000};
    nanosleep(&nap, nullptr);
  }
}

void redirect(int process, LabelPipes& pipes) {
  const int null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (null_fd < 0) fail_member(process, "/dev/null", errno);
  if (null_fd != STDIN_FILENO) {
    if (dup2(null_fd, STDIN_FILENO) < 0) fail_member(process, "standard input", errno);
    close(null_fd);
  } else {
    fcntl(null_fd, F_SETFD, 0);
  }
  if (pipes.ends[0][1] >= 0) dup2(pipes.ends[0][1], STDOUT_FILENO);
  if (pipes.ends[1][1] >= 0) dup2(pipes.ends[1][1], STDERR_FILENO);
  if ((job().control->flags & kLabelMerged) != 0 && pipes.ends[0][1] >= 0) dup2(pipes.ends[0][1], STDERR_FILENO);
  for (auto& pair : pipes.ends) close_pair(pair);
}

// In the member: waits until the launcher is its parent (M3).
void await_adoption(int process, pid_t between_pid) {
  const JobControl& control = *job().control;
  const std::atomic<std::uint32_t>& adopted = control.members[process].adopted;
  while (getppid() != control.launcher_pid) {
    const pid_t parent = getppid();
    if (parent != between_pid && parent != control.launcher_pid) _exit(base::kStartFailureExit);  // the launcher died
    if (adopted.load(std::memory_order_acquire) == 0)  // pairs with the first image's store
      base::futex_wait(adopted, 0, kLookNs);
  }
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) fail_member(process, "parent-death signal", errno);
  if (getppid() != control.launcher_pid) _exit(base::kStartFailureExit);
}

void become_member(int process, pid_t between_pid, LabelPipes& pipes) {
  Job& job = bootstrap::job();
  job.process_id = process;
  MemberControl& self = internal::self();
  self.pid.store(getpid(), std::memory_order_relaxed);
  base::set_identity(process, job.process_count);
  // Where gdb owns the terminal, its Ctrl-C is for process 0.
  if ((job.control->flags & kDebugged) != 0) setpgid(0, 0);
  await_adoption(process, between_pid);
  redirect(process, pipes);
  self.phase.store(static_cast<std::uint32_t>(Phase::kStarting), std::memory_order_seq_cst);
}

enum class Side { kFirstImage, kMember };

Side fork_one(int process) {
  MemberControl& member = job().control->members[process];
  LabelPipes pipes = open_pipes(process, job().control->flags);
  send_streams(process, pipes);
  for (auto& pair : pipes.ends) {
    if (pair[0] >= 0) close(pair[0]);
    pair[0] = -1;
  }
  const pid_t between_pid = fork();
  if (between_pid < 0) fail_member(process, "fork", errno);
  if (between_pid == 0) {
    const pid_t own_pid = getpid();
    const pid_t member_pid = fork();
    if (member_pid == 0) {
      become_member(process, own_pid, pipes);
      return Side::kMember;
    }
    if (member_pid < 0) _exit(errno & 0xff);
    member.pid.store(member_pid, std::memory_order_release);  // M2
    _exit(0);
  }
  for (auto& pair : pipes.ends) close_pair(pair);
  int status = 0;
  while (waitpid(between_pid, &status, 0) < 0 && errno == EINTR) {  // ECHILD: SIGCHLD is ignored here; it has ended
  }
  if (member.pid.load(std::memory_order_acquire) == 0) fail_member(process, "fork", WEXITSTATUS(status));
  member.adopted.store(1, std::memory_order_release);
  base::futex_wake(member.adopted, base::kAllWaiters);
  return Side::kFirstImage;
}

}  // namespace

void fork_members() {
  internal::State& state = internal::state();
  if (state.forked) return;
  state.forked = true;
  if (!state.job.launched) return;
  fflush(nullptr);  // what an earlier constructor left in a buffer is written once
  for (int process = 1; process < state.job.process_count; ++process)
    if (fork_one(process) == Side::kMember) return;
}

}  // namespace ayatori::net::bootstrap
