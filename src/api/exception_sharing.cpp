// SPDX-License-Identifier: Apache-2.0
// Counts of exceptions that threads of several processes own at once: those in a shared_future, or those that a promise got
// from a handler that still runs. The C++ library counts owners of an exception in a word before it, by the processor's atomic
// instructions: right as long as the owners are in one process, or ordered, as a thread and its joiner are.
//
// E1. An exception becomes shared once, before other processes know of it: kShared in its count. From then on the count is
//     changed at its owner only (tasks/atomics.hpp), and the header's cleanup is the one below.
// E2. For that these functions replace the C++ library's at link time, as those in exception_memory.cpp do: exception_ptr's
//     two that count, and rethrow_exception. They are weak: where the C++ library is linked statically, its own stay, and
//     exceptions are then counted by each process for itself.
// E3. While kMoving is set the count moves from one way to the other, and threads of the process wait for that. A release
//     is between: nothing that this process wrote there is still on its way when the owner's word is set. Where another
//     process finds kMoving, its copy is of that time, and the owner's word is what counts.
// E4. The end of a handler in another thread of the process, at the very moment in which the exception becomes shared, may go
//     uncounted: the C++ library's own cleanup runs there.
#include <cxxabi.h>
#include <sched.h>

#include <atomic>
#include <ayatori/ayatori.hpp>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>

#include "api/exception_layout.hpp"
#include "dsm/dsm.hpp"
#include "gas/space.hpp"
#include "tasks/atomics.hpp"
#include "tasks/runtime.hpp"

namespace ayatori::api {

namespace {

constexpr int kShared = 1 << 30, kMoving = 1 << 29, kFlags = kShared | kMoving;

RefcountedException& header_of(void* object) noexcept { return static_cast<RefcountedException*>(object)[-1]; }

// The value before.
int at_owner(RefcountedException& header, tasks::AtomicOp op, int operand, std::memory_order order) noexcept {
  return static_cast<int>(
      tasks::atomic_apply(&header.reference_count, sizeof(int), op, static_cast<std::uint32_t>(operand), 0, order));
}

// Returns the count after. Calls no function of the user.
int change(RefcountedException& header, int by) noexcept {
  std::atomic_ref<int> count(header.reference_count);
  int seen = count.load(std::memory_order_acquire);
  while ((seen & kFlags) == 0)
    // acq_rel: each owner's accesses are before the end that the last one brings
    if (count.compare_exchange_weak(seen, seen + by, std::memory_order_acq_rel)) return seen + by;
  if ((seen & kMoving) != 0)  // E3; no wait for a thread that needs this worker
    while ((at_owner(header, tasks::AtomicOp::kLoad, 0, std::memory_order_relaxed) & kShared) == 0) sched_yield();
  const auto order = by < 0 ? std::memory_order_acq_rel : std::memory_order_relaxed;
  return (at_owner(header, tasks::AtomicOp::kAdd, by, order) & ~kFlags) + by;
}

void drop(void* object) noexcept {
  RefcountedException& header = header_of(object);
  if (change(header, -1) != 0) return;
  if (header.exception.destructor != nullptr) header.exception.destructor(object);
  if ((std::atomic_ref<int>(header.reference_count).load(std::memory_order_relaxed) & kShared) != 0)
    tasks::atomic_destroy(&header.reference_count, sizeof(int));
  __cxxabiv1::__cxa_free_exception(object);
}

void check_cleanup(_Unwind_Reason_Code code) noexcept {
  if (code != _URC_FOREIGN_EXCEPTION_CAUGHT && code != _URC_NO_REASON) std::terminate();
}

void clean_up(_Unwind_Reason_Code code, _Unwind_Exception* unwound) {
  check_cleanup(code);
  drop(unwound + 1);  // X1: the object is next
}

void clean_up_dependent(_Unwind_Reason_Code code, _Unwind_Exception* unwound) {
  check_cleanup(code);
  auto* const dependent = reinterpret_cast<DependentException*>(reinterpret_cast<std::byte*>(unwound) -
                                                                offsetof(DependentException, unwind_header));
  void* primary = nullptr;
  std::memcpy(&primary, dependent, sizeof(primary));
  __cxxabiv1::__cxa_free_dependent_exception(reinterpret_cast<__cxxabiv1::__cxa_dependent_exception*>(dependent));
  drop(primary);
}

constexpr _Unwind_Exception_Class kDependentClass = 0x474e5543432b2b01;  // "GNUCC++\1"

// Never inlined: compilers take that address for a constant, and a fault in what comes before may end on another OS thread.
[[gnu::noinline]] void count_uncaught() noexcept {
  struct Globals {
    void* caught;
    unsigned uncaught;
  };
  asm volatile("" ::: "memory");
  ++reinterpret_cast<Globals*>(__cxxabiv1::__cxa_get_globals())->uncaught;
}

[[noreturn]] void rethrow(void* object) {
  RefcountedException& header = header_of(object);
  auto* const dependent = reinterpret_cast<DependentException*>(__cxxabiv1::__cxa_allocate_dependent_exception());
  std::memcpy(static_cast<void*>(dependent), &object, sizeof(object));
  change(header, +1);
  dependent->unexpected_handler = header.exception.unexpected_handler;
  dependent->terminate_handler = std::get_terminate();
  dependent->unwind_header.exception_class = kDependentClass;
  dependent->unwind_header.exception_cleanup = &clean_up_dependent;
  count_uncaught();
  _Unwind_RaiseException(&dependent->unwind_header);
  __cxxabiv1::__cxa_begin_catch(&dependent->unwind_header);  // there is no handler, as for any throw
  std::terminate();
}

void* object_of(const std::exception_ptr& error) noexcept {
  static_assert(sizeof(std::exception_ptr) == sizeof(void*));
  void* object = nullptr;
  std::memcpy(&object, static_cast<const void*>(&error), sizeof(object));
  return object;
}

void share(void* object) noexcept {
  RefcountedException& header = header_of(object);
  std::atomic_ref<int> count(header.reference_count);
  int seen = count.load(std::memory_order_acquire);
  if ((seen & kFlags) != 0) return;
  header.exception.unwind_header.exception_cleanup = &clean_up;  // before the flag: E4
  while (!count.compare_exchange_weak(seen, seen | kMoving, std::memory_order_acq_rel))
    if ((seen & kFlags) != 0) return;
  tasks::call_native([](void*) { dsm::release(tasks::self()); }, nullptr);  // E3
  tasks::atomic_construct(&header.reference_count, sizeof(int), static_cast<std::uint32_t>(seen | kShared));
}

}  // namespace

// Defined here, as they are private to the C++ library's class.
static void add_owner(void* object) noexcept { (void)change(header_of(object), +1); }
static void drop_owner(void* object) noexcept { drop(object); }

}  // namespace ayatori::api

namespace ayatori::detail {

bool exception_is_shared(const std::exception_ptr& error) noexcept {
  void* const object = api::object_of(error);
  return object != nullptr &&
         std::atomic_ref<int>(api::header_of(object).reference_count).load(std::memory_order_relaxed) != 1;
}

void share_exception(const std::exception_ptr& error) noexcept {
  void* const object = api::object_of(error);
  if (object != nullptr && tasks::processes() > 1 && gas::contains(object)) api::share(object);
}

}  // namespace ayatori::detail

// E2.
namespace std {  // NOLINT: replaces functions of the C++ library
namespace __exception_ptr {
[[gnu::weak]] void exception_ptr::_M_addref() noexcept {
  if (_M_exception_object != nullptr) ayatori::api::add_owner(_M_exception_object);
}
[[gnu::weak]] void exception_ptr::_M_release() noexcept {
  if (_M_exception_object == nullptr) return;
  ayatori::api::drop_owner(_M_exception_object);
  _M_exception_object = nullptr;
}
}  // namespace __exception_ptr

[[gnu::weak]] void rethrow_exception(std::exception_ptr error) {  // NOLINT: the C++ library's parameter
  void* const object = ayatori::api::object_of(error);
  ayatori::api::rethrow(object);
}
}  // namespace std
