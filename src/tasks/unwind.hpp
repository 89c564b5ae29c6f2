// SPDX-License-Identifier: Apache-2.0
// Walks a stack that is not the caller's: frames of a suspended or stopped thread, by the tables that exception handling
// uses (.eh_frame), so that code without frame pointers is no obstacle. Called by the dump's own OS thread.
//
// W1. Stack memory is read through the caller's function alone, which checks bounds: garbage on a stack that changes
//     meanwhile ends a walk or gives wrong names, never a crash.
// W2. Nothing is allocated and no lock taken (libgcc finds tables without): a stopped thread may hold any of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace ayatori::tasks {

// Registers by their DWARF numbers; 16 is the return address.
struct Frame {
  static constexpr int kRbx = 3, kRbp = 6, kRsp = 7, kR12 = 12, kPc = 16, kRegisters = 17;
  std::uint64_t registers[kRegisters] = {};
  bool exact = false;  // pc is the next instruction, not one after a call

  std::uint64_t pc() const noexcept { return registers[kPc]; }
  std::uint64_t sp() const noexcept { return registers[kRsp]; }
};

class StackMemory {
 public:
  virtual bool read(std::uint64_t address, void* to, std::size_t bytes) = 0;

 protected:
  ~StackMemory() = default;
};

// An object that others write meanwhile, as a debugger sees it: copied by the kernel, so that it is no data race and
// whatever was found is only shown.
template <class T>
class Copy {
 public:
  Copy(const T* at, StackMemory& memory)
      : found_(memory.read(reinterpret_cast<std::uintptr_t>(at), room_, sizeof room_)) {}
  explicit operator bool() const noexcept { return found_; }
  const T& operator*() const noexcept { return *reinterpret_cast<const T*>(room_); }
  const T* operator->() const noexcept { return &**this; }

 private:
  alignas(T) std::byte room_[sizeof(T)] = {};
  bool found_;
};

// What ayt_switch_call has saved at `sp`. False: cannot be read.
bool frame_of_saved(std::uint64_t sp, StackMemory& memory, Frame& frame);
// From the kernel's ucontext_t.
bool frame_of_signal(std::uint64_t context, StackMemory& memory, Frame& frame);

// Addresses of code from `frame` outwards; addresses after calls are brought back into the call. Returns their number;
// `frame` is then the outermost one found.
std::size_t walk(Frame& frame, StackMemory& memory, std::span<std::uint64_t> addresses);

}  // namespace ayatori::tasks
