// SPDX-License-Identifier: Apache-2.0
#include "tasks/waiting_calls.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>

#include "base/clock.hpp"
#include "dsm/fault/dispatch.hpp"
#include "dsm/fault/waiting.hpp"
#include "tasks/runtime.hpp"
#include "tasks/waits.hpp"
#include "ult/cancellation.hpp"
#include "ult/current.hpp"
#include "ult/scheduler.hpp"

#if defined(__SANITIZE_THREAD__)
#define AYT_TELLS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define AYT_TELLS_SANITIZER 1
#endif
#endif
#ifdef AYT_TELLS_SANITIZER
extern "C" void __tsan_acquire(void* address);
extern "C" void __tsan_release(void* address);
#endif

namespace ayatori::tasks::waiting_calls {
namespace {

using waits::Call;
using waits::End;
using waits::kNever;

constexpr std::size_t kMaxTransfer = 0x7ffff000;  // of the kernel (MAX_RW_COUNT)
constexpr std::size_t kVectorMax = 1024;          // UIO_MAXIOV
constexpr std::size_t kPipeRoom = 4096;           // PIPE_BUF: what a pipe that is ready for writing takes

constexpr int kFruitless = 8;

void (*end_cancelled_thread)() = nullptr;  // Constant after start().

[[noreturn]] void end_thread() {
  end_cancelled_thread();
  __builtin_unreachable();
}
void cancellation_point() {
  if (waits::cancelled()) end_thread();
}

// What ThreadSanitizer's own functions would tell it: who reads comes after who wrote before.
void before_writing() {
#ifdef AYT_TELLS_SANITIZER
  __tsan_release(&end_cancelled_thread);
#endif
}
void after_reading() {
#ifdef AYT_TELLS_SANITIZER
  __tsan_acquire(&end_cancelled_thread);
#endif
}

struct Made {
  long number;
  const long* arguments;
  long result;
};

// Now, on whatever it takes to get the program's buffers to the kernel: locks and communication, so on the native stack.
long make(long number, const long* arguments) {
  long a[6];
  std::copy_n(arguments, 6, a);
  if (!dsm::fault::guards_calls()) return dsm::make_call(number, a);
  Made made{number, a, 0};
  ult::call_on_native(
      [](void* argument) {
        auto& m = *static_cast<Made*>(argument);
        long own[6];
        std::copy_n(m.arguments, 6, own);
        m.result = dsm::make_call(m.number, own);
      },
      &made);
  return made.result;
}

template <class... Args>
long call(long number, Args... args) {
  long a[6] = {};
  int i = 0;
  ((a[i++] = dsm::fault::word(args)), ...);
  return make(number, a);
}

// ------------------------------------------------------------------------------------------------ descriptors

enum class Kind { kOther, kFile, kSocket, kPipe };
Kind kind_of(int fd) {
  struct stat s{};
  if (call(SYS_fstat, fd, &s) != 0) return Kind::kOther;
  if (S_ISREG(s.st_mode) || S_ISBLK(s.st_mode) || S_ISDIR(s.st_mode)) return Kind::kFile;
  return S_ISSOCK(s.st_mode) ? Kind::kSocket : S_ISFIFO(s.st_mode) ? Kind::kPipe : Kind::kOther;
}
bool never_waits(int fd) {
  const long flags = call(SYS_fcntl, fd, F_GETFL);
  return flags < 0 || (flags & O_NONBLOCK) != 0;
}
bool is_ready(int fd, short events) {
  pollfd p{fd, events, 0};
  return call(SYS_poll, &p, 1, 0) != 0;
}

std::int64_t deadline_in(std::int64_t seconds, std::int64_t ns) {
  if (seconds > INT64_MAX / base::kNsPerSecond - 1) return kNever;
  const std::int64_t now = base::real_now_ns(), span = seconds * base::kNsPerSecond + ns;
  return span > kNever - now ? kNever : now + span;
}

// K3
std::int64_t deadline_of(int fd, int option) {
  timeval time{};
  socklen_t bytes = sizeof time;
  if (call(SYS_getsockopt, fd, SOL_SOCKET, option, &time, &bytes) != 0) return kNever;  // no socket
  if (time.tv_sec == 0 && time.tv_usec == 0) return kNever;
  return deadline_in(time.tv_sec, time.tv_usec * base::kNsPerUs);
}

// A descriptor that the call waits for.
class Waiting {
 public:
  Waiting(Call name, int fd, std::uint32_t events) : name_(name), fd_(fd), events_(events) {}
  // False: the call is over, result() says how. `done`: bytes moved before. Ends the thread where it is cancelled.
  bool again(long done = 0) {
    if (rounds_ == 0) {
      if (never_waits(fd_)) return over(done > 0 ? done : -EAGAIN);
      deadline_ = deadline_of(fd_, (events_ & EPOLLOUT) != 0 ? SO_SNDTIMEO : SO_RCVTIMEO);
    }
    rounds_ = done > moved_ ? 1 : rounds_ + 1;
    moved_ = done;
    // Said to be ready again and again, but it is not: as a datagram socket whose receiver has no room.
    if (rounds_ > kFruitless && base::real_now_ns() < deadline_) ult::sleep(base::kNsPerMs);
    switch (waits::wait_for(name_, fd_, events_, deadline_)) {
      case End::kReady: return true;
      case End::kTimedOut: return over(done > 0 ? done : -EAGAIN);
      case End::kCancelled: end_thread();
      case End::kRefused: break;
    }
    refused_ = true;
    return over(done);
  }
  long result() const { return result_; }
  bool refused() const { return refused_; }  // the thread is to wait as an OS thread does

 private:
  bool over(long result) {
    result_ = result;
    return false;
  }
  Call name_;
  int fd_;
  std::uint32_t events_;
  int rounds_ = 0;
  long moved_ = 0;
  bool refused_ = false;
  std::int64_t deadline_ = kNever;
  long result_ = 0;
};

bool is_no_answer(long r) { return r == -EOPNOTSUPP || r == -ENOSYS; }

// ------------------------------------------------------------------------------------------------ reading

// A vector of buffers from which bytes have been taken. The program's array stays as it is.
struct Buffers {
  const iovec* iov;
  std::size_t count;
  std::size_t skip = 0;  // of the first

  void take(std::size_t bytes) {
    skip += bytes;
    while (count > 0 && skip >= iov->iov_len) {
      skip -= iov->iov_len;
      ++iov;
      --count;
    }
  }
  // The vector from here on, or its first buffer's rest.
  iovec rest() const { return {static_cast<std::byte*>(iov->iov_base) + skip, iov->iov_len - skip}; }
};

std::size_t bytes_of(const iovec* iov, std::size_t count) {
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < count; ++i) bytes += std::min(iov[i].iov_len, kMaxTransfer);
  return std::min(bytes, kMaxTransfer);
}

long transfer(long number, int fd, const Buffers& b, std::int64_t at, int flags) {
  if (b.skip == 0) return call(number, fd, b.iov, b.count, at, 0, flags);
  const iovec rest = b.rest();
  return call(number, fd, &rest, 1, at, 0, flags);
}

// Brings the part of a file into the page cache, by an OS thread.
bool bring(int fd, std::int64_t at, std::size_t bytes) {
  waits::Job* const job = waits::new_job(SYS_pread64, 0);
  if (!job) return false;
  long* const a = waits::arguments(job);
  a[0] = fd;
  a[1] = waits::kScratch;
  a[2] = static_cast<long>(std::min(bytes, waits::kScratchBytes));
  a[3] = at;
  long result = 0;
  return waits::hand_over(Call::kRead, fd, job, false, &result) == End::kReady && result > 0;
}

// K4: as far as the cache has it, then what an OS thread brings.
long read_file(int fd, Buffers b, std::size_t bytes, std::int64_t at, long done) {
  b.take(static_cast<std::size_t>(done));
  while (static_cast<std::size_t>(done) < bytes) {
    const std::int64_t here = at < 0 ? -1 : at + done;
    long r = transfer(SYS_preadv2, fd, b, here, RWF_NOWAIT);
    if (r == -EAGAIN) {
      const std::int64_t from = at < 0 ? call(SYS_lseek, fd, 0, SEEK_CUR) : here;
      if (from >= 0 && bring(fd, from, bytes - static_cast<std::size_t>(done)))
        r = transfer(SYS_preadv2, fd, b, here, RWF_NOWAIT);
    }
    if (r == -EAGAIN || is_no_answer(r)) r = transfer(SYS_preadv2, fd, b, here, 0);
    if (r <= 0) return done > 0 ? done : r;
    done += r;
    b.take(static_cast<std::size_t>(r));
  }
  return done;
}

// at < 0: where the file stands.
long read_vector(int fd, const iovec* iov, std::size_t count, std::int64_t at, const long* plain, long number) {
  const auto as_it_is = [&] { return make(number, plain); };
  if (count == 0 || count > kVectorMax) return as_it_is();
  Waiting waiting(Call::kRead, fd, EPOLLIN);
  for (;;) {
    long r = call(SYS_preadv2, fd, iov, count, at, 0, RWF_NOWAIT);
    const std::size_t bytes = r == 0 ? 0 : bytes_of(iov, count);
    if (r >= 0 && (r == 0 || static_cast<std::size_t>(r) == bytes)) return r;
    if (r > 0 || r == -EAGAIN) {
      if (kind_of(fd) == Kind::kFile) return read_file(fd, {iov, count}, bytes, at, std::max(r, 0L));
      if (r > 0) return r;
    } else if (!is_no_answer(r)) {
      return r;
    } else if (at >= 0 || is_ready(fd, POLLIN) || never_waits(fd)) {
      return as_it_is();  // K2
    }
    if (!waiting.again()) return waiting.refused() ? as_it_is() : waiting.result();
  }
}

// ------------------------------------------------------------------------------------------------ writing

long write_vector(int fd, const iovec* iov, std::size_t count, const long* plain, long number) {
  const Kind kind = count == 0 || count > kVectorMax ? Kind::kFile : kind_of(fd);
  if (kind == Kind::kFile) return make(number, plain);
  Buffers b{iov, count};
  const std::size_t bytes = bytes_of(iov, count);
  Waiting waiting(Call::kWrite, fd, EPOLLOUT);
  long done = 0;
  for (;;) {
    long r = transfer(SYS_pwritev2, fd, b, -1, RWF_NOWAIT);
    if (is_no_answer(r)) {  // K2
      const bool blocks = !never_waits(fd);
      if (blocks && !is_ready(fd, POLLOUT)) {
        r = -EAGAIN;
      } else if (kind == Kind::kPipe && blocks && bytes > kPipeRoom) {
        iovec rest = b.rest();
        rest.iov_len = std::min(rest.iov_len, kPipeRoom);
        r = call(SYS_writev, fd, &rest, 1);
      } else {
        r = transfer(SYS_pwritev2, fd, b, -1, 0);
      }
    }
    if (r < 0 && r != -EAGAIN) return done > 0 ? done : r;
    if (r >= 0) {
      done += r;
      if (static_cast<std::size_t>(done) >= bytes) return done;
      b.take(static_cast<std::size_t>(r));
      if (r > 0 && kind == Kind::kOther) return done;  // a device that took less does so for everybody
    }
    if (!waiting.again(done)) {
      if (!waiting.refused()) return waiting.result();
      r = transfer(SYS_pwritev2, fd, b, -1, 0);
      if (r <= 0) return done > 0 ? done : r;
      done += r;
      if (static_cast<std::size_t>(done) >= bytes) return done;
      b.take(static_cast<std::size_t>(r));
    }
  }
}

// ------------------------------------------------------------------------------------------------ sockets

bool is_stream(int fd) {
  int type = 0;
  socklen_t bytes = sizeof type;
  return call(SYS_getsockopt, fd, SOL_SOCKET, SO_TYPE, &type, &bytes) == 0 && type == SOCK_STREAM;
}

// recvfrom, sendto: `flags` in a[3].
long transfer_bytes(long number, const long* a, bool out) {
  const int fd = static_cast<int>(a[0]);
  long now[6];
  std::copy_n(a, 6, now);
  if ((a[3] & (MSG_DONTWAIT | MSG_OOB | (out ? 0 : MSG_ERRQUEUE))) != 0) return make(number, a);
  const long flags = a[3] & ~long{out ? 0 : MSG_WAITALL};
  const bool whole = out || (a[3] & (MSG_WAITALL | MSG_PEEK)) == MSG_WAITALL;  // K4
  Waiting waiting(out ? Call::kSend : Call::kReceive, fd, out ? EPOLLOUT : EPOLLIN);
  long done = 0;
  for (;;) {
    now[1] = a[1] + done;
    now[2] = a[2] - done;
    now[3] = flags | MSG_DONTWAIT;
    const long r = make(number, now);
    if (r < 0 && r != -EAGAIN) return done > 0 ? done : r;
    if (r >= 0) {
      done += r;
      if (!whole || r == 0 || done >= a[2] || !is_stream(fd)) return done;
    }
    if (!waiting.again(done)) {
      if (!waiting.refused()) return waiting.result();
      now[1] = a[1] + done;
      now[2] = a[2] - done;
      now[3] = a[3];
      const long last = make(number, now);
      return last >= 0 ? done + last : done > 0 ? done : last;
    }
  }
}

// The rest of a message's buffers after `done` bytes of them: plain bytes.
long transfer_rest(long number, int fd, const msghdr& m, long flags, long done, bool out) {
  Buffers b{m.msg_iov, m.msg_iovlen};
  b.take(static_cast<std::size_t>(done));
  while (b.count > 0) {
    const iovec rest = b.rest();
    const long a[6] = {fd, dsm::fault::word(rest.iov_base), static_cast<long>(rest.iov_len), flags, 0, 0};
    const long r = transfer_bytes(number, a, out);
    if (r <= 0) break;  // what was moved counts
    done += r;
    if (static_cast<std::size_t>(r) < rest.iov_len) break;
    b.take(static_cast<std::size_t>(r));
  }
  return done;
}

// recvmsg, sendmsg: a[1] the message, a[2] flags.
long transfer_message(long number, const long* a, bool out) {
  const int fd = static_cast<int>(a[0]);
  const auto* const m = reinterpret_cast<const msghdr*>(a[1]);  // NOLINT: an argument
  if ((a[2] & (MSG_DONTWAIT | MSG_OOB | (out ? 0 : MSG_ERRQUEUE))) != 0 || m == nullptr) return make(number, a);
  const bool whole = out || (a[2] & (MSG_WAITALL | MSG_PEEK)) == MSG_WAITALL;
  long now[6] = {a[0], a[1], (a[2] & ~long{out ? 0 : MSG_WAITALL}) | MSG_DONTWAIT, 0, 0, 0};
  const socklen_t name_bytes = m->msg_namelen;
  const std::size_t control_bytes = m->msg_controllen;
  Waiting waiting(out ? Call::kSend : Call::kReceive, fd, out ? EPOLLOUT : EPOLLIN);
  for (;;) {
    const long r = make(number, now);
    if (r >= 0) {
      if (!whole || r == 0 || !is_stream(fd) || static_cast<std::size_t>(r) >= bytes_of(m->msg_iov, m->msg_iovlen))
        return r;
      return transfer_rest(out ? SYS_sendto : SYS_recvfrom, fd, *m, out ? a[2] : a[2] | MSG_WAITALL, r, out);
    }
    if (r != -EAGAIN) return r;
    if (!waiting.again()) return waiting.refused() ? make(number, a) : waiting.result();
    if (!out) {  // a call that found nothing may have written them
      auto* const own = const_cast<msghdr*>(m);
      own->msg_namelen = name_bytes;
      own->msg_controllen = control_bytes;
    }
  }
}

// K2. In the C library's memory: the call is made on the native stack, under a lock.
struct Accept {
  int fd, flags;
  long result;
  sockaddr_storage from;
  socklen_t bytes;
};

long accept_call(int fd, sockaddr* from, socklen_t* bytes, int flags, const long* plain, long number) {
  int listens = 0;
  socklen_t room_bytes = sizeof listens;
  if (never_waits(fd) || call(SYS_getsockopt, fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &room_bytes) != 0 || !listens)
    return make(number, plain);  // an error, perhaps
  Waiting waiting(Call::kAccept, fd, EPOLLIN);
  for (;;) {
    void* const room = std::malloc(sizeof(Accept));
    if (!room) return -ENOMEM;
    auto* const memory = new (room) Accept{fd, flags, -EAGAIN, {}, sizeof(sockaddr_storage)};
    call_native(
        [](void* argument) {
          static constinit std::mutex one;
          auto& a = *static_cast<Accept*>(argument);
          const std::lock_guard guard(one);
          pollfd p{a.fd, POLLIN, 0};
          if (::poll(&p, 1, 0) == 0) return;
          const int r = ::accept4(a.fd, reinterpret_cast<sockaddr*>(&a.from), &a.bytes, a.flags);
          a.result = r < 0 ? -errno : r;
        },
        memory);
    const long result = memory->result;
    if (result >= 0 && from != nullptr && bytes != nullptr) {
      std::memcpy(from, &memory->from, std::min<std::size_t>(*bytes, memory->bytes));
      *bytes = memory->bytes;
    }
    std::free(memory);
    if (result != -EAGAIN) return result;
    if (!waiting.again()) return waiting.refused() ? make(number, plain) : waiting.result();
  }
}

long connect_call(const long* a) {
  const int fd = static_cast<int>(a[0]);
  const long flags = call(SYS_fcntl, fd, F_GETFL);
  if (flags < 0 || (flags & O_NONBLOCK) != 0) return make(SYS_connect, a);
  // Nobody else has use for it before it is connected.
  call(SYS_fcntl, fd, F_SETFL, flags | O_NONBLOCK);
  const long r = make(SYS_connect, a);
  call(SYS_fcntl, fd, F_SETFL, flags);
  if (r == -EAGAIN) {  // a local socket whose listener has no room: the kernel tells nobody when there is
    const auto bytes = static_cast<std::size_t>(static_cast<socklen_t>(a[2]));
    waits::Job* const job = waits::new_job(SYS_connect, bytes);
    if (!job) return -ENOMEM;
    std::memcpy(waits::memory(job), reinterpret_cast<const void*>(a[1]), bytes);  // NOLINT: an argument
    long* const b = waits::arguments(job);
    b[0] = fd;
    b[1] = dsm::fault::word(waits::memory(job));
    b[2] = a[2];
    long result = 0;
    const End end = waits::hand_over(Call::kConnect, fd, job, true, &result);
    if (end == End::kCancelled) end_thread();
    return end == End::kRefused ? make(SYS_connect, a) : result;
  }
  if (r != -EINPROGRESS && r != -EALREADY) return r;
  switch (waits::wait_for(Call::kConnect, fd, EPOLLOUT, deadline_of(fd, SO_SNDTIMEO))) {
    case End::kReady: break;
    case End::kTimedOut: return r;
    case End::kCancelled: end_thread();
    case End::kRefused: {
      pollfd p{fd, POLLOUT, 0};
      call(SYS_poll, &p, 1, -1);
    }
  }
  int error = 0;
  socklen_t bytes = sizeof error;
  if (const long failed = call(SYS_getsockopt, fd, SOL_SOCKET, SO_ERROR, &error, &bytes); failed < 0) return failed;
  return -error;
}

// ------------------------------------------------------------------------------------------------ several descriptors

// Of a call that found nothing: said to be ready again and again, but it is not.
void keep_quiet(int* rounds, std::int64_t deadline_ns) {
  if (++*rounds > kFruitless && base::real_now_ns() < deadline_ns) ult::sleep(base::kNsPerMs);
}

// Waits for any of them; false: the time is over. `fds` in the C library's memory, freed before the thread ends.
bool wait_for_any(Call name, pollfd* fds, std::size_t count, std::int64_t deadline_ns, void* memory) {
  std::size_t open = 0;
  const pollfd* only = nullptr;
  for (std::size_t i = 0; i < count; ++i)
    if (fds[i].fd >= 0) {
      ++open;
      only = &fds[i];
    }
  End end;
  if (open <= 1) {
    end =
        waits::wait_for(name, only ? only->fd : -1, only ? static_cast<unsigned short>(only->events) : 0, deadline_ns);
  } else {
    const auto set = static_cast<int>(call(SYS_epoll_create1, EPOLL_CLOEXEC));
    bool ready = false;
    for (std::size_t i = 0; set >= 0 && i < count && !ready; ++i) {
      if (fds[i].fd < 0) continue;
      epoll_event event{};
      event.events = static_cast<unsigned short>(fds[i].events);
      long r = call(SYS_epoll_ctl, set, EPOLL_CTL_ADD, fds[i].fd, &event);
      if (r == -EEXIST) {  // once more in the same array
        for (std::size_t k = 0; k < i; ++k)
          if (fds[k].fd == fds[i].fd) event.events |= static_cast<unsigned short>(fds[k].events);
        r = call(SYS_epoll_ctl, set, EPOLL_CTL_MOD, fds[i].fd, &event);
      }
      ready = r < 0;  // a file, or closed meanwhile: the next look tells
    }
    end = set < 0 ? End::kRefused : ready ? End::kReady : waits::wait_for(name, set, EPOLLIN, deadline_ns);
    if (set >= 0) call(SYS_close, set);
  }
  if (end == End::kRefused) {
    const timespec pause{0, 1'000'000};
    call(SYS_nanosleep, &pause, 0);
    end = base::real_now_ns() >= deadline_ns ? End::kTimedOut : End::kReady;
  }
  if (end == End::kCancelled) {
    std::free(memory);
    end_thread();
  }
  return end != End::kTimedOut;
}

long poll_call(pollfd* fds, std::size_t n, std::int64_t deadline_ns) {
  int rounds = 0;
  for (bool last = false;;) {
    const long r = call(SYS_poll, fds, n, 0);
    if (r == -EINTR) continue;
    if (r != 0) return r;
    if (last || base::real_now_ns() >= deadline_ns) return 0;
    keep_quiet(&rounds, deadline_ns);
    auto* const own = static_cast<pollfd*>(std::malloc(std::max<std::size_t>(n, 1) * sizeof(pollfd)));
    if (!own) return -ENOMEM;
    for (std::size_t i = 0; i < n; ++i) own[i] = {fds[i].fd, fds[i].events, 0};
    last = !wait_for_any(Call::kPoll, own, n, deadline_ns, own);
    std::free(own);
  }
}

constexpr timespec kNoTime{0, 0};

long select_call(int n, fd_set* const (&user)[3], std::int64_t deadline_ns) {
  constexpr short kEvents[] = {POLLIN | POLLRDNORM | POLLRDBAND, POLLOUT | POLLWRNORM | POLLWRBAND, POLLPRI};
  if (n < 0 || n > 1 << 20) return call(SYS_pselect6, n, user[0], user[1], user[2], &kNoTime, 0);
  const std::size_t words = (static_cast<std::size_t>(n) + 63) / 64;
  const auto count = static_cast<std::size_t>(n);
  // Descriptors, then what the program asked for: the call overwrites it.
  void* const memory = std::malloc(count * sizeof(pollfd) + 3 * words * sizeof(std::uint64_t) + 1);
  if (!memory) return -ENOMEM;
  auto* const fds = static_cast<pollfd*>(memory);
  auto* const asked = reinterpret_cast<std::uint64_t*>(fds + count);
  for (std::size_t k = 0; k < 3; ++k)
    if (user[k]) std::memcpy(asked + k * words, user[k], words * sizeof(std::uint64_t));
  std::size_t open = 0;
  for (std::size_t fd = 0; fd < count; ++fd) {
    short events = 0;
    for (std::size_t k = 0; k < 3; ++k)
      if (user[k] && (asked[k * words + fd / 64] >> fd % 64 & 1) != 0) events = static_cast<short>(events | kEvents[k]);
    if (events != 0) fds[open++] = {static_cast<int>(fd), events, 0};
  }
  long r = 0;
  int rounds = 0;
  for (bool last = false;; keep_quiet(&rounds, deadline_ns)) {
    do r = call(SYS_pselect6, n, user[0], user[1], user[2], &kNoTime, 0);
    while (r == -EINTR);
    if (r != 0 || last || base::real_now_ns() >= deadline_ns) break;
    last = !wait_for_any(Call::kSelect, fds, open, deadline_ns, memory);
    for (std::size_t k = 0; k < 3; ++k)
      if (user[k]) std::memcpy(user[k], asked + k * words, words * sizeof(std::uint64_t));
  }
  std::free(memory);
  return r;
}

long epoll_call(const long* a) {
  const auto ms = static_cast<int>(a[3]);
  const std::int64_t deadline_ns = ms < 0 ? kNever : deadline_in(0, ms * base::kNsPerMs);
  int rounds = 0;
  for (bool last = ms == 0;; keep_quiet(&rounds, deadline_ns)) {
    const long now[6] = {a[0], a[1], a[2], 0, 0, 0};
    const long r = make(SYS_epoll_wait, now);
    if (r == -EINTR) continue;
    if (r != 0 || last) return r;
    switch (waits::wait_for(Call::kEpoll, static_cast<int>(a[0]), EPOLLIN, deadline_ns)) {
      case End::kReady: break;
      case End::kTimedOut: last = true; break;
      case End::kCancelled: end_thread();
      case End::kRefused: return make(SYS_epoll_wait, a);
    }
  }
}

// ------------------------------------------------------------------------------------------------ time

bool valid(const timespec& t) { return t.tv_sec >= 0 && t.tv_nsec >= 0 && t.tv_nsec < base::kNsPerSecond; }

// Until a time of CLOCK_MONOTONIC. False: there is no way but the OS thread's.
bool sleep_until(std::int64_t deadline_ns) {
  const std::int64_t now = base::real_now_ns();
  const ult::Descriptor* const self = ult::current_thread();
  // Who may be cancelled is to be found; the others wait in the scheduler alone.
  if ((self->cancel.load(std::memory_order_relaxed) & ult::kCancellable) == 0 || deadline_ns <= now) {
    ult::sleep(deadline_ns - now);
    return true;
  }
  switch (waits::wait_for(Call::kSleep, -1, 0, deadline_ns)) {
    case End::kCancelled: end_thread();
    case End::kRefused: return false;
    default: return true;
  }
}

long sleep_call(const timespec* time) {
  if (time == nullptr) return -EFAULT;
  const timespec t = *time;
  if (!valid(t)) return -EINVAL;
  if (sleep_until(deadline_in(t.tv_sec, t.tv_nsec))) return 0;
  return call(SYS_nanosleep, &t, 0);
}

long clock_sleep_call(const long* a) {
  const auto clock = static_cast<clockid_t>(a[0]);
  const auto* const time = reinterpret_cast<const timespec*>(a[2]);  // NOLINT: an argument
  if (clock != CLOCK_REALTIME && clock != CLOCK_MONOTONIC && clock != CLOCK_BOOTTIME && clock != CLOCK_TAI)
    return make(SYS_clock_nanosleep, a);
  if (time == nullptr) return -EFAULT;
  const timespec t = *time;
  if ((a[1] & TIMER_ABSTIME) == 0) return sleep_call(&t);
  if (!valid(t)) return -EINVAL;
  for (;;) {  // that clock may be set
    timespec now{};
    clock_gettime(clock, &now);
    if (now.tv_sec > t.tv_sec || (now.tv_sec == t.tv_sec && now.tv_nsec >= t.tv_nsec)) return 0;
    if (!sleep_until(deadline_in(t.tv_sec - now.tv_sec, t.tv_nsec - now.tv_nsec))) return make(SYS_clock_nanosleep, a);
  }
}

// ------------------------------------------------------------------------------------------------ children, disks

long wait_call(const long* a) {
  const auto pid = static_cast<pid_t>(a[0]);
  const auto options = static_cast<int>(a[2]);
  for (;;) {
    const long now[6] = {a[0], a[1], options | WNOHANG, a[3], 0, 0};
    const long r = make(SYS_wait4, now);
    if (r != 0 || (options & WNOHANG) != 0) return r;
    const long fd = pid > 0 && (options & (WUNTRACED | WCONTINUED)) == 0 ? call(SYS_pidfd_open, pid, 0) : -1;
    End end;
    if (fd >= 0) {
      end = waits::wait_for(Call::kChild, static_cast<int>(fd), EPOLLIN, kNever);
      call(SYS_close, fd);
    } else {
      waits::Job* const job = waits::new_job(SYS_waitid, 0);
      if (!job) return -ENOMEM;
      long* const b = waits::arguments(job);
      b[0] = pid == -1 ? P_ALL : pid > 0 ? P_PID : P_PGID;
      b[1] = pid < -1 ? -pid : pid > 0 ? pid : 0;
      b[3] = WEXITED | WNOWAIT | (options & (WUNTRACED | WCONTINUED | __WALL | __WCLONE));
      long result = 0;
      end = waits::hand_over(Call::kChild, -1, job, true, &result);
    }
    if (end == End::kCancelled) end_thread();
    if (end == End::kRefused) return make(SYS_wait4, a);
  }
}

long sync_call(long number, const long* a) {
  waits::Job* const job = waits::new_job(number, 0);
  if (!job) return make(number, a);
  waits::arguments(job)[0] = a[0];
  long result = 0;
  const End end = waits::hand_over(Call::kSync, static_cast<int>(a[0]), job, false, &result);
  return end == End::kReady ? result : make(number, a);
}

std::int64_t deadline_of_poll(long ms) {
  return static_cast<int>(ms) < 0 ? kNever : deadline_in(0, static_cast<int>(ms) * base::kNsPerMs);
}

// What is left goes back to the program.
long select_of_timeval(const long* a) {
  auto* const time = reinterpret_cast<timeval*>(a[4]);  // NOLINT: arguments, also the next
  fd_set* const sets[] = {reinterpret_cast<fd_set*>(a[1]), reinterpret_cast<fd_set*>(a[2]),
                          reinterpret_cast<fd_set*>(a[3])};
  if (!time) return select_call(static_cast<int>(a[0]), sets, kNever);
  if (time->tv_sec < 0 || time->tv_usec < 0) return -EINVAL;
  const std::int64_t deadline_ns = deadline_in(time->tv_sec, time->tv_usec * base::kNsPerUs);
  const long r = select_call(static_cast<int>(a[0]), sets, deadline_ns);
  if (r >= 0 && deadline_ns != kNever) {
    const std::int64_t left = std::max<std::int64_t>(deadline_ns - base::real_now_ns(), 0);
    time->tv_sec = left / base::kNsPerSecond;
    time->tv_usec = left % base::kNsPerSecond / base::kNsPerUs;
  }
  return r;
}

// As select, ppoll: no time is for ever.
bool deadline_of_timespec(long argument, std::int64_t* deadline_ns) {
  const auto* const time = reinterpret_cast<const timespec*>(argument);  // NOLINT: an argument
  *deadline_ns = kNever;
  if (!time) return true;
  if (!valid(*time)) return false;
  *deadline_ns = deadline_in(time->tv_sec, time->tv_nsec);
  return true;
}

long make_waiting(long number, long* a) {
  const auto fd = static_cast<int>(a[0]);
  const auto* const iov = reinterpret_cast<const iovec*>(a[1]);  // NOLINT: arguments, also below
  const auto count = static_cast<std::size_t>(a[2]);
  std::int64_t deadline_ns = kNever;
  switch (number) {
    case SYS_read:
    case SYS_pread64: {
      if (count == 0) return make(number, a);
      const iovec whole{reinterpret_cast<void*>(a[1]), count};  // NOLINT
      if (number == SYS_pread64 && a[3] < 0) return make(number, a);
      return read_vector(fd, &whole, 1, number == SYS_read ? -1 : a[3], a, number);
    }
    case SYS_readv: return read_vector(fd, iov, count, -1, a, number);
    case SYS_preadv: return a[3] < 0 ? make(number, a) : read_vector(fd, iov, count, a[3], a, number);
    case SYS_write: {
      if (count == 0) return make(number, a);                   // may be an empty datagram
      const iovec whole{reinterpret_cast<void*>(a[1]), count};  // NOLINT
      return write_vector(fd, &whole, 1, a, number);
    }
    case SYS_writev: return write_vector(fd, iov, count, a, number);
    case SYS_recvfrom: return transfer_bytes(number, a, false);
    case SYS_sendto: return transfer_bytes(number, a, true);
    case SYS_recvmsg: return transfer_message(number, a, false);
    case SYS_sendmsg: return transfer_message(number, a, true);
    case SYS_accept:
    case SYS_accept4:
      return accept_call(fd, reinterpret_cast<sockaddr*>(a[1]), reinterpret_cast<socklen_t*>(a[2]),  // NOLINT
                         number == SYS_accept4 ? static_cast<int>(a[3]) : 0, a, number);
    case SYS_connect: return connect_call(a);
    case SYS_poll:
      return poll_call(reinterpret_cast<pollfd*>(a[0]), static_cast<std::size_t>(a[1]), deadline_of_poll(a[2]));
    case SYS_ppoll:
      if (!deadline_of_timespec(a[2], &deadline_ns)) return -EINVAL;
      return poll_call(reinterpret_cast<pollfd*>(a[0]), static_cast<std::size_t>(a[1]), deadline_ns);
    case SYS_select: return select_of_timeval(a);
    case SYS_pselect6: {
      if (!deadline_of_timespec(a[4], &deadline_ns)) return -EINVAL;
      fd_set* const sets[] = {reinterpret_cast<fd_set*>(a[1]), reinterpret_cast<fd_set*>(a[2]),
                              reinterpret_cast<fd_set*>(a[3])};
      return select_call(fd, sets, deadline_ns);
    }
    case SYS_epoll_wait: return epoll_call(a);
    case SYS_nanosleep: return sleep_call(reinterpret_cast<const timespec*>(a[0]));
    case SYS_clock_nanosleep: return clock_sleep_call(a);
    case SYS_wait4: return wait_call(a);
    case SYS_fsync:
    case SYS_fdatasync: return sync_call(number, a);
    default: return make(number, a);
  }
}

long make_call(long number, long* a) {
  cancellation_point();
  before_writing();
  const long r = make_waiting(number, a);
  after_reading();
  return r;
}

constexpr dsm::WaitingCalls kCalls{ult::on_user_thread, make_call};

}  // namespace

void start(void (*end_cancelled)()) {
  end_cancelled_thread = end_cancelled;
  dsm::set_waiting_calls(&kCalls);
}

}  // namespace ayatori::tasks::waiting_calls
