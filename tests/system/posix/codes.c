/* SPDX-License-Identifier: Apache-2.0 */
/* Every function of the interface and every code that it may return, but those that coverage.sh lists: on the thread that
 * calls, which goes on elsewhere now and then. What needs two threads at once is in the other files. */
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cases.h"

static const struct timespec kPast = {1, 0}, kBefore = {-1, 0}, kTooMany = {1, 1000000000}, kNegative = {1, -1};

static void* give_back(void* argument) { return argument; }
static void nothing(void) {}

/* ------------------------------------------------------------------------------------------------- threads */

#ifndef POSIX_REAL
static void outside(void* argument) {
  const struct sched_param zero = {0};
  ayatori_thread_t self = *(ayatori_thread_t*)argument, thread;
  ayatori_thread_attr_t attr;
  struct sched_param param;
  clockid_t clock;
  char name[16];
  int n;
  GIVES_HERE(OUTSIDE, EPERM, ayatori_thread_create(&thread, NULL, give_back, NULL));
  GIVES_HERE(OUTSIDE, EPERM, ayatori_thread_join(self, NULL));
  GIVES_HERE(OUTSIDE, EPERM, ayatori_thread_detach(self));
  GIVES_HERE(OUTSIDE, EPERM, ayatori_thread_cancel(self));
  GIVES_HERE(OUTSIDE, EPERM, ayatori_thread_setcancelstate(AYATORI_CANCEL_ENABLE, &n));
  GIVES_HERE(OUTSIDE, EPERM, ayatori_thread_setcanceltype(AYATORI_CANCEL_DEFERRED, &n));
  GIVES_HERE(OUTSIDE, EPERM, ayatori_thread_setschedparam(self, SCHED_OTHER, &zero));
  GIVES_HERE(OUTSIDE, EPERM, ayatori_thread_getschedparam(self, &n, &param));
  GIVES_HERE(OUTSIDE, EPERM, ayatori_thread_setschedprio(self, 0));
  GIVES_HERE(OUTSIDE, EPERM, ayatori_thread_getattr_np(self, &attr));
  GIVES_HERE(OUTSIDE, EPERM, ayatori_thread_setname_np(self, "name"));
  GIVES_HERE(OUTSIDE, EPERM, ayatori_thread_getname_np(self, name, sizeof name));
  GIVES_HERE(OUTSIDE, EPERM, ayatori_thread_getcpuclockid(self, &clock));
  GIVES_HERE(OUTSIDE, EPERM, ayatori_thread_kill(self, 0));
  CHECK(ayatori_thread_self() == 0 && ayatori_thread_yield() == 0);
  ayatori_thread_testcancel();
}
#else
static void outside(void* argument) {
  const ayatori_thread_t self = *(ayatori_thread_t*)argument;
  CHECK(!ayatori_thread_equal(self, ayatori_thread_self()));
  ayatori_thread_testcancel();
}
#endif

/* What needs a thread of the interface says so elsewhere. */
void code_outside(void) {
  ayatori_thread_t self = ayatori_thread_self();
  on_os_thread(outside, &self);
}

#ifndef POSIX_REAL
_Static_assert(AYATORI_CREATE_JOINABLE == AYATORI_THREAD_CREATE_JOINABLE &&
                   AYATORI_CREATE_DETACHED == AYATORI_THREAD_CREATE_DETACHED &&
                   AYATORI_STACK_MIN == AYATORI_THREAD_STACK_MIN && AYATORI_THREAD_KEYS_MAX == AYATORI_KEYS_MAX &&
                   AYATORI_THREAD_DESTRUCTOR_ITERATIONS == AYATORI_DESTRUCTOR_ITERATIONS && AYATORI_KEYS_MAX >= 128 &&
                   AYATORI_DESTRUCTOR_ITERATIONS >= 4 && AYATORI_SEM_NSEMS_MAX >= 256 && AYATORI_SEM_VALUE_MAX >= 32767,
               "both spellings are one, and POSIX's least values are kept");
/* Names that the rule gives when it is read the other way. */
static void other_spellings(void) {
  ayatori_attr_t attr;
  ayatori_key_t key = 0;
  ayatori_once_t once = AYATORI_THREAD_ONCE_INIT;
  int n = -1;
  const ayatori_thread_t none = AYATORI_NULL;
  CHECK(ayatori_thread_attr_init(&attr) == 0 && ayatori_thread_attr_destroy(&attr) == 0);
  CHECK(ayatori_thread_once(&once, nothing) == 0 && ayatori_thread_key_create(&key, NULL) == 0);
  CHECK(ayatori_thread_setspecific(key, &n) == 0 && ayatori_thread_getspecific(key) == &n);
  CHECK(ayatori_thread_key_delete(key) == 0 && ayatori_cancel(none) == ESRCH);
  CHECK(ayatori_setcancelstate(AYATORI_THREAD_CANCEL_ENABLE, &n) == 0 && n == AYATORI_THREAD_CANCEL_ENABLE);
  CHECK(ayatori_setcanceltype(AYATORI_THREAD_CANCEL_DEFERRED, &n) == 0 && n == AYATORI_THREAD_CANCEL_DEFERRED);
  ayatori_testcancel();
  ayatori_cleanup_push(free, NULL);
  ayatori_cleanup_pop(1);
}
#else
static void other_spellings(void) {}
#endif

static void* exits(void* argument) { ayatori_thread_exit(argument); }

void code_threads(void) {
  other_spellings();
  ayatori_thread_t thread, other;
  ayatori_thread_attr_t attr;
  void* result = NULL;
  int object;
  GIVES(0, ayatori_thread_create(&thread, NULL, give_back, &object));
  CHECK(ayatori_thread_equal(thread, thread) && !ayatori_thread_equal(thread, ayatori_thread_self()));
  GIVES(0, ayatori_thread_join(thread, &result));
  CHECK(result == &object);
  GIVES_HERE(UNDEFINED, ESRCH, ayatori_thread_join(thread, NULL));
  GIVES_HERE(UNDEFINED, ESRCH, ayatori_thread_detach(thread));
  GIVES_HERE(UNDEFINED, ESRCH, ayatori_thread_cancel(thread));
  GIVES(EDEADLK, ayatori_thread_join(ayatori_thread_self(), NULL));
  GIVES(0, ayatori_thread_yield());
  GIVES(0, ayatori_thread_create(&thread, NULL, exits, &object));
  migrate();
  GIVES(0, ayatori_thread_join(thread, &result));
  CHECK(result == &object);
  CHECK(ayatori_thread_attr_init(&attr) == 0 && ayatori_thread_attr_setstacksize(&attr, (size_t)1 << 50) == 0);
  GIVES(EAGAIN, ayatori_thread_create(&thread, &attr, give_back, NULL));
  CHECK(ayatori_thread_attr_destroy(&attr) == 0);
  GIVES_HERE(UNDEFINED, EINVAL, ayatori_thread_create(&thread, &attr, give_back, NULL));
  GIVES(0, ayatori_thread_create(&thread, NULL, give_back, NULL));
  GIVES(0, ayatori_thread_detach(thread));
#ifndef POSIX_REAL
  other = foreign_thread();
  GIVES_HERE(OUTSIDE, EINVAL, ayatori_thread_join(other, NULL));
  GIVES_HERE(OUTSIDE, EINVAL, ayatori_thread_detach(other));
  GIVES_HERE(OUTSIDE, EINVAL, ayatori_thread_cancel(other));
  end_foreign_thread();
#else
  (void)other;
#endif
}

void code_thread_attr(void) {
  ayatori_thread_attr_t attr;
  void* lowest;
  size_t bytes = 0;
  int n = -1;
  static char stack[64 * 1024] __attribute__((aligned(4096)));
  GIVES(0, ayatori_thread_attr_init(&attr));
  GIVES(0, ayatori_thread_attr_getdetachstate(&attr, &n));
  CHECK(n == AYATORI_THREAD_CREATE_JOINABLE);
  GIVES(0, ayatori_thread_attr_setdetachstate(&attr, AYATORI_THREAD_CREATE_DETACHED));
  GIVES(EINVAL, ayatori_thread_attr_setdetachstate(&attr, 77));
  CHECK(ayatori_thread_attr_getdetachstate(&attr, &n) == 0 && n == AYATORI_THREAD_CREATE_DETACHED);
  GIVES(0, ayatori_thread_attr_getstacksize(&attr, &bytes));
  CHECK(bytes >= (size_t)AYATORI_THREAD_STACK_MIN);
  GIVES(0, ayatori_thread_attr_setstacksize(&attr, (size_t)AYATORI_THREAD_STACK_MIN));
  GIVES(EINVAL, ayatori_thread_attr_setstacksize(&attr, (size_t)AYATORI_THREAD_STACK_MIN - 1));
  GIVES(EINVAL, ayatori_thread_attr_setstacksize(&attr, 0));
  CHECK(ayatori_thread_attr_getstacksize(&attr, &bytes) == 0 && bytes == (size_t)AYATORI_THREAD_STACK_MIN);
  GIVES(0, ayatori_thread_attr_setguardsize(&attr, 3 * 4096));
  GIVES(0, ayatori_thread_attr_getguardsize(&attr, &bytes));
  CHECK(bytes == 3 * 4096);
  GIVES(EINVAL, ayatori_thread_attr_setstack(&attr, stack, 100));
  GIVES_HERE(NO_SUCH, ENOTSUP, ayatori_thread_attr_setstack(&attr, stack, sizeof stack));
  GIVES(0, ayatori_thread_attr_getstack(&attr, &lowest, &bytes));
  GIVES(0, ayatori_thread_attr_destroy(&attr));
}

void code_scheduling(void) {
  ayatori_thread_attr_t attr;
  struct sched_param param = {7}, zero = {0};
  int n = -1;
  const ayatori_thread_t self = ayatori_thread_self();
  CHECK(ayatori_thread_attr_init(&attr) == 0);
  GIVES(0, ayatori_thread_attr_getscope(&attr, &n));
  GIVES(0, ayatori_thread_attr_setscope(&attr, n));
  GIVES_HERE("POSIX wants one of the two, and glibc has the other", ENOTSUP,
             ayatori_thread_attr_setscope(&attr, AYATORI_SCOPE_SYSTEM));
  GIVES(EINVAL, ayatori_thread_attr_setscope(&attr, 9));
  GIVES(0, ayatori_thread_attr_setinheritsched(&attr, AYATORI_EXPLICIT_SCHED));
  GIVES(EINVAL, ayatori_thread_attr_setinheritsched(&attr, 9));
  GIVES(0, ayatori_thread_attr_getinheritsched(&attr, &n));
  CHECK(n == AYATORI_EXPLICIT_SCHED && ayatori_thread_attr_setinheritsched(&attr, AYATORI_INHERIT_SCHED) == 0);
  GIVES(0, ayatori_thread_attr_setschedpolicy(&attr, SCHED_OTHER));
  GIVES_HERE(NO_SUCH, ENOTSUP, ayatori_thread_attr_setschedpolicy(&attr, SCHED_FIFO));
  GIVES(EINVAL, ayatori_thread_attr_setschedpolicy(&attr, 99));
  GIVES(0, ayatori_thread_attr_getschedpolicy(&attr, &n));
  CHECK(n == SCHED_OTHER);
  GIVES(EINVAL, ayatori_thread_attr_setschedparam(&attr, &param));
  GIVES(0, ayatori_thread_attr_getschedparam(&attr, &param));
  CHECK(param.sched_priority == 0);
  GIVES(0, ayatori_thread_attr_setschedparam(&attr, &param));
  CHECK(ayatori_thread_attr_destroy(&attr) == 0);
  GIVES(0, ayatori_thread_setschedparam(self, SCHED_OTHER, &zero));
  GIVES_HERE(NO_SUCH, ENOTSUP, ayatori_thread_setschedparam(self, SCHED_FIFO, &zero));
  GIVES(EINVAL, ayatori_thread_setschedparam(self, -5, &zero));
  GIVES(0, ayatori_thread_getschedparam(self, &n, &param));
  CHECK(n == SCHED_OTHER && param.sched_priority == 0);
  GIVES(0, ayatori_thread_setschedprio(self, 0));
  GIVES(EINVAL, ayatori_thread_setschedprio(self, 2));
  GIVES_HERE(UNDEFINED, ESRCH, ayatori_thread_setschedparam(0, SCHED_OTHER, &zero));
  GIVES_HERE(UNDEFINED, ESRCH, ayatori_thread_getschedparam(0, &n, &param));
  GIVES_HERE(UNDEFINED, ESRCH, ayatori_thread_setschedprio(0, 0));
  GIVES(EINVAL, ayatori_thread_setconcurrency(-1));
  GIVES(0, ayatori_thread_getconcurrency());
  GIVES(0, ayatori_thread_setconcurrency(3));
  CHECK(ayatori_thread_getconcurrency() == 3 || process_count() > 1);
  GIVES(0, ayatori_thread_setconcurrency(0));
}

void code_names(void) {
  ayatori_thread_attr_t attr;
  clockid_t clock;
  char name[20];
  const ayatori_thread_t self = ayatori_thread_self();
  GIVES(0, ayatori_thread_getattr_np(self, &attr));
  CHECK(ayatori_thread_attr_destroy(&attr) == 0);
  GIVES(0, ayatori_thread_getname_np(self, name, sizeof name));
  CHECK(strncmp(name, "posix_", 6) == 0);
  GIVES(0, ayatori_thread_setname_np(self, "fifteen letters"));
  migrate();
  GIVES(0, ayatori_thread_getname_np(self, name, 16));
  CHECK(strcmp(name, "fifteen letters") == 0);
  GIVES(ERANGE, ayatori_thread_setname_np(self, "sixteen letters."));
  GIVES(ERANGE, ayatori_thread_getname_np(self, name, 15));
  GIVES(0, ayatori_thread_setname_np(self, ""));
  CHECK(ayatori_thread_getname_np(self, name, 16) == 0 && name[0] == 0);
  GIVES_HERE("optional in POSIX", ENOTSUP, ayatori_thread_getcpuclockid(self, &clock));
  GIVES_HERE(UNDEFINED, ESRCH, ayatori_thread_getcpuclockid(0, &clock));
  GIVES_HERE(UNDEFINED, ESRCH, ayatori_thread_getattr_np(0, &attr));
  GIVES_HERE(UNDEFINED, ESRCH, ayatori_thread_setname_np(0, "x"));
  GIVES_HERE(UNDEFINED, ESRCH, ayatori_thread_getname_np(0, name, 16));
}

struct pair {
  ayatori_sem_t here, go;
};
static void* meet(void* argument) {
  struct pair* p = argument;
  CHECK(ayatori_sem_post(&p->here) == 0);
  while (ayatori_sem_wait(&p->go) != 0) CHECK(errno == EINTR);
  return NULL;
}

static volatile sig_atomic_t handled;
static void handle(int signal) { handled = signal; }

void code_signals(void) {
  sigset_t none, now;
  ayatori_thread_t thread;
  struct pair p;
  CHECK(ayatori_sem_init(&p.here, 0, 0) == 0 && ayatori_sem_init(&p.go, 0, 0) == 0);
  CHECK(ayatori_thread_create(&thread, NULL, meet, &p) == 0 && ayatori_sem_wait(&p.here) == 0);
  GIVES(0, ayatori_thread_kill(thread, 0));
  GIVES(0, ayatori_thread_kill(ayatori_thread_self(), 0));
  GIVES(EINVAL, ayatori_thread_kill(thread, 9999));
  GIVES(EINVAL, ayatori_thread_kill(thread, -1));
  GIVES_HERE(NO_SUCH, ENOTSUP, ayatori_thread_kill(thread, SIGUSR1));
  GIVES_HERE(UNDEFINED, ESRCH, ayatori_thread_kill(0, 0));
  CHECK(ayatori_sem_post(&p.go) == 0 && ayatori_thread_join(thread, NULL) == 0);
  CHECK(ayatori_sem_destroy(&p.here) == 0 && ayatori_sem_destroy(&p.go) == 0);
  struct sigaction new_action, old_action;
  memset(&new_action, 0, sizeof new_action);
  new_action.sa_handler = handle;
  CHECK(sigaction(SIGUSR2, &new_action, &old_action) == 0);
  GIVES(0, ayatori_thread_kill(ayatori_thread_self(), SIGUSR2)); /* handled before it returns */
  CHECK(handled == SIGUSR2 && sigaction(SIGUSR2, &old_action, NULL) == 0);
  sigemptyset(&none);
  GIVES(0, ayatori_thread_sigmask(SIG_SETMASK, NULL, &now));
  CHECK(sigismember(&now, SIGUSR2) == 0);
  GIVES(EINVAL, ayatori_thread_sigmask(99, &none, NULL));
  GIVES_HERE(NO_SUCH, ENOTSUP, ayatori_thread_sigmask(SIG_BLOCK, &none, NULL));
  GIVES(0, ayatori_thread_atfork(NULL, NULL, NULL));
}

void code_cancel(void) {
  ayatori_thread_t thread;
  struct pair p;
  void* result;
  int n = -1;
  CHECK(ayatori_sem_init(&p.here, 0, 0) == 0 && ayatori_sem_init(&p.go, 0, 0) == 0);
  CHECK(ayatori_thread_create(&thread, NULL, meet, &p) == 0 && ayatori_sem_wait(&p.here) == 0);
  migrate();
  GIVES(0, ayatori_thread_cancel(thread));
  GIVES(0, ayatori_thread_join(thread, &result));
  CHECK(result == AYATORI_CANCELED);
  CHECK(ayatori_sem_destroy(&p.here) == 0 && ayatori_sem_destroy(&p.go) == 0);
  GIVES(0, ayatori_thread_setcancelstate(AYATORI_CANCEL_DISABLE, &n));
  CHECK(n == AYATORI_CANCEL_ENABLE);
  GIVES(EINVAL, ayatori_thread_setcancelstate(77, &n));
  GIVES(0, ayatori_thread_setcancelstate(AYATORI_CANCEL_ENABLE, &n));
  CHECK(n == AYATORI_CANCEL_DISABLE);
  GIVES(0, ayatori_thread_setcanceltype(AYATORI_CANCEL_ASYNCHRONOUS, &n));
  CHECK(n == AYATORI_CANCEL_DEFERRED);
  GIVES(EINVAL, ayatori_thread_setcanceltype(77, &n));
  GIVES(0, ayatori_thread_setcanceltype(AYATORI_CANCEL_DEFERRED, &n));
  CHECK(n == AYATORI_CANCEL_ASYNCHRONOUS);
  ayatori_thread_testcancel();
}

/* ------------------------------------------------------------------------------------------------- mutexes */

static void* another(void* argument) {
  ayatori_mutex_t* m = argument;
  migrate();
  GIVES(EPERM, ayatori_mutex_unlock(m));
  GIVES(EBUSY, ayatori_mutex_trylock(m));
  GIVES(ETIMEDOUT, ayatori_mutex_timedlock(m, &kPast));
  GIVES(ETIMEDOUT, ayatori_mutex_timedlock(m, &kBefore));
  GIVES(ETIMEDOUT, ayatori_mutex_clocklock(m, CLOCK_MONOTONIC, &kPast));
  GIVES(EINVAL, ayatori_mutex_timedlock(m, &kTooMany));
  GIVES(EINVAL, ayatori_mutex_timedlock(m, &kNegative));
  GIVES(EINVAL, ayatori_mutex_clocklock(m, CLOCK_REALTIME, &kTooMany));
  return NULL;
}

void code_mutex(void) {
  ayatori_mutex_t m;
  ayatori_mutexattr_t attr;
  int n;
  CHECK(ayatori_mutexattr_init(&attr) == 0 && ayatori_mutexattr_settype(&attr, AYATORI_MUTEX_ERRORCHECK) == 0);
  GIVES(0, ayatori_mutex_init(&m, &attr));
  GIVES(0, ayatori_mutex_lock(&m));
  GIVES(EDEADLK, ayatori_mutex_lock(&m));
  GIVES(EDEADLK, ayatori_mutex_timedlock(&m, &kPast));
  GIVES(EDEADLK, ayatori_mutex_clocklock(&m, CLOCK_MONOTONIC, &kPast));
  GIVES(EBUSY, ayatori_mutex_trylock(&m));
  GIVES(EBUSY, ayatori_mutex_destroy(&m));
  in_threads(1, another, &m);
  GIVES(0, ayatori_mutex_unlock(&m));
  GIVES(EPERM, ayatori_mutex_unlock(&m));
  GIVES(0, ayatori_mutex_timedlock(&m, &kTooMany)); /* free: the time is not looked at */
  GIVES(0, ayatori_mutex_unlock(&m));
  GIVES(0, ayatori_mutex_clocklock(&m, CLOCK_MONOTONIC, &kPast));
  GIVES(0, ayatori_mutex_unlock(&m));
  GIVES(EINVAL, ayatori_mutex_clocklock(&m, 99, &kPast));
  GIVES(0, ayatori_mutex_trylock(&m));
  GIVES(0, ayatori_mutex_unlock(&m));
  GIVES(EINVAL, ayatori_mutex_consistent(&m));
  GIVES(EINVAL, ayatori_mutex_getprioceiling(&m, &n));
  GIVES(EINVAL, ayatori_mutex_setprioceiling(&m, 1, &n));
  GIVES(0, ayatori_mutex_destroy(&m));
  GIVES_HERE(UNDEFINED, EINVAL, ayatori_mutex_destroy(&m));
  GIVES_HERE(UNDEFINED, EINVAL, ayatori_mutex_lock(&m));
  GIVES_HERE(UNDEFINED, EINVAL, ayatori_mutex_trylock(&m));
  GIVES_HERE(UNDEFINED, EINVAL, ayatori_mutex_timedlock(&m, &kPast));
  GIVES_HERE(UNDEFINED, EINVAL, ayatori_mutex_unlock(&m));
  CHECK(ayatori_mutexattr_destroy(&attr) == 0);
  GIVES_HERE(UNDEFINED, EINVAL, ayatori_mutex_init(&m, &attr));
  GIVES(0, ayatori_mutex_init(&m, NULL)); /* what was destroyed may be made anew */
  GIVES(0, ayatori_mutex_destroy(&m));
}

void code_mutexattr(void) {
  ayatori_mutexattr_t a;
  int n = -1;
  GIVES(0, ayatori_mutexattr_init(&a));
  GIVES(0, ayatori_mutexattr_gettype(&a, &n));
  CHECK(n == AYATORI_MUTEX_DEFAULT);
  GIVES(0, ayatori_mutexattr_settype(&a, AYATORI_MUTEX_RECURSIVE));
  GIVES(EINVAL, ayatori_mutexattr_settype(&a, 99));
  CHECK(ayatori_mutexattr_gettype(&a, &n) == 0 && n == AYATORI_MUTEX_RECURSIVE);
  GIVES(0, ayatori_mutexattr_getpshared(&a, &n));
  CHECK(n == AYATORI_PROCESS_PRIVATE);
  GIVES(0, ayatori_mutexattr_setpshared(&a, AYATORI_PROCESS_SHARED));
  GIVES(EINVAL, ayatori_mutexattr_setpshared(&a, 99));
  CHECK(ayatori_mutexattr_getpshared(&a, &n) == 0 && n == AYATORI_PROCESS_SHARED);
  GIVES(0, ayatori_mutexattr_getprotocol(&a, &n));
  CHECK(n == AYATORI_PRIO_NONE);
  GIVES(0, ayatori_mutexattr_setprotocol(&a, AYATORI_PRIO_NONE));
  GIVES(EINVAL, ayatori_mutexattr_setprotocol(&a, 99));
  GIVES_HERE("optional in POSIX", ENOTSUP, ayatori_mutexattr_setprotocol(&a, AYATORI_PRIO_INHERIT));
  GIVES_HERE("optional in POSIX", ENOTSUP, ayatori_mutexattr_setprotocol(&a, AYATORI_PRIO_PROTECT));
  GIVES(0, ayatori_mutexattr_getrobust(&a, &n));
  CHECK(n == AYATORI_MUTEX_STALLED);
  GIVES(0, ayatori_mutexattr_setrobust(&a, AYATORI_MUTEX_ROBUST));
  GIVES(EINVAL, ayatori_mutexattr_setrobust(&a, 99));
  CHECK(ayatori_mutexattr_getrobust(&a, &n) == 0 && n == AYATORI_MUTEX_ROBUST);
  GIVES(0, ayatori_mutexattr_getprioceiling(&a, &n));
  CHECK(n >= sched_get_priority_min(SCHED_FIFO) && n <= sched_get_priority_max(SCHED_FIFO));
  GIVES(0, ayatori_mutexattr_setprioceiling(&a, 7));
  GIVES(EINVAL, ayatori_mutexattr_setprioceiling(&a, 1000));
  CHECK(ayatori_mutexattr_getprioceiling(&a, &n) == 0 && n == 7);
  CHECK(ayatori_mutexattr_gettype(&a, &n) == 0 && n == AYATORI_MUTEX_RECURSIVE); /* each is its own */
  GIVES(0, ayatori_mutexattr_destroy(&a));
}

/* ------------------------------------------------------------------------------------------------- conditions */

void code_cond(void) {
  ayatori_condattr_t attr;
  ayatori_cond_t cond;
  ayatori_mutex_t m = AYATORI_ERRORCHECK_MUTEX_INITIALIZER_NP;
  clockid_t clock = -1;
  int n = -1;
  GIVES(0, ayatori_condattr_init(&attr));
  GIVES(0, ayatori_condattr_getclock(&attr, &clock));
  CHECK(clock == CLOCK_REALTIME);
  GIVES(0, ayatori_condattr_setclock(&attr, CLOCK_MONOTONIC));
  GIVES(EINVAL, ayatori_condattr_setclock(&attr, 99));
  GIVES(EINVAL, ayatori_condattr_setclock(&attr, CLOCK_PROCESS_CPUTIME_ID));
  CHECK(ayatori_condattr_getclock(&attr, &clock) == 0 && clock == CLOCK_MONOTONIC);
  GIVES(0, ayatori_condattr_getpshared(&attr, &n));
  CHECK(n == AYATORI_PROCESS_PRIVATE);
  GIVES(0, ayatori_condattr_setpshared(&attr, AYATORI_PROCESS_SHARED));
  GIVES(EINVAL, ayatori_condattr_setpshared(&attr, 99));
  CHECK(ayatori_condattr_getpshared(&attr, &n) == 0 && n == AYATORI_PROCESS_SHARED);
  GIVES(0, ayatori_cond_init(&cond, &attr));
  GIVES(0, ayatori_condattr_destroy(&attr));
  GIVES(0, ayatori_cond_signal(&cond));
  GIVES(0, ayatori_cond_broadcast(&cond));
  CHECK(ayatori_mutex_lock(&m) == 0 && ayatori_mutex_unlock(&m) == 0);
  GIVES(EPERM, ayatori_cond_wait(&cond, &m));
  GIVES(EPERM, ayatori_cond_timedwait(&cond, &m, &kPast));
  GIVES(EPERM, ayatori_cond_clockwait(&cond, &m, CLOCK_REALTIME, &kPast));
  CHECK(ayatori_mutex_lock(&m) == 0);
  migrate();
  GIVES(ETIMEDOUT, ayatori_cond_timedwait(&cond, &m, &kPast));
  GIVES(ETIMEDOUT, ayatori_cond_timedwait(&cond, &m, &kBefore));
  GIVES(ETIMEDOUT, ayatori_cond_clockwait(&cond, &m, CLOCK_REALTIME, &kPast));
  GIVES(EINVAL, ayatori_cond_timedwait(&cond, &m, &kTooMany));
  GIVES(EINVAL, ayatori_cond_timedwait(&cond, &m, &kNegative));
  GIVES(EINVAL, ayatori_cond_clockwait(&cond, &m, CLOCK_MONOTONIC, &kTooMany));
  GIVES(EINVAL, ayatori_cond_clockwait(&cond, &m, 99, &kPast));
  GIVES(0, ayatori_mutex_unlock(&m)); /* it was held again each time */
  GIVES(0, ayatori_cond_destroy(&cond));
  GIVES_HERE(UNDEFINED, EINVAL, ayatori_cond_destroy(&cond));
  GIVES_HERE(UNDEFINED, EINVAL, ayatori_cond_signal(&cond));
  GIVES_HERE(UNDEFINED, EINVAL, ayatori_cond_broadcast(&cond));
  GIVES_HERE(UNDEFINED, EINVAL, ayatori_cond_wait(&cond, &m));
  GIVES(0, ayatori_cond_init(&cond, NULL));
  GIVES(0, ayatori_cond_destroy(&cond));
  CHECK(ayatori_mutex_destroy(&m) == 0);
}

/* ------------------------------------------------------------------------------------------------- other locks */

static void* against_writer(void* argument) {
  ayatori_rwlock_t* lock = argument;
  migrate();
  GIVES(EBUSY, ayatori_rwlock_tryrdlock(lock));
  GIVES(EBUSY, ayatori_rwlock_trywrlock(lock));
  GIVES(ETIMEDOUT, ayatori_rwlock_timedrdlock(lock, &kPast));
  GIVES(ETIMEDOUT, ayatori_rwlock_timedwrlock(lock, &kBefore));
  GIVES(ETIMEDOUT, ayatori_rwlock_clockrdlock(lock, CLOCK_MONOTONIC, &kPast));
  GIVES(ETIMEDOUT, ayatori_rwlock_clockwrlock(lock, CLOCK_MONOTONIC, &kPast));
  GIVES(EINVAL, ayatori_rwlock_timedrdlock(lock, &kTooMany));
  GIVES(EINVAL, ayatori_rwlock_timedwrlock(lock, &kNegative));
  GIVES(EINVAL, ayatori_rwlock_clockrdlock(lock, CLOCK_REALTIME, &kNegative));
  GIVES(EINVAL, ayatori_rwlock_clockwrlock(lock, CLOCK_REALTIME, &kTooMany));
  return NULL;
}

void code_rwlock(void) {
  ayatori_rwlockattr_t attr;
  ayatori_rwlock_t lock;
  int n = -1;
  GIVES(0, ayatori_rwlockattr_init(&attr));
  GIVES(0, ayatori_rwlockattr_getpshared(&attr, &n));
  CHECK(n == AYATORI_PROCESS_PRIVATE);
  GIVES(0, ayatori_rwlockattr_setpshared(&attr, AYATORI_PROCESS_SHARED));
  GIVES(EINVAL, ayatori_rwlockattr_setpshared(&attr, 99));
  CHECK(ayatori_rwlockattr_getpshared(&attr, &n) == 0 && n == AYATORI_PROCESS_SHARED);
  GIVES(0, ayatori_rwlockattr_setkind_np(&attr, AYATORI_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP));
  GIVES(EINVAL, ayatori_rwlockattr_setkind_np(&attr, 99));
  GIVES(0, ayatori_rwlockattr_getkind_np(&attr, &n));
  CHECK(n == AYATORI_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
  GIVES(0, ayatori_rwlock_init(&lock, &attr));
  GIVES(0, ayatori_rwlockattr_destroy(&attr));
  GIVES(0, ayatori_rwlock_rdlock(&lock));
  GIVES(EBUSY, ayatori_rwlock_trywrlock(&lock));
  GIVES(0, ayatori_rwlock_tryrdlock(&lock));
  GIVES(0, ayatori_rwlock_unlock(&lock));
  GIVES(0, ayatori_rwlock_timedrdlock(&lock, &kPast));
  GIVES(0, ayatori_rwlock_unlock(&lock));
  GIVES(0, ayatori_rwlock_clockrdlock(&lock, CLOCK_MONOTONIC, &kPast));
  GIVES(0, ayatori_rwlock_unlock(&lock));
  GIVES(0, ayatori_rwlock_unlock(&lock));
  GIVES_HERE(UNDEFINED, EPERM, ayatori_rwlock_unlock(&lock));
  GIVES(0, ayatori_rwlock_trywrlock(&lock));
  GIVES(0, ayatori_rwlock_unlock(&lock));
  GIVES(0, ayatori_rwlock_timedwrlock(&lock, &kPast));
  GIVES(0, ayatori_rwlock_unlock(&lock));
  GIVES(0, ayatori_rwlock_clockwrlock(&lock, CLOCK_MONOTONIC, &kPast));
  GIVES(0, ayatori_rwlock_unlock(&lock));
  GIVES(0, ayatori_rwlock_wrlock(&lock));
  migrate();
  const struct timespec later = in_ms(CLOCK_REALTIME, 60000), later_too = in_ms(CLOCK_MONOTONIC, 60000);
  GIVES(EDEADLK, ayatori_rwlock_wrlock(&lock));
  GIVES(EDEADLK, ayatori_rwlock_rdlock(&lock));
  GIVES(EDEADLK, ayatori_rwlock_timedrdlock(&lock, &later));
  GIVES(EDEADLK, ayatori_rwlock_timedwrlock(&lock, &later));
  GIVES(EDEADLK, ayatori_rwlock_clockrdlock(&lock, CLOCK_MONOTONIC, &later_too));
  GIVES(EDEADLK, ayatori_rwlock_clockwrlock(&lock, CLOCK_MONOTONIC, &later_too));
  GIVES(EBUSY, ayatori_rwlock_tryrdlock(&lock));
  GIVES_HERE(UNDEFINED, EBUSY, ayatori_rwlock_destroy(&lock));
  in_threads(1, against_writer, &lock);
  GIVES(EINVAL, ayatori_rwlock_clockrdlock(&lock, 99, &kPast));
  GIVES(EINVAL, ayatori_rwlock_clockwrlock(&lock, 99, &kPast));
  GIVES(0, ayatori_rwlock_unlock(&lock));
  GIVES(0, ayatori_rwlock_destroy(&lock));
  GIVES_HERE(UNDEFINED, EINVAL, ayatori_rwlock_destroy(&lock));
  GIVES_HERE(UNDEFINED, EINVAL, ayatori_rwlock_rdlock(&lock));
  GIVES_HERE(UNDEFINED, EINVAL, ayatori_rwlock_tryrdlock(&lock));
  GIVES_HERE(UNDEFINED, EINVAL, ayatori_rwlock_wrlock(&lock));
  GIVES_HERE(UNDEFINED, EINVAL, ayatori_rwlock_trywrlock(&lock));
  GIVES_HERE(UNDEFINED, EINVAL, ayatori_rwlock_unlock(&lock));
}

void code_spin(void) {
  ayatori_spinlock_t lock;
  GIVES_HERE("glibc looks at nothing", EINVAL, ayatori_spin_init(&lock, 99));
  GIVES(0, ayatori_spin_init(&lock, AYATORI_PROCESS_PRIVATE));
  GIVES(0, ayatori_spin_lock(&lock));
  migrate();
  GIVES(EBUSY, ayatori_spin_trylock(&lock));
  GIVES_HERE(UNDEFINED, EDEADLK, ayatori_spin_lock(&lock));
  GIVES_HERE(UNDEFINED, EBUSY, ayatori_spin_destroy(&lock));
  GIVES(0, ayatori_spin_unlock(&lock));
  GIVES_HERE(UNDEFINED, EPERM, ayatori_spin_unlock(&lock));
  GIVES(0, ayatori_spin_trylock(&lock));
  GIVES(0, ayatori_spin_unlock(&lock));
  GIVES(0, ayatori_spin_destroy(&lock));
  GIVES_HERE(UNDEFINED, EINVAL, ayatori_spin_destroy(&lock));
  GIVES_HERE(UNDEFINED, EINVAL, ayatori_spin_lock(&lock));
  GIVES_HERE(UNDEFINED, EINVAL, ayatori_spin_trylock(&lock));
  GIVES_HERE(UNDEFINED, EINVAL, ayatori_spin_unlock(&lock));
}

void code_barrier(void) {
  ayatori_barrierattr_t attr;
  ayatori_barrier_t barrier;
  int n = -1;
  GIVES(0, ayatori_barrierattr_init(&attr));
  GIVES(0, ayatori_barrierattr_getpshared(&attr, &n));
  CHECK(n == AYATORI_PROCESS_PRIVATE);
  GIVES(0, ayatori_barrierattr_setpshared(&attr, AYATORI_PROCESS_SHARED));
  GIVES(EINVAL, ayatori_barrierattr_setpshared(&attr, 99));
  GIVES(EINVAL, ayatori_barrier_init(&barrier, NULL, 0));
  GIVES(0, ayatori_barrier_init(&barrier, &attr, 1));
  GIVES(0, ayatori_barrierattr_destroy(&attr));
  GIVES(AYATORI_BARRIER_SERIAL_THREAD, ayatori_barrier_wait(&barrier));
  GIVES(AYATORI_BARRIER_SERIAL_THREAD, ayatori_barrier_wait(&barrier));
  GIVES(0, ayatori_barrier_destroy(&barrier));
  GIVES_HERE(UNDEFINED, EINVAL, ayatori_barrier_wait(&barrier));
  GIVES_HERE(UNDEFINED, EINVAL, ayatori_barrier_destroy(&barrier));
}

static ayatori_once_t once_control = AYATORI_ONCE_INIT;
void code_once(void) {
  ayatori_once_t* volatile no_control = NULL;
  void (*volatile no_routine)(void) = NULL;
  GIVES(0, ayatori_once(&once_control, nothing));
  GIVES(0, ayatori_once(&once_control, nothing));
  GIVES_HERE(UNDEFINED, EINVAL, ayatori_once(no_control, nothing));
  GIVES_HERE(UNDEFINED, EINVAL, ayatori_once(&once_control, no_routine));
}

void code_keys(void) {
  ayatori_key_t key = 0;
  int object;
  GIVES(0, ayatori_key_create(&key, NULL));
  CHECK(ayatori_getspecific(key) == NULL);
  GIVES(0, ayatori_setspecific(key, &object));
  migrate();
  CHECK(ayatori_getspecific(key) == &object);
  GIVES(0, ayatori_key_delete(key));
  GIVES(EINVAL, ayatori_key_delete(key));
  GIVES(EINVAL, ayatori_setspecific(key, &object));
}

/* ------------------------------------------------------------------------------------------------- semaphores */

void code_sem(void) {
  ayatori_sem_t sem;
  int n = -1;
  SETS(EINVAL, ayatori_sem_init(&sem, 0, (unsigned)AYATORI_SEM_VALUE_MAX + 1));
  SETS(0, ayatori_sem_init(&sem, 0, 1));
  SETS(0, ayatori_sem_getvalue(&sem, &n));
  CHECK(n == 1);
  migrate();
  SETS(0, ayatori_sem_wait(&sem));
  SETS(EAGAIN, ayatori_sem_trywait(&sem));
  SETS(ETIMEDOUT, ayatori_sem_timedwait(&sem, &kPast));
  SETS(ETIMEDOUT, ayatori_sem_timedwait(&sem, &kBefore));
  SETS(ETIMEDOUT, ayatori_sem_clockwait(&sem, CLOCK_MONOTONIC, &kPast));
  SETS(EINVAL, ayatori_sem_timedwait(&sem, &kTooMany));
  SETS(EINVAL, ayatori_sem_timedwait(&sem, &kNegative));
  SETS(EINVAL, ayatori_sem_clockwait(&sem, CLOCK_REALTIME, &kTooMany));
  SETS(EINVAL, ayatori_sem_clockwait(&sem, 99, &kPast));
  SETS(0, ayatori_sem_post(&sem));
  SETS(0, ayatori_sem_trywait(&sem));
  SETS(0, ayatori_sem_post(&sem));
  SETS(0, ayatori_sem_timedwait(&sem, &kPast));
  SETS(0, ayatori_sem_post(&sem));
  SETS(0, ayatori_sem_clockwait(&sem, CLOCK_MONOTONIC, &kPast));
  SETS(0, ayatori_sem_destroy(&sem));
  SETS_HERE(UNDEFINED, EINVAL, ayatori_sem_destroy(&sem));
  SETS_HERE(UNDEFINED, EINVAL, ayatori_sem_wait(&sem));
  SETS_HERE(UNDEFINED, EINVAL, ayatori_sem_trywait(&sem));
  SETS_HERE(UNDEFINED, EINVAL, ayatori_sem_timedwait(&sem, &kPast));
  SETS_HERE(UNDEFINED, EINVAL, ayatori_sem_post(&sem));
  SETS_HERE(UNDEFINED, EINVAL, ayatori_sem_getvalue(&sem, &n));
  SETS(0, ayatori_sem_init(&sem, 1, AYATORI_SEM_VALUE_MAX));
  SETS(EOVERFLOW, ayatori_sem_post(&sem));
  SETS(0, ayatori_sem_destroy(&sem));
}

/* The open that gives AYATORI_SEM_FAILED, as -1. */
#define ayatori_sem_open_(...) (ayatori_sem_open(__VA_ARGS__) == AYATORI_SEM_FAILED ? -1 : 0)

void code_named_sem(void) {
  char name[64], longest[NAME_MAX + 3];
  snprintf(name, sizeof name, "/ayatori-posix-%d", (int)getpid());
  memset(longest, 'x', sizeof longest);
  longest[0] = '/';
  longest[sizeof longest - 1] = 0;
  SETS(ENOENT, ayatori_sem_open_(name, 0));
  SETS(EINVAL, ayatori_sem_open_(name, O_CREAT, 0600, (unsigned)AYATORI_SEM_VALUE_MAX + 1));
  ayatori_sem_t* sem = ayatori_sem_open(name, O_CREAT | O_EXCL, 0600, 1u);
  CHECK(sem != AYATORI_SEM_FAILED);
  SETS(EEXIST, ayatori_sem_open_(name, O_CREAT | O_EXCL, 0600, 1u));
  migrate();
  ayatori_sem_t* same = ayatori_sem_open(name, O_CREAT, 0600, 5u); /* mode and value do not matter */
  CHECK(same == sem && ayatori_sem_open(name, 0) == sem);
  SETS(0, ayatori_sem_trywait(same));
  SETS(EAGAIN, ayatori_sem_trywait(sem));
  SETS_HERE(UNDEFINED, EINVAL, ayatori_sem_destroy(sem));
  SETS_HERE("glibc says EINVAL", ENAMETOOLONG, ayatori_sem_open_(longest, O_CREAT, 0600, 1u));
  SETS(EINVAL, ayatori_sem_open_("/", O_CREAT, 0600, 1u));
  SETS(EINVAL, ayatori_sem_open_("/a/b", O_CREAT, 0600, 1u));
  for (int i = 0; i < 3; ++i) SETS(0, ayatori_sem_close(sem));
  SETS_HERE(UNDEFINED, EINVAL, ayatori_sem_close(sem));
  ayatori_sem_t other;
  CHECK(ayatori_sem_init(&other, 0, 1) == 0);
  SETS(EINVAL, ayatori_sem_close(&other));
  CHECK(ayatori_sem_destroy(&other) == 0);
  SETS(0, ayatori_sem_unlink(name));
  SETS(ENOENT, ayatori_sem_unlink(name));
  SETS_HERE("glibc says ENOENT", ENAMETOOLONG, ayatori_sem_unlink(longest));
  SETS(ENOENT, ayatori_sem_open_(name, 0));
#ifndef POSIX_REAL
  ayatori_sem_t* all[AYATORI_SEM_NSEMS_MAX];
  int opened = 0;
  for (; opened < AYATORI_SEM_NSEMS_MAX; ++opened) {
    snprintf(name, sizeof name, "/%d", opened);
    all[opened] = ayatori_sem_open(name, O_CREAT | O_EXCL, 0600, 0u);
    if (all[opened] == AYATORI_SEM_FAILED) break;
  }
  CHECK(opened == AYATORI_SEM_NSEMS_MAX - 1); /* one is named in main() */
  SETS_HERE("files are the system's", ENFILE, ayatori_sem_open_("/more", O_CREAT, 0600, 0u));
  for (int i = 0; i < opened; ++i) {
    snprintf(name, sizeof name, "/%d", i);
    CHECK(ayatori_sem_unlink(name) == 0 && ayatori_sem_close(all[i]) == 0);
  }
#endif
}

/* ------------------------------------------------------------------------------------------------- memory */

void code_memory(void) {
  const volatile size_t most = SIZE_MAX / 2, odd = 3;
  char* p = ayatori_malloc(10);
  CHECK(p != NULL);
  memset(p, 7, 10);
  migrate();
  p = ayatori_realloc(p, 100000);
  CHECK(p != NULL && p[9] == 7);
  ayatori_free(p);
  p = ayatori_calloc(10, 10);
  CHECK(p != NULL && p[99] == 0);
  errno = 5;
  ayatori_free(p);
  ayatori_free(NULL);
  CHECK(errno == 5);
  p = ayatori_aligned_alloc(4096, 8192);
  CHECK(p != NULL && (uintptr_t)p % 4096 == 0);
  ayatori_free(p);
#define NONE(call) ((call) == NULL ? -1 : 0)
  SETS(ENOMEM, NONE(ayatori_malloc(most)));
  SETS(ENOMEM, NONE(ayatori_calloc(most, 4)));
  SETS(ENOMEM, NONE(ayatori_realloc(NULL, most)));
  SETS(ENOMEM, NONE(ayatori_aligned_alloc(64, most & ~(size_t)63)));
  SETS_HERE(UNDEFINED, EINVAL, NONE(ayatori_aligned_alloc(odd, 64)));
  CHECK((p = ayatori_malloc(0)) != NULL);
  ayatori_free(p);
}
