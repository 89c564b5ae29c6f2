/* SPDX-License-Identifier: Apache-2.0 */
/* Thread-specific data: values that go with their threads, destructors, return codes. */
#include <errno.h>

#include "cases.h"

enum { kThreads = 8, kMany = 70 };

struct shared {
  ayatori_key_t key[kMany];
  ayatori_mutex_t mutex;
  int destroyed;
  unsigned processes;
  int again; /* rounds of a destructor that sets its value again */
};
static ayatori_key_t count_key; /* in static data: one for all processes, once each has created it */
static ayatori_once_t once = AYATORI_ONCE_INIT;

struct value {
  struct shared* shared;
  int n;
};

static void end_value(void* argument) {
  struct value* v = argument;
  ayatori_mutex_lock(&v->shared->mutex);
  v->shared->destroyed += v->n;
  v->shared->processes |= 1u << here();
  ayatori_mutex_unlock(&v->shared->mutex);
  ayatori_free(v);
}
static void make_count_key(void) { CHECK(ayatori_key_create(&count_key, end_value) == 0); }

static ayatori_key_t counted(void) {
  CHECK(ayatori_once(&once, make_count_key) == 0);
  return count_key;
}

static void* keep_values(void* argument) {
  struct shared* s = argument;
  CHECK(ayatori_getspecific(s->key[0]) == NULL && ayatori_getspecific(counted()) == NULL);
  struct value* v = ayatori_malloc(sizeof *v);
  v->shared = s;
  v->n = 1;
  CHECK(ayatori_setspecific(counted(), v) == 0);
  for (int i = 0; i < kMany; ++i) CHECK(ayatori_setspecific(s->key[i], (char*)argument + i) == 0);
  for (int round = 0; round < 3; ++round) {
    migrate();
    CHECK(ayatori_getspecific(counted()) == v); /* by the key of this process */
    for (int i = 0; i < kMany; ++i) CHECK(ayatori_getspecific(s->key[i]) == (char*)argument + i);
    ayatori_thread_yield();
  }
  if (ayatori_thread_self() & 1) ayatori_thread_exit(NULL);
  return NULL;
}

void keys_follow_threads(void) {
  struct shared* s = ayatori_calloc(1, sizeof *s);
  ayatori_thread_t threads[kThreads];
  ayatori_mutex_init(&s->mutex, NULL);
  for (int i = 0; i < kMany; ++i) CHECK(ayatori_key_create(&s->key[i], NULL) == 0);
  for (int round = 0; round < 3; ++round) { /* descriptors are used anew: no old values */
    s->destroyed = 0;
    for (int i = 0; i < kThreads; ++i) CHECK(ayatori_thread_create(&threads[i], NULL, keep_values, s) == 0);
    for (int i = 0; i < kThreads; ++i) CHECK(ayatori_thread_join(threads[i], NULL) == 0);
    CHECK(s->destroyed == kThreads); /* before the join */
  }
  CHECK(process_count() == 1 || (s->processes & (s->processes - 1)) != 0);
  for (int i = 0; i < kMany; ++i) CHECK(ayatori_key_delete(s->key[i]) == 0);
  ayatori_mutex_destroy(&s->mutex);
  ayatori_free(s);
}

static void set_again(void* argument) {
  struct shared* s = argument;
  ++s->again;
  migrate(); /* a destructor may wait */
  CHECK(ayatori_getspecific(s->key[0]) == NULL);
  CHECK(ayatori_setspecific(s->key[0], s) == 0);
}
static void* set_one(void* argument) {
  struct shared* s = argument;
  CHECK(ayatori_setspecific(s->key[0], s) == 0);
  return NULL;
}
static void* set_and_clear(void* argument) {
  struct shared* s = argument;
  CHECK(ayatori_setspecific(s->key[0], s) == 0 && ayatori_setspecific(s->key[0], NULL) == 0);
  return NULL;
}

void keys_destructors(void) {
  struct shared* s = ayatori_calloc(1, sizeof *s);
  ayatori_thread_t thread;
  CHECK(ayatori_key_create(&s->key[0], set_again) == 0);
  CHECK(ayatori_thread_create(&thread, NULL, set_one, s) == 0 && ayatori_thread_join(thread, NULL) == 0);
  CHECK(s->again == AYATORI_DESTRUCTOR_ITERATIONS);
  CHECK(ayatori_thread_create(&thread, NULL, set_and_clear, s) == 0 && ayatori_thread_join(thread, NULL) == 0);
  CHECK(s->again == AYATORI_DESTRUCTOR_ITERATIONS); /* null values have none */
  CHECK(ayatori_setspecific(s->key[0], s) == 0 && ayatori_key_delete(s->key[0]) == 0);
  const ayatori_key_t old = s->key[0];
  CHECK(ayatori_key_create(&s->key[0], NULL) == 0 && s->key[0] != old);
  CHECK(ayatori_getspecific(s->key[0]) == NULL); /* whatever the place held for the old key */
  CHECK(ayatori_key_delete(s->key[0]) == 0 && ayatori_key_delete(s->key[0]) == EINVAL);
  ayatori_free(s);
}

void keys_errors(void) {
  ayatori_key_t* keys = ayatori_malloc((AYATORI_KEYS_MAX + 1) * sizeof *keys);
  int made = 0;
  CHECK(ayatori_key_delete(0) == EINVAL && ayatori_getspecific(0) == NULL);
  CHECK(ayatori_setspecific(0, keys) == EINVAL && ayatori_setspecific(77, keys) == EINVAL);
  int error = 0;
  while (made <= AYATORI_KEYS_MAX && (error = ayatori_key_create(&keys[made], NULL)) == 0) ++made;
  CHECK(error == EAGAIN && made >= AYATORI_KEYS_MAX - 2 && made <= AYATORI_KEYS_MAX);
  for (int i = 0; i < made; ++i) {
    CHECK(ayatori_getspecific(keys[i]) == NULL && ayatori_setspecific(keys[i], &keys[i]) == 0);
    if (i == made / 2) migrate();
  }
  for (int i = 0; i < made; ++i) CHECK(ayatori_getspecific(keys[i]) == &keys[i]);
  for (int i = 0; i < made; ++i) CHECK(ayatori_key_delete(keys[i]) == 0);
  CHECK(ayatori_key_create(&keys[0], NULL) == 0 && ayatori_key_delete(keys[0]) == 0);
  ayatori_free(keys);
}
