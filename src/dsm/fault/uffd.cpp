// SPDX-License-Identifier: Apache-2.0
// The uffd engine: the user view is registered with a userfaultfd that answers faults by SIGBUS, so that protection
// lives in page tables and never splits a mapping. Called by the coherence core under the process lock (engine.hpp).
//
// U1. A page is mapped by UFFDIO_CONTINUE, from the page cache of the memfd. Where that does not hold the page yet, it is
//     made by UFFDIO_ZEROPAGE if it is to be writable, which maps it in the user view alone (no page table of the system
//     view) and fails where a peer has made it meanwhile; else by populate(), which READS the system view. (A
//     read-modify-write would lose a peer's concurrent merge, P8.) What was fetched is there already, so CONTINUE is first
//     but for fresh pages.
// U2. Read-only pages are mapped with the write-protect bit, their first write is a SIGBUS like a miss.
// U3. zap leaves write-protect markers behind; CONTINUE overrides them.
// U4. With one process nothing is registered but, where the kernel lacks lightweight guards, the stacks (WP only).
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/check.hpp"
#include "base/format.hpp"
#include "base/shared_lock.hpp"
#include "dsm/fault/engines.hpp"

// Newer than the kernel headers of Debian 12.
#ifndef UFFDIO_CONTINUE_MODE_WP
#define UFFDIO_CONTINUE_MODE_WP (static_cast<__u64>(1) << 1)
#endif
#ifndef MADV_DONTNEED_LOCKED
#define MADV_DONTNEED_LOCKED 24
#endif
#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

namespace ayatori::dsm::fault {
namespace {

constexpr int kMaxHoles = 1000;  // in one call

struct UffdState {
  int fd = -1;                 // Constant after start_uffd().
  bool marker_guards = false;  // Constant after start_uffd(): one process, guards are write-protect markers.
};
constinit UffdState uffd;

// U1. A single page is read by the CPU (a few ns when mapped), a range populated by one call.
void populate(gas::PageIndex first, std::size_t pages) {
  std::byte* system = gas::page_in(gas::layout().self, first);
  if (pages <= 2) {
    for (std::size_t i = 0; i < pages; ++i)
      static_cast<void>(*reinterpret_cast<volatile unsigned char*>(system + bytes_of(i)));
    return;
  }
  base::Backoff backoff;
  while (madvise(system, bytes_of(pages), MADV_POPULATE_READ) != 0) {
    if (errno == EINVAL) {  // Linux before 5.14
      for (std::size_t i = 0; i < pages; ++i) populate(static_cast<gas::PageIndex>(first + i), 1);
      return;
    }
    AYT_CHECK(errno == EINTR || errno == EAGAIN, "cannot back {} pages of the space: {}", pages, std::strerror(errno));
    backoff.wait();
  }
}

// Makes memory for the first pages of [at, end) that have none, and maps them writable. Returns how many bytes; 0: the first
// has memory, or will have it by other means.
__u64 zero_range(__u64 at, __u64 end) {
  uffdio_zeropage arg{};
  arg.range = {at, end - at};
  if (ioctl(uffd.fd, UFFDIO_ZEROPAGE, &arg) == 0) return end - at;
  return arg.zeropage > 0 ? static_cast<__u64>(arg.zeropage) : 0;
}

// Maps what is not mapped yet. Returns whether some page already was.
bool continue_range(gas::PageIndex first, std::size_t pages, __u64 mode) {
  bool met_mapped = false;
  int holes = 0;
  __u64 at = address_of(first);
  const __u64 end = at + bytes_of(pages);
  base::Backoff backoff;
  while (at < end) {
    uffdio_continue arg{};
    arg.range = {at, end - at};
    arg.mode = mode;
    if (ioctl(uffd.fd, UFFDIO_CONTINUE, &arg) == 0) break;
    if (arg.mapped > 0) {  // the first pages are done, the next one is not
      at += static_cast<__u64>(arg.mapped);
      continue;
    }
    switch (errno) {
      case EEXIST:
        met_mapped = true;
        at += gas::kPageBytes;
        break;
      case EFAULT: {  // a page that has no memory; the second time: somebody gave it back meanwhile
        if (mode == 0) {
          const __u64 made = zero_range(at, end);
          at += made;
          if (made != 0) break;
        }
        AYT_CHECK(++holes < kMaxHoles, "cannot back the page at {:#x}", at);
        const auto page = gas::page_of(reinterpret_cast<void*>(at));
        populate(page, holes == 1 ? (end - at) / gas::kPageBytes : 1);
        if (holes > 1) backoff.wait();
        break;
      }
      case EAGAIN:
      case EINTR: backoff.wait(); break;
      default: base::fatal("UFFDIO_CONTINUE at {:#x} + {}: {}", at, end - at, std::strerror(errno));
    }
  }
  return met_mapped;
}

void write_protect(gas::PageIndex first, std::size_t pages, bool on) {
  uffdio_writeprotect arg{};
  arg.range = {address_of(first), bytes_of(pages)};
  arg.mode = on ? UFFDIO_WRITEPROTECT_MODE_WP : 0;
  base::Backoff backoff;
  while (ioctl(uffd.fd, UFFDIO_WRITEPROTECT, &arg) != 0) {
    AYT_CHECK(errno == EAGAIN || errno == EINTR, "UFFDIO_WRITEPROTECT of {} pages: {}", pages, std::strerror(errno));
    backoff.wait();
  }
}

void map_read(gas::PageIndex first, std::size_t pages) {
  if (pages == 0) return;
  continue_range(first, pages, UFFDIO_CONTINUE_MODE_WP);
}

// A failed CONTINUE of one mapped page costs 0.3 us, less than asking what is mapped.
void map_write(gas::PageIndex first, std::size_t pages) {
  if (pages == 0) return;
  if (continue_range(first, pages, 0)) write_protect(first, pages, false);
}

void map_fresh(gas::PageIndex first, std::size_t pages) {
  const __u64 at = address_of(first);
  const auto made = static_cast<std::size_t>(zero_range(at, at + bytes_of(pages)) / gas::kPageBytes);
  map_write(first + static_cast<gas::PageIndex>(made), pages - made);
}

void zap(gas::PageIndex first, std::size_t pages) {
  if (pages == 0) return;
  if (madvise(pointer_to(first), bytes_of(pages), MADV_DONTNEED) == 0) return;
  const bool locked = errno == EINVAL;  // the program called mlockall()
  AYT_CHECK(locked && madvise(pointer_to(first), bytes_of(pages), MADV_DONTNEED_LOCKED) == 0,
            "cannot unmap {} pages: {}", pages, std::strerror(errno));
}

void no_guard(gas::PageIndex, std::size_t, std::size_t) {}  // registered MISSING and never mapped
bool no_pressure() noexcept { return false; }

void nothing(gas::PageIndex, std::size_t) {}
void guard_alone(gas::PageIndex slot_first, std::size_t guard_pages, std::size_t) {
  if (uffd.marker_guards)
    write_protect(slot_first, guard_pages, true);
  else
    light_guard(slot_first, guard_pages);
}

constexpr Engine kShared{"uffd", map_read, map_write, map_fresh, zap, no_guard, no_pressure};
constexpr Engine kAlone{"uffd", nothing, nothing, nothing, nothing, guard_alone, no_pressure};

int open_uffd() {
  int fd = static_cast<int>(syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY));
  if (fd < 0 && errno == EINVAL)  // Linux before 5.11
    fd = static_cast<int>(syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK));
  return fd;
}

}  // namespace

const Engine* start_uffd(int processes, std::string* refusal) {
  const int fd = open_uffd();
  if (fd < 0) {
    *refusal = fmt::format("userfaultfd: {}", std::strerror(errno));
    return nullptr;
  }
  uffdio_api api{};
  api.api = UFFD_API;
  api.features = UFFD_FEATURE_SIGBUS | UFFD_FEATURE_MISSING_SHMEM | UFFD_FEATURE_MINOR_SHMEM |
                 UFFD_FEATURE_WP_HUGETLBFS_SHMEM | UFFD_FEATURE_EXACT_ADDRESS;
  if (ioctl(fd, UFFDIO_API, &api) != 0) {
    *refusal = fmt::format("userfaultfd lacks features (Linux 5.19 has them): {}", std::strerror(errno));
    close(fd);
    return nullptr;
  }
  uffd.fd = fd;
  const bool alone = processes == 1;
  if (alone && light_guards_work()) {
    close(fd);
    uffd.fd = -1;
    return &kAlone;
  }
  uffdio_register reg{};
  reg.range.start = gas::layout().base;
  reg.range.len = alone ? bytes_of(gas::layout().stack_end) : gas::layout().bytes;
  reg.mode = UFFDIO_REGISTER_MODE_WP;
  if (!alone) reg.mode |= UFFDIO_REGISTER_MODE_MISSING | UFFDIO_REGISTER_MODE_MINOR;
  if (ioctl(fd, UFFDIO_REGISTER, &reg) != 0) {
    *refusal = fmt::format("userfaultfd cannot watch the space: {}", std::strerror(errno));
    close(fd);
    uffd.fd = -1;
    return nullptr;
  }
  uffd.marker_guards = alone;
  return alone ? &kAlone : &kShared;
}

}  // namespace ayatori::dsm::fault
