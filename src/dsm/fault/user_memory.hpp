// SPDX-License-Identifier: Apache-2.0
// Access to the program's memory for caught system calls: in the space by ordinary loads and stores that may fault, outside
// after asking the kernel whether it is memory at all. Rules: syscalls.cpp.
#pragma once

#include <sched.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>

#include "dsm/fault/dispatch.hpp"
#include "gas/space.hpp"

namespace ayatori::dsm::fault {

inline constexpr std::size_t kCopyBytes = 16 * 1024;  // up to here data is copied without asking what the file is
// Of transfers in place; a small part of AYATORI_CACHE_LIMIT.
inline constexpr std::size_t kPieceBytes = std::size_t{1} << 18;
inline constexpr int kMaxFaultsInARow = 1000;

template <class T>
T* as_pointer(long value) {
  return reinterpret_cast<T*>(value);
}
inline long as_long(const volatile void* pointer) { return reinterpret_cast<long>(pointer); }
inline bool in_space(long value) { return gas::contains(as_pointer<void>(value)); }

inline long raw(long number, const long* a) { return raw_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]); }

// Can the kernel read this address now? rt_sigprocmask reads its set before it looks at what to do with it.
inline bool kernel_reads(long address) {
  return raw_syscall(SYS_rt_sigprocmask, -1, address, 0, sizeof(std::uint64_t), 0, 0) != -EFAULT;
}
// How many of the bytes at an address of the space are memory: allocated, and no guard (syscalls.cpp).
std::size_t usable(long address, std::size_t bytes);
// May user code read these bytes? (Memory out of the space may be anything; the space answers by faults.)
inline bool readable(long address, std::size_t bytes) {
  if (in_space(address)) return usable(address, bytes) == bytes;
  return kernel_reads(address) && (bytes <= 8 || kernel_reads(address + static_cast<long>(bytes) - 8));
}
// Was a short count the work of a page that went away? Looks at the first byte that was not moved.
inline bool stopped_by_fault(long address) {
  return !kernel_reads(address & ~7L) || !kernel_reads((address & ~7L) + 64);
}

inline bool is_file(long fd) {
  struct stat s;
  if (raw_syscall(SYS_fstat, fd, as_long(&s), 0, 0, 0, 0) != 0) return false;
  return S_ISREG(s.st_mode) || S_ISBLK(s.st_mode);
}

inline void prefault(long address, std::size_t bytes, bool write) {
  prefault_range(as_pointer<void>(address), bytes, write);
}

// Counts tries that failed because a page was taken away again.
struct Faults {
  int in_a_row = 0;
  bool too_many() {
    if (++in_a_row > 4) sched_yield();  // somebody takes it as fast as we bring it: let others run first
    return in_a_row > kMaxFaultsInARow;
  }
};

// Stack-like use of the OS thread's private memory.
class Bounce {
 public:
  Bounce() : at_(bounce_buffer()), end_(at_ ? at_ + kBounceBytes : nullptr) {}
  std::size_t room() const { return static_cast<std::size_t>(end_ - at_); }
  std::byte* take(std::size_t bytes) {  // null: no room
    const std::size_t rounded = (bytes + 15) & ~std::size_t{15};
    if (!at_ || rounded < bytes || rounded > room()) return nullptr;
    std::byte* p = at_;
    at_ += rounded;
    return p;
  }

 private:
  std::byte* at_;
  std::byte* end_;
};

// vector_calls.cpp: readv, recvmsg and their kin. a[1], a[2]: the vector; a[1]: the message or messages. `write`: the
// kernel writes.
long vector_call(long number, long* a, bool write, bool positioned);
long message_call(long number, long* a, bool write);
long receive_messages(long* a);
long send_messages(long* a);
long process_vm_call(long number, long* a, bool write);
long vmsplice_call(long* a);

// syscalls.cpp: is there anything to do about this call?
bool concerns_space(long number, const long* a);

}  // namespace ayatori::dsm::fault
