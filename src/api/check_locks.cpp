// SPDX-License-Identifier: Apache-2.0
// Which locks of the C and C++ libraries does the program use on objects in the space? They know nothing of other
// processes and block the worker, not the thread. In the checking mode the entries of the global offset tables through which
// the program and its libraries (libstdc++ included) call them lead here: note, then go on to the real function.
//
// B1. The tables are changed once, on the only thread of the first image; members inherit that.
// B2. A call is noted in memory shared by all members, without locks, on the stack of its caller: a row belongs to the
//     innermost addresses of its call stack; who claims it fills it, readers come after the run.
// B3. Not under ThreadSanitizer, which has these functions of its own.
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>
#include <unwind.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <map>
#include <string_view>
#include <utility>

#include "api/check_parts.hpp"
#include "base/format.hpp"
#include "gas/space.hpp"
#include "net/bootstrap/bootstrap.hpp"

namespace ayatori::api::check_mode {
namespace {

constexpr const char* kFunctions[] = {
    "pthread_mutex_lock",
    "pthread_mutex_trylock",
    "pthread_mutex_timedlock",
    "pthread_mutex_clocklock",
    "pthread_cond_wait",
    "pthread_cond_timedwait",
    "pthread_cond_clockwait",
    "pthread_rwlock_rdlock",
    "pthread_rwlock_wrlock",
    "pthread_rwlock_tryrdlock",
    "pthread_rwlock_trywrlock",
    "pthread_rwlock_timedrdlock",
    "pthread_rwlock_timedwrlock",
    "pthread_rwlock_clockrdlock",
    "pthread_rwlock_clockwrlock",
    "pthread_spin_lock",
    "pthread_spin_trylock",
    "pthread_barrier_wait",
    "pthread_once",
    "sem_wait",
    "sem_trywait",
    "sem_timedwait",
};
constexpr std::size_t kCount = std::size(kFunctions);
constexpr int kRows = 256;
constexpr int kDepth = 8;
constexpr int kKeyDepth = 4;  // frames that tell calls apart: the lock's inline wrappers and their caller

struct Row {
  std::atomic<std::uint64_t> key{0};  // 0: free
  std::uintptr_t frames[kDepth];      // return addresses, from that of the call on; written by the claimer
  std::uint32_t function;
  std::atomic<std::uint64_t> calls{0};
  std::atomic<std::uint64_t> processes{0};
};

// Arguments of integer registers; these functions have at most four.
using Function = long (*)(void*, long, long, long);

struct Locks {
  Row* rows = nullptr;
  Function real[kCount] = {};  // Constant after reserve_locks().
  std::atomic<std::uint64_t> overflow{0};
};
constinit Locks locks;

struct Frames {
  std::uintptr_t site;
  std::uintptr_t at[kDepth] = {};
  int count = 0;
};

_Unwind_Reason_Code note_frame(_Unwind_Context* context, void* argument) {
  auto& frames = *static_cast<Frames*>(argument);
  const std::uintptr_t address = _Unwind_GetIP(context);
  if (frames.count == 0 && address != frames.site) return _URC_NO_REASON;  // still our own
  frames.at[frames.count++] = address;
  return frames.count == kDepth ? _URC_END_OF_STACK : _URC_NO_REASON;
}

[[gnu::noinline]] void note(std::uint32_t function, std::uintptr_t site) {
  const int saved_errno = errno;
  Frames frames{site};
  _Unwind_Backtrace(note_frame, &frames);
  if (frames.count == 0) frames.at[0] = site;
  std::uint64_t key = function + 1;
  for (int i = 0; i < kKeyDepth; ++i) key = (key ^ frames.at[i]) * 0x9e3779b97f4a7c15;
  key |= 1;
  for (std::uint64_t i = 0; i < kRows; ++i) {
    Row& row = locks.rows[((key >> 32) + i) % kRows];
    std::uint64_t there = row.key.load(std::memory_order_relaxed);
    if (there == 0 && row.key.compare_exchange_strong(there, key, std::memory_order_relaxed)) {
      there = key;
      row.function = function;
      std::memcpy(row.frames, frames.at, sizeof row.frames);
    }
    if (there != key) continue;
    row.calls.fetch_add(1, std::memory_order_relaxed);  // counters; read after the run
    row.processes.fetch_or(std::uint64_t{1} << net::bootstrap::job().process_id, std::memory_order_relaxed);
    errno = saved_errno;
    return;
  }
  locks.overflow.fetch_add(1, std::memory_order_relaxed);
  errno = saved_errno;
}

template <std::size_t I>
long noted(void* object, long b, long c, long d) {
  if (gas::contains(object)) note(I, reinterpret_cast<std::uintptr_t>(__builtin_return_address(0)));
  return locks.real[I](object, b, c, d);
}
template <std::size_t... I>
constexpr auto all_noted(std::index_sequence<I...>) {
  struct Table {
    Function of[sizeof...(I)];
  };
  return Table{{&noted<I>...}};
}
const auto kNoted = all_noted(std::make_index_sequence<kCount>());

void store(std::uintptr_t slot, Function f) {
  const auto page = static_cast<std::uintptr_t>(getpagesize());
  void* const first = reinterpret_cast<void*>(slot & ~(page - 1));  // NOLINT
  // Read-only after the start (-z now); their page stays writable in this mode.
  if (mprotect(first, page, PROT_READ | PROT_WRITE) != 0) return;
  std::memcpy(reinterpret_cast<void*>(slot), &f, sizeof f);  // NOLINT
}

struct Tables {
  const ElfW(Sym) * symbols = nullptr;
  const char* names = nullptr;
};

void redirect(const ElfW(Rela) * relocations, std::size_t bytes, std::uintptr_t base, const Tables& t) {
  for (std::size_t i = 0; i < bytes / sizeof *relocations; ++i) {
    const ElfW(Rela)& r = relocations[i];
    const auto type = ELF64_R_TYPE(r.r_info);
    if (type != R_X86_64_JUMP_SLOT && type != R_X86_64_GLOB_DAT) continue;
    const std::string_view name = t.names + t.symbols[ELF64_R_SYM(r.r_info)].st_name;
    if (!name.starts_with("pthread_") && !name.starts_with("sem_")) continue;
    for (std::size_t f = 0; f < kCount; ++f)
      if (name == kFunctions[f] && locks.real[f]) store(base + r.r_offset, kNoted.of[f]);
  }
}

[[maybe_unused]] int redirect_image(dl_phdr_info* info, std::size_t, void*) {
  const std::string path = info->dlpi_name;
  const std::string_view file = std::string_view(path).substr(path.rfind('/') + 1);
  for (const char* own :
       {"libc.", "ld-linux", "linux-vdso", "libpthread.", "libasan.", "libtsan.", "libubsan.", "liblsan."})
    if (file.starts_with(own)) return 0;
  Tables t;
  const ElfW(Rela)* jumps = nullptr;
  const ElfW(Rela)* others = nullptr;
  std::size_t jump_bytes = 0, other_bytes = 0;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    if (info->dlpi_phdr[i].p_type != PT_DYNAMIC) continue;
    // The loader has made these addresses absolute.
    for (auto* d = reinterpret_cast<const ElfW(Dyn)*>(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
         d->d_tag != DT_NULL;  // NOLINT
         ++d) {
      const void* const at = reinterpret_cast<const void*>(d->d_un.d_ptr);  // NOLINT
      if (d->d_tag == DT_SYMTAB) t.symbols = static_cast<const ElfW(Sym)*>(at);
      if (d->d_tag == DT_STRTAB) t.names = static_cast<const char*>(at);
      if (d->d_tag == DT_JMPREL) jumps = static_cast<const ElfW(Rela)*>(at);
      if (d->d_tag == DT_PLTRELSZ) jump_bytes = d->d_un.d_val;
      if (d->d_tag == DT_RELA) others = static_cast<const ElfW(Rela)*>(at);
      if (d->d_tag == DT_RELASZ) other_bytes = d->d_un.d_val;
    }
  }
  if (!t.symbols || !t.names) return 0;
  if (jumps) redirect(jumps, jump_bytes, info->dlpi_addr, t);
  if (others) redirect(others, other_bytes, info->dlpi_addr, t);
  return 0;
}

// The innermost function that is the program's own, not the C++ library's or its inline code.
std::string caller(const Row& row, base::Symbols& symbols) {
  for (const std::uintptr_t frame : row.frames) {
    if (frame == 0) break;
    const auto* const image = symbols.image_at(frame - 1);
    if (!image || is_system_library(image->path)) continue;
    const base::Symbol* const s = symbols.find(frame - 1, true);
    const std::string_view name = s ? s->name : "";
    if (name.starts_with("_ZNSt") || name.starts_with("_ZNKSt") || name.starts_with("_ZSt") ||
        name.find("__gthread") != name.npos)
      continue;
    return s ? base::demangled(s->name) : symbols.describe_code(frame - 1);
  }
  return symbols.describe_code(row.frames[0] - 1);
}

struct Place {
  std::uint64_t calls = 0, processes = 0;
};

}  // namespace

void reserve_locks(base::Symbols&) {
#if defined(__SANITIZE_THREAD__)
  say("locks are not looked at under ThreadSanitizer");
#else
  locks.rows = static_cast<Row*>(gas::shared_map(kRows * sizeof(Row), "the checking mode"));
  for (std::size_t f = 0; f < kCount; ++f)
    locks.real[f] = reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, kFunctions[f]));
  dl_iterate_phdr(redirect_image, nullptr);
#endif
}

void report_locks(base::Symbols& symbols) {
  if (!locks.rows) return;
  std::map<std::pair<std::uint32_t, std::string>, Place> places;
  for (int i = 0; i < kRows; ++i) {
    const Row& row = locks.rows[i];
    if (row.key.load(std::memory_order_relaxed) == 0) continue;
    Place& place = places[{row.function, caller(row, symbols)}];
    place.calls += row.calls.load(std::memory_order_relaxed);
    place.processes |= row.processes.load(std::memory_order_relaxed);
  }
  int lines = 0;
  for (const auto& [where, place] : places) {
    if (++lines > kLinesMax) continue;
    const std::string_view function = kFunctions[where.first];
    const char* instead = "ayatori::mutex";
    if (function.find("cond") != function.npos) instead = "ayatori::condition_variable";
    if (function.find("barrier") != function.npos) instead = "ayatori::barrier";
    if (function.find("once") != function.npos) instead = "ayatori_once";
    if (function.starts_with("sem_")) instead = "ayatori_sem_t";
    say(base::formatted(
        "{} on an object in the space, called by {} ({} call{}, {}): it excludes no other process and "
        "blocks the worker; use {}",
        function, where.second, place.calls, place.calls == 1 ? "" : "s", list_of(place.processes), instead));
  }
  if (lines > kLinesMax) say(base::formatted("... and {} more places", lines - kLinesMax));
  if (const auto more = locks.overflow.load(std::memory_order_relaxed))
    say(base::formatted("... and {} more calls of such functions", more));
}

}  // namespace ayatori::api::check_mode
