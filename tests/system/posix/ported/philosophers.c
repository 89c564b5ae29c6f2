/* SPDX-License-Identifier: Apache-2.0 */
/* An ordinary program of POSIX threads: philosophers with robust forks, some of whom die at table, until an overseer
 * cancels the rest. Knows nothing of Ayatori. Its static data is one process's. */
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <unistd.h>

enum { kSeats = 5, kMeals = 50 };

static pthread_mutex_t forks[kSeats];
static pthread_once_t laid = PTHREAD_ONCE_INIT;
static pthread_rwlock_t menu = PTHREAD_RWLOCK_INITIALIZER;
static pthread_key_t meals;
static pthread_barrier_t all, survivors;
static sem_t room, full, never, had;
static int eaten[kSeats], repaired, cleaned;
static pthread_mutex_t counts = PTHREAD_MUTEX_INITIALIZER;

static void remember(void* value) {
  pthread_mutex_lock(&counts);
  cleaned += *(int*)value;
  pthread_mutex_unlock(&counts);
}
static void lay(void) {
  pthread_mutexattr_t robust;
  pthread_mutexattr_init(&robust);
  pthread_mutexattr_setrobust(&robust, PTHREAD_MUTEX_ROBUST);
  for (int i = 0; i < kSeats; ++i) pthread_mutex_init(&forks[i], &robust);
  pthread_mutexattr_destroy(&robust);
  pthread_key_create(&meals, remember);
}
static void take(int fork) {
  if (pthread_mutex_lock(&forks[fork]) != EOWNERDEAD) return;
  pthread_mutex_consistent(&forks[fork]);
  pthread_mutex_lock(&counts);
  ++repaired;
  pthread_mutex_unlock(&counts);
}
static void put_back(void* fork) { pthread_mutex_unlock(fork); }

static void* dine(void* argument) {
  const int seat = (int)(long)argument, left = seat, right = (seat + 1) % kSeats;
  pthread_once(&laid, lay);
  pthread_setspecific(meals, &eaten[seat]);
  pthread_barrier_wait(&all);
  for (int i = 0; i < kMeals; ++i) {
    sem_wait(&room); /* one seat stays free: no deadlock */
    take(left);
    take(right);
    pthread_rwlock_rdlock(&menu);
    ++eaten[seat];
    pthread_rwlock_unlock(&menu);
    if (seat == 0 && i == kMeals - 1) {
      sem_post(&room);
      for (int other = 1; other < kSeats; ++other) sem_post(&had);
      sem_post(&full);
      return NULL; /* with both forks in its hands */
    }
    pthread_mutex_unlock(&forks[right]);
    pthread_mutex_unlock(&forks[left]);
    sem_post(&room);
    if (i % 8 == 3) usleep(10);
  }
  pthread_barrier_wait(&survivors);
  sem_wait(&had); /* seat 0 has had its meals: nobody needs this fork any more */
  take(left);
  pthread_cleanup_push(put_back, &forks[left]);
  sem_post(&full);
  while (sem_wait(&never) != 0) continue; /* cancelled there */
  pthread_cleanup_pop(1);
  return NULL;
}

int main(void) {
  pthread_t threads[kSeats];
  int sum = 0, cancelled = 0;
  sem_init(&room, 0, kSeats - 1);
  sem_init(&full, 0, 0);
  sem_init(&never, 0, 0);
  sem_init(&had, 0, 0);
  pthread_barrier_init(&all, NULL, kSeats);
  pthread_barrier_init(&survivors, NULL, kSeats - 1);
  for (long i = 0; i < kSeats; ++i)
    if (pthread_create(&threads[i], NULL, dine, (void*)i) != 0) return 2;
  for (int i = 0; i < kSeats; ++i) sem_wait(&full);
  for (int i = 1; i < kSeats; ++i)
    if (pthread_cancel(threads[i]) != 0) return 3;
  for (int i = 0; i < kSeats; ++i) {
    void* result = NULL;
    if (pthread_join(threads[i], &result) != 0) return 4;
    cancelled += result == PTHREAD_CANCELED;
    sum += eaten[i];
  }
  /* Fork 1 is found dead by seat 1, at a meal or in the end; fork 0 by seat 4, or here. */
  for (int i = 0; i < kSeats; ++i) {
    take(i);
    pthread_mutex_unlock(&forks[i]);
  }
  const int ok = sum == kSeats * kMeals && cancelled == kSeats - 1 && repaired == 2 && cleaned == sum;
  printf("%d meals, %d cancelled, %d repaired, %d cleaned\ncheck: %s\n", sum, cancelled, repaired, cleaned,
         ok ? "ok" : "FAILED");
  return ok ? 0 : 1;
}
