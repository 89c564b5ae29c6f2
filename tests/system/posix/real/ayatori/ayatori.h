/* SPDX-License-Identifier: Apache-2.0 */
/* The C interface of Ayatori by the names of the C library, the inverse of its rule of names: the cases of this folder are
 * compiled with this header too, and run against the C library's threads, which must agree. */
#ifndef TESTS_SYSTEM_POSIX_REAL_AYATORI_H
#define TESTS_SYSTEM_POSIX_REAL_AYATORI_H

#define POSIX_REAL 1

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#define ayatori_run(argc, argv, f) ((f)((argc), (argv)))

/* ------------------------------------------------------------------------------------------------- types */
#define ayatori_thread_t pthread_t
#define ayatori_thread_attr_t pthread_attr_t
#define ayatori_mutex_t pthread_mutex_t
#define ayatori_mutexattr_t pthread_mutexattr_t
#define ayatori_cond_t pthread_cond_t
#define ayatori_condattr_t pthread_condattr_t
#define ayatori_rwlock_t pthread_rwlock_t
#define ayatori_rwlockattr_t pthread_rwlockattr_t
#define ayatori_spinlock_t pthread_spinlock_t
#define ayatori_barrier_t pthread_barrier_t
#define ayatori_barrierattr_t pthread_barrierattr_t
#define ayatori_once_t pthread_once_t
#define ayatori_key_t pthread_key_t
#define ayatori_sem_t sem_t

/* ------------------------------------------------------------------------------------------------- constants */
#define AYATORI_THREAD_CREATE_JOINABLE PTHREAD_CREATE_JOINABLE
#define AYATORI_THREAD_CREATE_DETACHED PTHREAD_CREATE_DETACHED
#define AYATORI_THREAD_STACK_MIN PTHREAD_STACK_MIN
#define AYATORI_SCOPE_SYSTEM PTHREAD_SCOPE_SYSTEM
#define AYATORI_SCOPE_PROCESS PTHREAD_SCOPE_PROCESS
#define AYATORI_INHERIT_SCHED PTHREAD_INHERIT_SCHED
#define AYATORI_EXPLICIT_SCHED PTHREAD_EXPLICIT_SCHED
#define AYATORI_CANCELED PTHREAD_CANCELED
#define AYATORI_CANCEL_ENABLE PTHREAD_CANCEL_ENABLE
#define AYATORI_CANCEL_DISABLE PTHREAD_CANCEL_DISABLE
#define AYATORI_CANCEL_DEFERRED PTHREAD_CANCEL_DEFERRED
#define AYATORI_CANCEL_ASYNCHRONOUS PTHREAD_CANCEL_ASYNCHRONOUS
#define AYATORI_PROCESS_PRIVATE PTHREAD_PROCESS_PRIVATE
#define AYATORI_PROCESS_SHARED PTHREAD_PROCESS_SHARED
#define AYATORI_MUTEX_NORMAL PTHREAD_MUTEX_NORMAL
#define AYATORI_MUTEX_RECURSIVE PTHREAD_MUTEX_RECURSIVE
#define AYATORI_MUTEX_ERRORCHECK PTHREAD_MUTEX_ERRORCHECK
#define AYATORI_MUTEX_DEFAULT PTHREAD_MUTEX_DEFAULT
#define AYATORI_MUTEX_STALLED PTHREAD_MUTEX_STALLED
#define AYATORI_MUTEX_ROBUST PTHREAD_MUTEX_ROBUST
#define AYATORI_MUTEX_INITIALIZER PTHREAD_MUTEX_INITIALIZER
#define AYATORI_RECURSIVE_MUTEX_INITIALIZER_NP PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP
#define AYATORI_ERRORCHECK_MUTEX_INITIALIZER_NP PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP
#define AYATORI_PRIO_NONE PTHREAD_PRIO_NONE
#define AYATORI_PRIO_INHERIT PTHREAD_PRIO_INHERIT
#define AYATORI_PRIO_PROTECT PTHREAD_PRIO_PROTECT
#define AYATORI_COND_INITIALIZER PTHREAD_COND_INITIALIZER
#define AYATORI_RWLOCK_PREFER_READER_NP PTHREAD_RWLOCK_PREFER_READER_NP
#define AYATORI_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP
#define AYATORI_RWLOCK_INITIALIZER PTHREAD_RWLOCK_INITIALIZER
#define AYATORI_BARRIER_SERIAL_THREAD PTHREAD_BARRIER_SERIAL_THREAD
#define AYATORI_ONCE_INIT PTHREAD_ONCE_INIT
#define AYATORI_KEYS_MAX PTHREAD_KEYS_MAX
#define AYATORI_DESTRUCTOR_ITERATIONS PTHREAD_DESTRUCTOR_ITERATIONS
#define AYATORI_SEM_VALUE_MAX SEM_VALUE_MAX
#define AYATORI_SEM_FAILED SEM_FAILED

/* ------------------------------------------------------------------------------------------------- threads */
#define ayatori_thread_create pthread_create
#define ayatori_thread_join pthread_join
#define ayatori_thread_detach pthread_detach
#define ayatori_thread_exit pthread_exit
#define ayatori_thread_self pthread_self
#define ayatori_thread_equal pthread_equal
#define ayatori_thread_yield sched_yield
#define ayatori_thread_attr_init pthread_attr_init
#define ayatori_thread_attr_destroy pthread_attr_destroy
#define ayatori_thread_attr_setdetachstate pthread_attr_setdetachstate
#define ayatori_thread_attr_getdetachstate pthread_attr_getdetachstate
#define ayatori_thread_attr_setstacksize pthread_attr_setstacksize
#define ayatori_thread_attr_getstacksize pthread_attr_getstacksize
#define ayatori_thread_attr_setstack pthread_attr_setstack
#define ayatori_thread_attr_getstack pthread_attr_getstack
#define ayatori_thread_attr_setguardsize pthread_attr_setguardsize
#define ayatori_thread_attr_getguardsize pthread_attr_getguardsize
#define ayatori_thread_attr_setscope pthread_attr_setscope
#define ayatori_thread_attr_getscope pthread_attr_getscope
#define ayatori_thread_attr_setinheritsched pthread_attr_setinheritsched
#define ayatori_thread_attr_getinheritsched pthread_attr_getinheritsched
#define ayatori_thread_attr_setschedpolicy pthread_attr_setschedpolicy
#define ayatori_thread_attr_getschedpolicy pthread_attr_getschedpolicy
#define ayatori_thread_attr_setschedparam pthread_attr_setschedparam
#define ayatori_thread_attr_getschedparam pthread_attr_getschedparam
#define ayatori_thread_setschedparam pthread_setschedparam
#define ayatori_thread_getschedparam pthread_getschedparam
#define ayatori_thread_setschedprio pthread_setschedprio
#define ayatori_thread_getattr_np pthread_getattr_np
#define ayatori_thread_setname_np pthread_setname_np
#define ayatori_thread_getname_np pthread_getname_np
#define ayatori_thread_getcpuclockid pthread_getcpuclockid
#define ayatori_thread_setconcurrency pthread_setconcurrency
#define ayatori_thread_getconcurrency pthread_getconcurrency
#define ayatori_thread_kill pthread_kill
#define ayatori_thread_sigmask pthread_sigmask
#define ayatori_thread_atfork pthread_atfork
#define ayatori_nanosleep nanosleep
#define ayatori_thread_cancel pthread_cancel
#define ayatori_thread_setcancelstate pthread_setcancelstate
#define ayatori_thread_setcanceltype pthread_setcanceltype
#define ayatori_thread_testcancel pthread_testcancel
#define ayatori_thread_cleanup_push pthread_cleanup_push
#define ayatori_thread_cleanup_pop pthread_cleanup_pop

/* ------------------------------------------------------------------------------------------------- objects */
#define ayatori_mutex_init pthread_mutex_init
#define ayatori_mutex_destroy pthread_mutex_destroy
#define ayatori_mutex_lock pthread_mutex_lock
#define ayatori_mutex_trylock pthread_mutex_trylock
#define ayatori_mutex_timedlock pthread_mutex_timedlock
#define ayatori_mutex_clocklock pthread_mutex_clocklock
#define ayatori_mutex_unlock pthread_mutex_unlock
#define ayatori_mutex_consistent pthread_mutex_consistent
#define ayatori_mutex_setprioceiling pthread_mutex_setprioceiling
#define ayatori_mutex_getprioceiling pthread_mutex_getprioceiling
#define ayatori_mutexattr_init pthread_mutexattr_init
#define ayatori_mutexattr_destroy pthread_mutexattr_destroy
#define ayatori_mutexattr_settype pthread_mutexattr_settype
#define ayatori_mutexattr_gettype pthread_mutexattr_gettype
#define ayatori_mutexattr_setpshared pthread_mutexattr_setpshared
#define ayatori_mutexattr_getpshared pthread_mutexattr_getpshared
#define ayatori_mutexattr_setprotocol pthread_mutexattr_setprotocol
#define ayatori_mutexattr_getprotocol pthread_mutexattr_getprotocol
#define ayatori_mutexattr_setrobust pthread_mutexattr_setrobust
#define ayatori_mutexattr_getrobust pthread_mutexattr_getrobust
#define ayatori_mutexattr_setprioceiling pthread_mutexattr_setprioceiling
#define ayatori_mutexattr_getprioceiling pthread_mutexattr_getprioceiling
#define ayatori_cond_init pthread_cond_init
#define ayatori_cond_destroy pthread_cond_destroy
#define ayatori_cond_wait pthread_cond_wait
#define ayatori_cond_timedwait pthread_cond_timedwait
#define ayatori_cond_clockwait pthread_cond_clockwait
#define ayatori_cond_signal pthread_cond_signal
#define ayatori_cond_broadcast pthread_cond_broadcast
#define ayatori_condattr_init pthread_condattr_init
#define ayatori_condattr_destroy pthread_condattr_destroy
#define ayatori_condattr_setclock pthread_condattr_setclock
#define ayatori_condattr_getclock pthread_condattr_getclock
#define ayatori_condattr_setpshared pthread_condattr_setpshared
#define ayatori_condattr_getpshared pthread_condattr_getpshared
#define ayatori_rwlock_init pthread_rwlock_init
#define ayatori_rwlock_destroy pthread_rwlock_destroy
#define ayatori_rwlock_rdlock pthread_rwlock_rdlock
#define ayatori_rwlock_tryrdlock pthread_rwlock_tryrdlock
#define ayatori_rwlock_timedrdlock pthread_rwlock_timedrdlock
#define ayatori_rwlock_clockrdlock pthread_rwlock_clockrdlock
#define ayatori_rwlock_wrlock pthread_rwlock_wrlock
#define ayatori_rwlock_trywrlock pthread_rwlock_trywrlock
#define ayatori_rwlock_timedwrlock pthread_rwlock_timedwrlock
#define ayatori_rwlock_clockwrlock pthread_rwlock_clockwrlock
#define ayatori_rwlock_unlock pthread_rwlock_unlock
#define ayatori_rwlockattr_init pthread_rwlockattr_init
#define ayatori_rwlockattr_destroy pthread_rwlockattr_destroy
#define ayatori_rwlockattr_setkind_np pthread_rwlockattr_setkind_np
#define ayatori_rwlockattr_getkind_np pthread_rwlockattr_getkind_np
#define ayatori_rwlockattr_setpshared pthread_rwlockattr_setpshared
#define ayatori_rwlockattr_getpshared pthread_rwlockattr_getpshared
#define ayatori_spin_init pthread_spin_init
#define ayatori_spin_destroy pthread_spin_destroy
#define ayatori_spin_lock pthread_spin_lock
#define ayatori_spin_trylock pthread_spin_trylock
#define ayatori_spin_unlock pthread_spin_unlock
#define ayatori_barrier_init pthread_barrier_init
#define ayatori_barrier_destroy pthread_barrier_destroy
#define ayatori_barrier_wait pthread_barrier_wait
#define ayatori_barrierattr_init pthread_barrierattr_init
#define ayatori_barrierattr_destroy pthread_barrierattr_destroy
#define ayatori_barrierattr_setpshared pthread_barrierattr_setpshared
#define ayatori_barrierattr_getpshared pthread_barrierattr_getpshared
#define ayatori_once pthread_once
#define ayatori_key_create pthread_key_create
#define ayatori_key_delete pthread_key_delete
#define ayatori_getspecific pthread_getspecific
#define ayatori_setspecific pthread_setspecific

/* ------------------------------------------------------------------------------------------------- semaphores, memory */
#define ayatori_sem_init sem_init
#define ayatori_sem_destroy sem_destroy
#define ayatori_sem_wait sem_wait
#define ayatori_sem_trywait sem_trywait
#define ayatori_sem_timedwait sem_timedwait
#define ayatori_sem_clockwait sem_clockwait
#define ayatori_sem_post sem_post
#define ayatori_sem_getvalue sem_getvalue
#define ayatori_sem_open sem_open
#define ayatori_sem_close sem_close
#define ayatori_sem_unlink sem_unlink
#define ayatori_malloc malloc
#define ayatori_calloc calloc
#define ayatori_realloc realloc
#define ayatori_aligned_alloc aligned_alloc
#define ayatori_free free

#endif
