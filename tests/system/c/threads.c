/* SPDX-License-Identifier: Apache-2.0 */
/* Threads: results from any process, return codes, attributes, exit from nested frames. */
#include <errno.h>
#include <string.h>

#include "cases.h"

enum { kThreads = 10 };

struct task {
  int number;
  int began_at, ended_at;
  ayatori_thread_t self;
  struct task* next;
};

static void* wander(void* argument) {
  struct task* t = argument;
  t->began_at = here();
  t->self = ayatori_thread_self();
  migrate();
  CHECK(ayatori_thread_equal(t->self, ayatori_thread_self()));
  t->ended_at = here();
  return (char*)argument + t->number;
}

/* Threads that end on another process than they began on; their results and writes reach the joiner. */
void threads_results(void) {
  struct task tasks[kThreads];
  ayatori_thread_t threads[kThreads];
  for (int i = 0; i < kThreads; ++i) {
    tasks[i] = (struct task){i, -1, -1, 0, NULL};
    CHECK(ayatori_thread_create(&threads[i], NULL, wander, &tasks[i]) == 0);
  }
  for (int i = 0; i < kThreads; ++i) {
    void* result = NULL;
    if (i % 3 == 0) migrate();
    CHECK(ayatori_thread_join(threads[i], &result) == 0);
    CHECK(result == (char*)&tasks[i] + i);
    CHECK(tasks[i].self == threads[i] && tasks[i].began_at >= 0);
    CHECK(process_count() == 1 || tasks[i].began_at != tasks[i].ended_at);
  }
}

static void* give_back(void* argument) { return argument; }
static void* join_itself(void* argument) {
  void* result;
  *(int*)argument = ayatori_thread_join(ayatori_thread_self(), &result);
  return NULL;
}

static void* join_creator(void* argument) {
  CHECK(ayatori_thread_join(*(ayatori_thread_t*)argument, NULL) == 0);
  return NULL;
}
static void* joins_its_joiner(void* argument) {
  ayatori_thread_t self = ayatori_thread_self();
  CHECK(ayatori_thread_create(argument, NULL, join_creator, &self) == 0); /* runs at once, and waits for us */
  CHECK(ayatori_thread_join(*(ayatori_thread_t*)argument, NULL) == EDEADLK);
  return NULL;
}

void threads_errors(void) {
  ayatori_thread_t thread;
  int code = -1;
  CHECK(ayatori_thread_create(&thread, NULL, join_itself, &code) == 0);
  CHECK(ayatori_thread_join(thread, NULL) == 0 && code == EDEADLK);
  CHECK(ayatori_thread_join(thread, NULL) == ESRCH && ayatori_thread_detach(thread) == ESRCH);
  CHECK(ayatori_thread_join(0, NULL) == ESRCH);
  CHECK(ayatori_thread_join(~(ayatori_thread_t)0, NULL) == ESRCH);
  CHECK(ayatori_thread_self() != 0 && !ayatori_thread_equal(ayatori_thread_self(), thread));
  CHECK(ayatori_thread_join(ayatori_thread_self(), NULL) == EDEADLK);
  CHECK(ayatori_thread_yield() == 0);
  ayatori_thread_attr_t bad;
  memset(&bad, 0, sizeof bad);
  CHECK(ayatori_thread_create(&thread, &bad, give_back, NULL) == EINVAL);
  if (process_count() == 1 && worker_count() == 1) {
    /* Two that join each other; elsewhere nobody knows who is first. The last one ends, and is joined here. */
    ayatori_thread_t child;
    CHECK(ayatori_thread_create(&thread, NULL, joins_its_joiner, &child) == 0);
    CHECK(ayatori_thread_join(child, NULL) == 0);
  }
}

void threads_attr(void) {
  ayatori_thread_attr_t attr;
  int state = -1;
  size_t bytes = 0, most = 0;
  CHECK(ayatori_thread_attr_init(&attr) == 0);
  CHECK(ayatori_thread_attr_getdetachstate(&attr, &state) == 0 && state == AYATORI_THREAD_CREATE_JOINABLE);
  CHECK(ayatori_thread_attr_setdetachstate(&attr, 7) == EINVAL);
  CHECK(ayatori_thread_attr_getstacksize(&attr, &most) == 0 && most >= 200 * 1024);
  CHECK(ayatori_thread_attr_setstacksize(&attr, most + 1) == 0);
  ayatori_thread_t none;
  CHECK(ayatori_thread_create(&none, &attr, give_back, NULL) == EAGAIN);
  CHECK(ayatori_thread_attr_setstacksize(&attr, AYATORI_THREAD_STACK_MIN - 1) == EINVAL);
  CHECK(ayatori_thread_attr_setstacksize(&attr, 65536) == 0);
  CHECK(ayatori_thread_attr_getstacksize(&attr, &bytes) == 0 && bytes == 65536);
  ayatori_thread_t thread;
  void* result = NULL;
  CHECK(ayatori_thread_create(&thread, &attr, give_back, &bytes) == 0);
  CHECK(ayatori_thread_join(thread, &result) == 0 && result == &bytes);
  CHECK(ayatori_thread_attr_destroy(&attr) == 0);
  CHECK(ayatori_thread_create(&thread, &attr, give_back, NULL) == EINVAL);
}

static void attributes_of_objects(void) {
  ayatori_mutexattr_t m;
  ayatori_condattr_t c;
  ayatori_barrierattr_t b;
  int n = -1;
  CHECK(ayatori_mutexattr_init(&m) == 0 && ayatori_condattr_init(&c) == 0 && ayatori_barrierattr_init(&b) == 0);
  CHECK(ayatori_mutexattr_getpshared(&m, &n) == 0 && n == AYATORI_PROCESS_PRIVATE);
  CHECK(ayatori_mutexattr_setpshared(&m, AYATORI_PROCESS_SHARED) == 0 && ayatori_mutexattr_setpshared(&m, 2) == EINVAL);
  CHECK(ayatori_mutexattr_getpshared(&m, &n) == 0 && n == AYATORI_PROCESS_SHARED);
  CHECK(ayatori_condattr_getpshared(&c, &n) == 0 && n == AYATORI_PROCESS_PRIVATE);
  CHECK(ayatori_condattr_setpshared(&c, AYATORI_PROCESS_SHARED) == 0 && ayatori_condattr_setpshared(&c, -1) == EINVAL);
  CHECK(ayatori_condattr_getpshared(&c, &n) == 0 && n == AYATORI_PROCESS_SHARED);
  CHECK(ayatori_barrierattr_getpshared(&b, &n) == 0 && n == AYATORI_PROCESS_PRIVATE);
  CHECK(ayatori_barrierattr_setpshared(&b, AYATORI_PROCESS_SHARED) == 0 &&
        ayatori_barrierattr_setpshared(&b, 9) == EINVAL);
  CHECK(ayatori_barrierattr_getpshared(&b, &n) == 0 && n == AYATORI_PROCESS_SHARED);
  CHECK(ayatori_mutexattr_setprotocol(&m, AYATORI_PRIO_NONE) == 0);
  CHECK(ayatori_mutexattr_setprotocol(&m, AYATORI_PRIO_INHERIT) == ENOTSUP);
  CHECK(ayatori_mutexattr_setprotocol(&m, AYATORI_PRIO_PROTECT) == ENOTSUP);
  CHECK(ayatori_mutexattr_setprotocol(&m, 3) == EINVAL);
  CHECK(ayatori_mutexattr_getprotocol(&m, &n) == 0 && n == AYATORI_PRIO_NONE);
  CHECK(ayatori_mutexattr_setrobust(&m, AYATORI_MUTEX_STALLED) == 0);
  CHECK(ayatori_mutexattr_setrobust(&m, AYATORI_MUTEX_ROBUST) == 0);
  CHECK(ayatori_mutexattr_setrobust(&m, AYATORI_MUTEX_STALLED) == 0);
  CHECK(ayatori_mutexattr_setrobust(&m, -1) == EINVAL);
  CHECK(ayatori_mutexattr_getrobust(&m, &n) == 0 && n == AYATORI_MUTEX_STALLED);
  CHECK(ayatori_mutexattr_setprioceiling(&m, 0) == EINVAL && ayatori_mutexattr_setprioceiling(&m, 2) == 0);
  CHECK(ayatori_mutexattr_getprioceiling(&m, &n) == 0 && n == 2);
  ayatori_mutex_t mutex;
  CHECK(ayatori_mutex_init(&mutex, &m) == 0);
  CHECK(ayatori_mutex_setprioceiling(&mutex, 1, &n) == EINVAL && ayatori_mutex_getprioceiling(&mutex, &n) == EINVAL);
  CHECK(ayatori_mutex_consistent(&mutex) == EINVAL);
  CHECK(ayatori_mutex_destroy(&mutex) == 0);
  CHECK(ayatori_barrierattr_destroy(&b) == 0 && ayatori_condattr_destroy(&c) == 0 &&
        ayatori_mutexattr_destroy(&m) == 0);
}

struct asked {
  ayatori_sem_t go;
  int before, after;
};
static int priority_of(ayatori_thread_t thread) {
  int policy = -1;
  struct sched_param param = {-1};
  CHECK(ayatori_thread_getschedparam(thread, &policy, &param) == 0 && policy == SCHED_OTHER);
  return param.sched_priority;
}
static void* tell_priorities(void* object) {
  struct asked* a = object;
  a->before = priority_of(ayatori_thread_self());
  while (ayatori_sem_wait(&a->go) != 0) {
  }
  a->after = priority_of(ayatori_thread_self());
  return NULL;
}

/* Inherited or from the attribute, and changed by others while the thread waits, on whatever process. */
static void priorities(void) {
  enum { kAsked = 8 };
  struct asked asked[kAsked];
  ayatori_thread_t threads[kAsked];
  ayatori_thread_attr_t explicitly;
  const struct sched_param normal = {0};
  CHECK(ayatori_thread_attr_init(&explicitly) == 0);
  CHECK(ayatori_thread_attr_setinheritsched(&explicitly, AYATORI_EXPLICIT_SCHED) == 0);
  CHECK(ayatori_thread_attr_setschedparam(&explicitly, &normal) == 0);
  CHECK(priority_of(ayatori_thread_self()) == 0 && ayatori_thread_setschedprio(ayatori_thread_self(), 1) == 0);
  for (int i = 0; i < kAsked; ++i) {
    asked[i].before = asked[i].after = -1;
    CHECK(ayatori_sem_init(&asked[i].go, 0, 0) == 0);
    CHECK(ayatori_thread_create(&threads[i], i % 2 ? &explicitly : NULL, tell_priorities, &asked[i]) == 0);
  }
  CHECK(priority_of(ayatori_thread_self()) == 1);
  for (int i = 0; i < kAsked; ++i) {
    CHECK(ayatori_thread_setschedprio(threads[i], i < kAsked / 2) == 0);
    CHECK(priority_of(threads[i]) == (i < kAsked / 2));
    CHECK(ayatori_sem_post(&asked[i].go) == 0);
  }
  for (int i = 0; i < kAsked; ++i) {
    CHECK(ayatori_thread_join(threads[i], NULL) == 0);
    CHECK(asked[i].before == (i % 2 ? 0 : 1) || asked[i].before == (i < kAsked / 2)); /* changed before it began */
    CHECK(asked[i].after == (i < kAsked / 2));
    CHECK(ayatori_sem_destroy(&asked[i].go) == 0);
  }
  CHECK(ayatori_thread_setschedprio(ayatori_thread_self(), 0) == 0);
  CHECK(ayatori_thread_attr_destroy(&explicitly) == 0);
}

void threads_scheduling(void) {
  ayatori_thread_attr_t attr;
  struct sched_param param = {7};
  int n = -1;
  CHECK(ayatori_thread_attr_init(&attr) == 0);
  CHECK(ayatori_thread_attr_getscope(&attr, &n) == 0 && n == AYATORI_SCOPE_PROCESS);
  CHECK(ayatori_thread_attr_setscope(&attr, AYATORI_SCOPE_PROCESS) == 0);
  CHECK(ayatori_thread_attr_setscope(&attr, AYATORI_SCOPE_SYSTEM) == ENOTSUP);
  CHECK(ayatori_thread_attr_setscope(&attr, 2) == EINVAL);
  CHECK(ayatori_thread_attr_getinheritsched(&attr, &n) == 0 && n == AYATORI_INHERIT_SCHED);
  CHECK(ayatori_thread_attr_setinheritsched(&attr, AYATORI_EXPLICIT_SCHED) == 0);
  CHECK(ayatori_thread_attr_setinheritsched(&attr, 5) == EINVAL);
  CHECK(ayatori_thread_attr_getinheritsched(&attr, &n) == 0 && n == AYATORI_EXPLICIT_SCHED);
  CHECK(ayatori_thread_attr_setschedpolicy(&attr, SCHED_OTHER) == 0);
  CHECK(ayatori_thread_attr_setschedpolicy(&attr, SCHED_FIFO) == ENOTSUP);
  CHECK(ayatori_thread_attr_setschedpolicy(&attr, SCHED_RR) == ENOTSUP);
  CHECK(ayatori_thread_attr_setschedpolicy(&attr, 99) == EINVAL);
  CHECK(ayatori_thread_attr_getschedpolicy(&attr, &n) == 0 && n == SCHED_OTHER);
  CHECK(ayatori_thread_attr_setschedparam(&attr, &param) == EINVAL);
  CHECK(ayatori_thread_attr_getschedparam(&attr, &param) == 0 && param.sched_priority == 0);
  CHECK(ayatori_thread_attr_setschedparam(&attr, &param) == 0);
  param.sched_priority = 1;
  CHECK(ayatori_thread_attr_setschedparam(&attr, &param) == 0);
  param.sched_priority = 2;
  CHECK(ayatori_thread_attr_setschedparam(&attr, &param) == EINVAL);
  CHECK(ayatori_thread_attr_getschedparam(&attr, &param) == 0 && param.sched_priority == 1);
  size_t bytes = 0;
  void* lowest = &bytes;
  CHECK(ayatori_thread_attr_getguardsize(&attr, &bytes) == 0 && bytes >= 4096 && bytes % 4096 == 0);
  CHECK(ayatori_thread_attr_setguardsize(&attr, 12345) == 0);
  CHECK(ayatori_thread_attr_getguardsize(&attr, &bytes) == 0 && bytes == 12345);
  CHECK(ayatori_thread_attr_setstack(&attr, &bytes, 65536) == ENOTSUP);
  CHECK(ayatori_thread_attr_setstacksize(&attr, 65536) == 0);
  CHECK(ayatori_thread_attr_getstack(&attr, &lowest, &bytes) == 0 && lowest == NULL && bytes == 65536);
  int object = 0;
  ayatori_thread_t thread;
  void* result = NULL;
  CHECK(ayatori_thread_create(&thread, &attr, give_back, &object) == 0);
  CHECK(ayatori_thread_getschedparam(thread, &n, &param) == 0 && n == SCHED_OTHER && param.sched_priority == 1);
  param.sched_priority = 0;
  CHECK(ayatori_thread_setschedparam(thread, SCHED_OTHER, &param) == 0);
  CHECK(ayatori_thread_getschedparam(thread, &n, &param) == 0 && param.sched_priority == 0);
  CHECK(ayatori_thread_setschedparam(thread, SCHED_FIFO, &param) == ENOTSUP);
  CHECK(ayatori_thread_setschedparam(thread, -5, &param) == EINVAL);
  CHECK(ayatori_thread_setschedprio(thread, 1) == 0 && ayatori_thread_setschedprio(thread, 2) == EINVAL &&
        ayatori_thread_setschedprio(thread, -1) == EINVAL);
  CHECK(ayatori_thread_join(thread, &result) == 0 && result == &object);
  CHECK(ayatori_thread_getschedparam(thread, &n, &param) == ESRCH && ayatori_thread_setschedprio(thread, 0) == ESRCH);
  CHECK(ayatori_thread_getschedparam(0, &n, &param) == ESRCH);
  CHECK(ayatori_thread_setconcurrency(-1) == EINVAL && ayatori_thread_getconcurrency() == 0);
  CHECK(ayatori_thread_setconcurrency(8) == 0 && ayatori_thread_getconcurrency() == 8);
  CHECK(ayatori_thread_setconcurrency(0) == 0);
  CHECK(ayatori_thread_attr_destroy(&attr) == 0);
  attributes_of_objects();
  priorities();
}

struct detached {
  ayatori_sem_t may_end, ended;
  int code;
};
static void* wait_and_post(void* argument) {
  struct detached* d = argument;
  ayatori_sem_wait(&d->may_end);
  migrate();
  ayatori_sem_post(&d->ended);
  return NULL;
}
static void* detach_itself(void* argument) {
  struct detached* d = argument;
  d->code = ayatori_thread_detach(ayatori_thread_self());
  ayatori_sem_post(&d->ended);
  return NULL;
}

void threads_detached(void) {
  struct detached d;
  ayatori_thread_t thread;
  ayatori_thread_attr_t attr;
  CHECK(ayatori_sem_init(&d.may_end, 0, 0) == 0 && ayatori_sem_init(&d.ended, 0, 0) == 0);
  ayatori_thread_attr_init(&attr);
  CHECK(ayatori_thread_attr_setdetachstate(&attr, AYATORI_THREAD_CREATE_DETACHED) == 0);
  for (int i = 0; i < 200; ++i) {
    const ayatori_thread_attr_t* how = i % 2 ? &attr : NULL;
    CHECK(ayatori_thread_create(&thread, how, wait_and_post, &d) == 0);
    if (!how) CHECK(ayatori_thread_detach(thread) == 0);
    /* It waits for what comes next, so it lives. */
    CHECK(ayatori_thread_join(thread, NULL) == EINVAL && ayatori_thread_detach(thread) == EINVAL);
    CHECK(ayatori_sem_post(&d.may_end) == 0 && ayatori_sem_wait(&d.ended) == 0);
  }
  /* By itself; it has no stack for ever, or there would be none left in the end. */
  for (int i = 0; i < 20000; ++i) {
    d.code = -1;
    if (ayatori_thread_create(&thread, NULL, detach_itself, &d) != 0 || ayatori_sem_wait(&d.ended) != 0 ||
        d.code != 0) {
      CHECK(!"a thread that detaches itself");
      break;
    }
  }
  /* An ended thread may be detached. */
  CHECK(ayatori_thread_create(&thread, NULL, give_back, NULL) == 0);
  CHECK(ayatori_thread_detach(thread) == 0 && ayatori_thread_detach(thread) != 0);
  CHECK(ayatori_sem_destroy(&d.may_end) == 0 && ayatori_sem_destroy(&d.ended) == 0);
}

static void leave(void* result) {
  if (result) ayatori_thread_exit(result);
}
static int deeper(int depth, int* destroyed) {
  if (depth == 10) migrate();
  if (depth == 0) {
    below_an_object(leave, destroyed, destroyed);
    return 0;
  }
  return deeper(depth - 1, destroyed) + 1;
}
static void* exits(void* argument) {
  deeper(20, argument);
  CHECK(!"nothing comes back from ayatori_thread_exit");
  return NULL;
}

/* The result of exit reaches the joiner, and what was on the way out ran. */
void threads_exit(void) {
  ayatori_thread_t threads[kThreads];
  int destroyed[kThreads] = {0};
  for (int i = 0; i < kThreads; ++i) CHECK(ayatori_thread_create(&threads[i], NULL, exits, &destroyed[i]) == 0);
  for (int i = 0; i < kThreads; ++i) {
    void* result = NULL;
    CHECK(ayatori_thread_join(threads[i], &result) == 0 && result == &destroyed[i] && destroyed[i] == 1);
  }
}

struct told {
  ayatori_sem_t told, done;
  ayatori_thread_t who;
  int code;
  void* result;
};
static void* tells(void* argument) {
  struct told* t = argument;
  t->who = ayatori_thread_self();
  ayatori_sem_post(&t->told);
  return t;
}
static void* joins_other(void* argument) {
  struct told* t = argument;
  ayatori_sem_wait(&t->told);
  migrate();
  t->code = ayatori_thread_join(t->who, &t->result);
  ayatori_sem_post(&t->done);
  return NULL;
}

/* A thread that tells its number is joined by another one than its creator, at any moment of its end. */
void threads_joined_by_others(void) {
  for (int i = 0; i < 40; ++i) {
    struct told t = {.who = 0, .code = -1, .result = NULL};
    ayatori_thread_t joiner, told;
    CHECK(ayatori_sem_init(&t.told, 0, 0) == 0 && ayatori_sem_init(&t.done, 0, 0) == 0);
    CHECK(ayatori_thread_create(&joiner, NULL, joins_other, &t) == 0);
    CHECK(ayatori_thread_create(&told, NULL, tells, &t) == 0);
    CHECK(ayatori_sem_wait(&t.done) == 0 && t.code == 0 && t.result == &t);
    CHECK(ayatori_thread_join(told, NULL) == ESRCH);
    CHECK(ayatori_thread_join(joiner, NULL) == 0);
  }
}
