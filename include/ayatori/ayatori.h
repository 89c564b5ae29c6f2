/* SPDX-License-Identifier: Apache-2.0 */
/* The public C interface, for C11 and C++. Functions have POSIX's parameters, return codes and semantics: 0 or an error
 * number where nothing else stands; no exception leaves them. What is undefined in POSIX is undefined here.
 *
 * Memory model: what a thread wrote before it created a thread, ended, unlocked, signalled under a mutex, posted or
 * arrived at a barrier is seen by the thread that was created, that joined it, locked, waited or left next, on whatever
 * process each of them runs. Plain globals are per process (docs/memory-model.md).
 *
 * Mutexes, condition variables, barriers, semaphores, read-write and spin locks live anywhere in the space, or in static data: at one address
 * of the program's static data they are ONE object for all processes, whichever of them initialised it. Elsewhere (the C
 * library's heap, thread-local storage, stacks of other OS threads) they belong to their process.
 *
 * Thread-safety: everything on synchronisation objects may be called by user-level threads (the thread waits, its
 * worker does not) and by OS threads of the program (they block), before and after ayatori_run too where nobody must
 * wait. What needs a user-level thread says so. */
#ifndef AYATORI_AYATORI_H
#define AYATORI_AYATORI_H

#include <ayatori/errno.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#if defined(__cplusplus)
#define AYATORI_NOEXCEPT noexcept
#else
#define AYATORI_NOEXCEPT
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------------------------------------- the job */

/* Starts the runtime in every process of the job and calls f(argc, argv) as the first thread, on process 0; returns
 * its result in every process. Callable once, from main's thread. */
int ayatori_run(int argc, char** argv, int (*f)(int argc, char** argv));

/* ------------------------------------------------------------------------------------------------- threads */

typedef uint64_t ayatori_thread_t; /* 0: no thread */
typedef struct ayatori_thread_attr {
  size_t stack_bytes;
  size_t guard_bytes;
  int detach_state;
  int inherit;
  int priority;
  void* stack_lowest; /* of ayatori_thread_getattr_np; else null */
} ayatori_thread_attr_t;

#define AYATORI_THREAD_NULL ((ayatori_thread_t)0)

#define AYATORI_THREAD_CREATE_JOINABLE 0
#define AYATORI_THREAD_CREATE_DETACHED 1
#define AYATORI_THREAD_STACK_MIN 16384

/* Starts routine(argument) in a new thread; attr may be null. The new thread runs first, on the caller's worker; the
 * caller goes on when it ends or waits, or when another worker, perhaps of another process, takes the caller over.
 * *thread is written before the thread starts. EAGAIN: no stack is left, or attr asks for a larger one than threads have
 * (AYATORI_STACK_SIZE, less the guard: what ayatori_thread_attr_init sets). EINVAL: attr is not valid. EPERM: the caller is
 * no user-level thread. An exception that leaves the routine ends the job as std::terminate does. */
int ayatori_thread_create(ayatori_thread_t* thread, const ayatori_thread_attr_t* attr, void* (*routine)(void*),
                          void* argument);
/* Waits for the thread's end; *result (result may be null) is what its routine returned or it gave to
 * ayatori_thread_exit. User-level threads only (else EPERM). EDEADLK: the caller itself, or a thread that waits for the
 * caller in the same way. EINVAL: detached, somebody else waits for it already, or no thread of this interface.
 * ESRCH: no such thread (any more). */
int ayatori_thread_join(ayatori_thread_t thread, void** result);
/* The thread frees itself when it ends. Any user-level thread, also for itself. EINVAL, EPERM, ESRCH: as join. */
int ayatori_thread_detach(ayatori_thread_t thread);
/* Ends the calling thread from any depth of calls. Destructors of C++ objects and cleanup attributes in the frames that
 * are left run (a frame of a noexcept function, or a catch (...) that does not throw again, ends the job); frames of C
 * code compiled without unwind tables, and all beyond them, are not unwound. In the first thread: the job goes on until
 * all threads made by ayatori_thread_create have ended, then ends with status 0. Only for these threads and the first
 * one of ayatori_run: elsewhere it ends the job with an error. */
void ayatori_thread_exit(void* result) __attribute__((__noreturn__));
ayatori_thread_t ayatori_thread_self(void) AYATORI_NOEXCEPT; /* 0 when the caller is no user-level thread */
int ayatori_thread_equal(ayatori_thread_t a, ayatori_thread_t b) AYATORI_NOEXCEPT;
int ayatori_thread_yield(void);

int ayatori_thread_attr_init(ayatori_thread_attr_t* attr) AYATORI_NOEXCEPT;
int ayatori_thread_attr_destroy(ayatori_thread_attr_t* attr) AYATORI_NOEXCEPT;
int ayatori_thread_attr_setdetachstate(ayatori_thread_attr_t* attr, int state) AYATORI_NOEXCEPT; /* EINVAL */
int ayatori_thread_attr_getdetachstate(const ayatori_thread_attr_t* attr, int* state) AYATORI_NOEXCEPT;
/* The least that the thread needs; every thread has a stack of AYATORI_STACK_SIZE. EINVAL: less than
 * AYATORI_THREAD_STACK_MIN. Whether it is more than there is tells ayatori_thread_create. */
int ayatori_thread_attr_setstacksize(ayatori_thread_attr_t* attr, size_t bytes) AYATORI_NOEXCEPT;
int ayatori_thread_attr_getstacksize(const ayatori_thread_attr_t* attr, size_t* bytes) AYATORI_NOEXCEPT;
/* Stacks are the runtime's: ENOTSUP (EINVAL: less than AYATORI_THREAD_STACK_MIN). get: null but in what
 * ayatori_thread_getattr_np gave. */
int ayatori_thread_attr_setstack(ayatori_thread_attr_t* attr, void* lowest, size_t bytes) AYATORI_NOEXCEPT;
int ayatori_thread_attr_getstack(const ayatori_thread_attr_t* attr, void** lowest, size_t* bytes) AYATORI_NOEXCEPT;
/* What is said is kept and not looked at: every stack has the runtime's guard. */
int ayatori_thread_attr_setguardsize(ayatori_thread_attr_t* attr, size_t bytes) AYATORI_NOEXCEPT;
int ayatori_thread_attr_getguardsize(const ayatori_thread_attr_t* attr, size_t* bytes) AYATORI_NOEXCEPT;

/* Threads share the workers of the job, in turns, and know no other policy than SCHED_OTHER, with two priorities: a ready
 * thread of priority 1 runs before those of 0 (fifteen times of sixteen) when a worker of its process looks for a thread
 * to run; nobody is interrupted. New threads have their creator's, or with AYATORI_EXPLICIT_SCHED the attribute's.
 * EINVAL: no such value. ENOTSUP: SCHED_FIFO, SCHED_RR, AYATORI_SCOPE_SYSTEM. */
#define AYATORI_SCOPE_SYSTEM 0
#define AYATORI_SCOPE_PROCESS 1
#define AYATORI_INHERIT_SCHED 0
#define AYATORI_EXPLICIT_SCHED 1
int ayatori_thread_attr_setscope(ayatori_thread_attr_t* attr, int scope) AYATORI_NOEXCEPT;
int ayatori_thread_attr_getscope(const ayatori_thread_attr_t* attr, int* scope) AYATORI_NOEXCEPT;
int ayatori_thread_attr_setinheritsched(ayatori_thread_attr_t* attr, int inherit) AYATORI_NOEXCEPT;
int ayatori_thread_attr_getinheritsched(const ayatori_thread_attr_t* attr, int* inherit) AYATORI_NOEXCEPT;
int ayatori_thread_attr_setschedpolicy(ayatori_thread_attr_t* attr, int policy) AYATORI_NOEXCEPT;
int ayatori_thread_attr_getschedpolicy(const ayatori_thread_attr_t* attr, int* policy) AYATORI_NOEXCEPT;
int ayatori_thread_attr_setschedparam(ayatori_thread_attr_t* attr, const struct sched_param* param) AYATORI_NOEXCEPT;
int ayatori_thread_attr_getschedparam(const ayatori_thread_attr_t* attr, struct sched_param* param) AYATORI_NOEXCEPT;
/* ESRCH: no such thread (any more). EPERM: the caller is no user-level thread. A thread that is ready goes to its new place
 * the next time that it becomes so. */
int ayatori_thread_setschedparam(ayatori_thread_t thread, int policy, const struct sched_param* param);
int ayatori_thread_getschedparam(ayatori_thread_t thread, int* policy, struct sched_param* param);
int ayatori_thread_setschedprio(ayatori_thread_t thread, int priority);
/* The attributes of a thread as it is: its stack, whether it is detached. ESRCH, EPERM as above. */
int ayatori_thread_getattr_np(ayatori_thread_t thread, ayatori_thread_attr_t* attr);
/* A name for people, of 15 characters at most; until one is given, the program's. ERANGE: too long, or less room than 16
 * bytes. ESRCH, EPERM as above. */
int ayatori_thread_setname_np(ayatori_thread_t thread, const char* name);
int ayatori_thread_getname_np(ayatori_thread_t thread, char* name, size_t bytes);
/* No clock counts the time of one thread: ENOTSUP. ESRCH, EPERM as above. */
int ayatori_thread_getcpuclockid(ayatori_thread_t thread, clockid_t* clock);
/* A hint that is kept, for each process, and not looked at: `ayatori run -w` says how many workers there are. EINVAL:
 * negative. */
int ayatori_thread_setconcurrency(int level) AYATORI_NOEXCEPT;
int ayatori_thread_getconcurrency(void) AYATORI_NOEXCEPT; /* 0: nothing was said */

/* Signals belong to processes and their OS threads; a handler runs on whichever worker the system takes. kill: 0 for signal
 * 0; signals to the caller itself are raised on its worker, in its process. ENOTSUP: to another thread. EINVAL: no such
 * signal. ESRCH, EPERM as above. sigmask: ENOTSUP to change one, which is the worker's and other threads'; EINVAL: no such
 * `how`. With set null it gives the worker's. */
int ayatori_thread_kill(ayatori_thread_t thread, int signal);
int ayatori_thread_sigmask(int how, const sigset_t* set, sigset_t* old);
/* Handlers around fork() in this process. The child has a copy of what its process had, and one thread: it may call what is
 * async-signal-safe, exec and _exit; it is no member of the job and calls nothing of Ayatori. ENOMEM. */
int ayatori_thread_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void));
/* The thread waits, its worker does not; a cancellation point. 0, with *left (left may be null) 0: no signal ends it. -1 and
 * errno EINVAL: negative, or the nanoseconds are not in 0 .. 999,999,999. */
int ayatori_nanosleep(const struct timespec* duration, struct timespec* left);

/* ------------------------------------------------------------------------------------------------- cancellation */

#define AYATORI_CANCELED ((void*)-1) /* what ayatori_thread_join finds */
#define AYATORI_CANCEL_ENABLE 0
#define AYATORI_CANCEL_DISABLE 1
#define AYATORI_CANCEL_DEFERRED 0
#define AYATORI_CANCEL_ASYNCHRONOUS 1

/* Asks a thread to end as by ayatori_thread_exit(AYATORI_CANCELED) at its next cancellation point: ayatori_thread_join,
 * ayatori_thread_testcancel, and what waits for conditions and semaphores (_wait, _timedwait, _clockwait); a wait that has
 * begun ends too. One for a condition holds the mutex again when handlers run, and has consumed no signal; who joined has
 * not, the other thread may be joined by others. Where processes share no memory, a wait for an object that another
 * process holds ends within 100 ms, one for a thread that another process holds not before that thread has ended.
 * 0 also when the thread has ended and was not joined. EPERM: the caller is no user-level thread. ESRCH: no such thread
 * (any more). EINVAL: no thread of this interface. */
int ayatori_thread_cancel(ayatori_thread_t thread);
/* Of the caller; *old (old may be null) is what it was. New threads: ENABLE, DEFERRED. EINVAL: no such state or type.
 * EPERM: no user-level thread. A thread of type ASYNCHRONOUS is asked in these two and in ayatori_thread_yield, too; it is
 * never stopped where it computes. */
int ayatori_thread_setcancelstate(int state, int* old);
int ayatori_thread_setcanceltype(int type, int* old);
void ayatori_thread_testcancel(void);

/* Handlers that run, last pushed first, when the thread ends by ayatori_thread_exit or is cancelled in between; push and
 * pop are to be in one block. In C++ also when an exception leaves the block. User-level threads only. */
#define AYATORI_NESTED_NP _Pragma("GCC diagnostic push") _Pragma("GCC diagnostic ignored \"-Wshadow\"")
#ifdef __cplusplus
} /* extern "C" */
class ayatori_thread_cleanup_np {
 public:
  ayatori_thread_cleanup_np(void (*routine)(void*), void* argument) : routine_(routine), argument_(argument) {}
  ayatori_thread_cleanup_np(const ayatori_thread_cleanup_np&) = delete;
  ayatori_thread_cleanup_np& operator=(const ayatori_thread_cleanup_np&) = delete;
  ~ayatori_thread_cleanup_np() noexcept(false) {
    if (execute_) routine_(argument_);
  }
  void pop(int execute) noexcept { execute_ = execute != 0; }

 private:
  void (*routine_)(void*);
  void* argument_;
  bool execute_ = true;
};
#define ayatori_thread_cleanup_push(routine, argument)                         \
  do {                                                                         \
    AYATORI_NESTED_NP                                                          \
    ayatori_thread_cleanup_np ayatori_cleanup_handler_((routine), (argument)); \
  _Pragma("GCC diagnostic pop")
#define ayatori_thread_cleanup_pop(execute) \
  ayatori_cleanup_handler_.pop(execute);    \
  }                                         \
  while (0)
extern "C" {
#else
struct ayatori_thread_cleanup_np {
  void (*routine)(void*);
  void* argument;
  struct ayatori_thread_cleanup_np* previous;
};
void ayatori_thread_cleanup_push_np(struct ayatori_thread_cleanup_np* handler);
void ayatori_thread_cleanup_pop_np(struct ayatori_thread_cleanup_np* handler, int execute);
#define ayatori_thread_cleanup_push(routine, argument)                                             \
  do {                                                                                             \
    AYATORI_NESTED_NP                                                                              \
    struct ayatori_thread_cleanup_np ayatori_cleanup_handler_ = {(routine), (argument), (void*)0}; \
    _Pragma("GCC diagnostic pop") ayatori_thread_cleanup_push_np(&ayatori_cleanup_handler_);
#define ayatori_thread_cleanup_pop(execute)                            \
  ayatori_thread_cleanup_pop_np(&ayatori_cleanup_handler_, (execute)); \
  }                                                                    \
  while (0)
#endif

/* ------------------------------------------------------------------------------------------------- mutexes */

/* What an object is said to be is kept and not looked at: every object works between the processes of the job. */
#define AYATORI_PROCESS_PRIVATE 0
#define AYATORI_PROCESS_SHARED 1

typedef struct ayatori_mutex {
  uint64_t handle; /* 0: made when it is first used */
  int type;
  int reserved;
} ayatori_mutex_t;
typedef struct ayatori_mutexattr {
  int type;
  int shared;
  int robust;
  int ceiling;
} ayatori_mutexattr_t;

#define AYATORI_MUTEX_NORMAL 0
#define AYATORI_MUTEX_RECURSIVE 1
#define AYATORI_MUTEX_ERRORCHECK 2
#define AYATORI_MUTEX_DEFAULT AYATORI_MUTEX_NORMAL
/* clang-format off */
#define AYATORI_MUTEX_INITIALIZER {0, AYATORI_MUTEX_DEFAULT, 0}
#define AYATORI_RECURSIVE_MUTEX_INITIALIZER_NP {0, AYATORI_MUTEX_RECURSIVE, 0}
#define AYATORI_ERRORCHECK_MUTEX_INITIALIZER_NP {0, AYATORI_MUTEX_ERRORCHECK, 0}
/* clang-format on */

/* EAGAIN: no room for another object. In static data an object that is there already (made by another process that runs
 * the same code before ayatori_run) is kept as it is. */
int ayatori_mutex_init(ayatori_mutex_t* mutex, const ayatori_mutexattr_t* attr);
int ayatori_mutex_destroy(ayatori_mutex_t* mutex); /* EBUSY: locked. EINVAL: not initialised */
/* lock, trylock, timedlock: EINVAL not initialised (destroyed); EOWNERDEAD the mutex is robust, and a thread ended while it
 * held it: the caller holds it, is to put right what it guards and to call ayatori_mutex_consistent; ENOTRECOVERABLE the
 * caller before did not, and unlocked it, nobody locks it any more; EAGAIN too deep (recursive), or no room for the object
 * of an initialiser. lock, timedlock: EDEADLK the caller holds it (errorcheck). trylock: EBUSY it is locked. timedlock:
 * ETIMEDOUT at the time `until` of CLOCK_REALTIME; EINVAL its nanoseconds are not in 0 .. 999,999,999.
 * A lock belongs to the thread, on whatever process it goes on. Waiters get it first come, first served. */
int ayatori_mutex_lock(ayatori_mutex_t* mutex);
int ayatori_mutex_trylock(ayatori_mutex_t* mutex);
int ayatori_mutex_timedlock(ayatori_mutex_t* mutex, const struct timespec* until);
/* As timedlock, by CLOCK_REALTIME or CLOCK_MONOTONIC (EINVAL: another one). So are all functions with `clock` here. */
int ayatori_mutex_clocklock(ayatori_mutex_t* mutex, clockid_t clock, const struct timespec* until);
/* EPERM: the caller does not hold it (recursive, errorcheck, robust; to unlock another one that is not locked ends the
 * job). EINVAL: not initialised. */
int ayatori_mutex_unlock(ayatori_mutex_t* mutex);

int ayatori_mutexattr_init(ayatori_mutexattr_t* attr) AYATORI_NOEXCEPT;
int ayatori_mutexattr_destroy(ayatori_mutexattr_t* attr) AYATORI_NOEXCEPT;
int ayatori_mutexattr_settype(ayatori_mutexattr_t* attr, int type) AYATORI_NOEXCEPT; /* EINVAL */
int ayatori_mutexattr_gettype(const ayatori_mutexattr_t* attr, int* type) AYATORI_NOEXCEPT;
int ayatori_mutexattr_setpshared(ayatori_mutexattr_t* attr, int shared) AYATORI_NOEXCEPT; /* EINVAL */
int ayatori_mutexattr_getpshared(const ayatori_mutexattr_t* attr, int* shared) AYATORI_NOEXCEPT;
/* There are no priorities to inherit: only AYATORI_PRIO_NONE. ENOTSUP: the others. EINVAL: no such value; always for the
 * ceiling of a mutex, as none has one. That of attributes, 1 .. 99, is kept.
 * A robust mutex is given on, as lock says, when a thread ends by any way, user-level or OS thread, while it holds it. A
 * process that dies ends the job. */
#define AYATORI_PRIO_NONE 0
#define AYATORI_PRIO_INHERIT 1
#define AYATORI_PRIO_PROTECT 2
#define AYATORI_MUTEX_STALLED 0
#define AYATORI_MUTEX_ROBUST 1
int ayatori_mutexattr_setprotocol(ayatori_mutexattr_t* attr, int protocol) AYATORI_NOEXCEPT;
int ayatori_mutexattr_getprotocol(const ayatori_mutexattr_t* attr, int* protocol) AYATORI_NOEXCEPT;
int ayatori_mutexattr_setrobust(ayatori_mutexattr_t* attr, int robust) AYATORI_NOEXCEPT;
int ayatori_mutexattr_getrobust(const ayatori_mutexattr_t* attr, int* robust) AYATORI_NOEXCEPT;
int ayatori_mutexattr_setprioceiling(ayatori_mutexattr_t* attr, int ceiling) AYATORI_NOEXCEPT;
int ayatori_mutexattr_getprioceiling(const ayatori_mutexattr_t* attr, int* ceiling) AYATORI_NOEXCEPT;
int ayatori_mutex_setprioceiling(ayatori_mutex_t* mutex, int ceiling, int* old) AYATORI_NOEXCEPT;
int ayatori_mutex_getprioceiling(const ayatori_mutex_t* mutex, int* ceiling) AYATORI_NOEXCEPT;
/* EINVAL: not robust, or nothing is inconsistent. EPERM: the caller does not hold it. */
int ayatori_mutex_consistent(ayatori_mutex_t* mutex);

/* ------------------------------------------------------------------------------------------------- conditions */

typedef struct ayatori_cond {
  uint64_t handle;
  int clock;
  int reserved;
} ayatori_cond_t;
typedef struct ayatori_condattr {
  int clock;
  int shared;
} ayatori_condattr_t;

/* clang-format off */
#define AYATORI_COND_INITIALIZER {0, 0, 0} /* CLOCK_REALTIME */
/* clang-format on */

int ayatori_cond_init(ayatori_cond_t* cond, const ayatori_condattr_t* attr); /* as ayatori_mutex_init */
int ayatori_cond_destroy(ayatori_cond_t* cond);                              /* EBUSY: somebody waits */
/* The mutex is held again in every case but EINVAL (an object is not initialised; the nanoseconds), EPERM (the caller
 * does not hold the mutex: recursive, errorcheck, robust) and ENOTRECOVERABLE. That and EOWNERDEAD: as lock. A recursive
 * mutex is left wholly, whatever its depth, and is as deep again afterwards. timedwait: ETIMEDOUT at the time `until` of the condition's clock. */
int ayatori_cond_wait(ayatori_cond_t* cond, ayatori_mutex_t* mutex);
int ayatori_cond_timedwait(ayatori_cond_t* cond, ayatori_mutex_t* mutex, const struct timespec* until);
int ayatori_cond_clockwait(ayatori_cond_t* cond, ayatori_mutex_t* mutex, clockid_t clock, const struct timespec* until);
int ayatori_cond_signal(ayatori_cond_t* cond);
int ayatori_cond_broadcast(ayatori_cond_t* cond);

int ayatori_condattr_init(ayatori_condattr_t* attr) AYATORI_NOEXCEPT;
int ayatori_condattr_destroy(ayatori_condattr_t* attr) AYATORI_NOEXCEPT;
int ayatori_condattr_setclock(ayatori_condattr_t* attr, clockid_t clock) AYATORI_NOEXCEPT; /* EINVAL: no clock for it */
int ayatori_condattr_getclock(const ayatori_condattr_t* attr, clockid_t* clock) AYATORI_NOEXCEPT;
int ayatori_condattr_setpshared(ayatori_condattr_t* attr, int shared) AYATORI_NOEXCEPT; /* EINVAL */
int ayatori_condattr_getpshared(const ayatori_condattr_t* attr, int* shared) AYATORI_NOEXCEPT;

/* ------------------------------------------------------------------------------------------------- read-write locks */

typedef struct ayatori_rwlock {
  uint64_t handle; /* 0: made when it is first used */
  int kind;
  int reserved;
} ayatori_rwlock_t;
typedef struct ayatori_rwlockattr {
  int kind;
  int shared;
} ayatori_rwlockattr_t;

/* Readers overtake writers that wait, so that a thread that reads may lock for reading again; or first come, first
 * served: then it must not. */
#define AYATORI_RWLOCK_PREFER_READER_NP 0
#define AYATORI_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP 1
#define AYATORI_RWLOCK_DEFAULT_NP AYATORI_RWLOCK_PREFER_READER_NP
/* clang-format off */
#define AYATORI_RWLOCK_INITIALIZER {0, AYATORI_RWLOCK_DEFAULT_NP, 0}
#define AYATORI_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP {0, AYATORI_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP, 0}
/* clang-format on */

int ayatori_rwlock_init(ayatori_rwlock_t* lock, const ayatori_rwlockattr_t* attr); /* as ayatori_mutex_init */
int ayatori_rwlock_destroy(ayatori_rwlock_t* lock); /* EBUSY: held. EINVAL: not initialised */
/* EINVAL: not initialised (destroyed). EAGAIN: no room for the object of an initialiser. EDEADLK: the caller holds it for
 * writing (not of try: EBUSY). timed, clock: ETIMEDOUT; EINVAL as ayatori_mutex_timedlock. */
int ayatori_rwlock_rdlock(ayatori_rwlock_t* lock);
int ayatori_rwlock_tryrdlock(ayatori_rwlock_t* lock);
int ayatori_rwlock_timedrdlock(ayatori_rwlock_t* lock, const struct timespec* until);
int ayatori_rwlock_clockrdlock(ayatori_rwlock_t* lock, clockid_t clock, const struct timespec* until);
int ayatori_rwlock_wrlock(ayatori_rwlock_t* lock);
int ayatori_rwlock_trywrlock(ayatori_rwlock_t* lock);
int ayatori_rwlock_timedwrlock(ayatori_rwlock_t* lock, const struct timespec* until);
int ayatori_rwlock_clockwrlock(ayatori_rwlock_t* lock, clockid_t clock, const struct timespec* until);
int ayatori_rwlock_unlock(ayatori_rwlock_t* lock); /* EPERM: nobody holds it */

int ayatori_rwlockattr_init(ayatori_rwlockattr_t* attr) AYATORI_NOEXCEPT;
int ayatori_rwlockattr_destroy(ayatori_rwlockattr_t* attr) AYATORI_NOEXCEPT;
int ayatori_rwlockattr_setkind_np(ayatori_rwlockattr_t* attr, int kind) AYATORI_NOEXCEPT; /* EINVAL */
int ayatori_rwlockattr_getkind_np(const ayatori_rwlockattr_t* attr, int* kind) AYATORI_NOEXCEPT;
int ayatori_rwlockattr_setpshared(ayatori_rwlockattr_t* attr, int shared) AYATORI_NOEXCEPT; /* EINVAL */
int ayatori_rwlockattr_getpshared(const ayatori_rwlockattr_t* attr, int* shared) AYATORI_NOEXCEPT;

/* ------------------------------------------------------------------------------------------------- spin locks */

/* Who holds one may be suspended, and go on elsewhere: who waits gives its worker to other threads, as with a mutex. */
typedef struct ayatori_spinlock {
  uint64_t handle;
} ayatori_spinlock_t;

/* init: EAGAIN no room, EINVAL `shared` is neither. All others: EINVAL not initialised. destroy, trylock: EBUSY held. lock:
 * EDEADLK, unlock: EPERM as an error-checking mutex. */
int ayatori_spin_init(ayatori_spinlock_t* lock, int shared);
int ayatori_spin_destroy(ayatori_spinlock_t* lock);
int ayatori_spin_lock(ayatori_spinlock_t* lock);
int ayatori_spin_trylock(ayatori_spinlock_t* lock);
int ayatori_spin_unlock(ayatori_spinlock_t* lock);

/* ------------------------------------------------------------------------------------------------- barriers */

typedef struct ayatori_barrier {
  uint64_t handle;
} ayatori_barrier_t;
typedef struct ayatori_barrierattr {
  int shared;
} ayatori_barrierattr_t;

#define AYATORI_BARRIER_SERIAL_THREAD (-1)

/* EINVAL: count is 0. EAGAIN: no room for another object. */
int ayatori_barrier_init(ayatori_barrier_t* barrier, const ayatori_barrierattr_t* attr, unsigned count);
int ayatori_barrier_destroy(ayatori_barrier_t* barrier); /* EBUSY: somebody waits. EINVAL: not initialised */
/* AYATORI_BARRIER_SERIAL_THREAD in one thread of each round, 0 in the others. EINVAL: not initialised. */
int ayatori_barrier_wait(ayatori_barrier_t* barrier);
int ayatori_barrierattr_init(ayatori_barrierattr_t* attr) AYATORI_NOEXCEPT;
int ayatori_barrierattr_destroy(ayatori_barrierattr_t* attr) AYATORI_NOEXCEPT;
int ayatori_barrierattr_setpshared(ayatori_barrierattr_t* attr, int shared) AYATORI_NOEXCEPT; /* EINVAL */
int ayatori_barrierattr_getpshared(const ayatori_barrierattr_t* attr, int* shared) AYATORI_NOEXCEPT;

/* ------------------------------------------------------------------------------------------------- once */

typedef struct ayatori_once_control {
  uint64_t handle;
  int done;
  int reserved;
} ayatori_once_t;

/* clang-format off */
#define AYATORI_ONCE_INIT {0, 0, 0}
/* clang-format on */

/* Runs the routine in the first caller; the others wait for its end and see what it wrote. A control in the space counts
 * for the whole job. One in static data, as the globals that such routines set, counts for each process: the routine
 * runs once in every process that calls. A routine that ends its thread by ayatori_thread_exit has not run; an exception
 * that leaves it ends the job. EINVAL: control or routine is null. EAGAIN: no room for another object. */
int ayatori_once(ayatori_once_t* control, void (*routine)(void));

/* ------------------------------------------------------------------------------------------------- thread-specific data */

typedef uint32_t ayatori_key_t; /* 0: no key */

#define AYATORI_KEYS_MAX 1024 /* of the job, at a time */
#define AYATORI_DESTRUCTOR_ITERATIONS 4

/* A key counts for the whole job: a thread finds its values wherever it goes. A key in static data is one for all
 * processes: each of them may create it, for itself, and delete it again.
 * When a thread ends, destructors of values that are not null run on it (user-level threads of C and C++, the first one if
 * it calls ayatori_thread_exit, and OS threads of the program), in no order, up to AYATORI_DESTRUCTOR_ITERATIONS times.
 * create: EAGAIN no key is left. delete: EINVAL no such key; destructors do not run. */
int ayatori_key_create(ayatori_key_t* key, void (*destructor)(void*));
int ayatori_key_delete(ayatori_key_t key);
void* ayatori_getspecific(ayatori_key_t key);                  /* null: no value, no such key */
int ayatori_setspecific(ayatori_key_t key, const void* value); /* EINVAL: no such key. ENOMEM */

/* ------------------------------------------------------------------------------------------------- semaphores */

typedef struct ayatori_sem {
  uint64_t handle;
} ayatori_sem_t;

#define AYATORI_SEM_VALUE_MAX 2147483647
#define AYATORI_SEM_NSEMS_MAX 1024 /* named ones, of the job, at a time */
#define AYATORI_SEM_FAILED ((ayatori_sem_t*)0)

/* 0, or -1 and errno. `shared` is not looked at: every semaphore works between processes.
 * init: EINVAL value above AYATORI_SEM_VALUE_MAX, ENOSPC no room. All others: EINVAL not initialised. destroy: EBUSY
 * somebody waits; EINVAL a named one. trywait: EAGAIN. timedwait: ETIMEDOUT at the time `until` of CLOCK_REALTIME, EINVAL its nanoseconds.
 * post: EOVERFLOW. */
int ayatori_sem_init(ayatori_sem_t* sem, int shared, unsigned value);
int ayatori_sem_destroy(ayatori_sem_t* sem);
int ayatori_sem_wait(ayatori_sem_t* sem);
int ayatori_sem_trywait(ayatori_sem_t* sem);
int ayatori_sem_timedwait(ayatori_sem_t* sem, const struct timespec* until);
int ayatori_sem_clockwait(ayatori_sem_t* sem, clockid_t clock, const struct timespec* until);
int ayatori_sem_post(ayatori_sem_t* sem);
int ayatori_sem_getvalue(ayatori_sem_t* sem, int* value); /* 0 while threads wait */
/* Named semaphores. A name is the job's: one object, at one address in all processes, until it is unlinked and closed as
 * often as it was opened; the job's end ends all. Slashes in front do not count.
 * open: flags 0, O_CREAT, O_CREAT | O_EXCL of <fcntl.h>; with O_CREAT then mode_t mode, which is not looked at, and unsigned
 * value. AYATORI_SEM_FAILED and errno: EEXIST, ENOENT; EINVAL a name without characters or with another slash, value above
 * AYATORI_SEM_VALUE_MAX; ENAMETOOLONG more than 255 characters; ENFILE, ENOSPC no room.
 * close: EINVAL no named semaphore that is open. unlink: ENOENT, ENAMETOOLONG. */
ayatori_sem_t* ayatori_sem_open(const char* name, int flags, ...);
int ayatori_sem_close(ayatori_sem_t* sem);
int ayatori_sem_unlink(const char* name);

/* ------------------------------------------------------------------------------------------------- other spellings */

/* Where one may read the rule of names (docs/guide/pthreads.md) in two ways, both are there. */
typedef ayatori_thread_attr_t ayatori_attr_t;
#define AYATORI_CREATE_JOINABLE AYATORI_THREAD_CREATE_JOINABLE
#define AYATORI_CREATE_DETACHED AYATORI_THREAD_CREATE_DETACHED
#define AYATORI_STACK_MIN AYATORI_THREAD_STACK_MIN
#define AYATORI_NULL AYATORI_THREAD_NULL
#define AYATORI_THREAD_KEYS_MAX AYATORI_KEYS_MAX
#define AYATORI_THREAD_DESTRUCTOR_ITERATIONS AYATORI_DESTRUCTOR_ITERATIONS
#define AYATORI_THREAD_CANCELED AYATORI_CANCELED
#define AYATORI_THREAD_CANCEL_ENABLE AYATORI_CANCEL_ENABLE
#define AYATORI_THREAD_CANCEL_DISABLE AYATORI_CANCEL_DISABLE
#define AYATORI_THREAD_CANCEL_DEFERRED AYATORI_CANCEL_DEFERRED
#define AYATORI_THREAD_CANCEL_ASYNCHRONOUS AYATORI_CANCEL_ASYNCHRONOUS
#define AYATORI_THREAD_SCOPE_SYSTEM AYATORI_SCOPE_SYSTEM
#define AYATORI_THREAD_SCOPE_PROCESS AYATORI_SCOPE_PROCESS
#define AYATORI_THREAD_INHERIT_SCHED AYATORI_INHERIT_SCHED
#define AYATORI_THREAD_EXPLICIT_SCHED AYATORI_EXPLICIT_SCHED
#define AYATORI_THREAD_ONCE_INIT AYATORI_ONCE_INIT
#define ayatori_thread_once ayatori_once
#define ayatori_thread_key_create ayatori_key_create
#define ayatori_thread_key_delete ayatori_key_delete
#define ayatori_thread_getspecific ayatori_getspecific
#define ayatori_thread_setspecific ayatori_setspecific
#define ayatori_atfork ayatori_thread_atfork
#define ayatori_cancel ayatori_thread_cancel
#define ayatori_testcancel ayatori_thread_testcancel
#define ayatori_setcancelstate ayatori_thread_setcancelstate
#define ayatori_setcanceltype ayatori_thread_setcanceltype
#define ayatori_cleanup_push ayatori_thread_cleanup_push
#define ayatori_cleanup_pop ayatori_thread_cleanup_pop
#define ayatori_setconcurrency ayatori_thread_setconcurrency
#define ayatori_getconcurrency ayatori_thread_getconcurrency

/* ------------------------------------------------------------------------------------------------- memory */

/* Memory of the space, on any OS thread. Any process may free or resize what another allocated. To free what is no
 * live allocation of these (or of operator new on a user-level thread) ends the job with an error.
 * Null and errno ENOMEM: no room; aligned_alloc: EINVAL when align is no power of two.
 * malloc(0) gives an address of its own; realloc(p, 0) frees p and gives null. ayatori_free keeps errno. */
void* ayatori_malloc(size_t bytes);
void* ayatori_calloc(size_t count, size_t bytes);
void* ayatori_realloc(void* address, size_t bytes);
void* ayatori_aligned_alloc(size_t align, size_t bytes);
void ayatori_free(void* address);

#ifdef __cplusplus
}
#endif

#endif /* AYATORI_AYATORI_H */
