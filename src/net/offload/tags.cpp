// SPDX-License-Identifier: Apache-2.0
#include "net/offload/tags.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/check.hpp"

namespace ayatori::net::offload {
namespace {

constexpr std::size_t round_up(std::size_t value, std::size_t to) { return (value + to - 1) / to * to; }

std::uint64_t next_serial() {
  static std::atomic<std::uint64_t> serials{0};
  return serials.fetch_add(1, std::memory_order_relaxed) + 1;  // only unique
}

// The pool that this thread used last; nullptr: it lives on the stock there.
struct LastPool {
  std::uint64_t serial = 0;
  Pool* pool = nullptr;
};
constinit thread_local LastPool last_pool;
constinit thread_local bool thread_ends = false;

}  // namespace

// A thread's pools, one a transport that it issued requests to.
struct TagPools::Seat {
  std::shared_ptr<TagPools> pools;
  Pool* pool;  // nullptr: there was none left
};
struct TagPools::Seats {
  std::vector<Seat> seats;

  ~Seats() {
    for (const Seat& seat : seats) leave(seat);
    last_pool = {};
    thread_ends = true;  // what other thread-local objects still issue takes its tags from the stock
  }
  static void leave(const Seat& seat) noexcept {
    if (seat.pool != nullptr) seat.pool->held.store(false, std::memory_order_release);  // A4; pairs with find_pool()
  }
};

std::shared_ptr<TagPools> TagPools::create(std::uint32_t tags, std::size_t payload_bytes_max) {
  return std::shared_ptr<TagPools>(new TagPools(tags, payload_bytes_max));
}

static_assert(sizeof(Request) == 256);

TagPools::TagPools(std::uint32_t tags, std::size_t payload_bytes_max)
    : tags_(tags),
      share_(tags / (2 * kPools)),  // A3
      payload_bytes_max_(payload_bytes_max),
      serial_(next_serial()),
      requests_(std::make_unique<Request[]>(tags)),
      payloads_(std::make_unique_for_overwrite<std::byte[]>(tags * round_up(payload_bytes_max, 8))),
      stock_(1) {
  AYT_CHECK(tags >= 1, "no tags");
  for (std::uint32_t i = 0; i < tags; ++i) {
    requests_[i].pools = this;
    // before threads exist
    requests_[i].next.store(i + 1 < tags ? &requests_[i + 1] : nullptr, std::memory_order_relaxed);
  }
}

// --- pools ---

Pool* TagPools::pool_of_this_thread() {
  if (last_pool.serial == serial_) return last_pool.pool;
  if (thread_ends) return nullptr;
  last_pool = {serial_, find_pool()};
  return last_pool.pool;
}

[[gnu::noinline]] Pool* TagPools::find_pool() {
  thread_local Seats mine;
  for (const Seat& seat : mine.seats)
    if (seat.pools.get() == this) return seat.pool;
  std::erase_if(mine.seats, [](const Seat& seat) {
    const bool closed = seat.pools->closed_.load(std::memory_order_relaxed);  // only frees memory earlier
    if (closed) Seats::leave(seat);
    return closed;
  });
  Pool* found = nullptr;
  for (Pool& pool : pools_) {
    // acquire: pairs with Seats::leave()
    if (pool.held.load(std::memory_order_relaxed) || pool.held.exchange(true, std::memory_order_acquire)) continue;
    found = &pool;
    break;
  }
  mine.seats.push_back({shared_from_this(), found});
  return found;
}

int TagPools::seat() {
  if (closed_.load(std::memory_order_relaxed)) return -1;  // as in take()
  const Pool* pool = pool_of_this_thread();
  return pool != nullptr ? static_cast<int>(pool - pools_.data()) : -1;
}

Request* TagPools::take() {
  if (closed_.load(std::memory_order_relaxed)) return nullptr;  // ordered by whatever let the caller come after close()
  Pool* pool = pool_of_this_thread();
  if (pool == nullptr) {
    Request* request = pop_stock();
    if (request != nullptr) request->home = nullptr;
    return request;
  }
  if (pool->idle == nullptr) refill(*pool);
  Request* request = pool->idle;
  if (request == nullptr) return nullptr;
  pool->idle = request->next.load(std::memory_order_relaxed);  // ours since refill()
  if (pool->idle != nullptr) __builtin_prefetch(pool->idle, 1);
  return request;
}

// What came home, else some of the stock.
void TagPools::refill(Pool& pool) noexcept {
  if (pool.returned.load(std::memory_order_relaxed) != nullptr) {            // spares an exchange while none came
    pool.idle = pool.returned.exchange(nullptr, std::memory_order_acquire);  // pairs with give_back()
    return;
  }
  const std::uint32_t adopted = std::min(kAdoptedAtOnce, share_ - pool.owned);  // A3
  for (std::uint32_t i = 0; i < std::max(adopted, 1u); ++i) {
    Request* request = pop_stock();
    if (request == nullptr) return;
    request->home = adopted != 0 ? &pool : nullptr;
    pool.owned += adopted != 0;
    request->next.store(pool.idle, std::memory_order_relaxed);
    pool.idle = request;
  }
}

void TagPools::give_back(Request& request) noexcept {
  Pool* home = request.home;
  if (home == nullptr) return push_stock(request);
  if (last_pool.serial == serial_ && last_pool.pool == home) {  // completed by the thread that issued it
    request.next.store(home->idle, std::memory_order_relaxed);
    home->idle = &request;
    return;
  }
  Request* top = home->returned.load(std::memory_order_relaxed);  // the CAS validates it
  do {
    request.next.store(top, std::memory_order_relaxed);  // released by the CAS
    // release: pairs with take()
  } while (!home->returned.compare_exchange_weak(top, &request, std::memory_order_release, std::memory_order_relaxed));
}

// --- the stock (A2) ---

Request* TagPools::pop_stock() noexcept {
  // acquire: pairs with every push_stock() before, for all changes of stock_ are read-modify-writes (a release sequence)
  std::uint64_t top = stock_.load(std::memory_order_acquire);
  while (true) {
    const auto low = static_cast<std::uint32_t>(top);
    if (low == 0) return nullptr;
    Request& request = requests_[low - 1];
    const Request* next = request.next.load(std::memory_order_relaxed);  // stale: the CAS fails
    const std::uint64_t then = ((top >> 32) + 1) << 32 | (next != nullptr ? number(*next) + 1 : 0);
    if (stock_.compare_exchange_weak(top, then, std::memory_order_acquire)) return &request;  // as above
  }
}

void TagPools::push_stock(Request& request) noexcept {
  std::uint64_t top = stock_.load(std::memory_order_relaxed);  // the CAS validates it
  while (true) {
    const auto low = static_cast<std::uint32_t>(top);
    request.next.store(low != 0 ? &requests_[low - 1] : nullptr, std::memory_order_relaxed);  // released by the CAS
    const std::uint64_t then = ((top >> 32) + 1) << 32 | (number(request) + 1);
    // release: pairs with pop_stock()
    if (stock_.compare_exchange_weak(top, then, std::memory_order_release, std::memory_order_relaxed)) return;
  }
}

// --- payloads and the end ---

const void* TagPools::keep(Request& request, const void* payload, std::size_t bytes) noexcept {
  if (bytes == 0 || bytes > payload_bytes_max_) return payload;
  std::byte* room = bytes <= Request::kSmallBytes ? request.small
                                                  : payloads_.get() + number(request) * round_up(payload_bytes_max_, 8);
  std::memcpy(room, payload, bytes);
  return room;
}

bool TagPools::collect_all() noexcept {
  close();
  while (pop_stock() != nullptr) ++collected_;
  for (Pool& pool : pools_) {
    // relaxed: no other thread takes, and what others gave back comes by the acquire, which pairs with give_back()
    for (; pool.idle != nullptr; ++collected_) pool.idle = pool.idle->next.load(std::memory_order_relaxed);
    for (Request* request = pool.returned.exchange(nullptr, std::memory_order_acquire); request != nullptr;
         ++collected_)
      request = request->next.load(std::memory_order_relaxed);
  }
  return collected_ == tags_;
}

}  // namespace ayatori::net::offload
