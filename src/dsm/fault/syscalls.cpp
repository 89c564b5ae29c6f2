// SPDX-License-Identifier: Apache-2.0
// System calls given memory of the space. The kernel does not take our faults (it answers EFAULT or a short count), so a
// caught call is made from here, with buffers that the kernel can reach.
//
// Who calls it: the SIGSYS handler on the alternate stack, wrapped library functions (wrap.cpp) on any stack. Holds no
// lock, allocates nothing; touches the user view like user code does (E4 in engine.hpp).
//
// C1. Small buffers are copied to private memory of the OS thread and back, so that no call has an effect and then fails:
//     no datagram, counter or connection is lost.
// C2. Large transfers of files are made in place: pages made accessible, the call made, and while pages are taken away
//     meanwhile (EFAULT, short count) repeated from the first byte that was not moved. Files: until all or the end.
// C3. A call without memory of the space is made in place by the thread itself, through a stub in the range that dispatch
//     lets through: nothing about it differs (clone, vfork, signal masks, restarts). One stub a call site.
// C4. Calls about signals and alternate stacks are emulated where making them here or there would undo ours.
#include <fcntl.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>

#include "dsm/fault/dispatch.hpp"
#include "dsm/fault/engines.hpp"
#include "dsm/fault/signals.hpp"

extern "C" {
extern const char ayt_stubs[];
extern std::atomic<std::uint64_t> ayt_stub_targets[];  // bound once each, by compare-and-swap
}

namespace ayatori::dsm::fault {
namespace {

constexpr std::size_t kStubs = 1024, kStubBytes = 8;       // as in dispatch_x86_64.S
constexpr greg_t kCallBytes = 2;                           // of the instruction syscall
constexpr std::size_t kCopyBytes = 16 * 1024;              // up to here data is copied without asking what the file is
constexpr std::size_t kPieceBytes = std::size_t{1} << 20;  // of C2
constexpr std::size_t kMaxPath = 4096;
constexpr std::size_t kMaxVector = 1024;  // UIO_MAXIOV
constexpr int kMaxFaultsInARow = 1000;
constexpr int kAutoDisarm = static_cast<int>(1u << 31);  // SS_AUTODISARM

using Prefault = void (*)(const void* first_byte, std::size_t bytes, bool write);
constinit Prefault prefault_hook = nullptr;  // Constant after install_handlers().

// ---- the table

enum class Kind : std::uint8_t {
  kNone,
  kPath,
  kIn,
  kOut,
  kInOut,
  kInN,
  kOutN,
  kInOutN,
  kOutAt,
  kInOutAt,
  kDataIn,
  kDataOut,
  kFdSet,
  kMask,
  kWord,
  kTouch
};

struct Arg {
  Kind kind = Kind::kNone;
  std::uint8_t index = 0;   // of the argument with the length
  std::uint16_t bytes = 0;  // size, or of an element
};

struct Row {
  bool known = false;
  Arg args[6];
};

constexpr auto make_rows() {
  std::array<Row, 512> rows{};
  constexpr Arg _{}, PATH{Kind::kPath, 0, 0}, FD_SET{Kind::kFdSet, 0, 0}, MASK{Kind::kMask, 0, 8},
      WORD{Kind::kWord, 0, 4}, TOUCH{Kind::kTouch, 0, 0};
#define IN(b) (Arg{Kind::kIn, 0, b})
#define OUT(b) (Arg{Kind::kOut, 0, b})
#define IO(b) (Arg{Kind::kInOut, 0, b})
#define IN_N(u, k) (Arg{Kind::kInN, k, u})
#define OUT_N(u, k) (Arg{Kind::kOutN, k, u})
#define IO_N(u, k) (Arg{Kind::kInOutN, k, u})
#define OUT_AT(k) (Arg{Kind::kOutAt, k, 0})
#define IO_AT(k) (Arg{Kind::kInOutAt, k, 0})
#define DATA_IN(k) (Arg{Kind::kDataIn, k, 1})
#define DATA_OUT(k) (Arg{Kind::kDataOut, k, 1})
#define ROW(name, ...) rows[SYS_##name] = Row{true, {__VA_ARGS__}};
#include "dsm/fault/syscalls.def"
#undef ROW
  return rows;
}
constexpr auto kRows = make_rows();

// ---- access to memory of the program

template <class T>
T* as_pointer(long value) {
  return reinterpret_cast<T*>(value);
}
long as_long(const volatile void* pointer) { return reinterpret_cast<long>(pointer); }
bool in_space(long value) { return gas::contains(as_pointer<void>(value)); }

long raw(long number, const long* a) { return raw_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]); }

void prefault(long address, std::size_t bytes, bool write) {
  if (bytes == 0 || !in_space(address)) return;
  const std::size_t room = gas::layout().bytes - gas::offset_of(as_pointer<void>(address));
  bytes = std::min(bytes, room);
  if (prefault_hook) return prefault_hook(as_pointer<void>(address), bytes, write);
  const auto begin = static_cast<std::uintptr_t>(address);
  for (std::uintptr_t at = begin; at < begin + bytes; at = (at | (gas::kPageBytes - 1)) + 1) {
    auto* byte = reinterpret_cast<unsigned char*>(at);
    // A write that changes nothing; locked, so that no byte stored by a peer at the same time is lost.
    if (write)
      __atomic_fetch_or(byte, 0, __ATOMIC_RELAXED);
    else
      static_cast<void>(__atomic_load_n(byte, __ATOMIC_RELAXED));
  }
}

// Can the kernel read this address now? rt_sigprocmask reads its set before it looks at what to do with it.
bool kernel_reads(long address) {
  return raw_syscall(SYS_rt_sigprocmask, -1, address, 0, sizeof(std::uint64_t), 0, 0) != -EFAULT;
}
// May user code read these bytes? (Memory out of the space may be anything; the space answers by faults.)
bool readable(long address, std::size_t bytes) {
  if (in_space(address)) return true;
  return kernel_reads(address) && (bytes <= 8 || kernel_reads(address + static_cast<long>(bytes) - 8));
}

bool is_file(long fd) {
  struct stat s;
  if (raw_syscall(SYS_fstat, fd, as_long(&s), 0, 0, 0, 0) != 0) return false;
  return S_ISREG(s.st_mode) || S_ISBLK(s.st_mode);
}

// ---- private copies (C1)

// Stack-like use of the OS thread's bounce buffer.
class Bounce {
 public:
  Bounce() : at_(bounce_buffer()), end_(at_ ? at_ + kBounceBytes : nullptr) {}
  std::size_t room() const { return static_cast<std::size_t>(end_ - at_); }
  std::byte* take(std::size_t bytes) {  // null: no room
    const std::size_t rounded = (bytes + 15) & ~std::size_t{15};
    if (rounded > room()) return nullptr;
    std::byte* p = at_;
    at_ += rounded;
    return p;
  }

 private:
  std::byte* at_;
  std::byte* end_;
};

// One argument of a call that points into the space.
struct Item {
  Arg arg;
  int position = 0;
  long user = 0;  // where the program's bytes are
  std::size_t bytes = 0;
  std::byte* copy = nullptr;  // null: in place
};

bool reads_user(Kind k) { return k != Kind::kOut && k != Kind::kOutN && k != Kind::kOutAt && k != Kind::kDataOut; }
bool writes_user(Kind k) {
  return k == Kind::kOut || k == Kind::kInOut || k == Kind::kOutN || k == Kind::kInOutN || k == Kind::kOutAt ||
         k == Kind::kInOutAt || k == Kind::kDataOut || k == Kind::kFdSet || k == Kind::kWord || k == Kind::kTouch;
}

std::size_t length_of(const Arg& arg, const long* a) {
  const auto count = static_cast<std::uint64_t>(a[arg.index]);
  switch (arg.kind) {
    case Kind::kInN:
    case Kind::kOutN:
    case Kind::kInOutN: return count > (std::uint64_t{1} << 30) ? 0 : count * arg.bytes;
    case Kind::kDataIn:
    case Kind::kDataOut: return std::min<std::uint64_t>(count, 0x7ffff000);  // MAX_RW_COUNT
    case Kind::kOutAt:
    case Kind::kInOutAt: {
      std::uint32_t bytes = 0;
      if (a[arg.index] == 0 || !readable(a[arg.index], sizeof bytes)) return 0;
      std::memcpy(&bytes, as_pointer<void>(a[arg.index]), sizeof bytes);
      return bytes > (1u << 30) ? 0 : bytes;
    }
    case Kind::kFdSet: return a[0] <= 0 || a[0] > (1 << 20) ? 0 : (static_cast<std::size_t>(a[0]) + 63) / 64 * 8;
    case Kind::kTouch: {
      const std::size_t rest = gas::kPageBytes - (static_cast<std::uintptr_t>(a[arg.index]) & (gas::kPageBytes - 1));
      return rest;
    }
    default: return arg.bytes;
  }
}

// Copies a string of the user view; returns the bytes with the NUL, or `room` when it is longer.
std::size_t copy_string(std::byte* to, long from, std::size_t room) {
  const volatile char* text = as_pointer<const volatile char>(from);
  for (std::size_t i = 0; i < room; ++i) {
    const char c = text[i];
    to[i] = static_cast<std::byte>(c);
    if (c == 0) return i + 1;
  }
  return room;
}

void copy_in(Item& item, Bounce& bounce, long* a) {
  const Kind k = item.arg.kind;
  if (k == Kind::kWord || k == Kind::kTouch) return;
  if (k == Kind::kPath) {
    item.copy = bounce.take(kMaxPath + 1);  // a longer one gives ENAMETOOLONG just the same
    if (!item.copy) {
      const volatile char* text = as_pointer<const volatile char>(item.user);
      while (item.bytes < kMaxPath && text[item.bytes++] != 0) {
      }
      return;
    }
    item.copy[kMaxPath] = std::byte{0};
    copy_string(item.copy, item.user, kMaxPath);
  } else {
    const bool data = k == Kind::kDataIn || k == Kind::kDataOut;
    if (item.bytes == 0 || (data && item.bytes > kCopyBytes && (item.bytes > bounce.room() || is_file(a[0])))) return;
    item.copy = bounce.take(item.bytes);
    if (!item.copy) return;
    if (reads_user(k)) std::memcpy(item.copy, as_pointer<void>(item.user), item.bytes);
    if (k == Kind::kMask) {
      std::uint64_t mask;
      std::memcpy(&mask, item.copy, sizeof mask);
      mask = without_ours(mask);
      std::memcpy(item.copy, &mask, sizeof mask);
    }
  }
  a[item.position] = as_long(item.copy);
}

void copy_out(const Item& item, const long* a, long result) {
  const Kind k = item.arg.kind;
  if (!item.copy || !writes_user(k)) return;
  if (result < 0 && !(result == -EINTR && k == Kind::kInOut)) return;  // the rest of a sleep
  std::size_t bytes = item.bytes;
  if (k == Kind::kOutN || k == Kind::kDataOut)
    bytes = std::min(bytes, static_cast<std::size_t>(result) * item.arg.bytes);
  if (k == Kind::kOutAt) {
    std::uint32_t got = 0;
    std::memcpy(&got, as_pointer<void>(a[item.arg.index]), sizeof got);
    bytes = std::min<std::size_t>(bytes, got);
  }
  std::memcpy(as_pointer<void>(item.user), item.copy, bytes);
}

// ---- data in place (C2)

// Was a short count the work of a page that went away? Looks at the first byte that was not moved.
bool stopped_by_fault(long address) { return !kernel_reads(address & ~7L) || !kernel_reads((address & ~7L) + 64); }

struct Faults {
  int in_a_row = 0;
  bool too_many() {  // a page that somebody takes as fast as we bring it: let others run first
    if (++in_a_row > 4) sched_yield();
    return in_a_row > kMaxFaultsInARow;
  }
};

long transfer_in_place(long number, long* a, const Item& item) {
  const std::size_t bytes = item.bytes;
  const bool write = item.arg.kind == Kind::kDataOut;
  const bool file = is_file(a[0]);
  const bool positioned = number == SYS_pread64 || number == SYS_pwrite64;
  const long offset = a[3];
  std::size_t done = 0;
  Faults faults;
  for (;;) {
    const std::size_t piece = std::min(bytes - done, kPieceBytes);
    a[1] = item.user + static_cast<long>(done);
    a[2] = static_cast<long>(file ? piece : bytes - done);
    if (positioned) a[3] = offset + static_cast<long>(done);
    prefault(a[1], piece, write);
    const long r = raw(number, a);
    if (r == -EFAULT && !faults.too_many()) continue;
    if (r <= 0) return done > 0 ? static_cast<long>(done) : r;
    faults.in_a_row = 0;
    done += static_cast<std::size_t>(r);
    if (done >= bytes || (!file && !stopped_by_fault(item.user + static_cast<long>(done))))
      return static_cast<long>(done);
  }
}

// ---- vectors of buffers

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
    std::memcpy(to, v.iov[i].iov_base, v.iov[i].iov_len);
    to += v.iov[i].iov_len;
  }
}
void scatter(const Vector& v, std::size_t bytes) {
  const std::byte* from = v.gathered;
  for (std::size_t i = 0; i < v.count && bytes > 0; ++i) {
    const std::size_t n = std::min(bytes, v.iov[i].iov_len);
    std::memcpy(v.iov[i].iov_base, from, n);
    from += n;
    bytes -= n;
  }
}

void prefault_vector(const Vector& v, std::size_t from, bool write) {
  std::size_t left = kPieceBytes;
  for (std::size_t i = from; i < v.count && left > 0; ++i) {
    const std::size_t n = std::min(left, v.iov[i].iov_len);
    prefault(as_long(v.iov[i].iov_base), n, write);
    left -= n;
  }
}

// readv and its kin. a[1], a[2]: the vector.
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
    if (v.gathered) {
      if (!write) gather(v);
      iovec whole{v.gathered, v.bytes};
      a[1] = as_long(&whole);
      a[2] = 1;
      const long r = raw(number, a);
      if (r > 0 && write) scatter(v, static_cast<std::size_t>(r));
      return r;
    }
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
    if (r == -EFAULT && !faults.too_many()) continue;
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

long message_call(long number, long* a, bool write) {
  Bounce bounce;
  if (!readable(a[1], sizeof(msghdr))) return raw(number, a);
  auto* user = as_pointer<msghdr>(a[1]);
  msghdr m;
  std::memcpy(&m, user, sizeof m);
  const msghdr before = m;
  Vector v;
  std::byte* name = nullptr;
  std::byte* control = nullptr;
  if (m.msg_name && gas::contains(m.msg_name) && (name = bounce.take(m.msg_namelen)) != nullptr) {
    if (!write) std::memcpy(name, m.msg_name, m.msg_namelen);
    m.msg_name = name;
  }
  if (m.msg_control && gas::contains(m.msg_control) && (control = bounce.take(m.msg_controllen)) != nullptr) {
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
  a[1] = as_long(&m);
  Faults faults;
  long r;
  do {
    if (v.in_space && !v.gathered) prefault_vector(v, 0, write);
    r = raw(number, a);
  } while (r == -EFAULT && v.in_space && !v.gathered && !faults.too_many());
  if (r < 0 || !write) return r;
  if (v.gathered) scatter(v, std::min<std::size_t>(static_cast<std::size_t>(r), v.bytes));
  if (name) std::memcpy(before.msg_name, name, std::min(before.msg_namelen, m.msg_namelen));
  if (control) std::memcpy(before.msg_control, control, std::min(before.msg_controllen, m.msg_controllen));
  user->msg_namelen = m.msg_namelen;
  user->msg_controllen = m.msg_controllen;
  user->msg_flags = m.msg_flags;
  return r;
}

// pselect6's last argument is a pointer to {mask, bytes}.
struct SelectMask {
  std::uint64_t* mask;
  std::size_t bytes;
};

long generic_call(long number, long* a);

long pselect_call(long* a) {
  SelectMask wish{};
  std::uint64_t mask = 0;
  if (a[5] != 0 && readable(a[5], sizeof wish)) {
    std::memcpy(&wish, as_pointer<void>(a[5]), sizeof wish);
    if (wish.mask && readable(as_long(wish.mask), sizeof mask)) {
      mask = without_ours(*wish.mask);
      wish.mask = &mask;
    }
    a[5] = as_long(&wish);
  }
  return generic_call(SYS_pselect6, a);
}

// Private copies of a null-terminated array of strings; null: as it was.
long copy_strings(long address, Bounce& bounce) {
  if (address == 0 || !readable(address, sizeof(char*))) return address;
  const auto* from = as_pointer<char* const>(address);
  std::size_t count = 0;
  while (from[count]) ++count;
  auto** to = reinterpret_cast<char**>(bounce.take((count + 1) * sizeof(char*)));
  if (!to) return address;
  for (std::size_t i = 0; i < count; ++i) {
    to[i] = from[i];
    if (!gas::contains(from[i])) continue;
    const std::size_t room = bounce.room() & ~std::size_t{15};
    std::byte* copy = bounce.take(0);
    const std::size_t bytes = copy ? copy_string(copy, as_long(from[i]), room) : room;
    if (bytes >= room) continue;  // in place: its page is accessible now
    bounce.take(bytes);
    to[i] = reinterpret_cast<char*>(copy);
  }
  to[count] = nullptr;
  return as_long(to);
}

long exec_call(long number, long* a) {
  Bounce bounce;
  const int path = number == SYS_execveat ? 1 : 0;
  if (in_space(a[path])) {
    Item item{{Kind::kPath, 0, 0}, path, a[path], 0, nullptr};
    copy_in(item, bounce, a);
  }
  a[path + 1] = copy_strings(a[path + 1], bounce);
  a[path + 2] = copy_strings(a[path + 2], bounce);
  return raw(number, a);
}

// ---- any call by its row

long generic_call(long number, long* a) {
  static constexpr Row kUnknown{false,
                                {{Kind::kTouch, 0, 0},
                                 {Kind::kTouch, 1, 0},
                                 {Kind::kTouch, 2, 0},
                                 {Kind::kTouch, 3, 0},
                                 {Kind::kTouch, 4, 0},
                                 {Kind::kTouch, 5, 0}}};
  const bool tabled = number >= 0 && static_cast<std::size_t>(number) < kRows.size();
  const Row& row =
      tabled && kRows[static_cast<std::size_t>(number)].known ? kRows[static_cast<std::size_t>(number)] : kUnknown;
  Bounce bounce;
  Item items[6];
  int count = 0;
  const Item* data = nullptr;  // to be moved in place
  bool in_place = false;
  for (int i = 0; i < 6; ++i) {
    Arg arg = row.args[i];
    if (arg.kind == Kind::kTouch) arg.index = static_cast<std::uint8_t>(i);
    if (arg.kind == Kind::kNone || (!in_space(a[i]) && arg.kind != Kind::kMask)) continue;
    if (arg.kind == Kind::kMask && (a[i] == 0 || !readable(a[i], 8))) continue;
    Item& item = items[count++];
    item = {arg, i, a[i], length_of(arg, a), nullptr};
    copy_in(item, bounce, a);
    if (item.copy || item.bytes == 0) continue;
    if (arg.kind == Kind::kDataIn || arg.kind == Kind::kDataOut)
      data = &item;
    else
      in_place = true;
  }
  long r;
  if (data) {
    r = transfer_in_place(number, a, *data);
  } else {
    Faults faults;
    do {
      for (int i = 0; in_place && i < count; ++i)
        if (!items[i].copy) prefault(items[i].user, items[i].bytes, writes_user(items[i].arg.kind));
      r = raw(number, a);
    } while (r == -EFAULT && in_place && !faults.too_many());
  }
  // Backwards: a length (IO) is stored after the bytes that it counts were copied (OUT_AT).
  for (int i = 0; i < count; ++i) copy_out(items[i], a, r);
  return r;
}

// Is there anything for us to do?
bool concerns_space(long number, const long* a) {
  switch (number) {
    case SYS_readv:
    case SYS_writev:
    case SYS_preadv:
    case SYS_pwritev:
    case SYS_preadv2:
    case SYS_pwritev2:
    case SYS_recvmsg:
    case SYS_sendmsg:
    case SYS_pselect6:
    case SYS_execve:
    case SYS_execveat:
    case SYS_rt_sigsuspend:
    case SYS_ppoll:
    case SYS_epoll_pwait:
    case SYS_epoll_pwait2: return true;
    default: break;
  }
  bool any = false;
  for (int i = 0; i < 6; ++i) any = any || in_space(a[i]);
  if (!any || number < 0 || static_cast<std::size_t>(number) >= kRows.size()) return any;
  const Row& row = kRows[static_cast<std::size_t>(number)];
  if (!row.known) return true;
  for (int i = 0; i < 6; ++i)
    if (row.args[i].kind != Kind::kNone && in_space(a[i])) return true;
  return false;
}

// ---- calls about signals (C4)

void change_mask(ucontext_t* context, long* a, long* result) {
  std::uint64_t mask;
  std::memcpy(&mask, &context->uc_sigmask, sizeof mask);
  const std::uint64_t old = mask;
  *result = 0;
  if (a[1] != 0) {
    std::uint64_t set;
    if (!readable(a[1], sizeof set)) {
      *result = -EFAULT;
      return;
    }
    std::memcpy(&set, as_pointer<void>(a[1]), sizeof set);
    switch (a[0]) {
      case SIG_BLOCK: mask |= set; break;
      case SIG_UNBLOCK: mask &= ~set; break;
      case SIG_SETMASK: mask = set; break;
      default: *result = -EINVAL; return;
    }
    mask = without_ours(mask);
    std::memcpy(&context->uc_sigmask, &mask, sizeof mask);  // in force when the handler returns
  }
  if (a[2] != 0) std::memcpy(as_pointer<void>(a[2]), &old, sizeof old);
}

const char* stub_for(std::uint64_t site) {
  std::size_t at = (site * 0x9E3779B97F4A7C15u) >> 54;
  for (std::size_t i = 0; i < kStubs; ++i, at = (at + 1) % kStubs) {
    std::uint64_t target = ayt_stub_targets[at].load(std::memory_order_relaxed);  // a word that never changes again
    if (target == 0 && ayt_stub_targets[at].compare_exchange_strong(target, site, std::memory_order_relaxed))
      target = site;
    if (target == site) return ayt_stubs + at * kStubBytes;
  }
  return nullptr;
}

}  // namespace

void set_prefault(Prefault prefault_pages) noexcept { prefault_hook = prefault_pages; }

long change_altstack(const stack_t* set, stack_t* old) {
  stack_t& wish = program_altstack();
  const stack_t before = wish;
  if (set) {
    if (!readable(as_long(set), sizeof *set)) return -EFAULT;
    const stack_t copy = *set;
    if (copy.ss_flags & ~(SS_DISABLE | SS_ONSTACK | kAutoDisarm)) return -EINVAL;
    wish = copy;
  }
  if (old) *old = before;
  return 0;
}

void prefault_range(const void* first_byte, std::size_t bytes, bool write) {
  prefault(as_long(first_byte), bytes, write);
}

long guarded_call(long number, long* a) {
  switch (number) {
    case SYS_readv: return vector_call(number, a, true, false);
    case SYS_writev: return vector_call(number, a, false, false);
    case SYS_preadv:
    case SYS_preadv2: return vector_call(number, a, true, true);
    case SYS_pwritev:
    case SYS_pwritev2: return vector_call(number, a, false, true);
    case SYS_recvmsg: return message_call(number, a, true);
    case SYS_sendmsg: return message_call(number, a, false);
    case SYS_pselect6: return pselect_call(a);
    case SYS_execve:
    case SYS_execveat: return exec_call(number, a);
    default: return generic_call(number, a);
  }
}

bool catch_syscall(ucontext_t* context) {
  auto* r = context->uc_mcontext.gregs;
  const long number = static_cast<long>(r[REG_RAX]);
  long a[6] = {static_cast<long>(r[REG_RDI]), static_cast<long>(r[REG_RSI]), static_cast<long>(r[REG_RDX]),
               static_cast<long>(r[REG_R10]), static_cast<long>(r[REG_R8]),  static_cast<long>(r[REG_R9])};
  long result = 0;
  switch (number) {
    case SYS_rt_sigreturn:  // by a restorer that is not ours: its frame is good for ours too
      r[REG_RIP] = as_long(reinterpret_cast<void*>(ayt_restorer));
      return true;
    case SYS_rt_sigprocmask:
      if (a[3] != sizeof(std::uint64_t)) break;
      change_mask(context, a, &result);
      r[REG_RAX] = result;
      return true;
    case SYS_rt_sigaction: {
      if (a[3] != sizeof(std::uint64_t)) break;
      KernelAction set, old;
      if (a[1] != 0) {
        if (!readable(a[1], sizeof set)) {
          r[REG_RAX] = -EFAULT;
          return true;
        }
        std::memcpy(&set, as_pointer<void>(a[1]), sizeof set);
      }
      result = program_action(static_cast<int>(a[0]), a[1] != 0 ? &set : nullptr, &old);
      if (result == 0 && a[2] != 0) std::memcpy(as_pointer<void>(a[2]), &old, sizeof old);
      r[REG_RAX] = result;
      return true;
    }
    case SYS_clone3: {  // C3; its arguments may lie in the space, the thread starts behind the call
      Bounce bounce;
      const auto bytes = static_cast<std::size_t>(a[1]);
      std::byte* copy = in_space(a[0]) && bytes <= gas::kPageBytes ? bounce.take(bytes) : nullptr;
      if (copy) {
        std::memcpy(copy, as_pointer<void>(a[0]), bytes);
        r[REG_RDI] = as_long(copy);
      }
      break;
    }
    case SYS_sigaltstack:
      r[REG_RAX] = change_altstack(as_pointer<const stack_t>(a[0]), as_pointer<stack_t>(a[1]));
      return true;
    default: break;
  }
  if (concerns_space(number, a)) {
    r[REG_RAX] = guarded_call(number, a);
    return true;
  }
  // C3. RIP lies behind the call instruction, where the stub goes on.
  if (const char* stub = stub_for(static_cast<std::uint64_t>(r[REG_RIP]))) {
    r[REG_RIP] = as_long(stub);
    return true;
  }
  r[REG_RIP] -= kCallBytes;  // more call sites than stubs: once more, uncaught
  return false;
}

}  // namespace ayatori::dsm::fault
