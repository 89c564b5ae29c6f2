// SPDX-License-Identifier: Apache-2.0
// The context switch and the current worker. Sanitizers' fiber hooks are here and nowhere else.
//
// S1. A user-level thread may return from any call on another OS thread: the address of a thread-local is never kept
//     across a switch. current_worker() is volatile assembly, so the compiler cannot keep its result.
// S2. An access to memory of the program may be such a call: a fault there suspends the thread (park.hpp). So there is none
//     while a Worker* or the address of a thread-local is in use. Compilers move none in where the use begins with
//     current_worker() and ends with a call or with worker_used(). The thread's own stack is no such memory (P5 of
//     park.hpp); descriptors and workers are none either, they lie outside coherence.
#pragma once

#include <cstddef>

#include "ult/arch/layout.h"
#include "ult/thread.hpp"

extern "C" {
void ayt_switch_call(void** save, void* new_sp, void* (*f)(void*), void* argument) noexcept;
void ayt_switch_next(ayatori::detail::Descriptor* self, ayatori::detail::Descriptor* next,
                     ayatori::ult::Worker* worker) noexcept;
void ayt_call_native(void (*f)(void*), void* argument, void** save, void* native_sp) noexcept;
void ayt_thread_entry();
extern __thread ayatori::ult::Worker* ayt_worker __attribute__((tls_model("initial-exec")));
}

namespace ayatori::ult {

static_assert(offsetof(Descriptor, sp) == AYT_DESCRIPTOR_SP);
static_assert(offsetof(Descriptor, eh_caught) == AYT_DESCRIPTOR_EH_CAUGHT);
static_assert(offsetof(Descriptor, eh_uncaught) == AYT_DESCRIPTOR_EH_UNCAUGHT);
static_assert(offsetof(Descriptor, saved_errno) == AYT_DESCRIPTOR_ERRNO);
static_assert(offsetof(Worker, current) == AYT_WORKER_CURRENT);
static_assert(offsetof(Worker, eh) == AYT_WORKER_EH);
static_assert(offsetof(Worker, errno_address) == AYT_WORKER_ERRNO);
static_assert(offsetof(Worker, ring) + RunRing<Descriptor>::kTailAt == AYT_WORKER_RING_TAIL);
static_assert(offsetof(Worker, ring) + RunRing<Descriptor>::kEntriesAt == AYT_WORKER_RING);
static_assert(RunRing<Descriptor>::kRoom - 1 == AYT_RING_MASK);

// Of this OS thread; null when it is no worker.
inline Worker* current_worker() noexcept {
  Worker* w;
  asm volatile(
      "movq ayt_worker@gottpoff(%%rip), %0\n\t"
      "movq %%fs:(%0), %0"
      : "=r"(w)
      :
      : "memory");
  return w;
}

// current_worker()->current, of a worker: nothing comes between the two loads (S2).
inline Descriptor* current_thread() noexcept {
  Descriptor* d;
  asm volatile(
      "movq ayt_worker@gottpoff(%%rip), %0\n\t"
      "movq %%fs:(%0), %0\n\t"
      "movq %c1(%0), %0"
      : "=r"(d)
      : "i"(AYT_WORKER_CURRENT)
      : "memory");
  return d;
}

// S2. Whatever was done with a Worker* is done.
inline void worker_used() noexcept { asm volatile("" ::: "memory"); }

// Writes the frame that makes a resume call f(argument) on a fresh stack that ends at `top` (16-byte aligned). `to_real`
// maps a stack address to where the runtime may write it. Returns the saved context's stack pointer.
template <class ToReal>
void* make_context(void* top, void (*f)(void*), void* argument, ToReal&& to_real) noexcept {
  auto* frame = static_cast<void**>(top) - 9;  // leaves rsp 16-byte aligned at the entry's call
  auto** real = static_cast<void**>(to_real(frame));
  for (int i = 0; i < 9; ++i) real[i] = nullptr;
  real[3] = argument;                    // r12
  real[4] = reinterpret_cast<void*>(f);  // rbx
  real[6] = reinterpret_cast<void*>(&ayt_thread_entry);
  return frame;
}

}  // namespace ayatori::ult
