/* SPDX-License-Identifier: Apache-2.0 */
/* `posix_cases [CASE...]` runs the named cases, or all. The last line is `check: ok` (status 0) or `check: FAILED` (1). */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "cases.h"

#define X(name) {#name, name},
static const struct {
  const char* name;
  void (*run)(void);
} kCases[] = {CASES(X)};
#undef X
enum { kCount = sizeof kCases / sizeof kCases[0], kMostThreads = 64 };

struct timespec in_ms(clockid_t clock, long ms) {
  struct timespec t;
  clock_gettime(clock, &t);
  t.tv_sec += ms / 1000;
  t.tv_nsec += ms % 1000 * 1000000;
  if (t.tv_nsec >= 1000000000) {
    t.tv_nsec -= 1000000000;
    ++t.tv_sec;
  }
  return t;
}
int64_t now_ms(clockid_t clock) {
  const struct timespec t = in_ms(clock, 0);
  return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

void in_threads(int n, void* (*f)(void*), void* argument) {
  ayatori_thread_t threads[kMostThreads];
  for (int i = 0; i < n; ++i) CHECK(ayatori_thread_create(&threads[i], NULL, f, argument) == 0);
  for (int i = 0; i < n; ++i) CHECK(ayatori_thread_join(threads[i], NULL) == 0);
}

void gave(const char* file, int line, const char* what, int wanted, int got) {
  char text[400];
  snprintf(text, sizeof text, "%s: %d (%s) instead of %d", what, got, strerror(got), wanted);
  failed(file, line, text);
}

static int program(int argc, char** argv) {
  int done = 0;
  for (int i = 0; i < kCount; ++i) {
    int wanted = argc == 1;
    for (int a = 1; a < argc; ++a) wanted |= strcmp(argv[a], kCases[i].name) == 0;
    if (!wanted) continue;
    const int before = failures();
    kCases[i].run();
    ++done;
    printf("%s: %s\n", kCases[i].name, failures() == before ? "ok" : "FAILED");
    fflush(stdout);
  }
  const int ok = done > 0 && failures() == 0;
  printf("check: %s\n", ok ? "ok" : "FAILED");
  return ok ? 0 : 1;
}

/* Before the job there are no user-level threads, but objects work. Every process makes the key, at one address: it is one. */
int main(int argc, char** argv) {
  ayatori_mutex_t mutex = AYATORI_MUTEX_INITIALIZER;
  ayatori_sem_t sem;
  CHECK(ayatori_mutex_lock(&mutex) == 0 && ayatori_mutex_trylock(&mutex) == EBUSY);
  CHECK(ayatori_mutex_unlock(&mutex) == 0 && ayatori_mutex_destroy(&mutex) == 0);
  CHECK(ayatori_sem_init(&sem, 0, 1) == 0 && ayatori_sem_wait(&sem) == 0 && ayatori_sem_destroy(&sem) == 0);
  CHECK(ayatori_key_create(&once_key, NULL) == 0);
#ifndef POSIX_REAL
  ayatori_sem_t* before = ayatori_sem_open("/before", O_CREAT, 0600, 0u);
  CHECK(before != AYATORI_SEM_FAILED && ayatori_sem_post(before) == 0);
#endif
  return ayatori_run(argc, argv, program);
}
