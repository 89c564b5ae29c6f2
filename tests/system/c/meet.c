/* SPDX-License-Identifier: Apache-2.0 */
/* Barriers, once, semaphores. */
#include <errno.h>
#include <string.h>

#include "cases.h"

enum { kThreads = 6, kRounds = 40 };

/* ------------------------------------------------------------------------------------------------- barrier */

struct meeting {
  ayatori_barrier_t barrier, pairs;
  int written[kThreads];
  int serial[kThreads], pair_serial[kThreads];
};
struct member {
  struct meeting* meeting;
  int number;
};

static void* meet(void* argument) {
  const struct member* me = argument;
  struct meeting* m = me->meeting;
  for (int round = 1; round <= kRounds; ++round) {
    if ((round + me->number) % 8 == 0) migrate();
    m->written[me->number] = round;
    int code = ayatori_barrier_wait(&m->barrier);
    CHECK(code == 0 || code == AYATORI_BARRIER_SERIAL_THREAD);
    m->serial[me->number] += code == AYATORI_BARRIER_SERIAL_THREAD;
    for (int i = 0; i < kThreads; ++i) CHECK(m->written[i] == round);
    code = ayatori_barrier_wait(&m->barrier);
    CHECK(code == 0 || code == AYATORI_BARRIER_SERIAL_THREAD);
    m->serial[me->number] += code == AYATORI_BARRIER_SERIAL_THREAD;
    m->pair_serial[me->number] += ayatori_barrier_wait(&m->pairs) == AYATORI_BARRIER_SERIAL_THREAD;
  }
  return NULL;
}

void barrier_rounds(void) {
  struct meeting* m = ayatori_calloc(1, sizeof *m);
  struct member members[kThreads];
  ayatori_thread_t threads[kThreads];
  ayatori_barrierattr_t attr;
  CHECK(ayatori_barrier_wait(&m->barrier) == EINVAL && ayatori_barrier_destroy(&m->barrier) == EINVAL);
  CHECK(ayatori_barrierattr_init(&attr) == 0);
  CHECK(ayatori_barrier_init(&m->barrier, &attr, 0) == EINVAL);
  CHECK(ayatori_barrier_init(&m->barrier, &attr, kThreads) == 0 && ayatori_barrier_init(&m->pairs, NULL, 2) == 0);
  CHECK(ayatori_barrierattr_destroy(&attr) == 0);
  for (int i = 0; i < kThreads; ++i) {
    members[i] = (struct member){m, i};
    CHECK(ayatori_thread_create(&threads[i], NULL, meet, &members[i]) == 0);
  }
  int serial = 0, pair_serial = 0;
  for (int i = 0; i < kThreads; ++i) {
    CHECK(ayatori_thread_join(threads[i], NULL) == 0);
    serial += m->serial[i];
    pair_serial += m->pair_serial[i];
  }
  CHECK(serial == 2 * kRounds && pair_serial == kRounds * kThreads / 2);
  CHECK(ayatori_barrier_destroy(&m->barrier) == 0 && ayatori_barrier_destroy(&m->pairs) == 0);
  CHECK(ayatori_barrier_wait(&m->barrier) == EINVAL);
  ayatori_free(m);
}

/* ------------------------------------------------------------------------------------------------- once */

static int made_here; /* of each process */
static ayatori_once_t per_process = AYATORI_ONCE_INIT;
static void make_here(void) {
  const int began_at = here();
  ayatori_thread_yield(); /* a place to be taken away, if it were not kept here */
  ++made_here;
  CHECK(here() == began_at && made_here == 1);
}

static void make_for_all(void) {
  migrate();
  note(1);
}
static void give_up(void) { ayatori_thread_exit(NULL); }

struct first {
  ayatori_once_t for_all, given_up;
};

static void* first(void* argument) {
  struct first* f = argument;
  migrate();
  CHECK(ayatori_once(&f->for_all, make_for_all) == 0 && noted() == 1);
  CHECK(ayatori_once(&per_process, make_here) == 0);
  return NULL;
}
static void* gives_up(void* argument) {
  ayatori_once(&((struct first*)argument)->given_up, give_up);
  CHECK(!"the routine ends the thread");
  return NULL;
}
static void nothing(void) {}

void once_runs(void) {
  struct first f = {AYATORI_ONCE_INIT, AYATORI_ONCE_INIT};
  ayatori_thread_t threads[kThreads];
  CHECK(ayatori_once(NULL, nothing) == EINVAL && ayatori_once(&f.for_all, NULL) == EINVAL);
  for (int i = 0; i < kThreads; ++i) CHECK(ayatori_thread_create(&threads[i], NULL, first, &f) == 0);
  for (int i = 0; i < kThreads; ++i) CHECK(ayatori_thread_join(threads[i], NULL) == 0);
  CHECK(noted() == 1);
  for (int i = 0; i < 10; ++i) {
    CHECK(ayatori_once(&per_process, make_here) == 0);
    migrate();
  }
  CHECK(ayatori_thread_create(&threads[0], NULL, gives_up, &f) == 0 && ayatori_thread_join(threads[0], NULL) == 0);
  CHECK(ayatori_once(&f.given_up, nothing) == 0); /* it has not run before, and its lock is free */
}

/* ------------------------------------------------------------------------------------------------- semaphore */

struct permits {
  ayatori_sem_t permits, mutex;
  int inside, most;
  long count;
};
static void* enter(void* argument) {
  struct permits* p = argument;
  for (int i = 0; i < kRounds; ++i) {
    if (i % 10 == 3) migrate();
    CHECK(ayatori_sem_wait(&p->permits) == 0);
    CHECK(ayatori_sem_wait(&p->mutex) == 0);
    ++p->count;
    if (++p->inside > p->most) p->most = p->inside;
    CHECK(ayatori_sem_post(&p->mutex) == 0);
    ayatori_thread_yield();
    CHECK(ayatori_sem_wait(&p->mutex) == 0);
    --p->inside;
    CHECK(ayatori_sem_post(&p->mutex) == 0);
    CHECK(ayatori_sem_post(&p->permits) == 0);
  }
  return NULL;
}

void sem_permits(void) {
  struct permits* p = ayatori_calloc(1, sizeof *p);
  ayatori_thread_t threads[kThreads];
  int value = -1;
  CHECK(ayatori_sem_init(&p->permits, 1, 3) == 0 && ayatori_sem_init(&p->mutex, 0, 1) == 0);
  for (int i = 0; i < kThreads; ++i) CHECK(ayatori_thread_create(&threads[i], NULL, enter, p) == 0);
  for (int i = 0; i < kThreads; ++i) CHECK(ayatori_thread_join(threads[i], NULL) == 0);
  CHECK(p->most >= 1 && p->most <= 3 && p->inside == 0 && p->count == kThreads * kRounds);
  CHECK(ayatori_sem_getvalue(&p->permits, &value) == 0 && value == 3);
  CHECK(ayatori_sem_destroy(&p->permits) == 0 && ayatori_sem_destroy(&p->mutex) == 0);
  ayatori_free(p);
}

static void* wait_for_it(void* argument) { return ayatori_sem_wait(argument) == 0 ? argument : NULL; }

void sem_errors(void) {
  ayatori_sem_t sem;
  memset(&sem, 0, sizeof sem);
  int value = -1;
  const struct timespec never = {1, 1000000000};
#define FAILS(call, error) CHECK((errno = 0, (call) == -1) && errno == (error))
  FAILS(ayatori_sem_wait(&sem), EINVAL);
  FAILS(ayatori_sem_post(&sem), EINVAL);
  FAILS(ayatori_sem_init(&sem, 0, (unsigned)AYATORI_SEM_VALUE_MAX + 1), EINVAL);
  CHECK(ayatori_sem_init(&sem, 0, AYATORI_SEM_VALUE_MAX) == 0);
  FAILS(ayatori_sem_post(&sem), EOVERFLOW);
  CHECK(ayatori_sem_trywait(&sem) == 0 && ayatori_sem_getvalue(&sem, &value) == 0);
  CHECK(value == AYATORI_SEM_VALUE_MAX - 1 && ayatori_sem_destroy(&sem) == 0);
  FAILS(ayatori_sem_destroy(&sem), EINVAL);
  CHECK(ayatori_sem_init(&sem, 0, 1) == 0);
  CHECK(ayatori_sem_timedwait(&sem, &never) == 0); /* a unit is there: the time is not looked at */
  FAILS(ayatori_sem_timedwait(&sem, &never), EINVAL);
  FAILS(ayatori_sem_trywait(&sem), EAGAIN);
  const int64_t began = now_ms();
  const struct timespec until = in_ms(CLOCK_REALTIME, 30);
  FAILS(ayatori_sem_timedwait(&sem, &until), ETIMEDOUT);
  CHECK(now_ms() - began >= 29);
  ayatori_thread_t thread;
  void* result = NULL;
  CHECK(ayatori_thread_create(&thread, NULL, wait_for_it, &sem) == 0);
  CHECK(ayatori_sem_post(&sem) == 0 && ayatori_thread_join(thread, &result) == 0 && result == &sem);
  CHECK(ayatori_sem_destroy(&sem) == 0);
}

static ayatori_sem_t ping, pong;

static void* answer(void* argument) {
  long* number = argument;
  migrate();
  for (int i = 0; i < kRounds; ++i) {
    CHECK(ayatori_sem_wait(&ping) == 0);
    *number = -*number;
    CHECK(ayatori_sem_post(&pong) == 0);
  }
  return NULL;
}

/* Made by the first thread, used by any process; what is written before a post is seen after the wait. */
void sem_in_static_data(void) {
  long* number = ayatori_malloc(sizeof *number);
  ayatori_thread_t thread;
  CHECK(ayatori_sem_init(&ping, 0, 0) == 0 && ayatori_sem_init(&pong, 0, 0) == 0);
  CHECK(ayatori_thread_create(&thread, NULL, answer, number) == 0);
  for (long i = 1; i <= kRounds; ++i) {
    *number = i;
    CHECK(ayatori_sem_post(&ping) == 0 && ayatori_sem_wait(&pong) == 0);
    CHECK(*number == -i);
    if (i % 10 == 0) migrate();
  }
  CHECK(ayatori_thread_join(thread, NULL) == 0);
  CHECK(ayatori_sem_destroy(&ping) == 0 && ayatori_sem_destroy(&pong) == 0);
  ayatori_free(number);
}
