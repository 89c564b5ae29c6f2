// SPDX-License-Identifier: Apache-2.0
#include "tasks/debug_table.hpp"

#include <cstddef>

#include "gas/space.hpp"
#include "tasks/sync_object.hpp"
#include "ult/scheduler.hpp"
#include "ult/thread.hpp"

namespace at = ayatori;
using at::gas::Layout;
using at::gas::SlotEntry;
using at::gas::Tables;
using at::tasks::sync::Object;
using at::ult::Config;
using at::ult::Descriptor;
using at::ult::ProcessQueues;
using at::ult::Queue;
using at::ult::Worker;
using Deque = at::ult::Deque<Descriptor>;
using Ring = at::ult::RunRing<Descriptor>;

// NOLINTBEGIN(cppcoreguidelines-macro-usage): a name and its value, once
#define SIZE(type) {#type, sizeof(type)}
#define FIELD(type, field) {#type "." #field, offsetof(type, field)}
// NOLINTEND(cppcoreguidelines-macro-usage)

constinit at::tasks::DebugTable ayt_debug_table = {
    "AYTDBG1",
    64,
    &at::ult::the_config,
    &at::gas::detail::layout,
    &at::gas::detail::tables,
    &at::tasks::sync::state,
    nullptr,
    {
        FIELD(Config, process),
        FIELD(Config, processes),
        FIELD(Config, workers),
        FIELD(Config, apart),
        FIELD(Config, queues),
        FIELD(Config, threads),
        FIELD(Config, thread_count),
        FIELD(Layout, base),
        FIELD(Layout, bytes),
        FIELD(Layout, slots_per_process),
        FIELD(Tables, system_view),
        FIELD(Tables, slots),
        SIZE(SlotEntry),
        FIELD(SlotEntry, owner),
        SIZE(Descriptor),
        FIELD(Descriptor, sp),
        FIELD(Descriptor, invoke),
        FIELD(Descriptor, next),
        FIELD(Descriptor, slot),
        FIELD(Descriptor, generation),
        FIELD(Descriptor, pins),
        FIELD(Descriptor, state),
        FIELD(Descriptor, placement),
        FIELD(Descriptor, wait_object),
        FIELD(Descriptor, wait_value),
        FIELD(Descriptor, fault_frame),
        FIELD(Descriptor, fault_offset),
        FIELD(ProcessQueues, high),
        FIELD(ProcessQueues, ready),
        FIELD(ProcessQueues, placed),
        FIELD(ProcessQueues, hinted),
        FIELD(ProcessQueues, next_fresh_slot),
        FIELD(ProcessQueues, worker),
        {"Queue.head", offsetof(Queue, list) + offsetof(at::ult::List, head)},
        SIZE(Worker),
        FIELD(Worker, current),
        FIELD(Worker, native_low),
        FIELD(Worker, native_bytes),
        {"Worker.deque_top", offsetof(Worker, deque) + Deque::kTopAt},
        {"Worker.deque_bottom", offsetof(Worker, deque) + Deque::kBottomAt},
        {"Worker.deque_ring", offsetof(Worker, deque) + Deque::kRingAt},
        {"Worker.deque_mask", offsetof(Worker, deque) + Deque::kMaskAt},
        {"Worker.ring_head", offsetof(Worker, ring)},
        {"Worker.ring_tail", offsetof(Worker, ring) + Ring::kTailAt},
        {"Worker.ring_entries", offsetof(Worker, ring) + Ring::kEntriesAt},
        {"Worker.ring_room", Ring::kRoom},
        {"Sync.objects", offsetof(at::tasks::sync::State, objects)},
        SIZE(Object),
        FIELD(Object, kind),
        FIELD(Object, word),
        FIELD(Object, expected),
        FIELD(Object, arrived),
        FIELD(Object, owner),
    },
};
