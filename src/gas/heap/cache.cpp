// SPDX-License-Identifier: Apache-2.0
#include "gas/heap/cache.hpp"

#include <pthread.h>
#include <sys/mman.h>

#include <atomic>
#include <cerrno>

#include "base/check.hpp"
#include "gas/heap/arena.hpp"

namespace ayatori::gas::heap {

namespace detail {
constinit thread_local ThreadCache* cache_of_thread = nullptr;
}

namespace {

struct CacheState {
  pthread_key_t key = 0;  // written before there is a second thread, as `prepared`
  bool prepared = false;
  std::atomic<std::uint32_t> made{0};  // relaxed: a counter
};
constinit CacheState cache_state;

constexpr std::size_t kCachedObjects = [] {
  std::size_t sum = 0;
  for (const SizeClass& row : kSizeClasses) sum += row.cached;
  return sum;
}();
constexpr std::size_t kCacheBytes = sizeof(ThreadCache) + kCachedObjects * sizeof(void*);

void end_cache(void* argument) {
  auto* const cache = static_cast<ThreadCache*>(argument);
  detail::cache_of_thread = nullptr;
  for (std::uint32_t c = 0; c < kClasses; ++c) return_objects(c, cache->bins[c].objects, cache->bins[c].count);
  munmap(cache, kCacheBytes);
}

}  // namespace

void prepare_caches() {
  detail::cache_of_thread = nullptr;  // of the image before the fork: what it holds is another process's
  if (cache_state.prepared) return;
  AYT_CHECK(pthread_key_create(&cache_state.key, end_cache) == 0, "no pthread key is left");
  cache_state.prepared = true;
}

ThreadCache* current_cache() noexcept {
  if (detail::cache_of_thread != nullptr) return detail::cache_of_thread;
  const int saved = errno;
  void* const room = mmap(nullptr, kCacheBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  AYT_CHECK(room != MAP_FAILED, "out of memory: {} bytes for a thread of the heap", kCacheBytes);
  auto* const cache = static_cast<ThreadCache*>(room);
  auto** objects = reinterpret_cast<void**>(cache + 1);
  for (std::uint32_t c = 0; c < kClasses; ++c) {
    cache->bins[c] = {0, kSizeClasses[c].cached, objects};
    objects += kSizeClasses[c].cached;
  }
  cache->shard = cache_state.made.fetch_add(1, std::memory_order_relaxed) % kShards;
  pthread_setspecific(cache_state.key, cache);  // fails: the objects stay with a dead thread, no more
  detail::cache_of_thread = cache;
  errno = saved;
  return cache;
}

}  // namespace ayatori::gas::heap
