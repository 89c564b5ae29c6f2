// SPDX-License-Identifier: Apache-2.0
// Choice of the fault engine (engine.hpp), and what both mechanisms share: lightweight guards, the limit on mappings.
#include "dsm/fault/engine.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/check.hpp"
#include "dsm/fault/dispatch.hpp"
#include "dsm/fault/engines.hpp"
#include "dsm/fault/interpose.hpp"

#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102
#define MADV_GUARD_REMOVE 103
#endif

namespace ayatori::dsm {
namespace {
constinit const Engine* chosen = nullptr;  // Constant after start_engine().

[[noreturn]] void refuse(const char* wanted, const char* why) {
  std::fprintf(stderr, "ayatori: the fault engine '%s' (AYATORI_ENGINE) is not available here: %s\n", wanted, why);
  std::_Exit(125);
}
}  // namespace

namespace fault {

bool light_guard(gas::PageIndex first, std::size_t pages) noexcept {
  return madvise(pointer_to(first), bytes_of(pages), MADV_GUARD_INSTALL) == 0;
}

bool light_guards_work() noexcept {
  // Tried on memory of the same kind: kernels from 6.13 to 6.14 know the call for private memory only.
  void* p = mmap(nullptr, gas::kPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) return false;
  const bool works = madvise(p, gas::kPageBytes, MADV_GUARD_INSTALL) == 0;
  munmap(p, gas::kPageBytes);
  return works;
}

std::size_t map_count_limit() noexcept {
  constexpr std::size_t kKernelDefault = 65530;
  char text[32] = {};
  const int fd = open("/proc/sys/vm/max_map_count", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return kKernelDefault;
  const ssize_t got = read(fd, text, sizeof text - 1);
  close(fd);
  const std::size_t value = got > 0 ? std::strtoull(text, nullptr, 10) : 0;
  return value == 0 ? kKernelDefault : value;
}

}  // namespace fault

const Engine& start_engine(const char* wanted, int processes, const FaultHooks& hooks, std::string* why) {
  AYT_CHECK(chosen == nullptr, "the fault engine is started twice");
  const std::string_view name = wanted;
  std::string refusal;
  int signal_number = SIGBUS;
  if (name != "mprotect") {
    chosen = fault::start_uffd(processes, &refusal);
    if (!chosen && name == "uffd") refuse(wanted, refusal.c_str());
    if (!chosen && why) *why = refusal;
  }
  if (!chosen) {
    chosen = fault::start_mprotect(processes, &refusal);
    signal_number = SIGSEGV;
    if (!chosen) refuse(wanted, refusal.c_str());
  }
  fault::install_handlers(hooks, signal_number);
  fault::choose_syscall_mode(processes);
  fault::bind_program_signals();
  fault::bind_process_calls();
  fault::bind_wrappers();
  fault::bind_waiting_calls();
  return *chosen;
}

const Engine& engine() noexcept { return *chosen; }

}  // namespace ayatori::dsm
