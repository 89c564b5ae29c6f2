// SPDX-License-Identifier: Apache-2.0
#include "tasks/overflow.hpp"

#include <link.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <string_view>

#include "base/clock.hpp"
#include "base/futex.hpp"
#include "base/symbols.hpp"
#include "dsm/dsm.hpp"
#include "gas/space.hpp"
#include "net/bootstrap/bootstrap.hpp"
#include "tasks/dump.hpp"
#include "tasks/dump_parts.hpp"
#include "tasks/runtime.hpp"
#include "tasks/unwind.hpp"
#include "ult/scheduler.hpp"

namespace ayatori::tasks::overflow {
namespace {

using ult::Descriptor;

constexpr std::size_t kInnermost = 16, kOutermost = 8;      // calls that are printed
constexpr std::int64_t kWalkNs = base::kNsPerSecond;        // a stack of 64 MiB has a million frames
constexpr std::int64_t kAnswerNs = 3 * base::kNsPerSecond;  // O1
constexpr std::int64_t kEndNs = 10 * base::kNsPerSecond;    // O2
constexpr std::uintptr_t kBeginBytes = 2'048;               // O3: frames below a thread's object before it is current
constexpr std::size_t kLargestStack = std::size_t{64} << 20;
constexpr int kImagesMax = 64, kNameMax = 200, kStatus = 134;

struct Image {
  std::uintptr_t begin, end, base;
  char name[56];
};

// The calls of a stack, innermost first; those in the middle are counted only.
struct Calls {
  std::uint64_t first[kInnermost] = {};
  std::uint64_t last[kOutermost] = {};  // a ring, the i-th call of the stack at i % kOutermost
  std::size_t count = 0;
  bool cut = false;

  void add(std::uint64_t address) noexcept {
    if (count < kInnermost) first[count] = address;
    last[count++ % kOutermost] = address;
  }
};

enum Phase : std::uint32_t { kNone, kAsked, kWriting, kWritten, kGivenUp };

struct State {
  Image images[kImagesMax] = {};  // Constant after start(), as the next two.
  int image_count = 0;
  pid_t pid = 0;
  // Written before kAsked.
  std::uint64_t thread = 0;
  Calls calls;
  std::atomic<std::uint32_t> phase{kNone};
};
constinit State state;

std::uintptr_t address(const void* p) noexcept { return reinterpret_cast<std::uintptr_t>(p); }

// Is `sp` on the stack of another thread, below that of `d`?
bool is_below(const Descriptor* d, std::uintptr_t sp) noexcept {
  const void* const p = reinterpret_cast<const void*>(sp);  // NOLINT: not dereferenced
  return gas::contains(p) && gas::is_stack(gas::page_of(p)) && gas::slot_of(gas::page_of(p)) < d->slot;
}

bool begins_at(const Descriptor& d, std::uintptr_t sp) noexcept { return address(d.object) - sp <= kBeginBytes; }

void nap(std::int64_t ns) noexcept {
  const timespec t{ns / base::kNsPerSecond, ns % base::kNsPerSecond};
  nanosleep(&t, nullptr);
}

void walk_all(Frame frame) noexcept {
  dump::OwnMemory memory;
  Calls& calls = state.calls;
  const std::int64_t deadline = base::real_now_ns() + kWalkNs;
  std::uint64_t some[64];
  for (std::size_t n = std::size(some); n == std::size(some);) {
    n = walk(frame, memory, some);
    for (std::size_t i = 0; i < n; ++i) calls.add(some[i]);
    if ((calls.cut = base::real_now_ns() > deadline)) break;
  }
}

template <class Describe>
void print_calls(dump::Block& out, Describe&& describe) {
  const Calls& c = state.calls;
  out.line("thread {} has overflowed its stack in:", state.thread);
  const std::size_t inner = std::min(c.count, kInnermost);
  for (std::size_t i = 0; i < inner; ++i) out.line("    #{} {}", i, std::string_view(describe(c.first[i])));
  const std::size_t outer = c.cut ? c.count : std::max(inner, c.count - std::min(c.count, kOutermost));
  if (c.cut)
    out.line("    ... and more than {} calls", c.count - inner);
  else if (outer > inner)
    out.line("    ... {} calls ...", outer - inner);
  for (std::size_t i = outer; i < c.count; ++i)
    out.line("    #{} {}", i, std::string_view(describe(c.last[i % kOutermost])));
}

// Text without memory of its own.
struct Bare {
  char text[96];
  std::size_t bytes = 0;
  operator std::string_view() const noexcept { return {text, bytes}; }  // NOLINT: as std::string has it
};
Bare bare(std::uint64_t at) noexcept {
  Bare b;
  for (int i = 0; i < state.image_count; ++i) {
    const Image& image = state.images[i];
    if (at < image.begin || at >= image.end) continue;
    b.bytes = base::print_to(b.text, "{}+0x{:x}", static_cast<const char*>(image.name), at - image.base);
    return b;
  }
  b.bytes = base::print_to(b.text, "0x{:x}", at);
  return b;
}

// O1
void print_backtrace() noexcept {
  if (getpid() == state.pid) {                             // else a child that the program has forked: it is alone
    state.phase.store(kAsked, std::memory_order_release);  // pairs with print_pending()
    const std::int64_t deadline = base::real_now_ns() + kAnswerNs;
    if (dump::wake_server()) {
      for (;;) {
        std::uint32_t phase = state.phase.load(std::memory_order_acquire);
        if (phase == kWritten) return;
        const std::int64_t left_ns = deadline - base::real_now_ns();
        if (left_ns > 0)
          base::futex_wait(state.phase, phase, std::min(left_ns, 100 * base::kNsPerMs));
        else if (state.phase.compare_exchange_strong(phase, kGivenUp, std::memory_order_relaxed))
          break;
      }
    }
  }
  dump::Block out;
  print_calls(out, bare);
}

[[noreturn]] void report(const Descriptor* d, std::uintptr_t sp, const Frame& frame) noexcept {
  constexpr std::size_t kKi = 1'024;
  const std::size_t stack = gas::layout().slot_pages << gas::kPageShift;
  const std::uintptr_t low = address(ult::stack_top(d)) - stack;
  const std::size_t below = sp < low ? low - sp : 0;
  std::size_t more = stack * 2;
  while (more < stack + below && more < kLargestStack) more *= 2;
  const ult::Worker* const w = ult::current_worker();
  char line[400];
  std::size_t n = base::print_to(line, "stack overflow in thread {} (worker {}): {} KiB stack", ult::number_of(d),
                                 w ? w->number : -1, stack / kKi);
  const auto rest = [&] { return std::span(line).subspan(n); };
  if (below > 0) n += base::print_to(rest(), ", left by {} KiB", below / kKi + 1);
  if (more > kLargestStack)
    n += base::print_to(rest(), ", the largest there is (AYATORI_STACK_SIZE)");
  else if (more % (kKi * kKi) == 0)
    n += base::print_to(rest(), "; give it more with AYATORI_STACK_SIZE={}M", more / kKi / kKi);
  else
    n += base::print_to(rest(), "; give it more with AYATORI_STACK_SIZE={}K", more / kKi);
  if (first_to_overflow()) {
    state.thread = ult::number_of(d);
    walk_all(frame);
    print_backtrace();
  } else {
    nap(kEndNs);  // O2
  }
  net::bootstrap::end_job(kStatus, {line, n});
}

}  // namespace

void start() noexcept {
  state.pid = getpid();
  state.image_count = 0;
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void*) {
        if (state.image_count == kImagesMax) return 1;
        Image& image = state.images[state.image_count];
        const std::string_view path = state.image_count == 0 ? "program" : info->dlpi_name;
        const std::string_view name = path.substr(path.rfind('/') + 1);
        image = {UINTPTR_MAX, 0, info->dlpi_addr, {}};
        name.copy(image.name, sizeof image.name - 1);
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          const ElfW(Phdr)& header = info->dlpi_phdr[i];
          if (header.p_type != PT_LOAD) continue;
          image.begin = std::min(image.begin, info->dlpi_addr + header.p_vaddr);
          image.end = std::max(image.end, info->dlpi_addr + header.p_vaddr + header.p_memsz);
        }
        ++state.image_count;
        return 0;
      },
      nullptr);
}

bool is_beyond_stack(const void* context) noexcept {
  const ult::Worker* const w = ult::current_worker();
  if (!w || !w->current) return false;
  const auto sp = static_cast<std::uintptr_t>(static_cast<const ucontext_t*>(context)->uc_mcontext.gregs[REG_RSP]);
  if (!is_below(w->current, sp)) return false;
  const gas::SlotIndex there = gas::slot_of(gas::page_of(reinterpret_cast<const void*>(sp)));  // NOLINT
  return !begins_at(ult::config().threads[there], sp);                                         // O3
}

void report_fault(void* fault_address, void* context) noexcept {
  const ult::Worker* const w = ult::current_worker();
  const auto sp = static_cast<std::uintptr_t>(static_cast<const ucontext_t*>(context)->uc_mcontext.gregs[REG_RSP]);
  const Descriptor* d = w ? w->current : nullptr;
  if (!d || !is_below(d, sp)) d = &ult::config().threads[gas::slot_of(gas::page_of(fault_address))];
  Frame frame;
  dump::OwnMemory memory;
  frame_of_signal(reinterpret_cast<std::uint64_t>(context), memory, frame);
  report(d, sp, frame);
}

void look_at(const Descriptor* d, const void* sp) noexcept {
  if (!is_below(d, address(sp))) return;
  Frame frame;
  dump::OwnMemory memory;
  frame_of_saved(address(sp), memory, frame);
  report(d, address(sp), frame);
}

void print_pending() {
  std::uint32_t asked = kAsked;
  if (state.phase.load(std::memory_order_acquire) != asked) return;  // pairs with print_backtrace()
  base::Symbols symbols;
  const Calls& c = state.calls;
  for (const std::uint64_t at : c.first) static_cast<void>(symbols.describe_code(at));
  for (const std::uint64_t at : c.last) static_cast<void>(symbols.describe_code(at));
  // The names are known; from here on nothing keeps this thread for long.
  if (!state.phase.compare_exchange_strong(asked, kWriting, std::memory_order_relaxed)) return;
  {
    dump::Block out;
    print_calls(out, [&](std::uint64_t at) {
      std::string name = symbols.describe_code(at);
      if (name.size() > kNameMax) name = name.substr(0, kNameMax - 3) + "...";
      return name;
    });
  }
  state.phase.store(kWritten, std::memory_order_release);  // pairs with print_backtrace()
  base::futex_wake(state.phase, base::kAllWaiters);
}

}  // namespace ayatori::tasks::overflow
