// SPDX-License-Identifier: Apache-2.0
// Library functions that hand the program's memory to the kernel. Those that may wait are, on user-level threads, made by the
// layer above (waiting.hpp). Where Syscall User Dispatch is missing, with
// AYATORI_SYSCALLS=wrap, and on OS threads that the program makes itself, they make buffers in the space accessible.
// Everywhere else they pass straight on. Calls that the C library makes inside (stdio, getaddrinfo ...) are not seen, so
// fread and fwrite go through private memory.
// Called by the program and its libraries on any thread.
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstring>

#include "dsm/fault/dispatch.hpp"
#include "dsm/fault/engines.hpp"
#include "dsm/fault/interpose.hpp"
#include "dsm/fault/waiting.hpp"

namespace ayatori::dsm::fault {
namespace {

struct StdioState {
  Hidden<std::size_t(void*, std::size_t, std::size_t, FILE*)> fread{"fread"};
  Hidden<std::size_t(const void*, std::size_t, std::size_t, FILE*)> fwrite{"fwrite"};
};
constinit StdioState stdio;

bool is_ours(const void* buffer) noexcept { return wrapping() && gas::contains(buffer); }

// The call, by number, with the library's way to tell errors.
template <class... Args>
long call(long number, Args... args) {
  long a[6] = {};
  int i = 0;
  ((a[i++] = word(args)), ...);
  const InlineFaults no_parking;
  const long r = guarded_call(number, a);
  if (r >= 0) return r;
  errno = static_cast<int>(-r);
  return -1;
}

bool any_ours(const iovec* iov, int count) {
  if (!wrapping() || count < 0 || count > 1024) return false;
  for (int i = 0; i < count; ++i)
    if (gas::contains(iov[i].iov_base)) return true;
  return gas::contains(iov);
}
bool any_ours(const msghdr* m) {
  return wrapping() && (gas::contains(m) || gas::contains(m->msg_name) || gas::contains(m->msg_control) ||
                        any_ours(m->msg_iov, static_cast<int>(std::min<std::size_t>(m->msg_iovlen, 1024))));
}

bool any_ours(const mmsghdr* messages, unsigned count) {
  if (!wrapping()) return false;
  for (unsigned i = 0; i < std::min(count, 1024u); ++i)
    if (any_ours(&messages[i].msg_hdr)) return true;
  return false;
}

// Moves `bytes` through private memory; returns the bytes moved.
std::size_t read_stream(void* to, std::size_t bytes, FILE* stream) {
  const InlineFaults no_parking;
  std::byte* chunk = bounce_buffer_of_any_thread();
  std::size_t done = 0;
  while (done < bytes) {
    const std::size_t want = std::min(bytes - done, kBounceBytes);
    auto* at = static_cast<std::byte*>(to) + done;
    if (!chunk) prefault_range(at, want, true);
    const std::size_t got = stdio.fread.get()(chunk ? chunk : at, 1, want, stream);
    if (chunk) std::memcpy(at, chunk, got);
    done += got;
    if (got < want) break;
  }
  return done;
}
std::size_t write_stream(const void* from, std::size_t bytes, FILE* stream) {
  const InlineFaults no_parking;
  std::byte* chunk = bounce_buffer_of_any_thread();
  std::size_t done = 0;
  while (done < bytes) {
    const std::size_t want = std::min(bytes - done, kBounceBytes);
    const auto* at = static_cast<const std::byte*>(from) + done;
    if (chunk)
      std::memcpy(chunk, at, want);
    else
      prefault_range(at, want, false);
    const std::size_t put = stdio.fwrite.get()(chunk ? chunk : at, 1, want, stream);
    done += put;
    if (put < want) break;
  }
  return done;
}

}  // namespace

void bind_wrappers() {}

}  // namespace ayatori::dsm::fault

using namespace ayatori::dsm;

// WRAP(result, name, (parameters), (arguments), condition, call): ours when the condition holds, else the hidden one.
#define WRAP(result, name, parameters, arguments, condition, guarded)                                \
  extern "C" result name parameters {                                                                \
    static constinit fault::Hidden<result parameters> hidden{#name};                                 \
    if (condition) return static_cast<result>(fault::guarded);                                       \
    return hidden.get() arguments; /* NOLINT(bugprone-macro-parentheses): a list that has its own */ \
  }

// The same for a function that may wait: `waits` is the call on a user-level thread.
#define WRAP_WAITING(result, name, parameters, arguments, waits, condition, guarded)                 \
  extern "C" result name parameters {                                                                \
    static constinit fault::Hidden<result parameters> hidden{#name};                                 \
    if (fault::may_let_others_run()) return static_cast<result>(fault::waits);                       \
    if (condition) return static_cast<result>(fault::guarded);                                       \
    return hidden.get() arguments; /* NOLINT(bugprone-macro-parentheses): a list that has its own */ \
  }

using fault::any_ours;
using fault::is_ours;

// ---- data
WRAP_WAITING(ssize_t, read, (int fd, void* p, std::size_t n), (fd, p, n), waiting_call(SYS_read, fd, p, n), is_ours(p),
             call(SYS_read, fd, p, n))
extern "C" ssize_t __read_chk(int fd, void* p, std::size_t n, std::size_t room) {
  static constinit fault::Hidden<ssize_t(int, void*, std::size_t, std::size_t)> hidden{"__read_chk"};
  return n <= room ? read(fd, p, n) : hidden.get()(fd, p, n, room);
}
WRAP_WAITING(ssize_t, write, (int fd, const void* p, std::size_t n), (fd, p, n), waiting_call(SYS_write, fd, p, n),
             is_ours(p), call(SYS_write, fd, p, n))
WRAP_WAITING(ssize_t, pread, (int fd, void* p, std::size_t n, off_t at), (fd, p, n, at),
             waiting_call(SYS_pread64, fd, p, n, at), is_ours(p), call(SYS_pread64, fd, p, n, at))
WRAP_WAITING(ssize_t, pread64, (int fd, void* p, std::size_t n, off64_t at), (fd, p, n, at),
             waiting_call(SYS_pread64, fd, p, n, at), is_ours(p), call(SYS_pread64, fd, p, n, at))
WRAP(ssize_t, pwrite, (int fd, const void* p, std::size_t n, off_t at), (fd, p, n, at), is_ours(p),
     call(SYS_pwrite64, fd, p, n, at))
WRAP(ssize_t, pwrite64, (int fd, const void* p, std::size_t n, off64_t at), (fd, p, n, at), is_ours(p),
     call(SYS_pwrite64, fd, p, n, at))
WRAP_WAITING(ssize_t, readv, (int fd, const iovec* v, int n), (fd, v, n), waiting_call(SYS_readv, fd, v, n),
             any_ours(v, n), call(SYS_readv, fd, v, n))
WRAP_WAITING(ssize_t, writev, (int fd, const iovec* v, int n), (fd, v, n), waiting_call(SYS_writev, fd, v, n),
             any_ours(v, n), call(SYS_writev, fd, v, n))
WRAP_WAITING(ssize_t, preadv, (int fd, const iovec* v, int n, off_t at), (fd, v, n, at),
             waiting_call(SYS_preadv, fd, v, n, at), any_ours(v, n), call(SYS_preadv, fd, v, n, at))
WRAP(ssize_t, pwritev, (int fd, const iovec* v, int n, off_t at), (fd, v, n, at), any_ours(v, n),
     call(SYS_pwritev, fd, v, n, at))
WRAP_WAITING(ssize_t, recv, (int fd, void* p, std::size_t n, int flags), (fd, p, n, flags),
             waiting_call(SYS_recvfrom, fd, p, n, flags), is_ours(p), call(SYS_recvfrom, fd, p, n, flags))
WRAP_WAITING(ssize_t, send, (int fd, const void* p, std::size_t n, int flags), (fd, p, n, flags),
             waiting_call(SYS_sendto, fd, p, n, flags), is_ours(p), call(SYS_sendto, fd, p, n, flags))
WRAP_WAITING(ssize_t, recvfrom, (int fd, void* p, std::size_t n, int flags, sockaddr* from, socklen_t* bytes),
             (fd, p, n, flags, from, bytes), waiting_call(SYS_recvfrom, fd, p, n, flags, from, bytes),
             is_ours(p) || is_ours(from) || is_ours(bytes), call(SYS_recvfrom, fd, p, n, flags, from, bytes))
WRAP_WAITING(ssize_t, sendto, (int fd, const void* p, std::size_t n, int flags, const sockaddr* to, socklen_t bytes),
             (fd, p, n, flags, to, bytes), waiting_call(SYS_sendto, fd, p, n, flags, to, bytes),
             is_ours(p) || is_ours(to), call(SYS_sendto, fd, p, n, flags, to, bytes))
WRAP_WAITING(ssize_t, recvmsg, (int fd, msghdr* m, int flags), (fd, m, flags), waiting_call(SYS_recvmsg, fd, m, flags),
             any_ours(m), call(SYS_recvmsg, fd, m, flags))
WRAP_WAITING(ssize_t, sendmsg, (int fd, const msghdr* m, int flags), (fd, m, flags),
             waiting_call(SYS_sendmsg, fd, m, flags), any_ours(m), call(SYS_sendmsg, fd, m, flags))
WRAP(int, recvmmsg, (int fd, mmsghdr* m, unsigned n, int flags, timespec* time), (fd, m, n, flags, time),
     any_ours(m, n) || is_ours(time), call(SYS_recvmmsg, fd, m, n, flags, time))
WRAP(int, sendmmsg, (int fd, mmsghdr* m, unsigned n, int flags), (fd, m, n, flags), any_ours(m, n),
     call(SYS_sendmmsg, fd, m, n, flags))
WRAP(ssize_t, getrandom, (void* p, std::size_t n, unsigned flags), (p, n, flags), is_ours(p),
     call(SYS_getrandom, p, n, flags))
WRAP(std::size_t, fread, (void* p, std::size_t size, std::size_t n, FILE* f), (p, size, n, f), size != 0 && is_ours(p),
     read_stream(p, size* n, f) / size)
WRAP(std::size_t, __fread_chk, (void* p, std::size_t room, std::size_t size, std::size_t n, FILE* f),
     (p, room, size, n, f), size != 0 && size * n <= room && is_ours(p), read_stream(p, size* n, f) / size)
WRAP(std::size_t, fwrite, (const void* p, std::size_t size, std::size_t n, FILE* f), (p, size, n, f),
     size != 0 && is_ours(p), write_stream(p, size* n, f) / size)

// ---- names and structures
WRAP(int, stat, (const char* path, struct stat* s) noexcept, (path, s), is_ours(path) || is_ours(s),
     call(SYS_stat, path, s))
WRAP(int, lstat, (const char* path, struct stat* s) noexcept, (path, s), is_ours(path) || is_ours(s),
     call(SYS_lstat, path, s))
WRAP(int, fstat, (int fd, struct stat* s) noexcept, (fd, s), is_ours(s), call(SYS_fstat, fd, s))
WRAP(int, statx, (int dir, const char* path, int flags, unsigned mask, struct statx* s) noexcept,
     (dir, path, flags, mask, s), is_ours(path) || is_ours(s), call(SYS_statx, dir, path, flags, mask, s))
WRAP(int, statfs, (const char* path, struct statfs* s) noexcept, (path, s), is_ours(path) || is_ours(s),
     call(SYS_statfs, path, s))
WRAP(int, fstatfs, (int fd, struct statfs* s) noexcept, (fd, s), is_ours(s), call(SYS_fstatfs, fd, s))
WRAP(int, sched_getparam, (pid_t pid, sched_param* p) noexcept, (pid, p), is_ours(p), call(SYS_sched_getparam, pid, p))
WRAP(int, getresuid, (uid_t * real, uid_t* effective, uid_t* saved) noexcept, (real, effective, saved),
     is_ours(real) || is_ours(effective) || is_ours(saved), call(SYS_getresuid, real, effective, saved))
WRAP(int, getresgid, (gid_t * real, gid_t* effective, gid_t* saved) noexcept, (real, effective, saved),
     is_ours(real) || is_ours(effective) || is_ours(saved), call(SYS_getresgid, real, effective, saved))
WRAP(int, access, (const char* path, int mode) noexcept, (path, mode), is_ours(path), call(SYS_access, path, mode))
WRAP(int, unlink, (const char* path) noexcept, (path), is_ours(path), call(SYS_unlink, path))
WRAP(int, rmdir, (const char* path) noexcept, (path), is_ours(path), call(SYS_rmdir, path))
WRAP(int, chdir, (const char* path) noexcept, (path), is_ours(path), call(SYS_chdir, path))
WRAP(int, mkdir, (const char* path, mode_t mode) noexcept, (path, mode), is_ours(path), call(SYS_mkdir, path, mode))
WRAP(int, rename, (const char* from, const char* to) noexcept, (from, to), is_ours(from) || is_ours(to),
     call(SYS_rename, from, to))
WRAP(ssize_t, readlink, (const char* path, char* p, std::size_t n) noexcept, (path, p, n), is_ours(path) || is_ours(p),
     call(SYS_readlink, path, p, n))
WRAP(int, pipe, (int* fds) noexcept, (fds), is_ours(fds), call(SYS_pipe2, fds, 0))
WRAP(int, pipe2, (int* fds, int flags) noexcept, (fds, flags), is_ours(fds), call(SYS_pipe2, fds, flags))
WRAP(int, socketpair, (int domain, int type, int protocol, int* fds) noexcept, (domain, type, protocol, fds),
     is_ours(fds), call(SYS_socketpair, domain, type, protocol, fds))
WRAP_WAITING(int, accept, (int fd, sockaddr* from, socklen_t* bytes), (fd, from, bytes),
             waiting_call(SYS_accept, fd, from, bytes), is_ours(from) || is_ours(bytes),
             call(SYS_accept, fd, from, bytes))
WRAP_WAITING(int, connect, (int fd, const sockaddr* to, socklen_t bytes), (fd, to, bytes),
             waiting_call(SYS_connect, fd, to, bytes), is_ours(to), call(SYS_connect, fd, to, bytes))
WRAP(int, bind, (int fd, const sockaddr* at, socklen_t bytes) noexcept, (fd, at, bytes), is_ours(at),
     call(SYS_bind, fd, at, bytes))
WRAP_WAITING(int, poll, (pollfd * fds, nfds_t n, int timeout), (fds, n, timeout),
             waiting_call(SYS_poll, fds, n, timeout), is_ours(fds), call(SYS_poll, fds, n, timeout))
WRAP(int, epoll_ctl, (int ep, int op, int fd, epoll_event* event) noexcept, (ep, op, fd, event), is_ours(event),
     call(SYS_epoll_ctl, ep, op, fd, event))
WRAP_WAITING(int, epoll_wait, (int ep, epoll_event* events, int n, int timeout), (ep, events, n, timeout),
             waiting_call(SYS_epoll_wait, ep, events, n, timeout), is_ours(events),
             call(SYS_epoll_wait, ep, events, n, timeout))
WRAP_WAITING(int, nanosleep, (const timespec* time, timespec* left), (time, left),
             waiting_call(SYS_nanosleep, time, left), is_ours(time) || is_ours(left), call(SYS_nanosleep, time, left))
WRAP_WAITING(pid_t, waitpid, (pid_t pid, int* status, int options), (pid, status, options),
             waiting_call(SYS_wait4, pid, status, options, 0), is_ours(status),
             call(SYS_wait4, pid, status, options, 0))

extern "C" int open(const char* path, int flags, ...) {
  static constinit fault::Hidden<int(const char*, int, ...)> hidden{"open"};
  va_list list;
  va_start(list, flags);
  const mode_t mode = (flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE ? va_arg(list, mode_t) : 0;
  va_end(list);
  if (is_ours(path)) return static_cast<int>(fault::call(SYS_openat, AT_FDCWD, path, flags, mode));
  return hidden.get()(path, flags, mode);
}

extern "C" char* getcwd(char* path, std::size_t bytes) noexcept {
  static constinit fault::Hidden<char*(char*, std::size_t)> hidden{"getcwd"};
  if (!is_ours(path)) return hidden.get()(path, bytes);
  return fault::call(SYS_getcwd, path, bytes) < 0 ? nullptr : path;
}
