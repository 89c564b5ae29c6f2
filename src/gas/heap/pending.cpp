// SPDX-License-Identifier: Apache-2.0
#include "gas/heap/pending.hpp"

#include <algorithm>

#include "gas/heap.hpp"
#include "gas/heap/classes.hpp"

namespace ayatori::gas::heap {
namespace {

constexpr std::uint32_t kNodes = 1u << 20;  // a process's pool; backed as far as it is used

struct Node {
  void* object;
  std::uint32_t grains;  // for the account: bytes / 16
  std::uint32_t next;    // node + 1, 0: none
};

struct PendingState {  // Constant after reserve_pending().
  PendingList* lists = nullptr;
  Node* nodes = nullptr;
};
constinit PendingState pending_state;

Node* nodes_of(int process) noexcept { return pending_state.nodes + static_cast<std::size_t>(process) * kNodes; }

constexpr std::uint64_t kIndexMask = 0xffffffffu;

// 0: none left.
std::uint32_t take_node(PendingList& list, Node* nodes) noexcept {
  // acquire: pairs with the deliverer's release of the nodes
  std::uint64_t head = list.free_nodes.load(std::memory_order_acquire);
  while ((head & kIndexMask) != 0) {
    const std::uint64_t next =
        std::atomic_ref(nodes[(head & kIndexMask) - 1].next).load(std::memory_order_relaxed);  // checked by the tag
    const std::uint64_t after = ((head >> 32) + 1) << 32 | next;
    if (list.free_nodes.compare_exchange_weak(head, after, std::memory_order_acquire))
      return static_cast<std::uint32_t>(head & kIndexMask);
  }
  std::uint32_t used = list.nodes_used.load(std::memory_order_relaxed);
  do {
    if (used == kNodes) return 0;
  } while (!list.nodes_used.compare_exchange_weak(used, used + 1, std::memory_order_relaxed));
  return used + 1;
}

void give_nodes(PendingList& list, Node* nodes, std::uint32_t first, std::uint32_t last) noexcept {
  std::uint64_t head = list.free_nodes.load(std::memory_order_relaxed), after;
  do {
    std::atomic_ref(nodes[last - 1].next)
        .store(static_cast<std::uint32_t>(head & kIndexMask), std::memory_order_relaxed);
    after = ((head >> 32) + 1) << 32 | first;
  } while (!list.free_nodes.compare_exchange_weak(head, after, std::memory_order_release, std::memory_order_relaxed));
}

std::uint32_t last_of(const Node* nodes, std::uint32_t chain) noexcept {
  while (nodes[chain - 1].next != 0) chain = nodes[chain - 1].next;
  return chain;
}

}  // namespace

void reserve_pending(int processes) {
  const auto n = static_cast<std::size_t>(processes);
  pending_state.lists = static_cast<PendingList*>(shared_map(sizeof(PendingList) * n, "the lists of the heap"));
  pending_state.nodes = static_cast<Node*>(shared_map(sizeof(Node) * kNodes * n, "the lists of the heap"));
}

PendingList& pending_list(int process) noexcept { return pending_state.lists[process]; }

Added add_pending(int process, void* object, std::size_t bytes) noexcept {
  PendingList& list = pending_list(process);
  Node* const nodes = nodes_of(process);
  const std::uint32_t node = take_node(list, nodes);
  if (node == 0) return Added::kNoRoom;
  const std::uint64_t grains = std::min<std::uint64_t>(bytes >> kGrainShift, kIndexMask);
  nodes[node - 1].object = object;
  nodes[node - 1].grains = static_cast<std::uint32_t>(grains);
  const std::uint64_t before = list.objects.fetch_add(1, std::memory_order_relaxed);  // counters order nothing
  const std::uint64_t bytes_before = list.bytes.fetch_add(grains << kGrainShift, std::memory_order_relaxed);
  std::uint32_t top = list.fresh.load(std::memory_order_relaxed);
  do std::atomic_ref(nodes[node - 1].next).store(top, std::memory_order_relaxed);
  // release: pairs with the acquire in seal_pending
  while (!list.fresh.compare_exchange_weak(top, node, std::memory_order_release, std::memory_order_relaxed));
  // Asked for at each multiple of a bound, not at each free beyond it.
  const bool ask = before / kPendingObjects != (before + 1) / kPendingObjects ||
                   bytes_before / kPendingBytes != (bytes_before + (grains << kGrainShift)) / kPendingBytes;
  return ask ? Added::kAskForRelease : Added::kQuietly;
}

void seal_pending(int process) noexcept {
  PendingList& list = pending_list(process);
  if (list.fresh.load(std::memory_order_relaxed) == 0) return;
  Node* const nodes = nodes_of(process);
  const std::uint32_t chain = list.fresh.exchange(0, std::memory_order_acquire);
  if (list.sealed != 0) nodes[last_of(nodes, chain) - 1].next = list.sealed;
  list.sealed = chain;
}

void take_sealed(int process, void (*deliver)(void* object) noexcept) noexcept {
  PendingList& list = pending_list(process);
  if (list.sealed == 0) return;
  Node* const nodes = nodes_of(process);
  const std::uint32_t first = list.sealed;
  list.sealed = 0;
  std::uint64_t objects = 0, bytes = 0;
  std::uint32_t last = first;
  for (std::uint32_t at = first; at != 0; at = nodes[at - 1].next) {
    deliver(nodes[at - 1].object);
    ++objects;
    bytes += std::uint64_t{nodes[at - 1].grains} << kGrainShift;
    last = at;
  }
  list.objects.fetch_sub(objects, std::memory_order_relaxed);
  list.bytes.fetch_sub(bytes, std::memory_order_relaxed);
  give_nodes(list, nodes, first, last);
}

}  // namespace ayatori::gas::heap
