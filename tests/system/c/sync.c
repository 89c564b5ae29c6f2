/* SPDX-License-Identifier: Apache-2.0 */
/* Mutexes and condition variables between threads of different processes, and their return codes. */
#include <errno.h>
#include <string.h>

#include "cases.h"

enum { kThreads = 8, kRounds = 60 };

/* ------------------------------------------------------------------------------------------------- mutual exclusion */

struct shared {
  ayatori_mutex_t* mutex;
  long count;
  long inside; /* 0 but while the lock is held */
  int rounds;
  unsigned processes;
};

static void* add(void* argument) {
  struct shared* s = argument;
  if (ayatori_thread_self() & 1) migrate();
  for (int i = 0; i < s->rounds; ++i) {
    CHECK(ayatori_mutex_lock(s->mutex) == 0);
    CHECK(s->inside == 0);
    s->inside = i + 1;
    ++s->count;
    s->processes |= 1u << here();
    if (i % 30 == 7) migrate(); /* the lock is the thread's, wherever it goes */
    s->inside = 0;
    CHECK(ayatori_mutex_unlock(s->mutex) == 0);
    if (i % 30 == 23) migrate();
  }
  return NULL;
}

/* `s` lies in the heap of the space. */
static void exclude(struct shared* s, ayatori_mutex_t* mutex, int rounds) {
  ayatori_thread_t threads[kThreads];
  memset(s, 0, sizeof *s);
  s->mutex = mutex;
  s->rounds = rounds;
  for (int i = 0; i < kThreads; ++i) CHECK(ayatori_thread_create(&threads[i], NULL, add, s) == 0);
  for (int i = 0; i < kThreads; ++i) CHECK(ayatori_thread_join(threads[i], NULL) == 0);
  CHECK(s->count == (long)kThreads * rounds);
  CHECK(process_count() == 1 || rounds <= 8 || (s->processes & (s->processes - 1)) != 0);
}

void mutex_normal(void) {
  struct shared* s = ayatori_malloc(sizeof *s);
  ayatori_mutex_t on_stack, *in_heap = ayatori_malloc(sizeof *in_heap);
  ayatori_mutexattr_t attr;
  int type = -1;
  CHECK(ayatori_mutexattr_init(&attr) == 0 && ayatori_mutexattr_settype(&attr, 9) == EINVAL);
  CHECK(ayatori_mutexattr_gettype(&attr, &type) == 0 && type == AYATORI_MUTEX_DEFAULT);
  CHECK(ayatori_mutex_init(&on_stack, NULL) == 0 && ayatori_mutex_init(in_heap, &attr) == 0);
  CHECK(ayatori_mutexattr_destroy(&attr) == 0 && ayatori_mutex_init(in_heap, &attr) == EINVAL);
  exclude(s, &on_stack, kRounds);
  exclude(s, in_heap, kRounds);
  CHECK(ayatori_mutex_trylock(in_heap) == 0 && ayatori_mutex_trylock(in_heap) == EBUSY);
  CHECK(ayatori_mutex_destroy(in_heap) == EBUSY && ayatori_mutex_unlock(in_heap) == 0);
  CHECK(ayatori_mutex_destroy(in_heap) == 0 && ayatori_mutex_destroy(&on_stack) == 0);
  CHECK(ayatori_mutex_lock(in_heap) == EINVAL && ayatori_mutex_trylock(in_heap) == EINVAL);
  CHECK(ayatori_mutex_unlock(in_heap) == EINVAL && ayatori_mutex_destroy(in_heap) == EINVAL);
  ayatori_free(in_heap);
  ayatori_free(s);
}

static ayatori_mutex_t initialised = AYATORI_MUTEX_INITIALIZER, uninitialised;

/* One lock for all processes, although each has its own bytes. */
void mutex_in_static_data(void) {
  struct shared* s = ayatori_malloc(sizeof *s);
  exclude(s, &initialised, kRounds);
  ayatori_mutexattr_t attr;
  ayatori_mutexattr_init(&attr);
  ayatori_mutexattr_settype(&attr, AYATORI_MUTEX_ERRORCHECK);
  for (int i = 0; i < 3; ++i) {
    /* Made by one process, ended by another. */
    CHECK(ayatori_mutex_init(&uninitialised, &attr) == 0);
    exclude(s, &uninitialised, kRounds);
    CHECK(ayatori_mutex_lock(&uninitialised) == 0);
    migrate();
    CHECK(ayatori_mutex_lock(&uninitialised) == EDEADLK && ayatori_mutex_unlock(&uninitialised) == 0);
    CHECK(ayatori_mutex_destroy(&uninitialised) == 0);
  }
  ayatori_free(s);
}

/* Objects of an initialiser in the space are made by whoever is first; all must agree. */
void mutex_initialiser(void) {
  struct shared* s = ayatori_malloc(sizeof *s);
  ayatori_mutex_t* mutexes = ayatori_malloc(6 * sizeof *mutexes);
  memset(mutexes, 0xff, 6 * sizeof *mutexes);
  for (int i = 0; i < 6; ++i) {
    ayatori_mutex_t on_stack = AYATORI_MUTEX_INITIALIZER;
    mutexes[i] = (ayatori_mutex_t)AYATORI_ERRORCHECK_MUTEX_INITIALIZER_NP;
    exclude(s, &on_stack, 5);
    exclude(s, &mutexes[i], i == 0 ? kRounds : 5);
    CHECK(ayatori_mutex_unlock(&mutexes[i]) == EPERM);
    if (i % 2) CHECK(ayatori_mutex_destroy(&mutexes[i]) == 0);
    mutexes[i] = (ayatori_mutex_t)AYATORI_MUTEX_INITIALIZER; /* again, destroyed or not */
    exclude(s, &mutexes[i], i == 0 ? kRounds : 5);
  }
  ayatori_free(mutexes);
  ayatori_free(s);
}

/* ------------------------------------------------------------------------------------------------- types */

static ayatori_mutex_t recursive = AYATORI_RECURSIVE_MUTEX_INITIALIZER_NP;

struct types {
  ayatori_mutex_t checked;
  ayatori_cond_t cond;
};

static void* not_the_owner(void* argument) {
  struct types* t = argument;
  migrate();
  CHECK(ayatori_mutex_unlock(&t->checked) == EPERM && ayatori_mutex_unlock(&recursive) == EPERM);
  CHECK(ayatori_mutex_trylock(&t->checked) == EBUSY && ayatori_mutex_trylock(&recursive) == EBUSY);
  CHECK(ayatori_cond_wait(&t->cond, &t->checked) == EPERM);
  return NULL;
}

void mutex_types(void) {
  struct types t = {AYATORI_ERRORCHECK_MUTEX_INITIALIZER_NP, AYATORI_COND_INITIALIZER};
  ayatori_thread_t thread;
  const struct timespec past = {1, 0};
  CHECK(ayatori_mutex_lock(&t.checked) == 0 && ayatori_mutex_lock(&t.checked) == EDEADLK);
  CHECK(ayatori_mutex_trylock(&t.checked) == EBUSY && ayatori_mutex_timedlock(&t.checked, &past) == EDEADLK);
  CHECK(ayatori_mutex_lock(&recursive) == 0 && ayatori_mutex_trylock(&recursive) == 0);
  migrate();
  CHECK(ayatori_mutex_timedlock(&recursive, &past) == 0);
  CHECK(ayatori_thread_create(&thread, NULL, not_the_owner, &t) == 0 && ayatori_thread_join(thread, NULL) == 0);
  /* A wait leaves a recursive mutex wholly, and comes back as deep. */
  CHECK(ayatori_cond_timedwait(&t.cond, &recursive, &past) == ETIMEDOUT);
  for (int i = 0; i < 3; ++i) CHECK(ayatori_mutex_unlock(&recursive) == 0);
  CHECK(ayatori_mutex_unlock(&recursive) == EPERM);
  CHECK(ayatori_mutex_unlock(&t.checked) == 0 && ayatori_mutex_unlock(&t.checked) == EPERM);
  CHECK(ayatori_mutex_destroy(&t.checked) == 0 && ayatori_cond_destroy(&t.cond) == 0);
}

struct timed {
  ayatori_mutex_t mutex;
  int code;
  int64_t took_ms;
};
static void* lock_for_a_while(void* argument) {
  struct timed* t = argument;
  migrate();
  const int64_t began = now_ms();
  const struct timespec until = in_ms(CLOCK_REALTIME, 30);
  t->code = ayatori_mutex_timedlock(&t->mutex, &until);
  t->took_ms = now_ms() - began;
  return NULL;
}
static void* lock_in_time(void* argument) {
  struct timed* t = argument;
  migrate();
  const struct timespec until = in_ms(CLOCK_REALTIME, 60000);
  CHECK(ayatori_mutex_timedlock(&t->mutex, &until) == 0);
  ++t->code;
  CHECK(ayatori_mutex_unlock(&t->mutex) == 0);
  return NULL;
}

void mutex_timed(void) {
  struct timed t = {.mutex = AYATORI_MUTEX_INITIALIZER, .code = -1};
  ayatori_thread_t threads[kThreads];
  const struct timespec never = {1, 1000000000};
  CHECK(ayatori_mutex_timedlock(&t.mutex, &never) == 0); /* free: the time is not looked at */
  CHECK(ayatori_mutex_timedlock(&t.mutex, &never) == EINVAL);
  CHECK(ayatori_thread_create(&threads[0], NULL, lock_for_a_while, &t) == 0);
  CHECK(ayatori_thread_join(threads[0], NULL) == 0 && t.code == ETIMEDOUT && t.took_ms >= 29);
  t.code = 0;
  for (int i = 0; i < kThreads; ++i) CHECK(ayatori_thread_create(&threads[i], NULL, lock_in_time, &t) == 0);
  CHECK(ayatori_mutex_unlock(&t.mutex) == 0);
  for (int i = 0; i < kThreads; ++i) CHECK(ayatori_thread_join(threads[i], NULL) == 0);
  CHECK(t.code == kThreads && ayatori_mutex_destroy(&t.mutex) == 0);
}

/* ------------------------------------------------------------------------------------------------- conditions */

enum { kItems = 600, kRoom = 4 };

struct queue {
  ayatori_mutex_t mutex;
  ayatori_cond_t not_empty, not_full;
  int items[kRoom], first, count;
  long sum;
  int closed;
};

static void* produce(void* argument) {
  struct queue* q = argument;
  migrate();
  for (int i = 1; i <= kItems; ++i) {
    CHECK(ayatori_mutex_lock(&q->mutex) == 0);
    while (q->count == kRoom) CHECK(ayatori_cond_wait(&q->not_full, &q->mutex) == 0);
    q->items[(q->first + q->count++) % kRoom] = i;
    CHECK(ayatori_cond_signal(&q->not_empty) == 0);
    CHECK(ayatori_mutex_unlock(&q->mutex) == 0);
  }
  return NULL;
}
static void* consume(void* argument) {
  struct queue* q = argument;
  migrate();
  CHECK(ayatori_mutex_lock(&q->mutex) == 0);
  for (;;) {
    while (q->count == 0 && !q->closed) CHECK(ayatori_cond_wait(&q->not_empty, &q->mutex) == 0);
    if (q->count == 0) break;
    q->sum += q->items[q->first];
    q->first = (q->first + 1) % kRoom;
    --q->count;
    CHECK(ayatori_cond_signal(&q->not_full) == 0);
  }
  CHECK(ayatori_mutex_unlock(&q->mutex) == 0);
  return NULL;
}

void cond_queue(void) {
  struct queue* q = ayatori_calloc(1, sizeof *q); /* zeros are initialisers */
  ayatori_thread_t producers[3], consumers[3];
  for (int i = 0; i < 3; ++i) {
    CHECK(ayatori_thread_create(&consumers[i], NULL, consume, q) == 0);
    CHECK(ayatori_thread_create(&producers[i], NULL, produce, q) == 0);
  }
  for (int i = 0; i < 3; ++i) CHECK(ayatori_thread_join(producers[i], NULL) == 0);
  CHECK(ayatori_mutex_lock(&q->mutex) == 0);
  q->closed = 1;
  CHECK(ayatori_cond_broadcast(&q->not_empty) == 0 && ayatori_mutex_unlock(&q->mutex) == 0);
  for (int i = 0; i < 3; ++i) CHECK(ayatori_thread_join(consumers[i], NULL) == 0);
  CHECK(q->sum == 3L * kItems * (kItems + 1) / 2);
  CHECK(ayatori_cond_destroy(&q->not_empty) == 0 && ayatori_cond_destroy(&q->not_full) == 0);
  CHECK(ayatori_cond_destroy(&q->not_full) == EINVAL && ayatori_cond_signal(&q->not_full) == EINVAL);
  CHECK(ayatori_mutex_destroy(&q->mutex) == 0);
  ayatori_free(q);
}

static ayatori_cond_t by_monotonic;
static ayatori_mutex_t by_monotonic_mutex = AYATORI_MUTEX_INITIALIZER;

static void* times_out(void* argument) {
  int64_t* took_ms = argument;
  CHECK(ayatori_mutex_lock(&by_monotonic_mutex) == 0);
  migrate(); /* where this condition's own bytes do not say its clock */
  const int64_t began = now_ms();
  const struct timespec until = in_ms(CLOCK_MONOTONIC, 30);
  CHECK(ayatori_cond_timedwait(&by_monotonic, &by_monotonic_mutex, &until) == ETIMEDOUT);
  *took_ms = now_ms() - began;
  CHECK(ayatori_mutex_unlock(&by_monotonic_mutex) == 0);
  return NULL;
}

void cond_timed(void) {
  ayatori_condattr_t attr;
  clockid_t clock = -1;
  ayatori_cond_t cond = AYATORI_COND_INITIALIZER;
  ayatori_mutex_t mutex = AYATORI_MUTEX_INITIALIZER;
  const struct timespec never = {1, -1};
  CHECK(ayatori_cond_destroy(&cond) == 0 && ayatori_cond_init(&cond, NULL) == 0);
  CHECK(ayatori_cond_signal(&cond) == 0 && ayatori_cond_broadcast(&cond) == 0);
  CHECK(ayatori_cond_wait(&cond, &mutex) == EINVAL); /* nobody ever locked it */
  CHECK(ayatori_mutex_lock(&mutex) == 0);
  CHECK(ayatori_cond_timedwait(&cond, &mutex, &never) == EINVAL);
  const int64_t began = now_ms();
  const struct timespec until = in_ms(CLOCK_REALTIME, 30);
  CHECK(ayatori_cond_timedwait(&cond, &mutex, &until) == ETIMEDOUT && now_ms() - began >= 29);
  CHECK(ayatori_mutex_trylock(&mutex) == EBUSY && ayatori_mutex_unlock(&mutex) == 0);

  CHECK(ayatori_condattr_init(&attr) == 0 && ayatori_condattr_setclock(&attr, 99) == EINVAL);
  CHECK(ayatori_condattr_setclock(&attr, CLOCK_MONOTONIC) == 0);
  CHECK(ayatori_condattr_getclock(&attr, &clock) == 0 && clock == CLOCK_MONOTONIC);
  CHECK(ayatori_cond_init(&by_monotonic, &attr) == 0 && ayatori_condattr_destroy(&attr) == 0);
  ayatori_thread_t thread;
  int64_t took_ms = -1;
  CHECK(ayatori_thread_create(&thread, NULL, times_out, &took_ms) == 0 && ayatori_thread_join(thread, NULL) == 0);
  CHECK(took_ms >= 29);
  CHECK(ayatori_cond_destroy(&by_monotonic) == 0 && ayatori_cond_destroy(&cond) == 0);
}
