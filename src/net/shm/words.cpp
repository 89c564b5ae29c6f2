// SPDX-License-Identifier: Apache-2.0
// The short way of one word of 8 bytes (S1): what read_any() and write_any() do, with fewer looks. A nanosecond is five of its
// instructions: it is compiled without frame pointers (src/CMakeLists.txt), and what it needs of the thread, the region and
// the counters is prepared so that it takes one instruction each. A process' requests to itself are not counted and would have
// to be told apart: for them there is no short way.
#include "net/copy.hpp"
#include "net/shm/thread_state.hpp"
#include "net/shm/transport.hpp"

namespace ayatori::net::shm {

// Where the word lies; nullptr: something is not as it mostly is.
template <std::atomic<std::size_t> RegionEntry::* kBound>
inline std::byte* ShmTransport::word_at(ProcessId process, RegionId region, std::uint64_t offset) const noexcept {
  static_assert(kMaxProcesses == kRegionsMax);
  const auto row = static_cast<std::uint32_t>(process);
  if ((offset & 7) != 0 || (row | region) >= kRegionsMax) return nullptr;
  const RegionEntry& entry = word_regions_[row][region];
  if (offset >= (entry.*kBound).load(std::memory_order_acquire)) return nullptr;  // pairs with register_memory()
  std::byte* const memory = entry.base + offset;
  if (memory == nullptr) __builtin_unreachable();
  return memory;
}

// Counts and completes. The thread has its stripe alone, and runs no completion.
template <std::atomic<std::uint64_t> CounterStripe::* kCounter>
inline void ShmTransport::end_word(ThreadState& thread, const Callback& callback) {
  auto* const stripe = reinterpret_cast<std::byte*>(stripes_.data()) + thread.stripe_bytes;
  CounterStripe::add_alone(reinterpret_cast<CounterStripe*>(stripe)->*kCounter);
  if (callback.function == nullptr) return;
  thread.completions.begin_first();
  callback.function(callback.data, {});
  thread.completions.end_first();
}

bool ShmTransport::try_read_async(const ReadParams& params) {
  ThreadState* const thread = short_way_thread;
  if (params.size_bytes != 8 || thread->completions.running()) [[unlikely]]
    return read_any(params);
  const std::byte* const memory =
      word_at<&RegionEntry::readable_words>(params.source_process, params.source.region, params.source.offset);
  if (memory == nullptr) [[unlikely]]
    return read_any(params);
  read_word(params.destination.pointer, memory);
  end_word<&CounterStripe::words_read>(*thread, params.on_complete);
  return true;
}

bool ShmTransport::try_write_async(const WriteParams& params) {
  ThreadState* const thread = short_way_thread;
  if (params.size_bytes != 8 || thread->completions.running()) [[unlikely]]
    return write_any(params);
  std::byte* const memory = word_at<&RegionEntry::writable_words>(params.destination_process, params.destination.region,
                                                                  params.destination.offset);
  if (memory == nullptr) [[unlikely]]
    return write_any(params);
  write_word(memory, params.source.pointer);
  end_word<&CounterStripe::words_written>(*thread, params.on_complete);
  return true;
}

}  // namespace ayatori::net::shm
