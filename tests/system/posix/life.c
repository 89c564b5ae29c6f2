/* SPDX-License-Identifier: Apache-2.0 */
/* How threads begin and end, and what they have: joins, cancellation, handlers, thread-specific data, once, stacks. */
#include <string.h>
#include <unistd.h>

#include "cases.h"

enum { kThreads = 8 };

struct life {
  ayatori_mutex_t mutex;
  ayatori_cond_t cond;
  ayatori_sem_t here, go, never;
  ayatori_thread_t other;
  int order[16], ordered, count, locked, state, done;
};
static struct life* begin(void) {
  struct life* l = ayatori_calloc(1, sizeof *l);
  CHECK(ayatori_mutex_init(&l->mutex, NULL) == 0 && ayatori_cond_init(&l->cond, NULL) == 0);
  CHECK(ayatori_sem_init(&l->here, 0, 0) == 0 && ayatori_sem_init(&l->go, 0, 0) == 0);
  CHECK(ayatori_sem_init(&l->never, 0, 0) == 0);
  return l;
}
static void end(struct life* l) {
  CHECK(ayatori_mutex_destroy(&l->mutex) == 0 && ayatori_cond_destroy(&l->cond) == 0);
  CHECK(ayatori_sem_destroy(&l->here) == 0 && ayatori_sem_destroy(&l->go) == 0);
  CHECK(ayatori_sem_destroy(&l->never) == 0);
  ayatori_free(l);
}
static void* give_back(void* argument) { return argument; }

/* ------------------------------------------------------------------------------------------------- joins */

static void* waits_to_go(void* argument) {
  struct life* l = argument;
  CHECK(ayatori_sem_post(&l->here) == 0 && ayatori_sem_wait(&l->go) == 0);
  return l;
}
static void* joins_the_other(void* argument) {
  struct life* l = argument;
  void* result = NULL;
  migrate();
  GIVES(0, ayatori_thread_join(l->other, &result));
  CHECK(result == l);
  return l;
}
void join_rules(void) {
  struct life* l = begin();
  ayatori_thread_t thread, joiner;
  void* result = NULL;
  ayatori_thread_attr_t attr;
  GIVES(EDEADLK, ayatori_thread_join(ayatori_thread_self(), NULL));
  /* By a thread that did not make it, before or after its end; then it is gone. */
  for (int late = 0; late < 2; ++late) {
    CHECK(ayatori_thread_create(&thread, NULL, waits_to_go, l) == 0 && ayatori_sem_wait(&l->here) == 0);
    l->other = thread;
    if (late) CHECK(ayatori_sem_post(&l->go) == 0);
    CHECK(ayatori_thread_create(&joiner, NULL, joins_the_other, l) == 0);
    if (!late) CHECK(ayatori_sem_post(&l->go) == 0);
    GIVES(0, ayatori_thread_join(joiner, &result));
    CHECK(result == l);
    GIVES_HERE(UNDEFINED, ESRCH, ayatori_thread_join(thread, NULL));
  }
  /* Not a detached one, while it lives. */
  CHECK(ayatori_thread_attr_init(&attr) == 0);
  CHECK(ayatori_thread_attr_setdetachstate(&attr, AYATORI_THREAD_CREATE_DETACHED) == 0);
  CHECK(ayatori_thread_create(&thread, &attr, waits_to_go, l) == 0 && ayatori_sem_wait(&l->here) == 0);
  migrate();
  GIVES(EINVAL, ayatori_thread_join(thread, NULL));
  CHECK(ayatori_sem_post(&l->go) == 0 && ayatori_thread_attr_destroy(&attr) == 0);
  end(l);
}

void detach_rules(void) {
  struct life* l = begin();
  ayatori_thread_t thread;
  CHECK(ayatori_thread_create(&thread, NULL, waits_to_go, l) == 0 && ayatori_sem_wait(&l->here) == 0);
  migrate();
  GIVES(0, ayatori_thread_detach(thread));
  GIVES(EINVAL, ayatori_thread_detach(thread));
  GIVES(EINVAL, ayatori_thread_join(thread, NULL));
  CHECK(ayatori_sem_post(&l->go) == 0);
  /* One that has ended. */
  CHECK(ayatori_thread_create(&thread, NULL, give_back, NULL) == 0);
  GIVES(0, ayatori_thread_detach(thread));
  ayatori_thread_yield();
  end(l);
}

/* ------------------------------------------------------------------------------------------------- cancellation */

static void note(void* argument) {
  struct life* l = argument;
  l->order[l->ordered++] = l->count++;
}
static void unlock(void* argument) {
  struct life* l = argument;
  l->locked = ayatori_mutex_trylock(&l->mutex) == EBUSY; /* it is held in the handler */
  l->done = 1;
  CHECK(ayatori_mutex_unlock(&l->mutex) == 0);
}
static void* waits_in_section(void* argument) {
  struct life* l = argument;
  migrate();
  CHECK(ayatori_mutex_lock(&l->mutex) == 0);
  ayatori_thread_cleanup_push(unlock, l);
  l->state = 1;
  while (!l->done) CHECK(ayatori_cond_wait(&l->cond, &l->mutex) == 0);
  ayatori_thread_cleanup_pop(1);
  return l;
}
static void* computes_in_section(void* argument) {
  struct life* l = argument;
  migrate();
  CHECK(ayatori_mutex_lock(&l->mutex) == 0);
  ayatori_thread_cleanup_push(unlock, l);
  CHECK(ayatori_sem_post(&l->here) == 0);
  /* To lock and to unlock are no places to be cancelled in. */
  ayatori_mutex_t inner = AYATORI_MUTEX_INITIALIZER;
  int old;
  CHECK(ayatori_thread_setcancelstate(AYATORI_CANCEL_DISABLE, &old) == 0);
  CHECK(ayatori_sem_wait(&l->go) == 0); /* it has been asked to end by now */
  CHECK(ayatori_thread_setcancelstate(old, NULL) == 0);
  for (int i = 0; i < 10; ++i) {
    CHECK(ayatori_mutex_lock(&inner) == 0 && ayatori_mutex_unlock(&inner) == 0);
    ++l->count;
  }
  ayatori_thread_testcancel();
  CHECK(!"cancelled");
  ayatori_thread_cleanup_pop(1);
  return l;
}

/* In a critical section, at a wait and elsewhere: the handler holds the mutex, others get it. */
void cancel_in_section(void) {
  struct life* l = begin();
  ayatori_thread_t thread;
  void* result = NULL;
  CHECK(ayatori_thread_create(&thread, NULL, waits_in_section, l) == 0);
  for (int seen = 0; !seen; ayatori_thread_yield()) {
    CHECK(ayatori_mutex_lock(&l->mutex) == 0);
    seen = l->state;
    CHECK(ayatori_mutex_unlock(&l->mutex) == 0);
  }
  GIVES(0, ayatori_thread_cancel(thread));
  GIVES(0, ayatori_thread_join(thread, &result));
  CHECK(result == AYATORI_CANCELED && l->locked == 1);
  GIVES(0, ayatori_mutex_lock(&l->mutex));
  GIVES(0, ayatori_mutex_unlock(&l->mutex));
  l->locked = 0;
  CHECK(ayatori_thread_create(&thread, NULL, computes_in_section, l) == 0 && ayatori_sem_wait(&l->here) == 0);
  GIVES(0, ayatori_thread_cancel(thread));
  CHECK(ayatori_sem_post(&l->go) == 0);
  GIVES(0, ayatori_thread_join(thread, &result));
  CHECK(result == AYATORI_CANCELED && l->locked == 1 && l->count == 10);
  GIVES(0, ayatori_mutex_lock(&l->mutex));
  GIVES(0, ayatori_mutex_unlock(&l->mutex));
  end(l);
}

static void* runs_disabled(void* argument) {
  struct life* l = argument;
  int old = -1;
  CHECK(ayatori_thread_setcancelstate(AYATORI_CANCEL_DISABLE, &old) == 0 && old == AYATORI_CANCEL_ENABLE);
  CHECK(ayatori_thread_setcanceltype(AYATORI_CANCEL_DEFERRED, &old) == 0 && old == AYATORI_CANCEL_DEFERRED);
  CHECK(ayatori_sem_post(&l->here) == 0 && ayatori_sem_wait(&l->go) == 0); /* cancelled meanwhile */
  migrate();
  ayatori_thread_testcancel();
  l->done = 1;
  if (l->state) return l; /* it ends by itself, and nobody cares any more */
  CHECK(ayatori_thread_setcancelstate(AYATORI_CANCEL_ENABLE, &old) == 0 && old == AYATORI_CANCEL_DISABLE);
  l->done = 2; /* deferred: not before the next point */
  (void)ayatori_sem_wait(&l->never);
  return l;
}
static void* is_asynchronous(void* argument) {
  struct life* l = argument;
  int old = -1;
  CHECK(ayatori_thread_setcancelstate(AYATORI_CANCEL_DISABLE, &old) == 0);
  CHECK(ayatori_thread_setcanceltype(AYATORI_CANCEL_ASYNCHRONOUS, &old) == 0 && old == AYATORI_CANCEL_DEFERRED);
  CHECK(ayatori_sem_post(&l->here) == 0 && ayatori_sem_wait(&l->go) == 0);
  l->done = 3;
  (void)ayatori_thread_setcancelstate(AYATORI_CANCEL_ENABLE, &old);
  ayatori_thread_testcancel();
  l->done = 4;
  return l;
}

void cancel_states(void) {
  struct life* l = begin();
  ayatori_thread_t thread;
  void* result = NULL;
  for (l->state = 0; l->state < 2; ++l->state) {
    l->done = 0;
    CHECK(ayatori_thread_create(&thread, NULL, runs_disabled, l) == 0 && ayatori_sem_wait(&l->here) == 0);
    GIVES(0, ayatori_thread_cancel(thread));
    GIVES(0, ayatori_thread_cancel(thread)); /* once more changes nothing */
    CHECK(ayatori_sem_post(&l->go) == 0);
    GIVES(0, ayatori_thread_join(thread, &result));
    CHECK(l->done == 2 - l->state && result == (l->state ? (void*)l : AYATORI_CANCELED));
  }
  CHECK(ayatori_thread_create(&thread, NULL, is_asynchronous, l) == 0 && ayatori_sem_wait(&l->here) == 0);
  GIVES(0, ayatori_thread_cancel(thread));
  CHECK(ayatori_sem_post(&l->go) == 0);
  GIVES(0, ayatori_thread_join(thread, &result));
  CHECK(l->done == 3);
#ifdef POSIX_REAL
  left_out("glibc 2.36 leaves the result null",
           "a thread that enables an asynchronous cancellation is AYATORI_CANCELED");
#else
  CHECK(result == AYATORI_CANCELED);
#endif
  end(l);
}

static void* pushes(void* argument) {
  struct life* l = argument;
  migrate();
  ayatori_thread_cleanup_push(note, l);
  ayatori_thread_cleanup_push(note, l);
  ayatori_thread_cleanup_push(note, l);
  ayatori_thread_cleanup_pop(0); /* not this one */
  ayatori_thread_cleanup_push(note, l);
  ayatori_thread_cleanup_pop(1); /* 0 */
  l->count = 10;
  if (l->state == 1) ayatori_thread_exit(l);
  if (l->state == 2) {
    CHECK(ayatori_sem_post(&l->here) == 0);
    for (;;) (void)ayatori_sem_wait(&l->never);
  }
  ayatori_thread_cleanup_pop(1);
  ayatori_thread_cleanup_pop(1);
  return l;
}

/* Last pushed, first run; by exit, cancellation, or pop. */
void cleanup_order(void) {
  struct life* l = begin();
  for (l->state = 0; l->state < 3; ++l->state) {
    ayatori_thread_t thread;
    void* result = NULL;
    l->ordered = l->count = 0;
    CHECK(ayatori_thread_create(&thread, NULL, pushes, l) == 0);
    if (l->state == 2) CHECK(ayatori_sem_wait(&l->here) == 0 && ayatori_thread_cancel(thread) == 0);
    CHECK(ayatori_thread_join(thread, &result) == 0);
    CHECK(result == (l->state == 2 ? AYATORI_CANCELED : (void*)l));
    CHECK(l->ordered == 3 && l->order[0] == 0 && l->order[1] == 10 && l->order[2] == 11);
  }
  end(l);
}

/* ------------------------------------------------------------------------------------------------- once */

struct once {
  ayatori_once_t control;
  struct life* l;
};
/* Its routine takes no argument; a thread's own data tell it. */
ayatori_key_t once_key;
static void may_be_cancelled(void) {
  struct life* l = ayatori_getspecific(once_key);
  ++l->count;
  if (l->count > 1) return;
  CHECK(ayatori_sem_post(&l->here) == 0);
  for (;;) (void)ayatori_sem_wait(&l->never);
}
static void* runs_once(void* argument) {
  struct once* o = argument;
  CHECK(ayatori_setspecific(once_key, o->l) == 0);
  CHECK(ayatori_once(&o->control, may_be_cancelled) == 0);
  return o;
}

/* A routine that was cancelled has not run: the next caller runs it, also one that waited. */
void once_cancelled(void) {
  static const ayatori_once_t init = AYATORI_ONCE_INIT;
  struct once* o = ayatori_calloc(1, sizeof *o);
  ayatori_thread_t threads[kThreads];
  void* result = NULL;
  o->control = init;
  o->l = begin();
  CHECK(ayatori_thread_create(&threads[0], NULL, runs_once, o) == 0 && ayatori_sem_wait(&o->l->here) == 0);
  for (int i = 1; i < kThreads; ++i) CHECK(ayatori_thread_create(&threads[i], NULL, runs_once, o) == 0);
  GIVES(0, ayatori_thread_cancel(threads[0]));
  for (int i = 0; i < kThreads; ++i) {
    CHECK(ayatori_thread_join(threads[i], &result) == 0);
    CHECK(result == (i == 0 ? AYATORI_CANCELED : (void*)o));
  }
  CHECK(o->l->count == 2);
  CHECK(ayatori_setspecific(once_key, o->l) == 0 && ayatori_once(&o->control, may_be_cancelled) == 0);
  CHECK(o->l->count == 2 && ayatori_setspecific(once_key, NULL) == 0);
  end(o->l);
  ayatori_free(o);
}

/* ------------------------------------------------------------------------------------------------- thread-specific data */

struct rounds {
  ayatori_key_t again, once, plain;
  int agains, onces;
};
/* Threads end elsewhere than here: what a destructor needs lies behind its value. */
static void sets_again(void* value) {
  struct rounds* r = value;
  ++r->agains;
  CHECK(ayatori_getspecific(r->again) == NULL); /* it is null when the destructor runs */
  CHECK(ayatori_setspecific(r->again, r) == 0);
}
static void counts_once(void* value) { ++((struct rounds*)value)->onces; }
static void* has_values(void* argument) {
  struct rounds* r = argument;
  CHECK(ayatori_getspecific(r->again) == NULL && ayatori_getspecific(r->plain) == NULL);
  CHECK(ayatori_setspecific(r->again, r) == 0 && ayatori_setspecific(r->once, r) == 0);
  CHECK(ayatori_setspecific(r->plain, r) == 0);
  migrate();
  CHECK(ayatori_getspecific(r->again) == r && ayatori_getspecific(r->plain) == r);
  return r;
}

/* A destructor that sets its value again is run again, AYATORI_DESTRUCTOR_ITERATIONS times. */
void keys_rounds(void) {
  struct rounds* r = ayatori_calloc(1, sizeof *r);
  CHECK(ayatori_key_create(&r->again, sets_again) == 0 && ayatori_key_create(&r->once, counts_once) == 0);
  CHECK(ayatori_key_create(&r->plain, NULL) == 0);
  in_threads(1, has_values, r);
  CHECK(r->agains == AYATORI_DESTRUCTOR_ITERATIONS && r->onces == 1);
  CHECK(ayatori_getspecific(r->again) == NULL); /* each thread has its own */
  /* Of a deleted key no destructor runs. */
  CHECK(ayatori_setspecific(r->plain, r) == 0 && ayatori_key_delete(r->plain) == 0);
  CHECK(ayatori_key_delete(r->again) == 0 && ayatori_key_delete(r->once) == 0);
  ayatori_free(r);
}

void keys_exhausted(void) {
  static ayatori_key_t keys[AYATORI_KEYS_MAX + 1];
  ayatori_key_t* made = ayatori_calloc(AYATORI_KEYS_MAX + 1, sizeof *made);
  int n = 0, code = 0;
  (void)keys;
  while (n <= AYATORI_KEYS_MAX && (code = ayatori_key_create(&made[n], NULL)) == 0) ++n;
  CHECK(n > AYATORI_KEYS_MAX / 2 && n <= AYATORI_KEYS_MAX && code == EAGAIN);
  GIVES(EAGAIN, ayatori_key_create(&made[n], NULL));
  migrate();
  GIVES(0, ayatori_key_delete(made[0]));
  GIVES(0, ayatori_key_create(&made[0], NULL));
  CHECK(ayatori_getspecific(made[0]) == NULL);
  for (int i = 0; i < n; ++i) CHECK(ayatori_key_delete(made[i]) == 0);
  ayatori_free(made);
}

/* ------------------------------------------------------------------------------------------------- stacks, sleep */

static void* uses_stack(void* argument) {
  char room[48 * 1024];
  memset(room, 3, sizeof room);
  migrate();
  *(int*)argument += room[sizeof room - 1];
  return NULL;
}

/* 0 and less than the minimum are refused at once, more than there is when a thread is made. */
void stack_sizes(void) {
  ayatori_thread_attr_t attr;
  ayatori_thread_t thread;
  int sum = 0;
  CHECK(ayatori_thread_attr_init(&attr) == 0);
  GIVES(EINVAL, ayatori_thread_attr_setstacksize(&attr, 0));
  GIVES(EINVAL, ayatori_thread_attr_setstacksize(&attr, 1));
  CHECK(ayatori_thread_create(&thread, &attr, uses_stack, &sum) == 0 && ayatori_thread_join(thread, NULL) == 0);
  GIVES(0, ayatori_thread_attr_setstacksize(&attr, 128 * 1024));
  CHECK(ayatori_thread_create(&thread, &attr, uses_stack, &sum) == 0 && ayatori_thread_join(thread, NULL) == 0);
  GIVES(0, ayatori_thread_attr_setstacksize(&attr, (size_t)1 << 50));
  GIVES(EAGAIN, ayatori_thread_create(&thread, &attr, uses_stack, &sum));
  size_t bytes = 0;
  CHECK(ayatori_thread_attr_getstacksize(&attr, &bytes) == 0 && bytes == (size_t)1 << 50);
  CHECK(sum == 6 && ayatori_thread_attr_destroy(&attr) == 0);
}

static void* looks_at_itself(void* argument) {
  struct life* l = argument;
  ayatori_thread_attr_t attr;
  void* lowest = NULL;
  size_t bytes = 0;
  int state = -1, local = 0;
  char name[16];
  migrate();
  CHECK(ayatori_thread_getattr_np(ayatori_thread_self(), &attr) == 0);
  CHECK(ayatori_thread_attr_getstack(&attr, &lowest, &bytes) == 0);
  CHECK(ayatori_thread_attr_getdetachstate(&attr, &state) == 0 && state == AYATORI_THREAD_CREATE_DETACHED);
  CHECK((char*)&local >= (char*)lowest && (char*)&local < (char*)lowest + bytes);
  CHECK(bytes >= (size_t)AYATORI_THREAD_STACK_MIN && ayatori_thread_attr_destroy(&attr) == 0);
  CHECK(ayatori_sem_post(&l->here) == 0 && ayatori_sem_wait(&l->go) == 0); /* named by another thread */
  CHECK(ayatori_thread_getname_np(ayatori_thread_self(), name, sizeof name) == 0 && strcmp(name, "its name") == 0);
  CHECK(ayatori_sem_post(&l->here) == 0);
  return NULL;
}

/* What a thread is told of itself and of others. */
void stack_of_thread(void) {
  struct life* l = begin();
  ayatori_thread_attr_t attr;
  ayatori_thread_t thread;
  char name[16] = "";
  int state = -1;
  CHECK(ayatori_thread_attr_init(&attr) == 0);
  CHECK(ayatori_thread_attr_setdetachstate(&attr, AYATORI_THREAD_CREATE_DETACHED) == 0);
  CHECK(ayatori_thread_create(&thread, &attr, looks_at_itself, l) == 0 && ayatori_sem_wait(&l->here) == 0);
  CHECK(ayatori_thread_attr_destroy(&attr) == 0 && ayatori_thread_setname_np(thread, "its name") == 0);
  migrate();
  CHECK(ayatori_thread_getname_np(thread, name, sizeof name) == 0 && strcmp(name, "its name") == 0);
  CHECK(ayatori_thread_getattr_np(thread, &attr) == 0);
  CHECK(ayatori_thread_attr_getdetachstate(&attr, &state) == 0 && state == AYATORI_THREAD_CREATE_DETACHED);
  CHECK(ayatori_thread_attr_destroy(&attr) == 0);
  CHECK(ayatori_sem_post(&l->go) == 0 && ayatori_sem_wait(&l->here) == 0);
  end(l);
}

static void* sleeps_for_long(void* argument) {
  struct life* l = argument;
  const struct timespec long_time = {1000000, 0};
  migrate();
  CHECK(ayatori_sem_post(&l->here) == 0);
  (void)ayatori_nanosleep(&long_time, NULL);
  CHECK(!"woken");
  return NULL;
}

/* Not shorter than asked; a place to be cancelled in. */
void sleeps(void) {
  struct life* l = begin();
  ayatori_thread_t thread;
  void* result = NULL;
  const struct timespec some = {0, 20000000}, none = {0, 0}, wrong = {0, 1000000000}, negative = {-1, 0};
  struct timespec left = {5, 5};
  const int64_t began = now_ms(CLOCK_MONOTONIC);
  SETS(0, ayatori_nanosleep(&some, &left));
  CHECK(now_ms(CLOCK_MONOTONIC) - began >= 19);
  SETS(0, ayatori_nanosleep(&none, NULL));
  SETS(EINVAL, ayatori_nanosleep(&wrong, NULL));
  SETS(EINVAL, ayatori_nanosleep(&negative, NULL));
  CHECK(ayatori_thread_create(&thread, NULL, sleeps_for_long, l) == 0 && ayatori_sem_wait(&l->here) == 0);
  GIVES(0, ayatori_thread_cancel(thread));
  GIVES(0, ayatori_thread_join(thread, &result));
  CHECK(result == AYATORI_CANCELED);
  end(l);
}
