/* SPDX-License-Identifier: Apache-2.0 */
/* An ordinary program of POSIX threads: stages of a pipeline, each with a queue, a mutex and conditions; the numbers that are
 * left at its end are prime. Knows nothing of Ayatori. All data is reached from main's stack. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { kRoom = 4, kLast = 300 };

struct queue {
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  int items[kRoom], first, count;
};
struct stage {
  struct queue in;
  struct stage* next;
  int prime;
  pthread_t thread;
};

static void put(struct queue* q, int n) {
  pthread_mutex_lock(&q->mutex);
  while (q->count == kRoom) pthread_cond_wait(&q->changed, &q->mutex);
  q->items[(q->first + q->count++) % kRoom] = n;
  pthread_cond_broadcast(&q->changed);
  pthread_mutex_unlock(&q->mutex);
}
static int take(struct queue* q) {
  pthread_mutex_lock(&q->mutex);
  while (q->count == 0) pthread_cond_wait(&q->changed, &q->mutex);
  const int n = q->items[q->first];
  q->first = (q->first + 1) % kRoom;
  --q->count;
  pthread_cond_broadcast(&q->changed);
  pthread_mutex_unlock(&q->mutex);
  return n;
}

static void* sieve(void* argument);
static struct stage* begin(void) {
  pthread_attr_t attr;
  struct stage* s = calloc(1, sizeof *s);
  if (!s || pthread_mutex_init(&s->in.mutex, NULL) != 0 || pthread_cond_init(&s->in.changed, NULL) != 0) abort();
  if (pthread_attr_init(&attr) != 0 || pthread_attr_setstacksize(&attr, 64 * 1024) != 0) abort();
  if (pthread_create(&s->thread, &attr, sieve, s) != 0 || pthread_attr_destroy(&attr) != 0) abort();
  return s;
}

/* Returns how many primes it and the stages behind it found. */
static void* sieve(void* argument) {
  struct stage* s = argument;
  void* behind = NULL;
  s->prime = take(&s->in);
  for (int n = s->prime; n != 0;) {
    n = take(&s->in);
    if (n % s->prime == 0 && n != 0) continue;
    if (!s->next && n != 0) s->next = begin();
    if (s->next) put(&s->next->in, n);
  }
  if (s->next && pthread_join(s->next->thread, &behind) != 0) abort();
  if (s->next) {
    if (pthread_mutex_destroy(&s->next->in.mutex) != 0 || pthread_cond_destroy(&s->next->in.changed) != 0) abort();
    free(s->next);
  }
  return (char*)behind + 1;
}

int main(void) {
  void* primes = NULL;
  struct stage* s = begin();
  for (int n = 2; n <= kLast; ++n) put(&s->in, n);
  put(&s->in, 0);
  if (pthread_join(s->thread, &primes) != 0) return 2;
  free(s);
  printf("%d primes\ncheck: %s\n", (int)(long)primes, (long)primes == 62 ? "ok" : "FAILED");
  return (long)primes == 62 ? 0 : 1;
}
