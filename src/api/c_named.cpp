// SPDX-License-Identifier: Apache-2.0
// Named semaphores and sleep, as include/ayatori/ayatori.h declares them, over tasks::names and tasks::sync. Called on
// user-level threads and OS threads of the program.
#include <fcntl.h>
#include <time.h>

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <cstdint>
#include <exception>
#include <limits>
#include <string_view>

#include "api/c_cancel.hpp"
#include "api/c_sync.hpp"
#include "api/start.hpp"
#include "ayatori/ayatori.h"
#include "tasks/names.hpp"

namespace {

namespace names = ayatori::tasks::names;
namespace sync = ayatori::tasks::sync;

static_assert(AYATORI_SEM_NSEMS_MAX == names::kSemaphores && sizeof(ayatori_sem_t) == sizeof(std::uint64_t));

// Never inlined: a thread-local's address is not kept across a switch of threads.
[[gnu::noinline]] void set_errno(int error) noexcept { errno = error; }

// The name as the job knows it, without its slashes in front. 0 or an error.
int parse(const char* name, std::string_view* parsed) noexcept {
  std::string_view n(name);
  n.remove_prefix(std::min(n.find_first_not_of('/'), n.size()));
  if (n.empty() || n.find('/') != n.npos) return EINVAL;
  if (n.size() > names::kLongest) return ENAMETOOLONG;
  *parsed = n;
  return 0;
}

sync::Handle create(unsigned value) noexcept {
  try {
    return sync::semaphore_create(value);
  } catch (const std::exception&) {
    return 0;
  }
}

ayatori_sem_t* failed(int error) noexcept {
  set_errno(error);
  return AYATORI_SEM_FAILED;
}

}  // namespace

extern "C" {

ayatori_sem_t* ayatori_sem_open(const char* name, int flags, ...) {
  ayatori::api::ensure_started();  // an initialiser may be earlier than the library's own
  std::string_view parsed;
  if (const int wrong = parse(name, &parsed)) return failed(wrong);
  sync::Handle made = 0;
  if ((flags & O_CREAT) != 0) {
    va_list more;
    va_start(more, flags);
    (void)va_arg(more, mode_t);
    const unsigned value = va_arg(more, unsigned);
    va_end(more);
    if (value > AYATORI_SEM_VALUE_MAX) return failed(EINVAL);
    made = create(value);
    if (made == 0) return failed(ENOSPC);
  }
  bool taken = false;
  int error = 0;
  std::uint64_t* const word = names::open(parsed, made, made != 0 && (flags & O_EXCL) != 0, &taken, &error);
  if (!taken) sync::semaphore_destroy(made);
  return word ? reinterpret_cast<ayatori_sem_t*>(word) : failed(error);
}

int ayatori_sem_close(ayatori_sem_t* sem) {
  sync::Handle ended = 0;
  const int error = names::close(&sem->handle, &ended);
  sync::semaphore_destroy(ended);
  if (error == 0) return 0;
  set_errno(error);
  return -1;
}

int ayatori_sem_unlink(const char* name) {
  std::string_view parsed;
  sync::Handle ended = 0;
  int error = parse(name, &parsed);
  if (error == EINVAL) error = ENOENT;
  if (error == 0) error = names::unlink(parsed, &ended);
  sync::semaphore_destroy(ended);
  if (error == 0) return 0;
  set_errno(error);
  return -1;
}

int ayatori_nanosleep(const struct timespec* duration, struct timespec* left) {
  if (!ayatori::api::valid(duration) || duration->tv_sec < 0) {
    set_errno(EINVAL);
    return -1;
  }
  struct Never {
    ayatori_sem_t sem{};
    ~Never() { ayatori_sem_destroy(&sem); }  // also when it is cancelled
  };
  Never never;
  if (ayatori_sem_init(&never.sem, 0, 0) != 0) return -1;
  timespec until{};
  clock_gettime(CLOCK_MONOTONIC, &until);
  until.tv_nsec += duration->tv_nsec;
  if (until.tv_nsec >= ayatori::base::kNsPerSecond) {
    until.tv_nsec -= ayatori::base::kNsPerSecond;
    ++until.tv_sec;
  }
  if (__builtin_add_overflow(until.tv_sec, duration->tv_sec, &until.tv_sec))
    until.tv_sec = std::numeric_limits<time_t>::max();
  ayatori_sem_clockwait(&never.sem, CLOCK_MONOTONIC, &until);
  if (left) *left = {0, 0};
  return 0;
}

}  // extern "C"
