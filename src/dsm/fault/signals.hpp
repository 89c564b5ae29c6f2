// SPDX-License-Identifier: Apache-2.0
// What signal.cpp offers the other files of the fault engine.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ayatori::dsm::fault {

inline constexpr int kSignals = 65;

// struct sigaction as the kernel has it.
struct KernelAction {
  void* handler = nullptr;
  unsigned long flags = 0;
  void* restorer = nullptr;
  std::uint64_t mask = 0;
};

// rt_sigaction(2) for the program: -errno or 0. Keeps our handlers in place and gives the program's SA_ONSTACK.
// Async-signal-safe.
long program_action(int signal_number, const KernelAction* set, KernelAction* old);

// In the child of a fork: nothing resolves faults any more, they are the program's.
void forget_faults() noexcept;

// A mask that the program wants, without the signals that must never be blocked.
std::uint64_t without_ours(std::uint64_t mask) noexcept;

}  // namespace ayatori::dsm::fault
