// SPDX-License-Identifier: Apache-2.0
// Peers with whom this process shares memory (D9): what goes to them by it, and what comes from them.
#include <sys/epoll.h>

#include <algorithm>
#include <utility>

#include "base/check.hpp"
#include "net/served/thread_state.hpp"
#include "net/served/transport.hpp"
#include "net/shm/transport.hpp"

namespace ayatori::net::served {

void ServedTransport::join_neighbours() {
  shm::ShmOptions options;
  options.progress_thread = false;
  options.deliver = [](void* self, HandlerId id, const Message& message) {
    static_cast<ServedTransport*>(self)->deliver_near(id, message);
  };
  options.context = this;
  AYT_CHECK(served_.world->config().reply_bytes_max >= served_.payload_bytes_max,
            "answers of {} bytes between neighbours, of {} elsewhere", served_.world->config().reply_bytes_max,
            served_.payload_bytes_max);
  AYT_CHECK(served_.world->config().has_descriptors && (served_.world->config().members >> self_ & 1) != 0,
            "the memory of these neighbours is not for process {} of a wire", self_);
  near_ = std::make_unique<shm::ShmTransport>(*served_.world, self_, options);
  near_->set_peer_failure_handler(
      [](void* self, ProcessId failed) {
        auto& net = *static_cast<ServedTransport*>(self);
        net.accuse(net.peer(failed), "its process ended");
      },
      this);
}

// In begin(): whom the wire reaches.
void ServedTransport::meet_neighbours() {
  for (const std::unique_ptr<Peer>& each : peers_)
    if (each->open && served_.world->standing(each->process) == shm::Standing::kMember)
      neighbours_ |= bit_of(each->process);
  near_->start();
  // Edges are enough: the ring is looked at after each.
  watch(served_.world->doorbell_descriptor(self_), EPOLLIN | EPOLLET, self_);
}

bool ServedTransport::is_near(ProcessId process, RegionId region) const noexcept {
  return is_neighbour(process) && near_->reaches(process, region);
}

bool ServedTransport::takes_near(ProcessId process, std::size_t bytes) const noexcept {
  return is_neighbour(process) && bytes <= near_->limits().payload_bytes_max;
}

Counters ServedTransport::neighbour_counters() const noexcept {
  return near_ != nullptr ? near_->counters() : Counters{};
}

// The polling thread.
std::size_t ServedTransport::serve_neighbours() {
  const std::size_t ran = near_->progress();
  // Who sleeps on the doorbell must say so anew: it rings once. seq_cst: before the look who sleeps, pairs with disarmed()
  if ((ran != 0 || std::exchange(near_rang_, false)) && near_armed_.exchange(false, std::memory_order_seq_cst))
    ring_all();
  return ran;
}

// Before a sleep on epoll_: for how long at most.
std::int64_t ServedTransport::arm_all() {
  const std::int64_t limit_ns = arm();
  if (near_ == nullptr) return limit_ns;
  near_armed_.store(true, std::memory_order_seq_cst);  // before the ring is looked at; pairs with serve_neighbours()
  return std::min(limit_ns, near_->arm());
}

// What the wire still moves to a neighbour is behind nothing that goes by memory: its end is waited for (N10), and so is that
// of what the wire carries out by itself (D10). What goes by shared memory is done when it is issued. A thread that asks
// again waits for what there was when it asked first, so others that go on issuing do not keep it waiting.
bool ServedTransport::fence_unqueued(ProcessId to) {
  if (near_ == nullptr && reached_ == 0) return true;
  ThreadState& thread = thread_state();
  const bool again = thread.fence_of == this && thread.fence_to == to && thread.last_serial < thread.fence_serial;
  const std::uint64_t serial = again ? thread.fence_serial : requests_.next_serial();
  for (const std::unique_ptr<Peer>& each : peers_) {
    const bool is_queue = !is_neighbour(each->process) && (reached_ >> each->process & 1) == 0;
    if ((to != kAllProcesses && to != each->process) || is_queue || !requests_.one_sided_waits(each->process, serial))
      continue;
    thread.fence_of = this;
    thread.fence_to = to;
    thread.fence_serial = serial;
    return false;
  }
  thread.fence_of = nullptr;
  return near_ == nullptr || near_->try_fence(to);
}

// In retire(), which has set its standing: what it sent before it left is still served.
void ServedTransport::give_up_neighbour(const Peer& whom) {
  const std::size_t rounds = served_.world->config().ring_units / shm::ShmTransport::kMessagesPerProgress + 1;
  for (std::size_t i = 0; i < rounds && near_->progress() != 0; ++i) continue;  // others may go on sending
  near_rang_ = true;
  near_->give_up(whom.process);
}

void ServedTransport::deliver_near(HandlerId id, Message message) {
  if (peer(message.source).standing.load(std::memory_order_relaxed) == Standing::kFailed) return;  // by this thread
  if (message.token.wanted()) message.token.slot |= kNearSlot;
  deliver(id, message);
}

}  // namespace ayatori::net::served
