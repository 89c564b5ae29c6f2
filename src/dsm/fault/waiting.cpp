// SPDX-License-Identifier: Apache-2.0
// Library functions that may wait and have nothing else to be taken care of; those that also take memory of the space on
// other threads are in wrap.cpp. Called by the program and its libraries on any thread.
#include "dsm/fault/waiting.hpp"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "dsm/fault/interpose.hpp"
#include "dsm/fault/user_memory.hpp"

namespace ayatori::dsm {

constinit std::atomic<const WaitingCalls*> fault::waiting_calls{nullptr};

void set_waiting_calls(const WaitingCalls* calls) noexcept {
  fault::waiting_calls.store(calls, std::memory_order_relaxed);  // before there are threads
}

long make_call(long number, long* arguments) noexcept {
  const fault::InlineFaults no_parking;
  return fault::guards_calls() && fault::concerns_space(number, arguments) ? fault::guarded_call(number, arguments)
                                                                           : fault::raw(number, arguments);
}

void fault::bind_waiting_calls() {}

int fault::get_errno() noexcept {
  asm volatile("" ::: "memory");  // no pure function
  return errno;
}
void fault::set_errno(int error) noexcept {
  asm volatile("" ::: "memory");
  errno = error;
}

}  // namespace ayatori::dsm

using namespace ayatori::dsm;

// MAY_WAIT(result, name, (parameters), (arguments), call): the call on a user-level thread, else the hidden function.
#define MAY_WAIT(result, name, parameters, arguments, call)                                          \
  extern "C" result name parameters {                                                                \
    static constinit fault::Hidden<result parameters> hidden{#name};                                 \
    if (fault::may_let_others_run()) return static_cast<result>(fault::call);                        \
    return hidden.get() arguments; /* NOLINT(bugprone-macro-parentheses): a list that has its own */ \
  }

MAY_WAIT(int, accept4, (int fd, sockaddr* from, socklen_t* bytes, int flags), (fd, from, bytes, flags),
         waiting_call(SYS_accept4, fd, from, bytes, flags))
MAY_WAIT(int, select, (int n, fd_set* in, fd_set* out, fd_set* other, timeval* time), (n, in, out, other, time),
         waiting_call(SYS_select, n, in, out, other, time))
MAY_WAIT(pid_t, wait4, (pid_t pid, int* status, int options, rusage* usage), (pid, status, options, usage),
         waiting_call(SYS_wait4, pid, status, options, usage))
MAY_WAIT(pid_t, wait3, (int* status, int options, rusage* usage), (status, options, usage),
         waiting_call(SYS_wait4, -1, status, options, usage))
MAY_WAIT(pid_t, wait, (int* status), (status), waiting_call(SYS_wait4, -1, status, 0, 0))
MAY_WAIT(int, fsync, (int fd), (fd), waiting_call(SYS_fsync, fd))
MAY_WAIT(int, fdatasync, (int fd), (fd), waiting_call(SYS_fdatasync, fd))

// With a mask of signals they are the kernel's, which sets it for the OS thread: it waits.
extern "C" int ppoll(pollfd* fds, nfds_t n, const timespec* time, const sigset_t* mask) {
  static constinit fault::Hidden<int(pollfd*, nfds_t, const timespec*, const sigset_t*)> hidden{"ppoll"};
  if (mask == nullptr && fault::may_let_others_run())
    return static_cast<int>(fault::waiting_call(SYS_ppoll, fds, n, time, 0, 8));
  return hidden.get()(fds, n, time, mask);
}
extern "C" int pselect(int n, fd_set* in, fd_set* out, fd_set* other, const timespec* time, const sigset_t* mask) {
  static constinit fault::Hidden<int(int, fd_set*, fd_set*, fd_set*, const timespec*, const sigset_t*)> hidden{
      "pselect"};
  if (mask == nullptr && fault::may_let_others_run())
    return static_cast<int>(fault::waiting_call(SYS_pselect6, n, in, out, other, time, 0));
  return hidden.get()(n, in, out, other, time, mask);
}
extern "C" int epoll_pwait(int ep, epoll_event* events, int n, int timeout, const sigset_t* mask) {
  static constinit fault::Hidden<int(int, epoll_event*, int, int, const sigset_t*)> hidden{"epoll_pwait"};
  if (mask == nullptr && fault::may_let_others_run())
    return static_cast<int>(fault::waiting_call(SYS_epoll_wait, ep, events, n, timeout));
  return hidden.get()(ep, events, n, timeout, mask);
}

// ---- time. A user-level thread's sleep is not ended by a signal.

extern "C" unsigned sleep(unsigned seconds) {
  static constinit fault::Hidden<unsigned(unsigned)> hidden{"sleep"};
  if (!fault::may_let_others_run()) return hidden.get()(seconds);
  const timespec time{static_cast<time_t>(seconds), 0};
  const int before = fault::get_errno();
  fault::waiting_call(SYS_nanosleep, &time, 0);
  fault::set_errno(before);
  return 0;
}
extern "C" int usleep(useconds_t us) {
  static constinit fault::Hidden<int(useconds_t)> hidden{"usleep"};
  if (!fault::may_let_others_run()) return hidden.get()(us);
  const timespec time{static_cast<time_t>(us / 1'000'000), static_cast<long>(us % 1'000'000) * 1'000};
  return static_cast<int>(fault::waiting_call(SYS_nanosleep, &time, 0));
}
extern "C" int clock_nanosleep(clockid_t clock, int flags, const timespec* time, timespec* left) {
  static constinit fault::Hidden<int(clockid_t, int, const timespec*, timespec*)> hidden{"clock_nanosleep"};
  if (!fault::may_let_others_run()) return hidden.get()(clock, flags, time, left);
  const int before = fault::get_errno();
  const bool failed = fault::waiting_call(SYS_clock_nanosleep, clock, flags, time, left) < 0;
  const int error = failed ? fault::get_errno() : 0;
  fault::set_errno(before);
  return error;
}

// ---- what _FORTIFY_SOURCE makes of calls; the C library's ends the program when there is not enough room

extern "C" ssize_t __recv_chk(int fd, void* p, std::size_t n, std::size_t room, int flags) {
  static constinit fault::Hidden<ssize_t(int, void*, std::size_t, std::size_t, int)> hidden{"__recv_chk"};
  return n <= room ? recv(fd, p, n, flags) : hidden.get()(fd, p, n, room, flags);
}
extern "C" ssize_t __recvfrom_chk(int fd, void* p, std::size_t n, std::size_t room, int flags, sockaddr* from,
                                  socklen_t* bytes) {
  static constinit fault::Hidden<ssize_t(int, void*, std::size_t, std::size_t, int, sockaddr*, socklen_t*)> hidden{
      "__recvfrom_chk"};
  return n <= room ? recvfrom(fd, p, n, flags, from, bytes) : hidden.get()(fd, p, n, room, flags, from, bytes);
}
extern "C" ssize_t __pread_chk(int fd, void* p, std::size_t n, off_t at, std::size_t room) {
  static constinit fault::Hidden<ssize_t(int, void*, std::size_t, off_t, std::size_t)> hidden{"__pread_chk"};
  return n <= room ? pread(fd, p, n, at) : hidden.get()(fd, p, n, at, room);
}
extern "C" ssize_t __pread64_chk(int fd, void* p, std::size_t n, off64_t at, std::size_t room) {
  static constinit fault::Hidden<ssize_t(int, void*, std::size_t, off64_t, std::size_t)> hidden{"__pread64_chk"};
  return n <= room ? pread64(fd, p, n, at) : hidden.get()(fd, p, n, at, room);
}
extern "C" int __poll_chk(pollfd* fds, nfds_t n, int timeout, std::size_t room) {
  static constinit fault::Hidden<int(pollfd*, nfds_t, int, std::size_t)> hidden{"__poll_chk"};
  return n <= room / sizeof *fds ? poll(fds, n, timeout) : hidden.get()(fds, n, timeout, room);
}
extern "C" int __ppoll_chk(pollfd* fds, nfds_t n, const timespec* time, const sigset_t* mask, std::size_t room) {
  static constinit fault::Hidden<int(pollfd*, nfds_t, const timespec*, const sigset_t*, std::size_t)> hidden{
      "__ppoll_chk"};
  return n <= room / sizeof *fds ? ppoll(fds, n, time, mask) : hidden.get()(fds, n, time, mask, room);
}
