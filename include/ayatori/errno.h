/* SPDX-License-Identifier: Apache-2.0 */
/* errno belongs to the thread and goes with it. The C library tells compilers that its place never changes within a
 * function, but a thread may come back from a call on another worker: here it is looked up each time. Included by both
 * interfaces; a file that uses errno without them in functions that fork, join or wait includes this one. With
 * AYATORI_KEEP_ERRNO defined the C library's macro stays. */
#ifndef AYATORI_ERRNO_H
#define AYATORI_ERRNO_H

#include <errno.h>

#ifdef __cplusplus
extern "C" int* ayatori_errno_location(void) noexcept;
#else
int* ayatori_errno_location(void);
#endif

#if !defined(AYATORI_KEEP_ERRNO)
#undef errno
#define errno (*ayatori_errno_location())
#endif

#endif
