/* SPDX-License-Identifier: Apache-2.0 */
/* `c_api [CASE...]` runs the named cases, or all. The last line is `check: ok` (status 0) or `check: FAILED` (1). */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cases.h"

static const struct {
  const char* name;
  void (*run)(void);
} kCases[] = {
    {"threads_results", threads_results},
    {"threads_errors", threads_errors},
    {"threads_attr", threads_attr},
    {"threads_scheduling", threads_scheduling},
    {"threads_detached", threads_detached},
    {"threads_exit", threads_exit},
    {"threads_joined_by_others", threads_joined_by_others},
    {"mutex_normal", mutex_normal},
    {"mutex_in_static_data", mutex_in_static_data},
    {"mutex_initialiser", mutex_initialiser},
    {"mutex_types", mutex_types},
    {"mutex_timed", mutex_timed},
    {"cond_queue", cond_queue},
    {"cond_timed", cond_timed},
    {"barrier_rounds", barrier_rounds},
    {"once_runs", once_runs},
    {"sem_permits", sem_permits},
    {"sem_errors", sem_errors},
    {"sem_in_static_data", sem_in_static_data},
    {"rwlock_excludes", rwlock_excludes},
    {"rwlock_readers_share", rwlock_readers_share},
    {"rwlock_order", rwlock_order},
    {"rwlock_errors", rwlock_errors},
    {"spin_locks", spin_locks},
    {"keys_follow_threads", keys_follow_threads},
    {"keys_destructors", keys_destructors},
    {"keys_errors", keys_errors},
    {"cancel_condition", cancel_condition},
    {"cancel_keeps_signals", cancel_keeps_signals},
    {"cancel_semaphore", cancel_semaphore},
    {"cancel_join", cancel_join},
    {"cancel_states", cancel_states},
    {"cancel_cleanup", cancel_cleanup},
    {"cancel_errors", cancel_errors},
    {"waits_all_at_once", waits_all_at_once},
    {"cancel_ends_with_its_thread", cancel_ends_with_its_thread},
};
enum { kCount = sizeof kCases / sizeof kCases[0] };

struct timespec in_ms(int clock, long ms) {
  struct timespec t;
  clock_gettime((clockid_t)clock, &t);
  t.tv_sec += ms / 1000;
  t.tv_nsec += ms % 1000 * 1000000;
  if (t.tv_nsec >= 1000000000) {
    t.tv_nsec -= 1000000000;
    ++t.tv_sec;
  }
  return t;
}
int64_t now_ms(void) {
  const struct timespec t = in_ms(CLOCK_MONOTONIC, 0);
  return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
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
  }
  const int ok = done > 0 && failures() == 0;
  printf("check: %s\n", ok ? "ok" : "FAILED");
  return ok ? 0 : 1;
}

static void* never(void* argument) { return argument; }

/* Before the job there are no user-level threads, but objects work. */
static void check_outside(void) {
  ayatori_mutex_t mutex = AYATORI_MUTEX_INITIALIZER;
  ayatori_sem_t sem;
  ayatori_thread_t thread;
  CHECK(ayatori_thread_self() == 0);
  CHECK(ayatori_thread_create(&thread, NULL, never, NULL) == EPERM);
  CHECK(ayatori_thread_join(1, NULL) == EPERM);
  CHECK(ayatori_thread_yield() == 0);
  CHECK(ayatori_mutex_lock(&mutex) == 0 && ayatori_mutex_trylock(&mutex) == EBUSY);
  CHECK(ayatori_mutex_unlock(&mutex) == 0 && ayatori_mutex_destroy(&mutex) == 0);
  CHECK(ayatori_sem_init(&sem, 0, 1) == 0 && ayatori_sem_wait(&sem) == 0 && ayatori_sem_destroy(&sem) == 0);
}

int main(int argc, char** argv) {
  check_outside();
  return ayatori_run(argc, argv, program);
}
