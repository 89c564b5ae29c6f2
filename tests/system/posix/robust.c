/* SPDX-License-Identifier: Apache-2.0 */
/* Robust mutexes, whose holders end in every way, and named semaphores, between threads of different processes. */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "cases.h"

enum { kThreads = 8 };

struct robust {
  ayatori_mutex_t mutex;
  ayatori_cond_t cond;
  ayatori_sem_t held, may_end;
  int how, waiting, lost;
};

static void make(ayatori_mutex_t* mutex, int type) {
  ayatori_mutexattr_t attr;
  CHECK(ayatori_mutexattr_init(&attr) == 0 && ayatori_mutexattr_settype(&attr, type) == 0);
  CHECK(ayatori_mutexattr_setrobust(&attr, AYATORI_MUTEX_ROBUST) == 0);
  CHECK(ayatori_mutex_init(mutex, &attr) == 0 && ayatori_mutexattr_destroy(&attr) == 0);
}
static struct robust* begin(int type) {
  struct robust* r = ayatori_calloc(1, sizeof *r);
  make(&r->mutex, type);
  CHECK(ayatori_cond_init(&r->cond, NULL) == 0);
  CHECK(ayatori_sem_init(&r->held, 0, 0) == 0 && ayatori_sem_init(&r->may_end, 0, 0) == 0);
  return r;
}
static void end(struct robust* r) {
  GIVES(0, ayatori_mutex_destroy(&r->mutex));
  CHECK(ayatori_cond_destroy(&r->cond) == 0);
  CHECK(ayatori_sem_destroy(&r->held) == 0 && ayatori_sem_destroy(&r->may_end) == 0);
  ayatori_free(r);
}

enum { kReturns, kExits, kIsCancelled, kWays };

/* Locks, migrates and ends. What lock returned is its result. */
static void* dies(void* argument) {
  struct robust* r = argument;
  migrate();
  const int code = ayatori_mutex_lock(&r->mutex);
  migrate();
  if (r->how == kExits) ayatori_thread_exit((void*)(intptr_t)code);
  if (r->how == kIsCancelled) {
    CHECK(ayatori_sem_post(&r->held) == 0);
    for (;;) (void)ayatori_sem_wait(&r->may_end); /* nobody posts */
  }
  return (void*)(intptr_t)code;
}
/* A thread that locks it has ended. Returns what lock gave it, or -1: cancelled. */
static int die(struct robust* r, int how) {
  ayatori_thread_t thread;
  void* result = NULL;
  r->how = how;
  CHECK(ayatori_thread_create(&thread, NULL, dies, r) == 0);
  if (how == kIsCancelled) CHECK(ayatori_sem_wait(&r->held) == 0 && ayatori_thread_cancel(thread) == 0);
  CHECK(ayatori_thread_join(thread, &result) == 0);
  return result == AYATORI_CANCELED ? -1 : (int)(intptr_t)result;
}

static void locks_and_ends(void* argument) {
  struct robust* r = argument;
  CHECK(ayatori_mutex_lock(&r->mutex) == 0);
}

/* By every function that locks, after every way to end; made consistent it is as before. */
void robust_owner_dies(void) {
  struct robust* r = begin(AYATORI_MUTEX_NORMAL);
  const struct timespec past = {1, 0};
  GIVES(EINVAL, ayatori_mutex_consistent(&r->mutex)); /* nothing is wrong */
  for (int how = 0; how < kWays; ++how)
    for (int with = 0; with < 4; ++with) {
      CHECK(die(r, how) == (how == kIsCancelled ? -1 : 0));
      migrate();
      switch (with) {
        case 0: GIVES(EOWNERDEAD, ayatori_mutex_lock(&r->mutex)); break;
        case 1: GIVES(EOWNERDEAD, ayatori_mutex_trylock(&r->mutex)); break;
        case 2: GIVES(EOWNERDEAD, ayatori_mutex_timedlock(&r->mutex, &past)); break;
        default: GIVES(EOWNERDEAD, ayatori_mutex_clocklock(&r->mutex, CLOCK_MONOTONIC, &past)); break;
      }
      GIVES_HERE("glibc destroys a robust one that is locked", EBUSY, ayatori_mutex_destroy(&r->mutex));
      GIVES(EBUSY, ayatori_mutex_trylock(&r->mutex));
      GIVES(0, ayatori_mutex_consistent(&r->mutex));
      GIVES(EINVAL, ayatori_mutex_consistent(&r->mutex)); /* it is already */
      GIVES(0, ayatori_mutex_unlock(&r->mutex));
      GIVES(0, ayatori_mutex_lock(&r->mutex));
      GIVES(0, ayatori_mutex_unlock(&r->mutex));
    }
  /* Who was told ends before it said anything: the next one is told again. */
  CHECK(die(r, kReturns) == 0 && die(r, kExits) == EOWNERDEAD && die(r, kIsCancelled) == -1);
  GIVES(EOWNERDEAD, ayatori_mutex_lock(&r->mutex));
  GIVES(0, ayatori_mutex_consistent(&r->mutex));
  GIVES(0, ayatori_mutex_unlock(&r->mutex));
  on_os_thread(locks_and_ends, r);
  GIVES(EOWNERDEAD, ayatori_mutex_lock(&r->mutex));
  GIVES(0, ayatori_mutex_consistent(&r->mutex));
  GIVES(0, ayatori_mutex_unlock(&r->mutex));
  end(r);
}

static void* consistent_by_other(void* argument) {
  struct robust* r = argument;
  migrate();
  GIVES_HERE("glibc does not look who calls", EPERM, ayatori_mutex_consistent(&r->mutex));
  return NULL;
}

void robust_not_recoverable(void) {
  struct robust* r = begin(AYATORI_MUTEX_NORMAL);
  const struct timespec past = {1, 0};
  CHECK(die(r, kReturns) == 0);
  GIVES(EOWNERDEAD, ayatori_mutex_lock(&r->mutex));
  in_threads(1, consistent_by_other, r);
  GIVES(0, ayatori_mutex_unlock(&r->mutex));
  for (int i = 0; i < 2; ++i) {
    migrate();
    GIVES(ENOTRECOVERABLE, ayatori_mutex_lock(&r->mutex));
    GIVES_HERE("glibc 2.36 leaves it locked then", ENOTRECOVERABLE, ayatori_mutex_trylock(&r->mutex));
    GIVES(ENOTRECOVERABLE, ayatori_mutex_timedlock(&r->mutex, &past));
    GIVES(ENOTRECOVERABLE, ayatori_mutex_clocklock(&r->mutex, CLOCK_MONOTONIC, &past));
    GIVES(EINVAL, ayatori_mutex_consistent(&r->mutex));
    GIVES(EPERM, ayatori_mutex_unlock(&r->mutex));
  }
  /* It may be destroyed and made anew. */
  GIVES(0, ayatori_mutex_destroy(&r->mutex));
  make(&r->mutex, AYATORI_MUTEX_ERRORCHECK);
  GIVES(0, ayatori_mutex_lock(&r->mutex));
  GIVES(0, ayatori_mutex_unlock(&r->mutex));
  end(r);
}

static void* holds_and_dies(void* argument) {
  struct robust* r = argument;
  CHECK(ayatori_mutex_lock(&r->mutex) == 0 && ayatori_sem_post(&r->held) == 0);
  migrate();
  CHECK(ayatori_sem_wait(&r->may_end) == 0);
  return NULL;
}
static void* waits(void* argument) {
  struct robust* r = argument;
  migrate();
  CHECK(ayatori_sem_post(&r->may_end) == 0);
  const struct timespec later = in_ms(CLOCK_REALTIME, 60000);
  const int code = r->how ? ayatori_mutex_timedlock(&r->mutex, &later) : ayatori_mutex_lock(&r->mutex);
  if (code != ENOTRECOVERABLE) {
    CHECK(code == EOWNERDEAD);
    ++r->lost;
    CHECK(ayatori_mutex_unlock(&r->mutex) == 0); /* without a word */
  }
  return (void*)(intptr_t)code;
}

/* One of those that wait is told; as it does nothing, the others are turned away, and do not hang. */
void robust_waiters(void) {
#ifdef POSIX_REAL
  left_out("glibc 2.36 wakes one waiter and forgets the others, one run in eight",
           "all waiters of a mutex that is lost");
  return;
#endif
  for (int how = 0; how < 2; ++how) {
    struct robust* r = begin(AYATORI_MUTEX_ERRORCHECK);
    ayatori_thread_t holder, threads[kThreads];
    void* result = NULL;
    int lost = 0, never = 0;
    r->how = how;
    CHECK(ayatori_thread_create(&holder, NULL, holds_and_dies, r) == 0 && ayatori_sem_wait(&r->held) == 0);
    for (int i = 0; i < kThreads; ++i) CHECK(ayatori_thread_create(&threads[i], NULL, waits, r) == 0);
    for (int i = 0; i < kThreads; ++i) {
      CHECK(ayatori_thread_join(threads[i], &result) == 0);
      lost += result == (void*)(intptr_t)EOWNERDEAD;
      never += result == (void*)(intptr_t)ENOTRECOVERABLE;
    }
    CHECK(ayatori_thread_join(holder, NULL) == 0);
    CHECK(lost == 1 && never == kThreads - 1 && r->lost == 1);
    end(r);
  }
}

/* A thread that waits for a condition gets its mutex of a holder that has ended. */
static void* waits_for_condition(void* argument) {
  struct robust* r = argument;
  migrate();
  CHECK(ayatori_mutex_lock(&r->mutex) == 0);
  r->waiting = 1;
  const struct timespec later = in_ms(CLOCK_REALTIME, 60000);
  int code = 0;
  while (r->waiting == 1 && code == 0)
    code = r->how == 0   ? ayatori_cond_wait(&r->cond, &r->mutex)
           : r->how == 1 ? ayatori_cond_timedwait(&r->cond, &r->mutex, &later)
                         : ayatori_cond_clockwait(&r->cond, &r->mutex, CLOCK_REALTIME, &later);
  if (code == EOWNERDEAD) {
    CHECK(ayatori_mutex_consistent(&r->mutex) == 0);
    CHECK(ayatori_mutex_unlock(&r->mutex) == 0);
  } else if (code == ENOTRECOVERABLE) {
    CHECK(ayatori_mutex_unlock(&r->mutex) == EPERM);
  }
  return (void*)(intptr_t)code;
}
static void* signals_and_dies(void* argument) {
  struct robust* r = argument;
  for (int seen = 0; !seen;) {
    CHECK(ayatori_mutex_lock(&r->mutex) == 0);
    seen = r->waiting; /* then it waits, as it has left the mutex */
    if (!seen) CHECK(ayatori_mutex_unlock(&r->mutex) == 0);
    ayatori_thread_yield();
  }
  r->waiting = 2;
  CHECK(ayatori_cond_signal(&r->cond) == 0);
  migrate();
  return NULL;
}
static void* spoils_and_signals(void* argument) {
  struct robust* r = argument;
  CHECK(ayatori_mutex_lock(&r->mutex) == EOWNERDEAD);
  r->waiting = 2;
  CHECK(ayatori_mutex_unlock(&r->mutex) == 0 && ayatori_cond_signal(&r->cond) == 0);
  return NULL;
}
static void* dies_when_it_waits(void* argument) {
  struct robust* r = argument;
  for (int seen = 0; !seen;) {
    CHECK(ayatori_mutex_lock(&r->mutex) == 0);
    seen = r->waiting;
    if (!seen) CHECK(ayatori_mutex_unlock(&r->mutex) == 0);
    ayatori_thread_yield();
  }
  return NULL;
}

void robust_cond(void) {
  const struct timespec past = {1, 0};
  for (int how = 0; how < 3; ++how) {
    struct robust* r = begin(AYATORI_MUTEX_NORMAL);
    ayatori_thread_t waiter, other;
    void* result = NULL;
    r->how = how;
    CHECK(ayatori_thread_create(&waiter, NULL, waits_for_condition, r) == 0);
    CHECK(ayatori_thread_create(&other, NULL, signals_and_dies, r) == 0);
    CHECK(ayatori_thread_join(other, NULL) == 0 && ayatori_thread_join(waiter, &result) == 0);
    CHECK(result == (void*)(intptr_t)EOWNERDEAD);
    COVERS(EOWNERDEAD, ayatori_cond_wait);
    COVERS(EOWNERDEAD, ayatori_cond_timedwait);
    COVERS(EOWNERDEAD, ayatori_cond_clockwait);
    GIVES(0, ayatori_mutex_lock(&r->mutex));
    GIVES(0, ayatori_mutex_unlock(&r->mutex));
    r->waiting = 0;
    CHECK(ayatori_thread_create(&waiter, NULL, waits_for_condition, r) == 0);
    CHECK(ayatori_thread_create(&other, NULL, dies_when_it_waits, r) == 0 && ayatori_thread_join(other, NULL) == 0);
    CHECK(ayatori_thread_create(&other, NULL, spoils_and_signals, r) == 0 && ayatori_thread_join(other, NULL) == 0);
    CHECK(ayatori_thread_join(waiter, &result) == 0);
    CHECK(result == (void*)(intptr_t)ENOTRECOVERABLE);
    COVERS(ENOTRECOVERABLE, ayatori_cond_wait);
    COVERS(ENOTRECOVERABLE, ayatori_cond_timedwait);
    COVERS(ENOTRECOVERABLE, ayatori_cond_clockwait);
    end(r);
  }
  /* A wait unlocks: who was told and waits without a word has spoiled it. The codes are those of the wait. */
  struct robust* r = begin(AYATORI_MUTEX_NORMAL);
  CHECK(die(r, kReturns) == 0);
  GIVES(EOWNERDEAD, ayatori_mutex_lock(&r->mutex));
  GIVES(ENOTRECOVERABLE, ayatori_cond_timedwait(&r->cond, &r->mutex, &past));
  GIVES(EPERM, ayatori_mutex_unlock(&r->mutex));
  end(r);
}

/* Of every type; and one that is not robust. */
void robust_kinds(void) {
  const struct timespec past = {1, 0};
  struct robust* r = begin(AYATORI_MUTEX_RECURSIVE);
  CHECK(die(r, kReturns) == 0);
  GIVES(EOWNERDEAD, ayatori_mutex_lock(&r->mutex));
  GIVES(0, ayatori_mutex_consistent(&r->mutex));
  GIVES(0, ayatori_mutex_lock(&r->mutex)); /* deeper */
  GIVES(0, ayatori_mutex_trylock(&r->mutex));
  GIVES(ETIMEDOUT, ayatori_cond_timedwait(&r->cond, &r->mutex, &past)); /* left wholly, as deep afterwards */
  for (int i = 0; i < 3; ++i) GIVES(0, ayatori_mutex_unlock(&r->mutex));
  GIVES(EPERM, ayatori_mutex_unlock(&r->mutex));
  CHECK(die(r, kReturns) == 0);
  GIVES(EOWNERDEAD, ayatori_mutex_lock(&r->mutex));
  GIVES(0, ayatori_mutex_consistent(&r->mutex));
  GIVES(0, ayatori_mutex_unlock(&r->mutex));
  GIVES(EPERM, ayatori_mutex_unlock(&r->mutex)); /* as deep as one */
  end(r);
  r = begin(AYATORI_MUTEX_ERRORCHECK);
  CHECK(die(r, kReturns) == 0);
  GIVES(EOWNERDEAD, ayatori_mutex_trylock(&r->mutex));
  GIVES(EDEADLK, ayatori_mutex_lock(&r->mutex));
  GIVES(0, ayatori_mutex_consistent(&r->mutex));
  GIVES(0, ayatori_mutex_unlock(&r->mutex));
  end(r);
  /* A robust normal mutex knows its owner when it is unlocked. */
  r = begin(AYATORI_MUTEX_NORMAL);
  GIVES(EPERM, ayatori_mutex_unlock(&r->mutex));
  GIVES(0, ayatori_mutex_lock(&r->mutex));
  GIVES(EBUSY, ayatori_mutex_trylock(&r->mutex));
  GIVES(ETIMEDOUT, ayatori_mutex_timedlock(&r->mutex, &past));
  GIVES(0, ayatori_mutex_unlock(&r->mutex));
  end(r);
  /* One that is not robust stays locked, whoever has ended: no later thread owns it. */
  ayatori_mutexattr_t attr;
  CHECK(ayatori_mutexattr_init(&attr) == 0 && ayatori_mutexattr_settype(&attr, AYATORI_MUTEX_RECURSIVE) == 0);
  r = begin(AYATORI_MUTEX_NORMAL);
  CHECK(ayatori_mutex_destroy(&r->mutex) == 0 && ayatori_mutex_init(&r->mutex, &attr) == 0);
  CHECK(die(r, kReturns) == 0);
  for (int i = 0; i < 4; ++i) {
    GIVES(EBUSY, ayatori_mutex_trylock(&r->mutex));
    GIVES(EPERM, ayatori_mutex_unlock(&r->mutex));
    migrate();
  }
  CHECK(ayatori_mutexattr_destroy(&attr) == 0);
  CHECK(ayatori_cond_destroy(&r->cond) == 0);
}

enum { kMany = 60 };
static void* holds_many(void* argument) {
  ayatori_mutex_t* many = argument;
  for (int i = 0; i < kMany; ++i) {
    CHECK(ayatori_mutex_lock(&many[i]) == 0);
    if (i == kMany / 2) migrate();
  }
  for (int i = 0; i < kMany; i += 3) CHECK(ayatori_mutex_unlock(&many[i]) == 0);
  return NULL;
}

/* All that a thread holds, and nothing that it has left. */
void robust_many(void) {
  ayatori_mutex_t* many = ayatori_calloc(kMany, sizeof *many);
  for (int i = 0; i < kMany; ++i) make(&many[i], i % 2 ? AYATORI_MUTEX_NORMAL : AYATORI_MUTEX_ERRORCHECK);
  in_threads(1, holds_many, many);
  migrate();
  for (int i = 0; i < kMany; ++i) {
    GIVES(i % 3 == 0 ? 0 : EOWNERDEAD, ayatori_mutex_trylock(&many[i]));
    if (i % 3 != 0) GIVES(0, ayatori_mutex_consistent(&many[i]));
    GIVES(0, ayatori_mutex_unlock(&many[i]));
    GIVES(0, ayatori_mutex_destroy(&many[i]));
  }
  ayatori_free(many);
}

/* ------------------------------------------------------------------------------------------------- named semaphores */

struct named {
  char name[64];
  ayatori_sem_t* sem;
  int count, processes;
};
static void* opens_and_counts(void* argument) {
  struct named* n = argument;
  migrate();
  ayatori_sem_t* sem = ayatori_sem_open(n->name, 0);
  CHECK(sem == n->sem); /* one address */
  for (int i = 0; i < 30; ++i) {
    CHECK(ayatori_sem_wait(sem) == 0);
    ++n->count;
    n->processes |= 1 << here();
    CHECK(ayatori_sem_post(sem) == 0);
    if (i % 10 == 3) migrate();
  }
  CHECK(ayatori_sem_close(sem) == 0);
  return NULL;
}

/* One object for all processes. */
void named_sem_everywhere(void) {
#ifndef POSIX_REAL
  ayatori_sem_t* before = ayatori_sem_open("/before", 0);
  CHECK(before != AYATORI_SEM_FAILED);
  for (int i = 0; i < process_count(); ++i) CHECK(ayatori_sem_wait(before) == 0); /* main of each has posted */
  SETS(EAGAIN, ayatori_sem_trywait(before));
  CHECK(ayatori_sem_close(before) == 0);
#endif
  struct named* n = ayatori_calloc(1, sizeof *n);
  snprintf(n->name, sizeof n->name, "/ayatori-everywhere-%d", (int)getpid());
  n->sem = ayatori_sem_open(n->name, O_CREAT | O_EXCL, 0600, 1u);
  CHECK(n->sem != AYATORI_SEM_FAILED);
  in_threads(kThreads, opens_and_counts, n);
  CHECK(n->count == kThreads * 30);
  CHECK(process_count() == 1 || (n->processes & (n->processes - 1)) != 0);
  CHECK(ayatori_sem_unlink(n->name) == 0 && ayatori_sem_close(n->sem) == 0);
  ayatori_free(n);
}

/* A name outlives its closes, an object its name. */
void named_sem_lives(void) {
  char name[64];
  int value = -1;
  snprintf(name, sizeof name, "/ayatori-lives-%d", (int)getpid());
  ayatori_sem_t* sem = ayatori_sem_open(name, O_CREAT, 0600, 3u);
  CHECK(ayatori_sem_wait(sem) == 0 && ayatori_sem_close(sem) == 0);
  migrate();
  sem = ayatori_sem_open(name, 0);
  CHECK(sem != AYATORI_SEM_FAILED && ayatori_sem_getvalue(sem, &value) == 0 && value == 2);
  CHECK(ayatori_sem_unlink(name) == 0);
  CHECK(ayatori_sem_open(name, 0) == AYATORI_SEM_FAILED && errno == ENOENT);
  ayatori_sem_t* next = ayatori_sem_open(name + 1, O_CREAT | O_EXCL, 0600, 7u); /* the slash does not count */
  CHECK(next != AYATORI_SEM_FAILED && next != sem);
  CHECK(ayatori_sem_getvalue(sem, &value) == 0 && value == 2);
  CHECK(ayatori_sem_getvalue(next, &value) == 0 && value == 7);
  CHECK(ayatori_sem_close(sem) == 0 && ayatori_sem_close(next) == 0 && ayatori_sem_unlink(name) == 0);
}
