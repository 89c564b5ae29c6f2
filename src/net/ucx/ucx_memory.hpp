// SPDX-License-Identifier: Apache-2.0
// memory.hpp by UCX: the part of a wire that maps memory and starts operations. Included by wire.cpp and ucx_memory.cpp only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "net/ucx/library.hpp"
#include "net/ucx/memory.hpp"

namespace ayatori::net::ucx {

class UcxMemory {
 public:
  explicit UcxMemory(const Library& ucx) noexcept : ucx_(ucx) {}
  ~UcxMemory();  // unmaps all; before the context's end
  UcxMemory(const UcxMemory&) = delete;
  UcxMemory& operator=(const UcxMemory&) = delete;

  // M1. Takes some milliseconds, kAloneNs more where the target has to help; the context stays the caller's. False: UCX
  // reaches nothing.
  bool try_reach(ucp_context_h context);
  const Reaches& reaches() const noexcept { return reaches_; }
  bool context_hangs() const noexcept { return context_hangs_; }  // an operation of the trial never ended: let it be

  // Any thread. nullptr: there is none.
  std::byte* allocate(std::size_t bytes);
  // Any thread. The length of the region's key; 0: UCX does not reach it.
  std::size_t expose(RegionId region, void* base, std::size_t bytes, std::span<std::byte> key, Reach* reach);
  void conceal(RegionId region);

  // The thread that polls. learn(): nullptr, or a key to be dropped; kKeyRoomBytes of it (M4).
  void* learn(ucp_ep_h ep, const std::byte* key) const;
  void drop(void* key) const { ucx_.rkey_destroy(static_cast<ucp_rkey_h>(key)); }
  // All of the list; they end by take_ended(), perhaps at once. ep nullptr: they fail.
  void start(ucp_ep_h ep, MemoryOp* first);
  bool has_ended() const noexcept { return ended_ != nullptr; }
  MemoryOp* take_ended() noexcept { return std::exchange(ended_, nullptr); }

 private:
  struct Allocation {
    std::byte* base = nullptr;
    std::size_t bytes = 0;
    ucp_mem_h handle = nullptr;
  };
  struct Trial;

  bool map(void* base, std::size_t bytes, Allocation* mapped) const;  // base nullptr: allocates
  Reach try_mapping(Trial& trial, Allocation& mapped) const;
  void start_atomic(ucp_ep_h ep, MemoryOp& op);
  void settle(MemoryOp& op, ucs_status_ptr_t request);
  void report(MemoryOp& op, ucs_status_t status) noexcept;
  static ucp_request_param_t params_of(MemoryOp& op, ucp_send_nbx_callback_t callback);
  static void on_end(void* request, ucs_status_t status, void* op);
  static void on_flush(void* request, ucs_status_t status, void* first);

  const Library& ucx_;
  ucp_context_h context_ = nullptr;
  Reaches reaches_;
  bool context_hangs_ = false;
  std::mutex mutex_;
  std::vector<Allocation> allocations_;   // Guarded by mutex_.
  std::map<RegionId, ucp_mem_h> mapped_;  // Guarded by mutex_.
  MemoryOp* ended_ = nullptr;
};

}  // namespace ayatori::net::ucx
