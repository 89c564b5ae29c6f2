/* SPDX-License-Identifier: Apache-2.0 */
/* Cancellation and cleanup handlers: where a thread waits, where it runs, on whatever process. */
#include <errno.h>

#include "cases.h"

enum { kRounds = 40, kThreads = 12, kUnits = 5 };

struct shared {
  ayatori_mutex_t mutex;
  ayatori_cond_t cond;
  ayatori_sem_t sem, begun;
  ayatori_thread_t other;
  int waiting, items, taken, handlers, went_on;
  int order[4], ordered;
  int held; /* handlers that could not lock the mutex as their thread held it */
};

static struct shared* make(void) {
  struct shared* s = ayatori_calloc(1, sizeof *s);
  CHECK(ayatori_mutex_init(&s->mutex, NULL) == 0 && ayatori_cond_init(&s->cond, NULL) == 0);
  CHECK(ayatori_sem_init(&s->sem, 0, 0) == 0 && ayatori_sem_init(&s->begun, 0, 0) == 0);
  return s;
}
static void end(struct shared* s) {
  CHECK(ayatori_sem_destroy(&s->sem) == 0 && ayatori_sem_destroy(&s->begun) == 0);
  CHECK(ayatori_cond_destroy(&s->cond) == 0 && ayatori_mutex_destroy(&s->mutex) == 0);
  ayatori_free(s);
}

static void pause_ms(long ms) {
  ayatori_sem_t never;
  CHECK(ayatori_sem_init(&never, 0, 0) == 0);
  const struct timespec until = in_ms(CLOCK_REALTIME, ms);
  while (ayatori_sem_timedwait(&never, &until) != 0 && errno == EINTR) {
  }
  CHECK(ayatori_sem_destroy(&never) == 0);
}

static void unlock(void* argument) {
  struct shared* s = argument;
  s->held += ayatori_mutex_trylock(&s->mutex) == EBUSY;
  ++s->handlers;
  CHECK(ayatori_mutex_unlock(&s->mutex) == 0);
}

/* Takes an item when there is one. */
static void* consume(void* argument) {
  struct shared* s = argument;
  migrate();
  CHECK(ayatori_mutex_lock(&s->mutex) == 0);
  ayatori_thread_cleanup_push(unlock, s);
  ++s->waiting;
  while (s->items == 0) CHECK(ayatori_cond_wait(&s->cond, &s->mutex) == 0);
  --s->items;
  ++s->taken;
  ayatori_thread_cleanup_pop(0);
  CHECK(ayatori_mutex_unlock(&s->mutex) == 0);
  return s;
}

static void until_waiting(struct shared* s, int count) { /* returns with the mutex held */
  for (;;) {
    CHECK(ayatori_mutex_lock(&s->mutex) == 0);
    if (s->waiting == count) return;
    CHECK(ayatori_mutex_unlock(&s->mutex) == 0);
    ayatori_thread_yield();
  }
}

void cancel_condition(void) {
  for (int round = 0; round < kRounds; ++round) {
    struct shared* s = make();
    ayatori_thread_t thread;
    void* result = NULL;
    CHECK(ayatori_thread_create(&thread, NULL, consume, s) == 0);
    until_waiting(s, 1); /* it has left the mutex: it waits for the condition */
    CHECK(ayatori_thread_cancel(thread) == 0);
    CHECK(s->handlers == 0);
    CHECK(ayatori_mutex_unlock(&s->mutex) == 0);
    CHECK(ayatori_thread_join(thread, &result) == 0 && result == AYATORI_CANCELED);
    CHECK(s->handlers == 1 && s->held == 1 && s->taken == 0);
    end(s);
  }
}

/* A signal reaches a thread that takes the item, whoever is cancelled. Were it lost with the cancelled thread, the other one
 * would wait for ever. */
void cancel_keeps_signals(void) {
  for (int round = 0; round < kRounds; ++round) {
    struct shared* s = make();
    ayatori_thread_t threads[2];
    void *first = NULL, *second = NULL;
    for (int i = 0; i < 2; ++i) CHECK(ayatori_thread_create(&threads[i], NULL, consume, s) == 0);
    until_waiting(s, 2);
    s->items = 1;
    CHECK(ayatori_cond_signal(&s->cond) == 0);
    CHECK(ayatori_thread_cancel(threads[0]) == 0);
    CHECK(ayatori_mutex_unlock(&s->mutex) == 0);
    CHECK(ayatori_thread_join(threads[0], &first) == 0);
    if (first != AYATORI_CANCELED) { /* it had the item */
      CHECK(ayatori_mutex_lock(&s->mutex) == 0);
      s->items = 1;
      CHECK(ayatori_cond_signal(&s->cond) == 0);
      CHECK(ayatori_mutex_unlock(&s->mutex) == 0);
    }
    CHECK(ayatori_thread_join(threads[1], &second) == 0 && second == s);
    CHECK(s->items == 0 && s->taken == 1 + (first == s));
    end(s);
  }
}

static void* take_unit(void* argument) {
  struct shared* s = argument;
  migrate();
  CHECK(ayatori_sem_wait(&s->sem) == 0);
  return s;
}

/* Every unit is with a thread or still there. */
void cancel_semaphore(void) {
  for (int round = 0; round < kRounds; ++round) {
    struct shared* s = make();
    ayatori_thread_t threads[kThreads];
    int with_unit = 0, value = -1;
    for (int i = 0; i < kThreads; ++i) CHECK(ayatori_thread_create(&threads[i], NULL, take_unit, s) == 0);
    if (round % 4 == 0) pause_ms(5);
    for (int i = 0; i < kThreads; ++i) {
      if (i < kUnits) CHECK(ayatori_sem_post(&s->sem) == 0);
      CHECK(ayatori_thread_cancel(threads[(i * 5 + round) % kThreads]) == 0);
    }
    for (int i = 0; i < kThreads; ++i) {
      void* result = NULL;
      CHECK(ayatori_thread_join(threads[i], &result) == 0);
      CHECK(result == s || result == AYATORI_CANCELED);
      with_unit += result == s;
    }
    CHECK(ayatori_sem_getvalue(&s->sem, &value) == 0 && value + with_unit == kUnits);
    end(s);
  }
}

static void* join_other(void* argument) {
  struct shared* s = argument;
  CHECK(ayatori_sem_post(&s->begun) == 0);
  CHECK(ayatori_thread_join(s->other, NULL) == 0);
  return s;
}

/* A join that is called off leaves its thread to be joined by others. */
void cancel_join(void) {
  for (int round = 0; round < kRounds; ++round) {
    struct shared* s = make();
    ayatori_thread_t joiner;
    void *first = NULL, *second = NULL;
    CHECK(ayatori_thread_create(&s->other, NULL, take_unit, s) == 0);
    CHECK(ayatori_thread_create(&joiner, NULL, join_other, s) == 0);
    CHECK(ayatori_sem_wait(&s->begun) == 0);
    if (round % 2 == 0) pause_ms(2);
    CHECK(ayatori_thread_cancel(joiner) == 0);
    if (round % 4 < 2) CHECK(ayatori_sem_post(&s->sem) == 0); /* else it goes on only when the joiner is gone */
    /* Over a network the end of a thread that another process holds has to be waited for. */
    if (round % 4 >= 2 && shares_memory()) {
      CHECK(ayatori_thread_join(joiner, &first) == 0 && first == AYATORI_CANCELED);
      CHECK(ayatori_sem_post(&s->sem) == 0);
    } else {
      if (round % 4 >= 2) CHECK(ayatori_sem_post(&s->sem) == 0);
      CHECK(ayatori_thread_join(joiner, &first) == 0);
    }
    if (first == AYATORI_CANCELED) {
      CHECK(ayatori_thread_join(s->other, &second) == 0 && second == s);
    } else {
      CHECK(first == s);
    }
    end(s);
  }
}

static void* disabled(void* argument) {
  struct shared* s = argument;
  int old = -1;
  CHECK(ayatori_thread_setcancelstate(AYATORI_CANCEL_DISABLE, &old) == 0 && old == AYATORI_CANCEL_ENABLE);
  CHECK(ayatori_sem_post(&s->begun) == 0);
  migrate();
  CHECK(ayatori_sem_wait(&s->sem) == 0); /* cancelled while it waits, or before */
  ayatori_thread_testcancel();
  ++s->went_on;
  migrate();
  CHECK(ayatori_thread_setcancelstate(AYATORI_CANCEL_ENABLE, &old) == 0 && old == AYATORI_CANCEL_DISABLE);
  ++s->went_on;
  ayatori_thread_yield(); /* no cancellation point */
  ++s->went_on;
  ayatori_thread_testcancel();
  ++s->went_on;
  return NULL;
}

static void* at_once(void* argument) {
  struct shared* s = argument;
  int old = -1;
  CHECK(ayatori_thread_setcancelstate(AYATORI_CANCEL_DISABLE, NULL) == 0);
  CHECK(ayatori_thread_setcanceltype(AYATORI_CANCEL_ASYNCHRONOUS, &old) == 0 && old == AYATORI_CANCEL_DEFERRED);
  CHECK(ayatori_sem_post(&s->begun) == 0);
  CHECK(ayatori_sem_wait(&s->sem) == 0);
  ++s->went_on;
  (void)ayatori_thread_setcancelstate(AYATORI_CANCEL_ENABLE, NULL);
  ++s->went_on;
  return NULL;
}

static void* spins(void* argument) {
  struct shared* s = argument;
  CHECK(ayatori_sem_post(&s->begun) == 0);
  while (s) {
    ayatori_thread_testcancel();
    ayatori_thread_yield();
  }
  return NULL;
}

void cancel_states(void) {
  void* (*const routines[])(void*) = {disabled, at_once};
  const int expected[] = {3, 1};
  for (int round = 0; round < kRounds; ++round) {
    for (int i = 0; i < 2; ++i) {
      struct shared* s = make();
      ayatori_thread_t thread;
      void* result = NULL;
      CHECK(ayatori_thread_create(&thread, NULL, routines[i], s) == 0);
      CHECK(ayatori_sem_wait(&s->begun) == 0);
      CHECK(ayatori_thread_cancel(thread) == 0 && ayatori_thread_cancel(thread) == 0);
      CHECK(ayatori_sem_post(&s->sem) == 0);
      CHECK(ayatori_thread_join(thread, &result) == 0 && result == AYATORI_CANCELED);
      CHECK(s->went_on == expected[i]);
      end(s);
    }
    struct shared* s = make();
    ayatori_thread_t thread;
    void* result = NULL;
    CHECK(ayatori_thread_create(&thread, NULL, spins, s) == 0);
    CHECK(ayatori_sem_wait(&s->begun) == 0);
    CHECK(ayatori_thread_cancel(thread) == 0);
    CHECK(ayatori_thread_join(thread, &result) == 0 && result == AYATORI_CANCELED);
    end(s);
  }
}

struct step {
  struct shared* s;
  int number;
};
static void note_order(void* argument) {
  struct step* step = argument;
  step->s->order[step->s->ordered++] = step->number;
  migrate(); /* a handler may go on elsewhere */
}

static void deeper(struct shared* s, int how) {
  struct step inner = {s, 3};
  ayatori_thread_cleanup_push(note_order, &inner);
  if (how == 0) ayatori_thread_exit(s);
  if (how == 1) CHECK(ayatori_sem_wait(&s->sem) == 0);
  ayatori_thread_cleanup_pop(1);
}

struct run {
  struct shared* s;
  int how;
};
static void* with_handlers(void* argument) {
  const struct run run = *(const struct run*)argument;
  struct step outer = {run.s, 1}, middle = {run.s, 2};
  ayatori_thread_cleanup_push(note_order, &outer);
  ayatori_thread_cleanup_push(note_order, &middle);
  migrate();
  deeper(run.s, run.how);
  ayatori_thread_cleanup_pop(1);
  ayatori_thread_cleanup_pop(0);
  return NULL;
}

void cancel_cleanup(void) {
  for (int round = 0; round < kRounds; ++round) {
    struct run run = {make(), round % 3};
    struct shared* s = run.s;
    ayatori_thread_t thread;
    void* result = NULL;
    CHECK(ayatori_thread_create(&thread, NULL, with_handlers, &run) == 0);
    if (run.how == 1) CHECK(ayatori_thread_cancel(thread) == 0);
    CHECK(ayatori_thread_join(thread, &result) == 0);
    CHECK(result == (run.how == 0 ? (void*)s : run.how == 1 ? AYATORI_CANCELED : NULL));
    CHECK(s->order[0] == 3 && s->order[1] == 2);
    CHECK(s->ordered == (run.how == 2 ? 2 : 3) && s->order[2] == (run.how == 2 ? 0 : 1));
    end(s);
  }
}

static void* nothing(void* argument) { return argument; }

void cancel_errors(void) {
  struct shared* s = make();
  ayatori_thread_t thread;
  void* result = NULL;
  CHECK(ayatori_thread_cancel(0) == ESRCH);
  CHECK(ayatori_thread_create(&thread, NULL, nothing, s) == 0);
  pause_ms(1);
  CHECK(ayatori_thread_cancel(thread) == 0); /* it has ended, perhaps */
  CHECK(ayatori_thread_join(thread, &result) == 0 && result == s);
  CHECK(ayatori_thread_cancel(thread) == ESRCH);
  CHECK(ayatori_thread_setcancelstate(7, NULL) == EINVAL && ayatori_thread_setcanceltype(-1, NULL) == EINVAL);
  int old = -1;
  CHECK(ayatori_thread_setcancelstate(AYATORI_CANCEL_ENABLE, &old) == 0 && old == AYATORI_CANCEL_ENABLE);
  ayatori_thread_testcancel();
  /* A thread on the stack of one that was cancelled is not. */
  for (int i = 0; i < kRounds; ++i) {
    ayatori_thread_t again;
    CHECK(ayatori_thread_create(&thread, NULL, take_unit, s) == 0);
    CHECK(ayatori_thread_cancel(thread) == 0);
    CHECK(ayatori_thread_join(thread, &result) == 0 && result == AYATORI_CANCELED);
    CHECK(ayatori_thread_create(&again, NULL, take_unit, s) == 0);
    CHECK(ayatori_thread_cancel(thread) == ESRCH);
    CHECK(ayatori_sem_post(&s->sem) == 0);
    CHECK(ayatori_thread_join(again, &result) == 0 && result == s);
  }
  end(s);
}

struct heir {
  struct shared* s;
  uint32_t slot; /* the lower half of its number */
  int done;
};
static void* post_later(void* argument) {
  struct shared* s = argument;
  ayatori_thread_yield();
  CHECK(ayatori_sem_post(&s->sem) == 0);
  return s;
}
static void inherit(void* argument) {
  struct heir* h = argument;
  struct shared* s = h->s;
  ayatori_thread_t thread;
  void* result = NULL;
  h->slot = (uint32_t)ayatori_thread_self();
  CHECK(ayatori_thread_create(&thread, NULL, take_unit, s) == 0);
  CHECK(ayatori_sem_post(&s->sem) == 0);
  CHECK(ayatori_thread_join(thread, &result) == 0 && result == s);
  CHECK(ayatori_thread_create(&thread, NULL, post_later, s) == 0);
  CHECK(ayatori_sem_wait(&s->sem) == 0);
  CHECK(ayatori_thread_join(thread, &result) == 0 && result == s);
  h->done = 1;
}

/* Who was cancelled after it had ended leaves nothing to a thread of C++ that has its place, and waits by this interface. */
void cancel_ends_with_its_thread(void) {
  int met = 0;
  for (int round = 0; round < kRounds; ++round) {
    struct shared* s = make();
    ayatori_thread_t thread;
    void* result = NULL;
    CHECK(ayatori_thread_create(&thread, NULL, nothing, s) == 0);
    CHECK(ayatori_thread_cancel(thread) == 0);
    CHECK(ayatori_thread_join(thread, &result) == 0 && result == s);
    struct heir heir = {s, 0, 0};
    in_cxx_thread(inherit, &heir);
    CHECK(heir.done == 1);
    met += heir.slot == (uint32_t)thread;
    end(s);
  }
  if (process_count() == 1 && worker_count() == 1) CHECK(met > 0);
}
