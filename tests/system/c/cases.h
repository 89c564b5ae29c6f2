/* SPDX-License-Identifier: Apache-2.0 */
/* What the cases of the C interface share. A case checks with CHECK; it runs on the first thread. */
#ifndef TESTS_SYSTEM_C_CASES_H
#define TESTS_SYSTEM_C_CASES_H

#include <ayatori/ayatori.h>

#ifdef __cplusplus
extern "C" {
#endif

/* helper.cpp */
int here(void);          /* number of the process */
int process_count(void); /* of the job */
int shares_memory(void); /* the job, as far as its environment says so */
int worker_count(void);  /* of this process */
void migrate(void);      /* returns on another process, if there is one; called by any thread */
void failed(const char* file, int line, const char* what);
int failures(void);
/* Calls exit_now(result) below a frame with a C++ object whose destructor sets *destroyed. */
void in_cxx_thread(void (*f)(void*), void* argument); /* returns when that has ended */
void below_an_object(void (*exit_now)(void*), void* result, int* destroyed);
void note(int n); /* a sum that all processes add to */
int noted(void);

#define CHECK(e) ((e) ? (void)0 : failed(__FILE__, __LINE__, #e))

#ifdef __cplusplus
}
#endif

/* The time of `clock` in so many milliseconds. */
struct timespec in_ms(int clock, long ms);
int64_t now_ms(void);

void threads_results(void);
void threads_errors(void);
void threads_attr(void);
void threads_scheduling(void);
void threads_detached(void);
void threads_exit(void);
void threads_joined_by_others(void);
void mutex_normal(void);
void mutex_in_static_data(void);
void mutex_initialiser(void);
void mutex_types(void);
void mutex_timed(void);
void cond_queue(void);
void cond_timed(void);
void barrier_rounds(void);
void once_runs(void);
void sem_permits(void);
void sem_errors(void);
void sem_in_static_data(void);
void rwlock_excludes(void);
void rwlock_readers_share(void);
void rwlock_order(void);
void rwlock_errors(void);
void spin_locks(void);
void keys_follow_threads(void);
void keys_destructors(void);
void keys_errors(void);
void cancel_condition(void);
void cancel_keeps_signals(void);
void cancel_semaphore(void);
void cancel_join(void);
void cancel_states(void);
void cancel_cleanup(void);
void cancel_errors(void);
void waits_all_at_once(void);
void cancel_ends_with_its_thread(void);

#endif
