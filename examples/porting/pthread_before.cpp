// SPDX-License-Identifier: Apache-2.0
// Ported by pthread_after.cpp: a consumer waits on a condition variable for what a producer puts into a global queue.
// [all]
#include <pthread.h>

#include <cstdio>
#include <deque>

static std::deque<int> queue;
static bool closed = false;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t filled = PTHREAD_COND_INITIALIZER;

static void* consume(void* result) {
  long sum = 0;
  pthread_mutex_lock(&mutex);
  for (;;) {
    while (queue.empty() && !closed) pthread_cond_wait(&filled, &mutex);
    if (queue.empty()) break;
    sum += queue.front();
    queue.pop_front();
  }
  pthread_mutex_unlock(&mutex);
  *static_cast<long*>(result) = sum;
  return nullptr;
}

int main() {
  long sum = 0;
  pthread_t consumer;
  if (pthread_create(&consumer, nullptr, consume, &sum) != 0) return 1;
  for (int i = 1; i <= 1000; ++i) {
    pthread_mutex_lock(&mutex);
    queue.push_back(i);
    pthread_cond_signal(&filled);
    pthread_mutex_unlock(&mutex);
  }
  pthread_mutex_lock(&mutex);
  closed = true;
  pthread_cond_signal(&filled);
  pthread_mutex_unlock(&mutex);
  pthread_join(consumer, nullptr);
  std::printf("%ld\ncheck: %s\n", sum, sum == 500'500 ? "ok" : "FAILED");
  return sum == 500'500 ? 0 : 1;
}
// [/all]
