/* SPDX-License-Identifier: Apache-2.0 */
/* The kinds of the C interface, compiled as C11: threads with attributes, condition, barrier, spin lock, semaphores, and
 * cancellation with cleanup handlers. Called by c_kinds.cpp on a thread of the job. */
#include <errno.h>
#include <string.h>

#include "c_mix.h"

#define WANT(got, want) soak_expect((uint64_t)(got), (uint64_t)(want), #got, seed)

enum { kThreads = 6 };

/* ---------------------------------------------------------------------------------------------------- objects */

struct shared {
  uint64_t seed;
  int each;
  ayatori_mutex_t mutex, recursive;
  ayatori_cond_t cond;
  ayatori_barrier_t barrier;
  ayatori_spinlock_t spin;
  ayatori_sem_t sem;
  long count, recursive_count, spin_count, serial;
  int turn; /* whose it is, under mutex */
  unsigned char bytes[kThreads];
};

struct work {
  struct shared* shared;
  int me;
};

static void* objects(void* argument) {
  struct work work = *(struct work*)argument; /* it lies in the creator's frame */
  struct shared* s = work.shared;
  const uint64_t seed = soak_mix(s->seed, (uint64_t)work.me);
  for (int i = 0; i < s->each; ++i) {
    const uint64_t r = soak_mix(seed, (uint64_t)i);
    WANT(ayatori_mutex_lock(&s->mutex), 0);
    while (s->turn != work.me) WANT(ayatori_cond_wait(&s->cond, &s->mutex), 0);
    ++s->count;
    s->turn = (s->turn + 1) % kThreads;
    WANT(ayatori_cond_broadcast(&s->cond), 0);
    WANT(ayatori_mutex_unlock(&s->mutex), 0);

    WANT(ayatori_mutex_lock(&s->recursive), 0);
    WANT(ayatori_mutex_lock(&s->recursive), 0);
    ++s->recursive_count;
    if (r % 5 == 0) ayatori_thread_yield();
    WANT(ayatori_mutex_unlock(&s->recursive), 0);
    WANT(ayatori_mutex_unlock(&s->recursive), 0);

    WANT(ayatori_spin_lock(&s->spin), 0);
    ++s->spin_count;
    if (r % 7 == 0) ayatori_thread_yield();
    WANT(ayatori_spin_unlock(&s->spin), 0);

    WANT(ayatori_sem_post(&s->sem), 0);
    while (ayatori_sem_trywait(&s->sem) != 0) {
      WANT(errno, EAGAIN);
      ayatori_thread_yield();
    }
    s->bytes[work.me] = (unsigned char)r;
    const int last = ayatori_barrier_wait(&s->barrier);
    if (last == AYATORI_BARRIER_SERIAL_THREAD)
      ++s->serial; /* alone until the next barrier */
    else
      WANT(last, 0);
    for (int t = 0; t < kThreads; ++t)
      WANT(s->bytes[t], (unsigned char)soak_mix(soak_mix(s->seed, (uint64_t)t), (uint64_t)i));
    ayatori_barrier_wait(&s->barrier);
  }
  uint64_t* result = ayatori_malloc(sizeof *result);
  *result = seed;
  if (seed % 2 == 0) ayatori_thread_exit(result);
  return result;
}

void soak_c_objects(uint64_t seed, int each) {
  struct shared* s = ayatori_calloc(1, sizeof *s);
  s->seed = seed;
  s->each = each;
  ayatori_mutexattr_t type;
  WANT(ayatori_mutexattr_init(&type), 0);
  WANT(ayatori_mutexattr_settype(&type, AYATORI_MUTEX_RECURSIVE), 0);
  WANT(ayatori_mutex_init(&s->mutex, NULL), 0);
  WANT(ayatori_mutex_init(&s->recursive, &type), 0);
  WANT(ayatori_cond_init(&s->cond, NULL), 0);
  WANT(ayatori_barrier_init(&s->barrier, NULL, kThreads), 0);
  WANT(ayatori_spin_init(&s->spin, AYATORI_PROCESS_SHARED), 0);
  WANT(ayatori_sem_init(&s->sem, 1, 0), 0);
  struct work work[kThreads];
  ayatori_thread_t threads[kThreads];
  for (int t = 0; t < kThreads; ++t) {
    work[t] = (struct work){s, t};
    WANT(ayatori_thread_create(&threads[t], NULL, objects, &work[t]), 0);
  }
  for (int t = 0; t < kThreads; ++t) {
    void* result = NULL;
    WANT(ayatori_thread_join(threads[t], &result), 0);
    WANT(result != NULL, 1);
    if (result != NULL) WANT(*(uint64_t*)result, soak_mix(seed, (uint64_t)t));
    ayatori_free(result);
  }
  WANT(s->count, kThreads * each);
  WANT(s->recursive_count, kThreads * each);
  WANT(s->spin_count, kThreads * each);
  WANT(s->serial, each);
  WANT(ayatori_mutex_destroy(&s->mutex), 0);
  WANT(ayatori_mutex_destroy(&s->recursive), 0);
  WANT(ayatori_cond_destroy(&s->cond), 0);
  WANT(ayatori_barrier_destroy(&s->barrier), 0);
  WANT(ayatori_spin_destroy(&s->spin), 0);
  WANT(ayatori_sem_destroy(&s->sem), 0);
  ayatori_free(s);
}

/* ---------------------------------------------------------------------------------------------------- cancellation */

struct patient {
  uint64_t seed;
  ayatori_mutex_t mutex;
  ayatori_cond_t cond;
  ayatori_sem_t sem;
  int kind;         /* of wait */
  int items;        /* under mutex */
  int began, ended; /* how often; ended under mutex */
  int inner, outer; /* handlers that ran */
  int order;        /* of them, two digits */
  ayatori_thread_t child;
};

static void unlock(void* argument) {
  struct patient* p = argument;
  const uint64_t seed = p->seed;
  ++p->inner;
  p->order = 10 * p->order + 1;
  WANT(ayatori_mutex_unlock(&p->mutex), 0);
}
static void count(void* argument) {
  struct patient* p = argument;
  ++p->outer;
  p->order = 10 * p->order + 2;
}
static void* sleeper(void* argument) {
  struct patient* p = argument;
  const uint64_t seed = p->seed;
  while (ayatori_sem_wait(&p->sem) != 0) WANT(errno, EINTR);
  return p;
}

/* Waits for what may never come, in one of five ways. */
static void* wait_here(void* argument) {
  struct patient* p = argument;
  const uint64_t seed = p->seed;
  ayatori_thread_cleanup_push(count, p);
  int old = -1;
  WANT(ayatori_thread_setcancelstate(AYATORI_CANCEL_DISABLE, &old), 0);
  WANT(old, AYATORI_CANCEL_ENABLE);
  if (seed % 3 == 0) ayatori_thread_yield();
  p->began = 1;
  WANT(ayatori_thread_setcancelstate(AYATORI_CANCEL_ENABLE, NULL), 0);
  if (p->kind == 0) {
    WANT(ayatori_mutex_lock(&p->mutex), 0);
    ayatori_thread_cleanup_push(unlock, p);
    while (p->items == 0) WANT(ayatori_cond_wait(&p->cond, &p->mutex), 0);
    --p->items;
    ayatori_thread_cleanup_pop(1);
  } else if (p->kind == 1) {
    while (ayatori_sem_wait(&p->sem) != 0) WANT(errno, EINTR);
  } else if (p->kind == 2) {
    for (;;) {
      ayatori_thread_testcancel();
      ayatori_thread_yield();
    }
  } else if (p->kind == 3) {
    WANT(ayatori_thread_setcanceltype(AYATORI_CANCEL_ASYNCHRONOUS, NULL), 0);
    for (;;) ayatori_thread_yield();
  } else {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 1000;
    WANT(ayatori_mutex_lock(&p->mutex), 0);
    ayatori_thread_cleanup_push(unlock, p);
    while (p->items == 0) WANT(ayatori_cond_timedwait(&p->cond, &p->mutex, &until), 0);
    --p->items;
    ayatori_thread_cleanup_pop(1);
  }
  ayatori_thread_cleanup_pop(1);
  p->ended = 1;
  return p;
}

void soak_c_cancel(uint64_t seed, int rounds) {
  for (int round = 0; round < rounds; ++round) {
    struct patient* p = ayatori_calloc(kThreads, sizeof *p);
    ayatori_thread_t threads[kThreads];
    int served[kThreads];
    for (int t = 0; t < kThreads; ++t) {
      p[t].seed = soak_mix(seed, (uint64_t)(round * kThreads + t));
      p[t].kind = (int)(p[t].seed / 8 % 5);
      WANT(ayatori_mutex_init(&p[t].mutex, NULL), 0);
      WANT(ayatori_cond_init(&p[t].cond, NULL), 0);
      WANT(ayatori_sem_init(&p[t].sem, 0, 0), 0);
      WANT(ayatori_thread_create(&threads[t], NULL, wait_here, &p[t]), 0);
    }
    for (int t = 0; t < kThreads; ++t) {
      const uint64_t r = soak_mix(p[t].seed, 7);
      /* What it waits for comes, too, before or after the request to end, or does not come. */
      served[t] = p[t].kind != 2 && p[t].kind != 3 && r % 3 != 0;
      if (r % 4 == 0) ayatori_thread_yield();
      if (r % 2 == 0) WANT(ayatori_thread_cancel(threads[t]), 0);
      if (served[t]) {
        WANT(ayatori_mutex_lock(&p[t].mutex), 0);
        ++p[t].items;
        WANT(ayatori_mutex_unlock(&p[t].mutex), 0);
        WANT(ayatori_cond_signal(&p[t].cond), 0);
        WANT(ayatori_sem_post(&p[t].sem), 0);
      }
      if (r % 2 != 0) WANT(ayatori_thread_cancel(threads[t]), 0);
    }
    for (int t = kThreads - 1; t >= 0; --t) {
      void* result = NULL;
      WANT(ayatori_thread_join(threads[t], &result), 0);
      const int canceled = result == AYATORI_CANCELED;
      if (!canceled) WANT(result == &p[t] && served[t], 1);
      WANT(p[t].began, 1);
      WANT(p[t].ended, !canceled);
      WANT(p[t].outer, 1);
      if (p[t].kind == 0 || p[t].kind == 4) {
        if (p[t].inner != 0) WANT(p[t].order, 12);
        WANT(p[t].items, served[t] && canceled); /* no item is lost with who ended */
        if (!canceled) WANT(p[t].inner, 1);
        WANT(ayatori_mutex_trylock(&p[t].mutex), 0);
        WANT(ayatori_mutex_unlock(&p[t].mutex), 0);
      }
      if (p[t].kind == 1) {
        int value = -1;
        WANT(ayatori_sem_getvalue(&p[t].sem, &value), 0);
        WANT(value, served[t] && canceled);
      }
      WANT(ayatori_mutex_destroy(&p[t].mutex), 0);
      WANT(ayatori_cond_destroy(&p[t].cond), 0);
      WANT(ayatori_sem_destroy(&p[t].sem), 0);
    }
    /* The same memory again: a thread that nobody cancels. */
    struct patient* q = &p[0];
    memset(q, 0, sizeof *q);
    q->seed = seed;
    WANT(ayatori_sem_init(&q->sem, 0, 0), 0);
    WANT(ayatori_thread_create(&q->child, NULL, sleeper, q), 0);
    WANT(ayatori_sem_post(&q->sem), 0);
    WANT(ayatori_thread_join(q->child, NULL), 0);
    WANT(ayatori_sem_destroy(&q->sem), 0);
    ayatori_free(p);
  }
}
