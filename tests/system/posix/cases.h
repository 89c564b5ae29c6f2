/* SPDX-License-Identifier: Apache-2.0 */
/* What the cases share. They are compiled twice: against the library, where they run on several processes, and with
 * real/ayatori/ayatori.h against the C library's own threads, which must pass them too.
 *
 * GIVES(code, call): the call returns this code. SETS(code, call): the call of a function with errno returns -1 and sets it.
 * ..._HERE(why, code, call): as those, not asked of the C library, for the reason given: POSIX leaves it open, or there
 * is another choice. coverage.sh looks for these and holds them against docs/guide/pthreads.md. */
#ifndef TESTS_SYSTEM_POSIX_CASES_H
#define TESTS_SYSTEM_POSIX_CASES_H

#include <ayatori/ayatori.h>
#include <errno.h>

int here(void);          /* number of the process */
int process_count(void); /* of the job */
int worker_count(void);  /* of this process */
void migrate(void);      /* returns on another process, if there is one; called by any thread */
void failed(const char* file, int line, const char* what);
void gave(const char* file, int line, const char* what, int wanted, int got);
void left_out(const char* why, const char* what); /* of the C library's run */
int failures(void);
ayatori_thread_t foreign_thread(void);               /* a thread that this interface did not make, until the next */
void end_foreign_thread(void);                       /* is called */
void on_os_thread(void (*f)(void*), void* argument); /* runs there, the caller waits */

#define CHECK(e) ((e) ? (void)0 : failed(__FILE__, __LINE__, #e))
#define GIVES(code, call)                                                            \
  do {                                                                               \
    const int got_ = (call);                                                         \
    if (got_ != (code)) gave(__FILE__, __LINE__, #call " gives " #code, code, got_); \
  } while (0)
#define SETS(code, call)                                                                  \
  do {                                                                                    \
    errno = 0;                                                                            \
    const int got_ = (call) == -1 ? errno : 0;                                            \
    if (got_ != (code)) gave(__FILE__, __LINE__, #call " sets errno " #code, code, got_); \
  } while (0)
#ifdef POSIX_REAL
#define GIVES_HERE(why, code, call) ((void)sizeof(call), left_out(why, #call " gives " #code)) /* not called */
#define SETS_HERE(why, code, call) ((void)sizeof(call), left_out(why, #call " sets errno " #code))
#else
#define GIVES_HERE(why, code, call) GIVES(code, call)
#define SETS_HERE(why, code, call) SETS(code, call)
#endif

/* A code that is compared otherwise, nearby. */
#define COVERS(code, function) ((void)0)

/* Why the C library is not asked. */
#define UNDEFINED "undefined in POSIX"
#define OUTSIDE "only Ayatori has threads that are none of its own"
#define NO_SUCH "there is nothing like it where threads change their worker and process"

extern ayatori_key_t once_key;

/* The time of `clock` in so many milliseconds. */
struct timespec in_ms(clockid_t clock, long ms);
int64_t now_ms(clockid_t clock);

/* Runs f(argument) in n threads and joins them. */
void in_threads(int n, void* (*f)(void*), void* argument);

/* clang-format off */
#define CASES(X) \
  X(code_outside) X(code_threads) X(code_thread_attr) X(code_scheduling) X(code_names) X(code_signals) \
  X(code_cancel) X(code_mutex) X(code_mutexattr) X(code_cond) X(code_rwlock) X(code_spin) X(code_barrier) \
  X(code_once) X(code_keys) X(code_sem) X(code_named_sem) X(code_memory) X(robust_owner_dies) \
  X(robust_not_recoverable) X(robust_waiters) X(robust_cond) X(robust_kinds) X(robust_many) \
  X(named_sem_everywhere) X(named_sem_lives) X(mutex_kinds) X(mutex_busy) X(cond_wakes_one) X(cond_boundaries) \
  X(keys_rounds) X(keys_exhausted) X(once_cancelled) X(cancel_states) X(cancel_in_section) X(cleanup_order) \
  X(barrier_reuse) X(sem_limits) X(sem_excludes) X(rwlock_many) X(join_rules) X(detach_rules) X(stack_sizes) \
  X(stack_of_thread) X(static_objects) X(sleeps) X(fork_exec) X(fork_handlers) X(spawns)
/* clang-format on */

#define X(name) void name(void);
CASES(X)
#undef X

#endif
