/* SPDX-License-Identifier: Apache-2.0 */
/* Read-write and spin locks between threads of different processes, and their return codes. */
#include <errno.h>
#include <string.h>

#include "cases.h"

enum { kThreads = 8, kRounds = 60 };

struct shared {
  ayatori_rwlock_t* lock;
  ayatori_spinlock_t* spin;
  long a, b; /* equal but while one writes */
  unsigned writers;
  ayatori_mutex_t mutex; /* of what follows */
  int reading, most_readers;
};

static void* read_and_write(void* argument) {
  struct shared* s = argument;
  if (ayatori_thread_self() & 1) migrate();
  for (int i = 0; i < kRounds; ++i) {
    if (i % 4 == 0) {
      CHECK(ayatori_rwlock_wrlock(s->lock) == 0);
      ++s->a;
      s->writers |= 1u << here();
      if (i % 20 == 8) migrate();
      ++s->b;
    } else {
      CHECK(ayatori_rwlock_rdlock(s->lock) == 0);
      const long a = s->a;
      if (i % 20 == 7) migrate(); /* the lock is the thread's, wherever it goes */
      CHECK(a == s->b && a == s->a);
    }
    CHECK(ayatori_rwlock_unlock(s->lock) == 0);
  }
  return NULL;
}

static void exclude(struct shared* s, ayatori_rwlock_t* lock) {
  ayatori_thread_t threads[kThreads];
  s->lock = lock;
  s->a = s->b = 0;
  s->writers = 0;
  for (int i = 0; i < kThreads; ++i) CHECK(ayatori_thread_create(&threads[i], NULL, read_and_write, s) == 0);
  for (int i = 0; i < kThreads; ++i) CHECK(ayatori_thread_join(threads[i], NULL) == 0);
  CHECK(s->a == kThreads * kRounds / 4 && s->b == s->a);
  CHECK(process_count() == 1 || (s->writers & (s->writers - 1)) != 0);
}

static ayatori_rwlock_t initialised = AYATORI_RWLOCK_INITIALIZER, uninitialised;

void rwlock_excludes(void) {
  struct shared* s = ayatori_calloc(1, sizeof *s);
  ayatori_rwlock_t *lock = ayatori_malloc(sizeof *lock), on_stack;
  ayatori_rwlockattr_t attr;
  CHECK(ayatori_rwlockattr_init(&attr) == 0);
  CHECK(ayatori_rwlockattr_setkind_np(&attr, AYATORI_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP) == 0);
  CHECK(ayatori_rwlock_init(lock, NULL) == 0 && ayatori_rwlock_init(&on_stack, &attr) == 0);
  exclude(s, lock);
  exclude(s, &on_stack);
  exclude(s, &initialised);
  CHECK(ayatori_rwlock_init(&uninitialised, &attr) == 0);
  exclude(s, &uninitialised);
  CHECK(ayatori_rwlock_destroy(&uninitialised) == 0 && ayatori_rwlock_destroy(&initialised) == 0);
  CHECK(ayatori_rwlock_destroy(lock) == 0 && ayatori_rwlock_destroy(&on_stack) == 0);
  ayatori_free(lock);
  ayatori_free(s);
}

static void* read_together(void* argument) {
  struct shared* s = argument;
  CHECK(ayatori_rwlock_rdlock(s->lock) == 0);
  for (int all = 0; !all;) { /* ends only if all hold it at once */
    ayatori_mutex_lock(&s->mutex);
    if (s->reading < kThreads && all == 0) ++s->reading, all = -1;
    ayatori_mutex_unlock(&s->mutex);
    for (; all < 0;) {
      ayatori_mutex_lock(&s->mutex);
      if (s->reading == kThreads) all = 1;
      ayatori_mutex_unlock(&s->mutex);
      ayatori_thread_yield();
    }
  }
  CHECK(ayatori_rwlock_unlock(s->lock) == 0);
  return NULL;
}

void rwlock_readers_share(void) {
  ayatori_thread_t threads[kThreads];
  struct shared* s = ayatori_calloc(1, sizeof *s);
  ayatori_rwlock_t* lock = ayatori_calloc(1, sizeof *lock); /* an initialiser's */
  s->lock = lock;
  CHECK(ayatori_mutex_init(&s->mutex, NULL) == 0);
  for (int i = 0; i < kThreads; ++i) CHECK(ayatori_thread_create(&threads[i], NULL, read_together, s) == 0);
  for (int i = 0; i < kThreads; ++i) CHECK(ayatori_thread_join(threads[i], NULL) == 0);
  CHECK(s->reading == kThreads);
  CHECK(ayatori_mutex_destroy(&s->mutex) == 0 && ayatori_rwlock_destroy(lock) == 0);
  ayatori_free(lock);
  ayatori_free(s);
}

struct waiter {
  ayatori_rwlock_t* lock;
  long value, seen;
  int result, began, ended; /* by the mutex */
  ayatori_mutex_t mutex;
};

static int flag(struct waiter* w, int* which) {
  ayatori_mutex_lock(&w->mutex);
  const int is = *which;
  ayatori_mutex_unlock(&w->mutex);
  return is;
}
static void set_flag(struct waiter* w, int* which) {
  ayatori_mutex_lock(&w->mutex);
  *which = 1;
  ayatori_mutex_unlock(&w->mutex);
}

static void* write_once(void* argument) {
  struct waiter* w = argument;
  migrate();
  set_flag(w, &w->began);
  CHECK(ayatori_rwlock_wrlock(w->lock) == 0);
  w->seen = w->value;
  set_flag(w, &w->ended);
  CHECK(ayatori_rwlock_unlock(w->lock) == 0);
  return NULL;
}

static void* write_in_time(void* argument) {
  struct waiter* w = argument;
  const struct timespec soon = in_ms(CLOCK_MONOTONIC, 60);
  set_flag(w, &w->began);
  w->result = ayatori_rwlock_clockwrlock(w->lock, CLOCK_MONOTONIC, &soon);
  return NULL;
}

static void* read_behind(void* argument) {
  struct waiter* w = argument;
  CHECK(ayatori_rwlock_rdlock(w->lock) == 0);
  set_flag(w, &w->ended);
  CHECK(ayatori_rwlock_unlock(w->lock) == 0);
  return NULL;
}

/* A reader may read again while a writer waits, or may not, by the kind; a writer whose time is over lets go whom it held up. */
void rwlock_order(void) {
  struct waiter* w = ayatori_calloc(1, sizeof *w);
  ayatori_rwlock_t* lock = ayatori_malloc(sizeof *lock);
  ayatori_rwlockattr_t attr;
  ayatori_thread_t writer, reader;
  w->lock = lock;
  ayatori_mutex_init(&w->mutex, NULL);
  CHECK(ayatori_rwlock_init(lock, NULL) == 0 && ayatori_rwlock_rdlock(lock) == 0);
  w->value = 7;
  CHECK(ayatori_thread_create(&writer, NULL, write_once, w) == 0);
  while (!flag(w, &w->began)) ayatori_thread_yield();
  for (int i = 0; i < 100; ++i) ayatori_thread_yield();
  CHECK(ayatori_rwlock_rdlock(lock) == 0 && ayatori_rwlock_tryrdlock(lock) == 0);
  CHECK(ayatori_rwlock_unlock(lock) == 0 && ayatori_rwlock_unlock(lock) == 0);
  CHECK(!flag(w, &w->ended));
  w->value = 8; /* nobody else looks: the writer waits */
  CHECK(ayatori_rwlock_unlock(lock) == 0 && ayatori_thread_join(writer, NULL) == 0);
  CHECK(w->seen == 8 && ayatori_rwlock_destroy(lock) == 0);

  CHECK(ayatori_rwlockattr_init(&attr) == 0);
  CHECK(ayatori_rwlockattr_setkind_np(&attr, AYATORI_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP) == 0);
  CHECK(ayatori_rwlock_init(lock, &attr) == 0 && ayatori_rwlock_rdlock(lock) == 0);
  w->began = w->ended = 0;
  CHECK(ayatori_thread_create(&writer, NULL, write_in_time, w) == 0);
  while (!flag(w, &w->began)) ayatori_thread_yield();
  while (ayatori_rwlock_tryrdlock(lock) == 0) { /* until the writer waits */
    CHECK(ayatori_rwlock_unlock(lock) == 0);
    ayatori_thread_yield();
  }
  CHECK(ayatori_thread_create(&reader, NULL, read_behind, w) == 0);
  CHECK(ayatori_thread_join(reader, NULL) == 0 && flag(w, &w->ended));
  CHECK(ayatori_thread_join(writer, NULL) == 0 && w->result == ETIMEDOUT);
  CHECK(ayatori_rwlock_unlock(lock) == 0 && ayatori_rwlock_destroy(lock) == 0);
  ayatori_mutex_destroy(&w->mutex);
  ayatori_free(lock);
  ayatori_free(w);
}

void rwlock_errors(void) {
  ayatori_rwlock_t* lock = ayatori_malloc(sizeof *lock);
  ayatori_rwlockattr_t attr;
  int kind = 5, shared = 5;
  CHECK(ayatori_rwlockattr_init(&attr) == 0);
  CHECK(ayatori_rwlockattr_setkind_np(&attr, 9) == EINVAL && ayatori_rwlockattr_setpshared(&attr, 9) == EINVAL);
  CHECK(ayatori_rwlockattr_getkind_np(&attr, &kind) == 0 && kind == AYATORI_RWLOCK_DEFAULT_NP);
  CHECK(ayatori_rwlockattr_getpshared(&attr, &shared) == 0 && shared == AYATORI_PROCESS_PRIVATE);
  CHECK(ayatori_rwlockattr_setpshared(&attr, AYATORI_PROCESS_SHARED) == 0);
  CHECK(ayatori_rwlockattr_getpshared(&attr, &shared) == 0 && shared == AYATORI_PROCESS_SHARED);
  CHECK(ayatori_rwlock_init(lock, &attr) == 0 && ayatori_rwlock_unlock(lock) == EPERM);
  CHECK(ayatori_rwlock_wrlock(lock) == 0);
  CHECK(ayatori_rwlock_trywrlock(lock) == EBUSY && ayatori_rwlock_tryrdlock(lock) == EBUSY);
  CHECK(ayatori_rwlock_wrlock(lock) == EDEADLK && ayatori_rwlock_rdlock(lock) == EDEADLK);
  CHECK(ayatori_rwlock_destroy(lock) == EBUSY);
  struct timespec t = in_ms(CLOCK_REALTIME, 20);
  CHECK(ayatori_rwlock_timedrdlock(lock, &t) == EDEADLK && ayatori_rwlock_timedwrlock(lock, &t) == EDEADLK);
  migrate();
  CHECK(ayatori_rwlock_unlock(lock) == 0 && ayatori_rwlock_rdlock(lock) == 0 && ayatori_rwlock_rdlock(lock) == 0);
  CHECK(ayatori_rwlock_trywrlock(lock) == EBUSY && ayatori_rwlock_destroy(lock) == EBUSY);
  const int64_t before = now_ms();
  t = in_ms(CLOCK_REALTIME, 20);
  CHECK(ayatori_rwlock_timedwrlock(lock, &t) == ETIMEDOUT);
  t = in_ms(CLOCK_MONOTONIC, 20);
  CHECK(ayatori_rwlock_clockwrlock(lock, CLOCK_MONOTONIC, &t) == ETIMEDOUT && now_ms() - before >= 39);
  CHECK(ayatori_rwlock_clockrdlock(lock, CLOCK_PROCESS_CPUTIME_ID, &t) == EINVAL);
  t.tv_nsec = 1000000000;
  CHECK(ayatori_rwlock_timedwrlock(lock, &t) == EINVAL && ayatori_rwlock_timedrdlock(lock, &t) == 0);
  for (int i = 0; i < 3; ++i) CHECK(ayatori_rwlock_unlock(lock) == 0);
  CHECK(ayatori_rwlock_unlock(lock) == EPERM && ayatori_rwlock_destroy(lock) == 0);
  CHECK(ayatori_rwlock_destroy(lock) == EINVAL && ayatori_rwlock_rdlock(lock) == EINVAL);
  CHECK(ayatori_rwlock_trywrlock(lock) == EINVAL && ayatori_rwlock_unlock(lock) == EINVAL);
  CHECK(ayatori_rwlockattr_destroy(&attr) == 0 && ayatori_rwlock_init(lock, &attr) == EINVAL);
  ayatori_free(lock);
}

static void* spin_and_add(void* argument) {
  struct shared* s = argument;
  if (ayatori_thread_self() & 1) migrate();
  for (int i = 0; i < kRounds; ++i) {
    if (i % 3 != 0 || ayatori_spin_trylock(s->spin) != 0) CHECK(ayatori_spin_lock(s->spin) == 0);
    ++s->a;
    if (i % 20 == 7) migrate();
    CHECK(ayatori_spin_unlock(s->spin) == 0);
  }
  return NULL;
}

void spin_locks(void) {
  struct shared* s = ayatori_calloc(1, sizeof *s);
  ayatori_spinlock_t* spin = ayatori_malloc(sizeof *spin);
  ayatori_thread_t threads[kThreads];
  CHECK(ayatori_spin_init(spin, 9) == EINVAL && ayatori_spin_init(spin, AYATORI_PROCESS_PRIVATE) == 0);
  s->spin = spin;
  for (int i = 0; i < kThreads; ++i) CHECK(ayatori_thread_create(&threads[i], NULL, spin_and_add, s) == 0);
  for (int i = 0; i < kThreads; ++i) CHECK(ayatori_thread_join(threads[i], NULL) == 0);
  CHECK(s->a == kThreads * kRounds);
  CHECK(ayatori_spin_unlock(spin) == EPERM && ayatori_spin_lock(spin) == 0);
  CHECK(ayatori_spin_lock(spin) == EDEADLK && ayatori_spin_trylock(spin) == EBUSY);
  CHECK(ayatori_spin_destroy(spin) == EBUSY && ayatori_spin_unlock(spin) == 0 && ayatori_spin_destroy(spin) == 0);
  CHECK(ayatori_spin_lock(spin) == EINVAL && ayatori_spin_trylock(spin) == EINVAL);
  CHECK(ayatori_spin_unlock(spin) == EINVAL && ayatori_spin_destroy(spin) == EINVAL);
  ayatori_free(spin);
  ayatori_free(s);
}
