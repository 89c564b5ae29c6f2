// SPDX-License-Identifier: Apache-2.0
#include "alike.hpp"

#include <elf.h>
#include <sodium.h>
#include <sys/personality.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>

#include "base/format.hpp"
#include "system.hpp"

namespace ayatori::tool {
namespace {

constexpr unsigned long kAskPersonality = 0xffffffff;
constexpr int kExecStop = SIGTRAP | PTRACE_EVENT_EXEC << 8;

// Where the image finds its 16 random bytes; 0: nowhere.
std::uint64_t random_bytes_of(pid_t process) {
  const Fd file(open(base::formatted("/proc/{}/auxv", process).c_str(), O_RDONLY | O_CLOEXEC));
  Elf64_auxv_t entry{};
  while (file && read(file.get(), &entry, sizeof entry) == sizeof entry && entry.a_type != AT_NULL)
    if (entry.a_type == AT_RANDOM) return entry.a_un.a_val;
  return 0;
}

void write_random_bytes(pid_t process, const net::bootstrap::Secret& secret) {
  constexpr char kPurpose[] = "AT_RANDOM";
  std::array<unsigned char, 16> bytes{};
  crypto_generichash(bytes.data(), bytes.size(), reinterpret_cast<const unsigned char*>(kPurpose), sizeof kPurpose - 1,
                     secret.data(), secret.size());
  const std::uint64_t where = random_bytes_of(process);
  for (std::size_t i = 0; where != 0 && i < bytes.size(); i += sizeof(long)) {
    long word = 0;
    std::memcpy(&word, bytes.data() + i, sizeof word);
    ptrace(PTRACE_POKEDATA, process, reinterpret_cast<void*>(where + i), word);  // NOLINT: an address of that process
  }
}

}  // namespace

void fix_addresses() noexcept {
  const int now = personality(kAskPersonality);
  if (now >= 0) personality(static_cast<unsigned long>(now) | ADDR_NO_RANDOMIZE);
}

bool trace_exec(pid_t child) noexcept {
  return child > 1 && ptrace(PTRACE_SEIZE, child, nullptr, PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL) == 0;
}

void fix_random_bytes(pid_t child, const net::bootstrap::Secret& secret) {
  if (sodium_init() < 0) say("libsodium cannot be used here");
  for (;;) {
    siginfo_t info{};
    if (waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WSTOPPED | WNOWAIT) != 0) {
      if (errno == EINTR) continue;
      return;
    }
    if (info.si_code != CLD_TRAPPED && info.si_code != CLD_STOPPED) return;  // it has ended
    info = {};
    if (waitid(P_PID, static_cast<id_t>(child), &info, WSTOPPED | WNOHANG) != 0 || info.si_pid == 0)
      continue;  // killed meanwhile: its end is the caller's to wait for
    if (info.si_status == kExecStop) {
      write_random_bytes(child, secret);
      ptrace(PTRACE_DETACH, child, nullptr, nullptr);
      return;
    }
    const int event = info.si_status >> 8;  // of another kind than a signal's delivery
    ptrace(PTRACE_CONT, child, nullptr, event != 0 ? 0L : static_cast<long>(info.si_status & 0xff));
  }
}

}  // namespace ayatori::tool
