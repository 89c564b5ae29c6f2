// SPDX-License-Identifier: Apache-2.0
// System calls with vectors of buffers in the space: readv and its kin, messages, memory of other processes. Rules C1,
// C2 and C5 of syscalls.cpp: what fits is gathered in private memory, large transfers of files go in place.
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>

#include <algorithm>
#include <cstring>

#include "dsm/fault/user_memory.hpp"

namespace ayatori::dsm::fault {
namespace {

constexpr std::size_t kMaxVector = 1024;  // UIO_MAXIOV

struct Vector {
  iovec* iov = nullptr;  // private copy of the program's
  std::size_t count = 0;
  std::size_t bytes = 0;
  bool in_space = false;
  std::byte* gathered = nullptr;
};

// False: leave the call to the kernel as it is.
bool load_vector(long address, std::size_t count, Bounce& bounce, Vector* v) {
  if (count == 0 || count > kMaxVector || !readable(address, count * sizeof(iovec))) return false;
  v->iov = reinterpret_cast<iovec*>(bounce.take(count * sizeof(iovec)));
  if (!v->iov) return false;
  std::memcpy(v->iov, as_pointer<void>(address), count * sizeof(iovec));
  v->count = count;
  for (std::size_t i = 0; i < count; ++i) {
    v->bytes += v->iov[i].iov_len;
    v->in_space = v->in_space || (v->iov[i].iov_len != 0 && gas::contains(v->iov[i].iov_base));
  }
  return true;
}

// Bytes that the program passes from outside the space may be no memory at all: the kernel is to say so.
bool vector_readable(const Vector& v) {
  for (std::size_t i = 0; i < v.count; ++i)
    if (v.iov[i].iov_len != 0 && !readable(as_long(v.iov[i].iov_base), v.iov[i].iov_len)) return false;
  return true;
}

void gather(const Vector& v) {
  std::byte* to = v.gathered;
  for (std::size_t i = 0; i < v.count; ++i) {
    if (v.iov[i].iov_len != 0) std::memcpy(to, v.iov[i].iov_base, v.iov[i].iov_len);
    to += v.iov[i].iov_len;
  }
}
void scatter(const Vector& v, std::size_t bytes) {
  const std::byte* from = v.gathered;
  for (std::size_t i = 0; i < v.count && bytes > 0; ++i) {
    const std::size_t n = std::min(bytes, v.iov[i].iov_len);
    if (n != 0) std::memcpy(v.iov[i].iov_base, from, n);
    from += n;
    bytes -= n;
  }
}

// The call with one buffer for the vector a[1], a[2]: v.gathered.
long gathered_call(long number, const long* a, const Vector& v, bool write) {
  if (!write) gather(v);
  iovec whole{v.gathered, v.bytes};
  long call[6];
  std::copy_n(a, 6, call);
  call[1] = as_long(&whole);
  call[2] = 1;
  const long r = raw(number, call);
  if (r > 0 && write) scatter(v, static_cast<std::size_t>(r));
  return r;
}

void prefault_vector(const Vector& v, std::size_t from, bool write) {
  std::size_t left = kPieceBytes;
  for (std::size_t i = from; i < v.count && left > 0; ++i) {
    const std::size_t n = std::min(left, v.iov[i].iov_len);
    prefault(as_long(v.iov[i].iov_base), n, write);
    left -= n;
  }
}

}  // namespace

long vector_call(long number, long* a, bool write, bool positioned) {
  Bounce bounce;
  Vector v;
  if (!load_vector(a[1], static_cast<std::size_t>(a[2]), bounce, &v)) {
    prefault(a[1], static_cast<std::size_t>(a[2]) * sizeof(iovec), false);
    return raw(number, a);
  }
  a[1] = as_long(v.iov);
  if (!v.in_space) return raw(number, a);
  if (v.bytes <= bounce.room() && vector_readable(v) && (v.bytes <= kCopyBytes || !is_file(a[0]))) {
    v.gathered = bounce.take(v.bytes);
    if (v.gathered) return gathered_call(number, a, v, write);
  }
  const bool file = is_file(a[0]);
  std::size_t at = 0, done = 0;
  const long offset = a[3];
  Faults faults;
  for (;;) {
    while (at < v.count && v.iov[at].iov_len == 0) ++at;
    if (at == v.count) return static_cast<long>(done);
    prefault_vector(v, at, write);
    a[1] = as_long(v.iov + at);
    a[2] = static_cast<long>(v.count - at);
    if (positioned && offset != -1) a[3] = offset + static_cast<long>(done);
    const long r = raw(number, a);
    if (r == -EFAULT && readable(as_long(v.iov[at].iov_base), 1) && !faults.too_many()) continue;
    if (r <= 0) return done > 0 ? static_cast<long>(done) : r;
    faults.in_a_row = 0;
    done += static_cast<std::size_t>(r);
    for (auto left = static_cast<std::size_t>(r); left > 0;) {
      const std::size_t n = std::min(left, v.iov[at].iov_len);
      v.iov[at].iov_base = static_cast<std::byte*>(v.iov[at].iov_base) + n;
      v.iov[at].iov_len -= n;
      left -= n;
      if (v.iov[at].iov_len == 0 && left > 0) ++at;
    }
    while (at < v.count && v.iov[at].iov_len == 0) ++at;
    if (at == v.count || (!file && !stopped_by_fault(as_long(v.iov[at].iov_base)))) return static_cast<long>(done);
  }
}

namespace {

// `total`: the bytes of the message's buffers.
long one_message(long number, long* a, bool write, std::size_t* total) {
  Bounce bounce;
  if (!readable(a[1], sizeof(msghdr))) return raw(number, a);
  auto* user = as_pointer<msghdr>(a[1]);
  msghdr m;
  std::memcpy(&m, user, sizeof m);
  const msghdr before = m;
  Vector v;
  std::byte* name = nullptr;
  std::byte* control = nullptr;
  if (m.msg_name && gas::contains(m.msg_name) && readable(as_long(m.msg_name), m.msg_namelen) &&
      (name = bounce.take(m.msg_namelen)) != nullptr) {
    if (!write) std::memcpy(name, m.msg_name, m.msg_namelen);
    m.msg_name = name;
  }
  if (m.msg_control && gas::contains(m.msg_control) && readable(as_long(m.msg_control), m.msg_controllen) &&
      (control = bounce.take(m.msg_controllen)) != nullptr) {
    if (!write) std::memcpy(control, m.msg_control, m.msg_controllen);
    m.msg_control = control;
  }
  iovec whole{};
  if (m.msg_iovlen != 0 && load_vector(as_long(m.msg_iov), m.msg_iovlen, bounce, &v)) {
    m.msg_iov = v.iov;
    if (v.in_space && vector_readable(v) && (v.gathered = bounce.take(v.bytes)) != nullptr) {
      if (!write) gather(v);
      whole = {v.gathered, v.bytes};
      m.msg_iov = &whole;
      m.msg_iovlen = 1;
    }
  }
  *total = v.bytes;
  long call[6];
  std::copy_n(a, 6, call);
  call[1] = as_long(&m);
  Faults faults;
  long r;
  do {
    if (v.in_space && !v.gathered) prefault_vector(v, 0, write);
    r = raw(number, call);
  } while (r == -EFAULT && v.in_space && !v.gathered && vector_readable(v) && !faults.too_many());
  if (r < 0 || !write) return r;
  if (v.gathered) scatter(v, std::min<std::size_t>(static_cast<std::size_t>(r), v.bytes));
  if (name) std::memcpy(before.msg_name, name, std::min(before.msg_namelen, m.msg_namelen));
  if (control) std::memcpy(before.msg_control, control, std::min(before.msg_controllen, m.msg_controllen));
  user->msg_namelen = m.msg_namelen;
  user->msg_controllen = m.msg_controllen;
  user->msg_flags = m.msg_flags;
  return r;
}

// What the call moves is copied: null where there is no room, or the bytes are no memory.
std::byte* gathering(Vector& v, Bounce& bounce) {
  if (v.in_space && vector_readable(v)) v.gathered = bounce.take(v.bytes);
  return v.gathered;
}

}  // namespace

long message_call(long number, long* a, bool write) {
  std::size_t total = 0;
  return one_message(number, a, write, &total);
}

// As the kernel does it: an error only when the first message fails; the time is looked at after each.
long receive_messages(long* a) {
  const auto count = std::min<std::size_t>(static_cast<std::uint32_t>(a[2]), kMaxVector);
  constexpr std::int64_t kSecond = 1'000'000'000;
  timespec left{};
  const auto now = [] {
    timespec t;
    raw_syscall(SYS_clock_gettime, CLOCK_MONOTONIC, as_long(&t), 0, 0, 0, 0);
    return t.tv_sec * kSecond + t.tv_nsec;
  };
  std::int64_t deadline = 0;
  if (a[4] != 0) {
    if (!readable(a[4], sizeof left)) return -EFAULT;
    std::memcpy(&left, as_pointer<void>(a[4]), sizeof left);
    if (left.tv_sec < 0 || left.tv_nsec < 0 || left.tv_nsec >= kSecond) return -EINVAL;
    deadline = now() + std::min<std::int64_t>(left.tv_sec, 1 << 30) * kSecond + left.tv_nsec;
  }
  long flags = a[3] & ~long{MSG_WAITFORONE};
  long got = 0;
  for (std::size_t i = 0; i < count; ++i) {
    auto* message = as_pointer<mmsghdr>(a[1]) + i;
    if (!readable(as_long(message), sizeof *message)) return got > 0 ? got : -EFAULT;
    long b[6] = {a[0], as_long(&message->msg_hdr), flags, 0, 0, 0};
    const long r = message_call(SYS_recvmsg, b, true);
    if (r < 0) return got > 0 ? got : r;
    message->msg_len = static_cast<unsigned>(r);
    ++got;
    if (a[3] & MSG_WAITFORONE) flags |= MSG_DONTWAIT;
    if (a[4] != 0) {
      const std::int64_t rest = std::max<std::int64_t>(deadline - now(), 0);
      left = {rest / kSecond, rest % kSecond};
      std::memcpy(as_pointer<void>(a[4]), &left, sizeof left);
      if (rest == 0) break;
    }
    if (message->msg_hdr.msg_flags & MSG_OOB) break;
  }
  return got;
}

long send_messages(long* a) {
  const auto count = std::min<std::size_t>(static_cast<std::uint32_t>(a[2]), kMaxVector);
  long sent = 0;
  for (std::size_t i = 0; i < count; ++i) {
    auto* message = as_pointer<mmsghdr>(a[1]) + i;
    if (!readable(as_long(message), sizeof *message)) return sent > 0 ? sent : -EFAULT;
    long b[6] = {a[0], as_long(&message->msg_hdr), a[3], 0, 0, 0};
    std::size_t total = 0;
    const long r = one_message(SYS_sendmsg, b, false, &total);
    if (r < 0) return sent > 0 ? sent : r;
    message->msg_len = static_cast<unsigned>(r);
    ++sent;
    if (static_cast<std::size_t>(r) < total) break;
  }
  return sent;
}

// process_vm_readv and process_vm_writev: the other process's memory is reached as it is now.
long process_vm_call(long number, long* a, bool write) {
  Bounce bounce;
  Vector local, remote;
  if (load_vector(a[3], static_cast<std::size_t>(a[4]), bounce, &remote)) {
    a[3] = as_long(remote.iov);
    if (a[0] == raw_syscall(SYS_getpid, 0, 0, 0, 0, 0, 0)) prefault_vector(remote, 0, !write);
  }
  if (!load_vector(a[1], static_cast<std::size_t>(a[2]), bounce, &local)) return raw(number, a);
  a[1] = as_long(local.iov);
  if (gathering(local, bounce) == nullptr) {
    prefault_vector(local, 0, write);
    return raw(number, a);
  }
  return gathered_call(number, a, local, write);
}

// The pipe refers to the pages themselves: in place.
long vmsplice_call(long* a) {
  Bounce bounce;
  Vector v;
  if (!load_vector(a[1], static_cast<std::size_t>(a[2]), bounce, &v)) return raw(SYS_vmsplice, a);
  a[1] = as_long(v.iov);
  const bool write = (raw_syscall(SYS_fcntl, a[0], F_GETFL, 0, 0, 0, 0) & O_ACCMODE) == O_RDONLY;
  Faults faults;
  long r;
  do {
    prefault_vector(v, 0, write);
    r = raw(SYS_vmsplice, a);
  } while (r == -EFAULT && v.in_space && vector_readable(v) && !faults.too_many());
  return r;
}

}  // namespace ayatori::dsm::fault
