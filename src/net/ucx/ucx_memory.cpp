// SPDX-License-Identifier: Apache-2.0
#include "net/ucx/ucx_memory.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>

#include "base/clock.hpp"
#include "net/atomics.hpp"

namespace ayatori::net::ucx {
namespace {

constexpr std::int64_t kMeetNs = 1'000'000'000;  // two workers of one process, and what is over when the target polls
constexpr std::int64_t kAloneNs = 20'000'000;    // an operation of a trial: adapters take some microseconds
constexpr std::size_t kTrialBytes = 4096;
constexpr std::size_t kTrialCopy = 1024;  // of it
constexpr std::size_t kPageBytes = 4096;

constexpr std::array kAtomics{AtomicOp::kFetchAdd, AtomicOp::kCompareSwap, AtomicOp::kSwap, AtomicOp::kFetchOr,
                              AtomicOp::kFetchAnd};

ucp_atomic_op_t name_of(AtomicOp op) noexcept {
  switch (op) {
    case AtomicOp::kFetchAdd: return UCP_ATOMIC_OP_ADD;
    case AtomicOp::kCompareSwap: return UCP_ATOMIC_OP_CSWAP;
    case AtomicOp::kSwap: return UCP_ATOMIC_OP_SWAP;
    case AtomicOp::kFetchOr: return UCP_ATOMIC_OP_OR;
    case AtomicOp::kFetchAnd: return UCP_ATOMIC_OP_AND;
  }
  return UCP_ATOMIC_OP_LAST;
}

std::uint64_t cut(std::uint64_t value, std::uint8_t width) noexcept {
  return width == 4 ? static_cast<std::uint32_t>(value) : value;
}

}  // namespace

// --- the trial (M1) ---

// UCX holds its operations until they are over: one that never is stays here for good.
struct UcxMemory::Trial {
  const Library& ucx;
  ucp_worker_h origin = nullptr;
  ucp_worker_h target = nullptr;
  ucp_ep_h ep = nullptr;
  bool helped = false;  // by the target, for something was not over without
  bool hangs = false;
  UcxMemory memory;  // through which it operates; maps nothing
  std::array<std::byte, kTrialCopy> local{};
  MemoryOp op{};

  explicit Trial(const Library& library) noexcept : ucx(library), memory(library) {}
  Trial(const Trial&) = delete;
  Trial& operator=(const Trial&) = delete;
  ~Trial() {
    if (origin != nullptr) ucx.worker_destroy(origin);  // with its endpoint
    if (target != nullptr) ucx.worker_destroy(target);
  }

  bool open(ucp_context_h context) {
    ucp_worker_params_t worker{};
    worker.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE | UCP_WORKER_PARAM_FIELD_FLAGS;
    worker.thread_mode = UCS_THREAD_MODE_SERIALIZED;
    worker.flags = UCP_WORKER_FLAG_IGNORE_REQUEST_LEAK;
    ucp_worker_attr_t attributes{};
    attributes.field_mask = UCP_WORKER_ATTR_FIELD_ADDRESS;
    if (ucx.worker_create(context, &worker, &origin) != UCS_OK) return origin = nullptr, false;
    if (ucx.worker_create(context, &worker, &target) != UCS_OK) return target = nullptr, false;
    if (ucx.worker_query(target, &attributes) != UCS_OK) return false;
    ucp_ep_params_t params{};
    params.field_mask =
        UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
    params.address = attributes.address;
    params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
    params.err_handler = {[](void*, ucp_ep_h, ucs_status_t) {}, nullptr};
    const bool made = ucx.ep_create(origin, &params, &ep) == UCS_OK;
    ucx.worker_release_address(target, attributes.address);
    return made;
  }

  // Whether it is over in time; `helps`: the target makes progress.
  bool await(bool helps, std::int64_t limit_ns) {
    const std::int64_t end_ns = base::real_now_ns() + limit_ns;
    for (bool late = false; memory.take_ended() == nullptr; late = base::real_now_ns() > end_ns) {
      if (late) return false;
      ucx.worker_progress(origin);
      if (helps) ucx.worker_progress(target);
    }
    return true;
  }
};

bool UcxMemory::try_reach(ucp_context_h context) {
  ucp_context_attr_t attributes{};
  attributes.field_mask = UCP_ATTR_FIELD_THREAD_MODE;
  if (ucx_.context_query(context, &attributes) != UCS_OK || attributes.thread_mode != UCS_THREAD_MODE_MULTI)
    return false;  // memory is exposed by any thread
  context_ = context;
  auto trial = std::make_unique<Trial>(ucx_);
  if (!trial->open(context)) return false;
  void* const own = ::mmap(nullptr, kTrialBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  Allocation mapped;
  if (own != MAP_FAILED && map(own, kTrialBytes, &mapped)) reaches_.registered = try_mapping(*trial, mapped);
  if (!trial->hangs && map(nullptr, kTrialBytes, &mapped)) reaches_.allocated = try_mapping(*trial, mapped);
  if (trial->hangs) {
    static_cast<void>(trial.release());  // and the memory
    context_hangs_ = true;
  } else if (own != MAP_FAILED) {
    ::munmap(own, kTrialBytes);
  }
  return reaches_.registered.moves || reaches_.allocated.moves;
}

// And unmaps it.
Reach UcxMemory::try_mapping(Trial& trial, Allocation& mapped) const {
  Reach reach;
  trial.helped = false;
  std::vector<std::byte> key(kKeyRoomBytes);
  void* packed = nullptr;
  std::size_t bytes = 0;
  if (ucx_.rkey_pack(context_, mapped.handle, &packed, &bytes) == UCS_OK) {
    if (bytes <= kKeyBytesMax) std::memcpy(key.data(), packed, bytes);
    ucx_.rkey_buffer_release(packed);
  }
  void* const learnt = bytes != 0 && bytes <= kKeyBytesMax ? trial.memory.learn(trial.ep, key.data()) : nullptr;
  if (learnt != nullptr) {
    auto* const there = reinterpret_cast<std::uint64_t*>(mapped.base);
    MemoryOp& op = trial.op;
    // What did not end without the target has to end with it: UCX holds the memory.
    const auto run = [&](bool helps) {
      trial.memory.start(trial.ep, &op);
      if (trial.await(helps, helps ? kMeetNs : kAloneNs)) return !op.failed;
      trial.helped = true;
      trial.hangs = !trial.await(true, kMeetNs);
      return false;
    };
    const auto move = [&](MemoryOp::Kind kind, bool helps) {
      op = {};
      op.kind = kind;
      op.local = trial.local.data();
      op.bytes = trial.local.size();
      op.remote = reinterpret_cast<std::uint64_t>(mapped.base);
      op.key = learnt;
      return run(helps);
    };
    const auto change = [&](AtomicOp kind, std::uint8_t width) {
      constexpr std::uint64_t kBefore = 0x1234567890abcdef, kOperand = 0x0ff00ff00ff00ff1;
      AtomicParams params;
      params.op = kind;
      params.operand = kOperand;
      params.expected = cut(kBefore, width);
      params.width_bytes = width;
      std::uint64_t expected = kBefore;
      const std::uint64_t before = apply_atomic(reinterpret_cast<std::byte*>(&expected), params);
      *there = kBefore;
      op = {};
      op.kind = MemoryOp::Kind::kAtomic;
      op.atomic = kind;
      op.width_bytes = width;
      op.remote = reinterpret_cast<std::uint64_t>(mapped.base);
      op.key = learnt;
      op.operand = params.operand;
      op.value = params.expected;
      return run(false) && op.value == before && *there == expected;
    };
    trial.local.fill(std::byte{0x5a});
    reach.moves = move(MemoryOp::Kind::kWrite, true);  // the two meet
    trial.local.fill(std::byte{0xa5});
    reach.moves = reach.moves && move(MemoryOp::Kind::kWrite, false) &&
                  std::memcmp(mapped.base, trial.local.data(), trial.local.size()) == 0;
    std::memset(mapped.base, 0x3c, kTrialCopy);
    reach.moves = reach.moves && move(MemoryOp::Kind::kRead, false) &&
                  std::memcmp(mapped.base, trial.local.data(), trial.local.size()) == 0;
    for (const AtomicOp each : kAtomics)
      if (reach.moves && !trial.helped && change(each, 8) && !trial.helped && change(each, 4))
        reach.atomics |= mask_of(each);
    if (trial.hangs) return {};
    trial.memory.drop(learnt);
  }
  ucx_.mem_unmap(context_, mapped.handle);
  return reach;
}

// --- this process' memory ---

UcxMemory::~UcxMemory() {
  if (context_ == nullptr) return;
  for (const auto& [region, handle] : mapped_) ucx_.mem_unmap(context_, handle);
  for (const Allocation& each : allocations_) ucx_.mem_unmap(context_, each.handle);
}

bool UcxMemory::map(void* base, std::size_t bytes, Allocation* mapped) const {
  ucp_mem_map_params_t params{};
  params.field_mask = UCP_MEM_MAP_PARAM_FIELD_LENGTH | UCP_MEM_MAP_PARAM_FIELD_FLAGS;
  params.length = bytes;
  if (base == nullptr) {
    params.flags = UCP_MEM_MAP_ALLOCATE;
  } else {
    params.field_mask |= UCP_MEM_MAP_PARAM_FIELD_ADDRESS;
    params.address = base;
  }
  ucp_mem_h handle = nullptr;
  if (ucx_.mem_map(context_, &params, &handle) != UCS_OK) return false;
  ucp_mem_attr_t attributes{};
  attributes.field_mask = UCP_MEM_ATTR_FIELD_ADDRESS | UCP_MEM_ATTR_FIELD_LENGTH;
  if (ucx_.mem_query(handle, &attributes) != UCS_OK) {
    ucx_.mem_unmap(context_, handle);
    return false;
  }
  *mapped = {static_cast<std::byte*>(attributes.address), attributes.length, handle};
  return true;
}

std::byte* UcxMemory::allocate(std::size_t bytes) {
  Allocation made;
  if (context_ == nullptr || bytes == 0 || !map(nullptr, (bytes + kPageBytes - 1) / kPageBytes * kPageBytes, &made))
    return nullptr;
  std::memset(made.base, 0, made.bytes);
  std::lock_guard lock(mutex_);
  allocations_.push_back(made);
  return made.base;
}

std::size_t UcxMemory::expose(RegionId region, void* base, std::size_t bytes, std::span<std::byte> key, Reach* reach) {
  if (context_ == nullptr || bytes == 0) return 0;
  auto* const first = static_cast<std::byte*>(base);
  std::lock_guard lock(mutex_);
  const auto own = std::find_if(allocations_.begin(), allocations_.end(), [first, bytes](const Allocation& each) {
    return first >= each.base && bytes <= each.bytes &&
           first - each.base <= static_cast<std::ptrdiff_t>(each.bytes - bytes);
  });
  *reach = own != allocations_.end() ? reaches_.allocated : reaches_.registered;
  if (!reach->moves) return 0;
  Allocation mapped;
  if (own != allocations_.end())
    mapped = *own;
  else if (!map(base, bytes, &mapped))
    return 0;
  void* packed = nullptr;
  std::size_t length = 0;
  if (ucx_.rkey_pack(context_, mapped.handle, &packed, &length) == UCS_OK) {
    if (length > key.size()) length = 0;
    if (length != 0) std::memcpy(key.data(), packed, length);
    ucx_.rkey_buffer_release(packed);
  }
  if (own == allocations_.end()) {
    if (length != 0)
      mapped_[region] = mapped.handle;
    else
      ucx_.mem_unmap(context_, mapped.handle);
  }
  return length;
}

void UcxMemory::conceal(RegionId region) {
  std::lock_guard lock(mutex_);
  const auto found = mapped_.find(region);
  if (found == mapped_.end()) return;
  ucx_.mem_unmap(context_, found->second);
  mapped_.erase(found);
}

// --- peers' memory ---

void* UcxMemory::learn(ucp_ep_h ep, const std::byte* key) const {
  ucp_rkey_h learnt = nullptr;
  return ucx_.ep_rkey_unpack(ep, key, &learnt) == UCS_OK ? learnt : nullptr;
}

void UcxMemory::start(ucp_ep_h ep, MemoryOp* first) {
  MemoryOp* to_flush = nullptr;
  for (MemoryOp* next = first; next != nullptr;) {
    MemoryOp& op = *next;
    next = op.next;
    op.failed = false;
    op.owner = this;
    op.waits = 1;
    if (ep == nullptr) {
      report(op, UCS_ERR_NOT_CONNECTED);
      continue;
    }
    auto* const key = static_cast<ucp_rkey_h>(op.key);
    const ucp_request_param_t params = params_of(op, on_end);
    switch (op.kind) {
      case MemoryOp::Kind::kRead: settle(op, ucx_.get_nbx(ep, op.local, op.bytes, op.remote, key, &params)); break;
      case MemoryOp::Kind::kWrite:  // is over there when what is behind it in the endpoint is flushed
        op.waits = 2;
        op.next_flushed = std::exchange(to_flush, &op);
        settle(op, ucx_.put_nbx(ep, op.local, op.bytes, op.remote, key, &params));
        break;
      case MemoryOp::Kind::kAtomic: start_atomic(ep, op); break;
    }
  }
  if (to_flush == nullptr) return;
  const ucp_request_param_t params = params_of(*to_flush, on_flush);
  const ucs_status_ptr_t request = ucx_.ep_flush_nbx(ep, &params);
  if (UCS_PTR_IS_PTR(request)) return;
  for (MemoryOp* next = to_flush; next != nullptr;) {
    MemoryOp& op = *next;
    next = op.next_flushed;
    report(op, UCS_PTR_STATUS(request));
  }
}

void UcxMemory::start_atomic(ucp_ep_h ep, MemoryOp& op) {
  ucp_request_param_t params = params_of(op, on_end);
  params.op_attr_mask |= UCP_OP_ATTR_FIELD_DATATYPE | UCP_OP_ATTR_FIELD_REPLY_BUFFER;
  params.datatype = ucp_dt_make_contig(op.width_bytes);
  params.reply_buffer = &op.value;
  const bool compares = op.atomic == AtomicOp::kCompareSwap;
  if (compares)
    std::swap(op.operand, op.value);  // UCX: what is expected, and the new value where the old will be
  else
    op.value = 0;
  op.operand = cut(op.operand, op.width_bytes);
  op.value = cut(op.value, op.width_bytes);
  settle(op, ucx_.atomic_op_nbx(ep, name_of(op.atomic), &op.operand, 1, op.remote, static_cast<ucp_rkey_h>(op.key),
                                &params));
}

ucp_request_param_t UcxMemory::params_of(MemoryOp& op, ucp_send_nbx_callback_t callback) {
  ucp_request_param_t params{};
  params.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  params.cb.send = callback;
  params.user_data = &op;
  return params;
}

// What UCX said at once; a request calls on_end().
void UcxMemory::settle(MemoryOp& op, ucs_status_ptr_t request) {
  if (!UCS_PTR_IS_PTR(request)) report(op, UCS_PTR_STATUS(request));
}

void UcxMemory::report(MemoryOp& op, ucs_status_t status) noexcept {
  if (status != UCS_OK) op.failed = true;
  if (--op.waits == 0) op.next = std::exchange(ended_, &op);
}

void UcxMemory::on_end(void* request, ucs_status_t status, void* op) {
  auto& mine = *static_cast<MemoryOp*>(op);
  auto& self = *static_cast<UcxMemory*>(mine.owner);
  self.report(mine, status);
  self.ucx_.request_free(request);
}

void UcxMemory::on_flush(void* request, ucs_status_t status, void* first) {
  auto& self = *static_cast<UcxMemory*>(static_cast<MemoryOp*>(first)->owner);
  for (auto* next = static_cast<MemoryOp*>(first); next != nullptr;) {
    MemoryOp& op = *next;
    next = op.next_flushed;
    self.report(op, status);
  }
  self.ucx_.request_free(request);
}

}  // namespace ayatori::net::ucx
