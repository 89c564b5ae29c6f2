// SPDX-License-Identifier: Apache-2.0
// Offsets that the assembly of this folder knows; switch.hpp checks them.
#pragma once

#define AYT_DESCRIPTOR_SP 0
#define AYT_DESCRIPTOR_EH_CAUGHT 40
#define AYT_DESCRIPTOR_EH_UNCAUGHT 48
#define AYT_DESCRIPTOR_ERRNO 52
#define AYT_WORKER_CURRENT 128
#define AYT_WORKER_EH 160
#define AYT_WORKER_ERRNO 168
#define AYT_WORKER_RING_TAIL 512
#define AYT_WORKER_RING 576
#define AYT_RING_MASK 255
