/* SPDX-License-Identifier: Apache-2.0 */
/* What locks, conditions, barriers and semaphores promise between threads, on whatever process they are. */
#include <string.h>

#include "cases.h"

enum { kThreads = 8, kRounds = 40 };

/* ------------------------------------------------------------------------------------------------- mutexes */

static ayatori_mutex_t static_mutex = AYATORI_MUTEX_INITIALIZER;
static ayatori_mutex_t static_recursive = AYATORI_RECURSIVE_MUTEX_INITIALIZER_NP;
static ayatori_mutex_t static_checked = AYATORI_ERRORCHECK_MUTEX_INITIALIZER_NP;
static ayatori_cond_t static_cond = AYATORI_COND_INITIALIZER;
static ayatori_rwlock_t static_rwlock = AYATORI_RWLOCK_INITIALIZER;

struct objects {
  ayatori_mutex_t mutex;
  ayatori_cond_t cond;
  ayatori_rwlock_t lock;
  ayatori_barrier_t barrier;
  ayatori_sem_t sem, other;
  int count, inside, waiting, going, gone;
};

static void* counts(void* argument) {
  struct objects* o = argument;
  migrate();
  for (int i = 0; i < kRounds; ++i) {
    CHECK(ayatori_mutex_lock(&static_mutex) == 0 && ayatori_mutex_lock(&static_recursive) == 0);
    CHECK(ayatori_mutex_lock(&static_recursive) == 0 && ayatori_rwlock_wrlock(&static_rwlock) == 0);
    CHECK(ayatori_mutex_lock(&static_checked) == 0 && ayatori_mutex_lock(&static_checked) == EDEADLK);
    ++o->count;
    CHECK(ayatori_cond_signal(&static_cond) == 0);
    CHECK(ayatori_mutex_unlock(&static_checked) == 0 && ayatori_rwlock_unlock(&static_rwlock) == 0);
    CHECK(ayatori_mutex_unlock(&static_recursive) == 0 && ayatori_mutex_unlock(&static_recursive) == 0);
    CHECK(ayatori_mutex_unlock(&static_mutex) == 0);
  }
  return NULL;
}

/* Initialisers in static data are one object for all. */
void static_objects(void) {
  struct objects* o = ayatori_calloc(1, sizeof *o);
  in_threads(kThreads, counts, o);
  CHECK(o->count == kThreads * kRounds);
  ayatori_free(o);
}

static void* tries(void* argument) {
  struct objects* o = argument;
  migrate();
  GIVES(EBUSY, ayatori_mutex_trylock(&o->mutex));
  GIVES(EPERM, ayatori_mutex_unlock(&o->mutex));
  return NULL;
}

/* Relocked and unlocked by others, as POSIX's table says. */
void mutex_kinds(void) {
  struct objects* o = ayatori_calloc(1, sizeof *o);
  ayatori_mutexattr_t attr;
  const struct timespec past = {1, 0};
  CHECK(ayatori_mutexattr_init(&attr) == 0);
  CHECK(ayatori_mutexattr_settype(&attr, AYATORI_MUTEX_NORMAL) == 0 && ayatori_mutex_init(&o->mutex, &attr) == 0);
  GIVES(0, ayatori_mutex_lock(&o->mutex));
  GIVES(EBUSY, ayatori_mutex_trylock(&o->mutex));
  GIVES(ETIMEDOUT, ayatori_mutex_timedlock(&o->mutex, &past)); /* it would wait for ever */
  GIVES(0, ayatori_mutex_unlock(&o->mutex));
  CHECK(ayatori_mutex_destroy(&o->mutex) == 0);

  CHECK(ayatori_mutexattr_settype(&attr, AYATORI_MUTEX_ERRORCHECK) == 0 && ayatori_mutex_init(&o->mutex, &attr) == 0);
  GIVES(EPERM, ayatori_mutex_unlock(&o->mutex));
  GIVES(0, ayatori_mutex_lock(&o->mutex));
  in_threads(2, tries, o);
  GIVES(EDEADLK, ayatori_mutex_lock(&o->mutex));
  GIVES(0, ayatori_mutex_unlock(&o->mutex));
  CHECK(ayatori_mutex_destroy(&o->mutex) == 0);

  CHECK(ayatori_mutexattr_settype(&attr, AYATORI_MUTEX_RECURSIVE) == 0 && ayatori_mutex_init(&o->mutex, &attr) == 0);
  GIVES(EPERM, ayatori_mutex_unlock(&o->mutex));
  for (int i = 0; i < 1000; ++i) GIVES(0, i % 2 ? ayatori_mutex_lock(&o->mutex) : ayatori_mutex_trylock(&o->mutex));
  in_threads(1, tries, o);
  for (int i = 0; i < 999; ++i) GIVES(0, ayatori_mutex_unlock(&o->mutex));
  migrate();
  in_threads(1, tries, o); /* still held, once */
  GIVES(0, ayatori_mutex_unlock(&o->mutex));
  GIVES(EPERM, ayatori_mutex_unlock(&o->mutex));
  CHECK(ayatori_mutex_destroy(&o->mutex) == 0 && ayatori_mutexattr_destroy(&attr) == 0);
  ayatori_free(o);
}

static void* waits_there(void* argument) {
  struct objects* o = argument;
  migrate();
  CHECK(ayatori_mutex_lock(&o->mutex) == 0);
  ++o->waiting;
  while (!o->going) CHECK(ayatori_cond_wait(&o->cond, &o->mutex) == 0);
  ++o->gone;
  CHECK(ayatori_mutex_unlock(&o->mutex) == 0);
  return NULL;
}
#ifndef POSIX_REAL
static void* arrives(void* argument) {
  struct objects* o = argument;
  CHECK(ayatori_sem_post(&o->sem) == 0);
  const int code = ayatori_barrier_wait(&o->barrier);
  CHECK(code == 0 || code == AYATORI_BARRIER_SERIAL_THREAD);
  return NULL;
}
static void* takes_unit(void* argument) {
  struct objects* o = argument;
  CHECK(ayatori_sem_post(&o->sem) == 0 && ayatori_sem_wait(&o->other) == 0);
  return NULL;
}
#endif

/* What somebody holds or waits for is not destroyed, and goes on. */
void mutex_busy(void) {
  struct objects* o = ayatori_calloc(1, sizeof *o);
  ayatori_thread_t thread;
  CHECK(ayatori_mutex_init(&o->mutex, NULL) == 0 && ayatori_cond_init(&o->cond, NULL) == 0);
  CHECK(ayatori_mutex_lock(&o->mutex) == 0);
  GIVES(EBUSY, ayatori_mutex_destroy(&o->mutex));
  CHECK(ayatori_mutex_unlock(&o->mutex) == 0);
  CHECK(ayatori_thread_create(&thread, NULL, waits_there, o) == 0);
  for (int seen = 0; !seen; ayatori_thread_yield()) {
    CHECK(ayatori_mutex_lock(&o->mutex) == 0);
    seen = o->waiting;
    if (seen) GIVES_HERE("glibc waits for those who wait", EBUSY, ayatori_cond_destroy(&o->cond));
    o->going = seen;
    CHECK(ayatori_mutex_unlock(&o->mutex) == 0);
  }
  CHECK(ayatori_cond_signal(&o->cond) == 0 && ayatori_thread_join(thread, NULL) == 0);
  CHECK(ayatori_cond_destroy(&o->cond) == 0 && ayatori_mutex_destroy(&o->mutex) == 0);
#ifndef POSIX_REAL
  /* Whether somebody waits there already is seen from the code alone: until then it may not be destroyed by accident. */
  CHECK(ayatori_sem_init(&o->sem, 0, 0) == 0 && ayatori_sem_init(&o->other, 0, 0) == 0);
  if (process_count() == 1 && worker_count() == 1) {
    CHECK(ayatori_barrier_init(&o->barrier, NULL, 2) == 0);
    CHECK(ayatori_thread_create(&thread, NULL, arrives, o) == 0 && ayatori_sem_wait(&o->sem) == 0);
    GIVES_HERE("glibc waits for those who wait", EBUSY, ayatori_barrier_destroy(&o->barrier));
    CHECK(ayatori_barrier_wait(&o->barrier) != EINVAL && ayatori_thread_join(thread, NULL) == 0);
    CHECK(ayatori_barrier_destroy(&o->barrier) == 0);
    CHECK(ayatori_thread_create(&thread, NULL, takes_unit, o) == 0 && ayatori_sem_wait(&o->sem) == 0);
    SETS_HERE(UNDEFINED, EBUSY, ayatori_sem_destroy(&o->other));
    CHECK(ayatori_sem_post(&o->other) == 0 && ayatori_thread_join(thread, NULL) == 0);
  }
  CHECK(ayatori_sem_destroy(&o->sem) == 0 && ayatori_sem_destroy(&o->other) == 0);
#endif
  ayatori_free(o);
}

/* ------------------------------------------------------------------------------------------------- conditions */

static void* waits_for_turn(void* argument) {
  struct objects* o = argument;
  migrate();
  CHECK(ayatori_mutex_lock(&o->mutex) == 0);
  ++o->waiting;
  while (o->going == 0) CHECK(ayatori_cond_wait(&o->cond, &o->mutex) == 0);
  --o->going;
  ++o->gone;
  CHECK(ayatori_cond_signal(&static_cond) == 0); /* to the one who counts, under another's mutex */
  CHECK(ayatori_mutex_unlock(&o->mutex) == 0);
  return NULL;
}

/* A signal wakes at least one, with the mutex held or not; a broadcast all. */
void cond_wakes_one(void) {
  struct objects* o = ayatori_calloc(1, sizeof *o);
  ayatori_thread_t threads[kThreads];
  CHECK(ayatori_mutex_init(&o->mutex, NULL) == 0 && ayatori_cond_init(&o->cond, NULL) == 0);
  for (int i = 0; i < kThreads; ++i) CHECK(ayatori_thread_create(&threads[i], NULL, waits_for_turn, o) == 0);
  for (int all = 0; !all; ayatori_thread_yield()) {
    CHECK(ayatori_mutex_lock(&o->mutex) == 0);
    all = o->waiting == kThreads;
    CHECK(ayatori_mutex_unlock(&o->mutex) == 0);
  }
  migrate();
  for (int i = 1; i <= kThreads / 2; ++i) {
    CHECK(ayatori_mutex_lock(&o->mutex) == 0);
    o->going = 1;
    if (i % 2) CHECK(ayatori_cond_signal(&o->cond) == 0);
    CHECK(ayatori_mutex_unlock(&o->mutex) == 0);
    if (i % 2 == 0) CHECK(ayatori_cond_signal(&o->cond) == 0);
    CHECK(ayatori_mutex_lock(&o->mutex) == 0);
    while (o->gone < i) {
      const struct timespec soon = in_ms(CLOCK_REALTIME, 1);
      const int code = ayatori_cond_timedwait(&static_cond, &o->mutex, &soon);
      CHECK(code == 0 || code == ETIMEDOUT);
    }
    CHECK(o->gone == i && o->going == 0);
    CHECK(ayatori_mutex_unlock(&o->mutex) == 0);
  }
  CHECK(ayatori_mutex_lock(&o->mutex) == 0);
  o->going = kThreads - kThreads / 2;
  CHECK(ayatori_cond_broadcast(&o->cond) == 0 && ayatori_mutex_unlock(&o->mutex) == 0);
  for (int i = 0; i < kThreads; ++i) CHECK(ayatori_thread_join(threads[i], NULL) == 0);
  CHECK(o->gone == kThreads);
  CHECK(ayatori_cond_destroy(&o->cond) == 0 && ayatori_mutex_destroy(&o->mutex) == 0);
  ayatori_free(o);
}

/* Never before its time, by either clock; what is far away is no error. */
void cond_boundaries(void) {
  struct objects* o = ayatori_calloc(1, sizeof *o);
  ayatori_condattr_t attr;
  CHECK(ayatori_mutex_init(&o->mutex, NULL) == 0 && ayatori_condattr_init(&attr) == 0);
  CHECK(ayatori_sem_init(&o->sem, 0, 0) == 0 && ayatori_mutex_lock(&o->mutex) == 0);
  const clockid_t clocks[] = {CLOCK_REALTIME, CLOCK_MONOTONIC};
  for (int c = 0; c < 2; ++c) {
    CHECK(ayatori_condattr_setclock(&attr, clocks[c]) == 0 && ayatori_cond_init(&o->cond, &attr) == 0);
    for (int i = 0; i < 3; ++i) {
      static const long ms[] = {0, 1, 30};
      const struct timespec until = in_ms(clocks[c], ms[i]);
      for (int code = 0; code != ETIMEDOUT;) {
        code = ayatori_cond_timedwait(&o->cond, &o->mutex, &until);
        CHECK(code == 0 || code == ETIMEDOUT);
      }
      struct timespec now;
      clock_gettime(clocks[c], &now);
      CHECK(now.tv_sec > until.tv_sec || (now.tv_sec == until.tv_sec && now.tv_nsec >= until.tv_nsec));
    }
    const struct timespec zero = {0, 0}, last = {1, 999999999};
    GIVES(ETIMEDOUT, ayatori_cond_timedwait(&o->cond, &o->mutex, &zero));
    GIVES(ETIMEDOUT, ayatori_cond_timedwait(&o->cond, &o->mutex, &last));
    GIVES(ETIMEDOUT, ayatori_cond_clockwait(&o->cond, &o->mutex, clocks[1 - c], &last)); /* not its own */
    CHECK(ayatori_cond_destroy(&o->cond) == 0);
    const struct timespec soon = in_ms(clocks[c], 20);
    SETS(ETIMEDOUT, ayatori_sem_clockwait(&o->sem, clocks[c], &soon));
    struct timespec now;
    clock_gettime(clocks[c], &now);
    CHECK(now.tv_sec > soon.tv_sec || (now.tv_sec == soon.tv_sec && now.tv_nsec >= soon.tv_nsec));
  }
  CHECK(ayatori_condattr_destroy(&attr) == 0 && ayatori_mutex_unlock(&o->mutex) == 0);
  CHECK(ayatori_sem_destroy(&o->sem) == 0 && ayatori_mutex_destroy(&o->mutex) == 0);
  ayatori_free(o);
}

/* ------------------------------------------------------------------------------------------------- barriers, semaphores */

/* Takes part until all tickets are gone, of which there are as many as fill rounds: nobody is left waiting. */
static void* takes_tickets(void* argument) {
  struct objects* o = argument;
  migrate();
  for (int mine = 0;; ++mine) {
    CHECK(ayatori_mutex_lock(&o->mutex) == 0);
    const int any = o->count > 0;
    o->count -= any;
    CHECK(ayatori_mutex_unlock(&o->mutex) == 0);
    if (!any) return NULL;
    const int code = ayatori_barrier_wait(&o->barrier);
    CHECK(code == 0 || code == AYATORI_BARRIER_SERIAL_THREAD);
    if (code == AYATORI_BARRIER_SERIAL_THREAD) {
      CHECK(ayatori_mutex_lock(&o->mutex) == 0);
      ++o->gone;
      CHECK(ayatori_mutex_unlock(&o->mutex) == 0);
    }
    if (mine % 16 == 5) migrate();
  }
}

/* More threads than the barrier is for use it in turn: one in each round is told so. */
void barrier_reuse(void) {
  static const int expected[] = {1, 2, kThreads / 2, kThreads};
  for (int i = 0; i < 4; ++i) {
    struct objects* o = ayatori_calloc(1, sizeof *o);
    CHECK(ayatori_mutex_init(&o->mutex, NULL) == 0);
    CHECK(ayatori_barrier_init(&o->barrier, NULL, (unsigned)expected[i]) == 0);
    o->count = kRounds * expected[i];
    in_threads(kThreads, takes_tickets, o);
    CHECK(o->gone == kRounds);
    CHECK(ayatori_barrier_destroy(&o->barrier) == 0 && ayatori_mutex_destroy(&o->mutex) == 0);
    ayatori_free(o);
  }
}

void sem_limits(void) {
  ayatori_sem_t sem;
  int value = 0;
  SETS(0, ayatori_sem_init(&sem, 0, AYATORI_SEM_VALUE_MAX));
  CHECK(ayatori_sem_getvalue(&sem, &value) == 0 && value == AYATORI_SEM_VALUE_MAX);
  SETS(EOVERFLOW, ayatori_sem_post(&sem));
  SETS(0, ayatori_sem_wait(&sem));
  SETS(0, ayatori_sem_post(&sem));
  SETS(EOVERFLOW, ayatori_sem_post(&sem));
  SETS(0, ayatori_sem_destroy(&sem));
}

enum { kUnits = 3 };
static void* uses_unit(void* argument) {
  struct objects* o = argument;
  migrate();
  for (int i = 0; i < kRounds; ++i) {
    CHECK(ayatori_sem_wait(&o->sem) == 0);
    CHECK(ayatori_mutex_lock(&o->mutex) == 0);
    CHECK(++o->inside <= kUnits);
    CHECK(ayatori_mutex_unlock(&o->mutex) == 0);
    if (i % 16 == 5) migrate();
    CHECK(ayatori_mutex_lock(&o->mutex) == 0);
    --o->inside;
    ++o->count;
    CHECK(ayatori_mutex_unlock(&o->mutex) == 0 && ayatori_sem_post(&o->sem) == 0);
  }
  return NULL;
}
void sem_excludes(void) {
  struct objects* o = ayatori_calloc(1, sizeof *o);
  CHECK(ayatori_mutex_init(&o->mutex, NULL) == 0 && ayatori_sem_init(&o->sem, 1, kUnits) == 0);
  in_threads(kThreads, uses_unit, o);
  int value = 0;
  CHECK(o->count == kThreads * kRounds && ayatori_sem_getvalue(&o->sem, &value) == 0 && value == kUnits);
  CHECK(ayatori_sem_destroy(&o->sem) == 0 && ayatori_mutex_destroy(&o->mutex) == 0);
  ayatori_free(o);
}

/* ------------------------------------------------------------------------------------------------- read-write locks */

static void* reads_and_writes(void* argument) {
  struct objects* o = argument;
  migrate();
  for (int i = 0; i < kRounds; ++i) {
    if (i % 4 == 0) {
      CHECK(ayatori_rwlock_wrlock(&o->lock) == 0);
      CHECK(o->inside == 0);
      o->inside = 1;
      ++o->count;
      if (i == 20) migrate();
      o->inside = 0;
    } else {
      CHECK(ayatori_rwlock_rdlock(&o->lock) == 0);
      const int before = o->count;
      CHECK(o->inside == 0);
      if (i == 21) migrate();
      CHECK(o->inside == 0 && o->count == before);
    }
    CHECK(ayatori_rwlock_unlock(&o->lock) == 0);
  }
  return NULL;
}
static void* reads_together(void* argument) {
  struct objects* o = argument;
  migrate();
  CHECK(ayatori_rwlock_rdlock(&o->lock) == 0);
  const int code = ayatori_barrier_wait(&o->barrier); /* all hold it now */
  CHECK(code == 0 || code == AYATORI_BARRIER_SERIAL_THREAD);
  CHECK(ayatori_rwlock_rdlock(&o->lock) == 0 && ayatori_rwlock_unlock(&o->lock) == 0);
  CHECK(ayatori_rwlock_unlock(&o->lock) == 0);
  return NULL;
}

/* Writers exclude all, readers share, of both kinds. */
void rwlock_many(void) {
  for (int kind = 0; kind < 2; ++kind) {
    struct objects* o = ayatori_calloc(1, sizeof *o);
    ayatori_rwlockattr_t attr;
    CHECK(ayatori_rwlockattr_init(&attr) == 0);
    CHECK(ayatori_rwlockattr_setkind_np(
              &attr, kind ? AYATORI_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP : AYATORI_RWLOCK_PREFER_READER_NP) == 0);
    CHECK(ayatori_rwlock_init(&o->lock, &attr) == 0 && ayatori_barrier_init(&o->barrier, NULL, kThreads) == 0);
    in_threads(kThreads, reads_and_writes, o);
    CHECK(o->count == kThreads * kRounds / 4);
    in_threads(kThreads, reads_together, o);
    CHECK(ayatori_rwlock_destroy(&o->lock) == 0 && ayatori_barrier_destroy(&o->barrier) == 0);
    CHECK(ayatori_rwlockattr_destroy(&attr) == 0);
    ayatori_free(o);
  }
}
