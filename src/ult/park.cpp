// SPDX-License-Identifier: Apache-2.0
#include "ult/park.hpp"

#include <link.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <exception>
#include <utility>

#include "base/check.hpp"
#include "base/waiter.hpp"
#include "ult/fiber.hpp"
#include "ult/scheduler.hpp"
#include "ult/switch.hpp"

extern "C" void ayt_fault_return();

namespace ayatori::ult::park {

namespace {

constexpr std::size_t kBufferBytes = 32 * 1024;
constexpr std::size_t kContextBytes = 256;  // below the frame: the context that leads to it
constexpr std::size_t kFrameRoom = kBufferBytes - kContextBytes - 64;
constexpr std::size_t kRedZoneBytes = 128;
constexpr std::uint32_t kXstateMagic1 = 0x46505853;  // FP_XSTATE_MAGIC1: the extended size follows
constexpr std::size_t kSoftwareBytesAt = 464;        // in the legacy area (struct _fpx_sw_bytes)

struct State {
  std::uintptr_t text_begin = 0, text_end = 0;  // of the code that is parked. Constant after start().
  void (*restorer)() = nullptr;
};
constinit State state;

bool is_in_text(const void* code) noexcept {
  const auto at = reinterpret_cast<std::uintptr_t>(code);
  return at >= state.text_begin && at < state.text_end;
}

// The address of a function of the C++ library, from a table of virtual functions: taken by name it may be an entry of the
// executable's that leads there.
const void* of_cxx_library() noexcept {
  const std::bad_exception e;
  const void* const* functions = nullptr;
  std::memcpy(&functions, static_cast<const void*>(&e), sizeof functions);
  return functions[2];  // what(), behind two destructors (Itanium C++ ABI)
}

// Where the kernel's frame begins and ends; `fp` is where its extended state lies. Zero bytes: not one we know.
struct Frame {
  const std::byte* begin;
  std::size_t bytes;
};
Frame frame_of(const ucontext_t* context) noexcept {
  const auto* begin = reinterpret_cast<const std::byte*>(context) - sizeof(void*);  // the return address comes first
  const auto* fp = reinterpret_cast<const std::byte*>(context->uc_mcontext.fpregs);
  if (!fp || fp < begin) return {begin, 0};
  std::uint32_t magic = 0;
  std::uint32_t extended = 0;
  std::memcpy(&magic, fp + kSoftwareBytesAt, sizeof magic);
  std::memcpy(&extended, fp + kSoftwareBytesAt + 4, sizeof extended);
  const std::size_t fp_bytes = magic == kXstateMagic1 ? extended : 512;
  return {begin, static_cast<std::size_t>(fp - begin) + fp_bytes};
}

// Place for a copy of a frame in a buffer: the extended state must keep its alignment to 64 bytes.
std::byte* place(void* buffer, std::uintptr_t like) noexcept {
  auto at = reinterpret_cast<std::uintptr_t>(buffer) + kContextBytes;
  at += (like - at) & 63;
  return reinterpret_cast<std::byte*>(at);  // NOLINT: inside the buffer
}

void copy_frame(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
  std::memcpy(to, from, bytes);
  auto* context = reinterpret_cast<ucontext_t*>(to + sizeof(void*));
  auto* fp = reinterpret_cast<std::byte*>(context->uc_mcontext.fpregs);
  context->uc_mcontext.fpregs = reinterpret_cast<fpregset_t>(to + (fp - from));
}

bool may_park(const void* argument) noexcept {
#if defined(AYT_ASAN) || defined(AYT_TSAN)
  return false;  // sanitizers cannot be told of a switch that ends in rt_sigreturn
#endif
  const auto* context = static_cast<const ucontext_t*>(argument);
  const Worker* w = current_worker();
  if (!w || !w->current) return false;
  const auto pc = static_cast<std::uintptr_t>(context->uc_mcontext.gregs[REG_RIP]);
  if (!is_in_text(reinterpret_cast<const void*>(pc))) return false;  // NOLINT: P4
  const auto sp = static_cast<std::uintptr_t>(context->uc_mcontext.gregs[REG_RSP]);
  const auto top = reinterpret_cast<std::uintptr_t>(stack_top(w->current));
  if (sp > top || top - sp > config().stack_bytes - kRedZoneBytes) return false;
  if (top - static_cast<std::uintptr_t>(context->uc_mcontext.gregs[REG_CR2]) <= config().stack_bytes)
    return false;  // P5
  const Frame f = frame_of(context);
  return f.bytes != 0 && f.bytes <= kFrameRoom;
}

void* new_buffer() {
  void* p = mmap(nullptr, kBufferBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  AYT_CHECK(p != MAP_FAILED, "no memory for the registers of a suspended thread");
  return p;
}

// The buffers that a worker has free are a stack, of which park_buffer is the first: in each, where a context comes later,
// lie the next one and how many follow.
struct Free {
  void* next;
  std::size_t follow;
};
constexpr std::size_t kFreeMax = 256;  // of each only what a frame takes is touched

void* after(void* buffer) noexcept { return static_cast<Free*>(buffer)->next; }  // null in a new one

void give_buffer(Worker& w, void* buffer) noexcept {
  const std::size_t follow = static_cast<Free*>(w.park_buffer)->follow + 1;
  if (follow > kFreeMax) {
    munmap(buffer, kBufferBytes);
    return;
  }
  *static_cast<Free*>(buffer) = {w.park_buffer, follow};
  w.park_buffer = buffer;
}

void* op_park(Worker& w, Descriptor* self, void*) {
  self->state = ThreadState::kFaulting;
  self->fault_frame = w.park_buffer;
  self->fault_bytes = static_cast<std::uint32_t>(w.park_bytes);
  self->fault_offset = static_cast<std::uint32_t>(w.park_offset);
  ++self->pins;  // P3
  const auto parked = w.parked;
  void* const argument = w.parked_argument;
  void* const next = after(w.park_buffer);
  w.park_buffer = next ? next : new_buffer();  // P2
  parked(self, argument);                      // from here on it may be woken (W2)
  return schedule(w);
}

void park_thread(void* argument, base::Waiter::Parked parked, void* parked_argument) noexcept {
  const auto* context = static_cast<const ucontext_t*>(argument);
  Worker* w = current_worker();
  const Frame f = frame_of(context);
  copy_frame(place(w->park_buffer, reinterpret_cast<std::uintptr_t>(f.begin)), f.begin, f.bytes);
  w->park_bytes = f.bytes;
  w->park_offset = static_cast<std::size_t>(place(w->park_buffer, reinterpret_cast<std::uintptr_t>(f.begin)) -
                                            static_cast<std::byte*>(w->park_buffer));
  w->parked = parked;
  w->parked_argument = parked_argument;
  on_native(&op_park, nullptr);  // does not return: the thread comes back through resume()
  __builtin_unreachable();
}

void wake(void* ticket) noexcept { make_ready(static_cast<Descriptor*>(ticket), true); }

constexpr base::Waiter kWaiter{may_park, park_thread, wake};

}  // namespace

void start(void (*restorer)()) {
  state.restorer = restorer;
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void*) {
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          const auto& header = info->dlpi_phdr[i];
          if (header.p_type != PT_LOAD || (header.p_flags & PF_X) == 0) continue;
          state.text_begin = info->dlpi_addr + header.p_vaddr;
          state.text_end = state.text_begin + header.p_memsz;
        }
        return 1;  // the first object is the executable
      },
      nullptr);
  if (is_in_text(of_cxx_library())) state.text_end = state.text_begin;  // P4
  base::set_waiter(&kWaiter);
}

void prepare(Worker& w) {
  w.park_buffer = new_buffer();
  w.resume_buffer = new_buffer();
}

void release(Worker& w) {
  while (w.park_buffer) munmap(std::exchange(w.park_buffer, after(w.park_buffer)), kBufferBytes);
  munmap(w.resume_buffer, kBufferBytes);
}

void* resume(Worker& w, Descriptor* d) noexcept {
  // P1. Whom it resumed before has left that buffer by rt_sigreturn.
  give_buffer(w, std::exchange(w.resume_buffer, d->fault_frame));
  std::byte* to = static_cast<std::byte*>(w.resume_buffer) + d->fault_offset;
  auto* context = reinterpret_cast<ucontext_t*>(to + sizeof(void*));
  syscall(SYS_sigaltstack, nullptr, &context->uc_stack);  // P1; past the program's view of it
  d->fault_frame = nullptr;
  --d->pins;
  // A context that pops into ayt_fault_return with the frame in rbx and the restorer in r12.
  auto** frame = static_cast<void**>(w.resume_buffer);
  std::fill_n(frame, 8, nullptr);
  frame[3] = reinterpret_cast<void*>(state.restorer);
  frame[4] = to + sizeof(void*);
  frame[6] = reinterpret_cast<void*>(&ayt_fault_return);
  return frame;
}

}  // namespace ayatori::ult::park
