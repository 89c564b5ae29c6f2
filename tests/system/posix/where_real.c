/* SPDX-License-Identifier: Apache-2.0 */
/* What the cases ask of their surroundings, in the C library's run: one process. */
#include <pthread.h>
#include <stdio.h>

#include "cases.h"

static int failed_so_far;

int here(void) { return 0; }
int process_count(void) { return 1; }
int worker_count(void) { return 1; }
void migrate(void) { sched_yield(); }
void failed(const char* file, int line, const char* what) {
  __atomic_fetch_add(&failed_so_far, 1, __ATOMIC_RELAXED);
  printf("%s:%d: not true: %s\n", file, line, what);
}
void left_out(const char* why, const char* what) { printf("  left out: %s: %s\n", what, why); }
int failures(void) { return __atomic_load_n(&failed_so_far, __ATOMIC_RELAXED); }

struct os_call {
  void (*f)(void*);
  void* argument;
};
static void* call(void* argument) {
  const struct os_call* c = argument;
  c->f(c->argument);
  return NULL;
}
void on_os_thread(void (*f)(void*), void* argument) {
  struct os_call c = {f, argument};
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, call, &c) == 0 && pthread_join(thread, NULL) == 0);
}
