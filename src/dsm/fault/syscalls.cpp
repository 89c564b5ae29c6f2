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
// C5. Addresses of the space where nothing is allocated, and guards, give EFAULT as other bad addresses do: before the call
//     has an effect where the first byte is one.
#include <net/if.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>

#include "dsm/fault/signals.hpp"
#include "dsm/fault/syscall_table.hpp"
#include "dsm/fault/user_memory.hpp"

namespace ayatori::dsm::fault {
namespace {

constexpr std::size_t kMaxPath = 4096;

using Prefault = void (*)(const void* first_byte, std::size_t bytes, bool write);
using IsGuard = bool (*)(const void* address);
// Constant after install_handlers().
constinit Prefault prefault_hook = nullptr;
constinit IsGuard guard_hook = nullptr;

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

// Copies a string of the user view; returns the bytes with the NUL, `room` when it is longer, or 0 when it is no memory.
std::size_t copy_string(std::byte* to, long from, std::size_t room) {
  const volatile char* text = as_pointer<const volatile char>(from);
  for (std::size_t i = 0; i < room; ++i) {
    if ((i == 0 || ((from + static_cast<long>(i)) & (gas::kPageBytes - 1)) == 0) &&
        !readable(from + static_cast<long>(i), 1))
      return 0;
    const char c = text[i];
    to[i] = static_cast<std::byte>(c);
    if (c == 0) return i + 1;
  }
  return room;
}

// False: what the call needs is no memory (C5).
bool copy_in(Item& item, Bounce& bounce, long* a) {
  const Kind k = item.arg.kind;
  if (k == Kind::kWord || k == Kind::kTouch) return true;
  if (k == Kind::kPath) {
    item.copy = bounce.take(kMaxPath + 1);  // a longer one gives ENAMETOOLONG just the same
    if (!item.copy) {
      const volatile char* text = as_pointer<const volatile char>(item.user);
      if (!readable(item.user, 1)) return false;
      while (item.bytes < kMaxPath && text[item.bytes++] != 0) {
      }
      return true;
    }
    item.copy[kMaxPath] = std::byte{0};
    if (copy_string(item.copy, item.user, kMaxPath) == 0) return false;
  } else {
    const bool data = k == Kind::kDataIn || k == Kind::kDataOut;
    if (item.bytes == 0) return true;
    if (usable(item.user, item.bytes) < (reads_user(k) && !data ? item.bytes : 1)) return false;
    if (data && item.bytes > kCopyBytes && (item.bytes > bounce.room() || is_file(a[0]))) return true;
    if (reads_user(k) && !readable(item.user, item.bytes)) return true;  // in place: the kernel says how far it comes
    item.copy = bounce.take(item.bytes);
    if (!item.copy) return true;
    if (reads_user(k)) std::memcpy(item.copy, as_pointer<void>(item.user), item.bytes);
    if (k == Kind::kMask) {
      std::uint64_t mask;
      std::memcpy(&mask, item.copy, sizeof mask);
      mask = without_ours(mask);
      std::memcpy(item.copy, &mask, sizeof mask);
    }
  }
  a[item.position] = as_long(item.copy);
  return true;
}

// False: not all of it went to memory (C5).
bool copy_out(const Item& item, const long* a, long result) {
  const Kind k = item.arg.kind;
  if (!item.copy || !writes_user(k)) return true;
  if (result < 0 && !(result == -EINTR && k == Kind::kInOut)) return true;  // the rest of a sleep
  std::size_t bytes = item.bytes;
  if (k == Kind::kOutN || k == Kind::kDataOut)
    bytes = std::min(bytes, static_cast<std::size_t>(result) * item.arg.bytes);
  if (k == Kind::kOutAt) {
    std::uint32_t got = 0;
    std::memcpy(&got, as_pointer<void>(a[item.arg.index]), sizeof got);
    bytes = std::min<std::size_t>(bytes, got);
  }
  const std::size_t room = usable(item.user, bytes);
  std::memcpy(as_pointer<void>(item.user), item.copy, room);
  return room == bytes;
}

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
    if (r == -EFAULT && readable(a[1], 1) && !faults.too_many()) continue;
    if (r <= 0) return done > 0 ? static_cast<long>(done) : r;
    faults.in_a_row = 0;
    done += static_cast<std::size_t>(r);
    if (done >= bytes || (!file && !stopped_by_fault(item.user + static_cast<long>(done))))
      return static_cast<long>(done);
  }
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
    if (bytes == 0 || bytes >= room) continue;  // in place: its page is accessible now
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
    if (!copy_in(item, bounce, a)) return -EFAULT;
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
  const bool tabled = number >= 0 && static_cast<std::size_t>(number) < kSyscallRows.size();
  const Row& row = tabled && kSyscallRows[static_cast<std::size_t>(number)].known
                       ? kSyscallRows[static_cast<std::size_t>(number)]
                       : kUnknown;
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
    if (!copy_in(item, bounce, a)) return -EFAULT;
    if (item.copy || item.bytes == 0) continue;
    if (arg.kind == Kind::kDataIn || arg.kind == Kind::kDataOut)
      data = &item;
    else
      in_place = in_place || readable(item.user, 1);
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
  bool all = true;
  for (int i = 0; i < count; ++i) all = copy_out(items[i], a, r) && all;
  return all ? r : -EFAULT;
}

// The interfaces' addresses go to memory that the structure points to.
long interfaces_call(long* a) {
  ifconf wish{};
  if (!readable(a[2], sizeof wish)) return -EFAULT;
  std::memcpy(&wish, as_pointer<void>(a[2]), sizeof wish);
  char* const to = wish.ifc_buf;
  Bounce bounce;
  std::byte* copy = in_space(as_long(to)) && wish.ifc_len > 0 && readable(as_long(to), 1)
                        ? bounce.take(static_cast<std::size_t>(wish.ifc_len))
                        : nullptr;
  if (copy) wish.ifc_buf = reinterpret_cast<char*>(copy);
  const long user = a[2];
  a[2] = as_long(&wish);
  const long r = raw(SYS_ioctl, a);
  if (r < 0) return r;
  if (copy) {
    const auto bytes = static_cast<std::size_t>(wish.ifc_len);
    if (!readable(as_long(to), bytes)) return -EFAULT;
    std::memcpy(to, copy, bytes);
  }
  wish.ifc_buf = to;
  std::memcpy(as_pointer<void>(user), &wish, sizeof wish);
  return r;
}

}  // namespace

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
    case SYS_recvmmsg:
    case SYS_sendmmsg:
    case SYS_process_vm_readv:
    case SYS_process_vm_writev:
    case SYS_vmsplice:
    case SYS_pselect6:
    case SYS_execve:
    case SYS_execveat:
    case SYS_rt_sigsuspend:
    case SYS_ppoll:
    case SYS_epoll_pwait:
    case SYS_epoll_pwait2: return true;
    case SYS_ioctl:
      if (a[1] == SIOCGIFCONF) return true;
      break;
    default: break;
  }
  bool any = false;
  for (int i = 0; i < 6; ++i) any = any || in_space(a[i]);
  if (!any || number < 0 || static_cast<std::size_t>(number) >= kSyscallRows.size()) return any;
  const Row& row = kSyscallRows[static_cast<std::size_t>(number)];
  if (!row.known) return true;
  for (int i = 0; i < 6; ++i)
    if (row.args[i].kind != Kind::kNone && in_space(a[i])) return true;
  return false;
}

void set_prefault(Prefault prefault_pages, IsGuard is_guard) noexcept {
  prefault_hook = prefault_pages;
  guard_hook = is_guard;
}

std::size_t usable(long address, std::size_t bytes) {
  std::size_t at = 0;
  while (at < bytes) {
    const auto* here = as_pointer<const std::byte>(address + static_cast<long>(at));
    if (!gas::contains(here) || guard_hook(here)) return at;
    const gas::PageIndex page = gas::page_of(here);
    // Unknown here is not unknown everywhere.
    if (gas::apart() && gas::owner_of(page) == gas::kNobody && prefault_hook) prefault_hook(here, 1, false);
    if (gas::owner_of(page) == gas::kNobody) return at;
    at += gas::owner_run(page) * gas::kPageBytes - (gas::offset_of(here) & (gas::kPageBytes - 1));
  }
  return bytes;
}

void prefault_range(const void* first_byte, std::size_t bytes, bool write) {
  const long address = as_long(first_byte);
  if (bytes == 0 || !in_space(address)) return;
  bytes = usable(address, bytes);
  if (bytes == 0) return;
  if (prefault_hook) return prefault_hook(as_pointer<void>(address), bytes, write);
  const auto begin = static_cast<std::uintptr_t>(address);
  for (std::uintptr_t at = begin; at < begin + bytes; at = (at | (gas::kPageBytes - 1)) + 1) {
    auto* byte = reinterpret_cast<volatile unsigned char*>(at);
    // A write that changes nothing; locked, so that no byte stored by a peer at the same time is lost, and in assembly,
    // because compilers may turn an atomic operation without effect into a load.
    if (write)
      asm volatile("lock orb $0, %0" : "+m"(*byte));
    else
      static_cast<void>(*byte);
  }
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
    case SYS_recvmmsg: return receive_messages(a);
    case SYS_sendmmsg: return send_messages(a);
    case SYS_process_vm_readv: return process_vm_call(number, a, true);
    case SYS_process_vm_writev: return process_vm_call(number, a, false);
    case SYS_vmsplice: return vmsplice_call(a);
    case SYS_ioctl: return a[1] == SIOCGIFCONF ? interfaces_call(a) : generic_call(number, a);
    case SYS_pselect6: return pselect_call(a);
    case SYS_execve:
    case SYS_execveat: return exec_call(number, a);
    default: return generic_call(number, a);
  }
}

}  // namespace ayatori::dsm::fault
