// SPDX-License-Identifier: Apache-2.0
#include "net/ucx/wire.hpp"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.hpp"
#include "net/served/send_queue.hpp"
#include "net/ucx/library.hpp"
#include "net/ucx/ucx_memory.hpp"

namespace ayatori::net::ucx {
namespace {

constexpr unsigned kBatchId = 1;  // of the only active message
// Of one message of UCX's TCP: holds the usual batch, so that it needs no putting together.
constexpr const char* kTcpSegment = "272K";
// Within the machine. Where the kernel's default is BBR it paces by timers as soon as it may send without end, and 64 KiB take
// 36 us, not 9; UCX lets nobody choose another (tcp/socket.cpp does). With little unsent, a stream that does not wait for its
// receiver lacks data in the kernel's eyes, not room, and BBR draws no conclusions.
constexpr const char* kLoopbackWindow = "1M";
constexpr const char* kLoopbackUnsent = "224K";  // twice that in the kernel: holds a batch, nearly two
constexpr std::size_t kDirectBytesMin = 4096;    // of a part that is worth sending from where it lies
// Of the head of a message: UCX 1.13 keeps its length in 16 bits, whatever it says itself.
constexpr std::size_t kHeadBytesMax = 65535;
constexpr std::size_t kPaddingEnd = 8;

std::string system_setting(const char* path) {
  char text[32] = "";
  if (std::FILE* const file = std::fopen(path, "re"); file != nullptr) {
    if (std::fscanf(file, "%31s", text) != 1) text[0] = '\0';
    std::fclose(file);
  }
  return text;
}

// And a window of that size may be had.
bool paces() {
  return system_setting("/proc/sys/net/ipv4/tcp_congestion_control") == "bbr" &&
         std::strtoull(system_setting("/proc/sys/net/core/rmem_max").c_str(), nullptr, 10) >= 1 << 20;
}

// One connection. Its addresses are UCX's user data: it stays where it is.
struct End {
  ProcessId process = 0;
  std::uint64_t* sent = nullptr;
  std::uint64_t* broken = nullptr;
  const Library* ucx = nullptr;
  const char* trouble = nullptr;
  ucp_ep_h ep = nullptr;
  bool is_broken = false;
  bool under_way = false;
  bool has_sent = false;     // a batch
  served::ByteBuffer batch;  // in use while under_way

  std::uint64_t bit() const noexcept { return std::uint64_t{1} << process; }
  void breaks(ucs_status_t status) noexcept {
    if (std::exchange(is_broken, true)) return;
    trouble = ucx->status_string(status);
    *broken |= bit();
  }
};

class UcxWire final : public Wire {
 public:
  explicit UcxWire(const Library& ucx, int processes)
      : ucx_(ucx), ends_(static_cast<std::size_t>(processes)), memory_(std::make_unique<UcxMemory>(ucx)) {
    for (std::size_t p = 0; p < ends_.size(); ++p) {
      ends_[p].process = static_cast<ProcessId>(p);
      ends_[p].sent = &sent_;
      ends_[p].broken = &broken_;
      ends_[p].ucx = &ucx_;
    }
  }
  UcxWire(const UcxWire&) = delete;
  UcxWire& operator=(const UcxWire&) = delete;

  ~UcxWire() override {
    if (worker_ != nullptr) {  // takes its endpoints with it
      if (address_ != nullptr) ucx_.worker_release_address(worker_, address_);
      ucx_.worker_destroy(worker_);
    }
    close_context();
  }

  base::Status create(const WireConfig& config) {
    if (config.tries_memory && open_context(config, true).ok() && !memory_->try_reach(context_)) close_context();
    if (context_ == nullptr) {  // for whoever reaches UCX may use its software for memory
      base::Status opened = open_context(config, false);
      if (!opened.ok()) return opened;
    }
    ucs_status_t status = UCS_OK;
    ucp_worker_params_t worker{};
    worker.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE | UCP_WORKER_PARAM_FIELD_FLAGS;
    worker.thread_mode = UCS_THREAD_MODE_SERIALIZED;  // L1
    worker.flags = UCP_WORKER_FLAG_IGNORE_REQUEST_LEAK;
    status = ucx_.worker_create(context_, &worker, &worker_);
    if (status != UCS_OK) return failed(config, status);
    ucp_worker_attr_t attributes{};
    attributes.field_mask = UCP_WORKER_ATTR_FIELD_ADDRESS | UCP_WORKER_ATTR_FIELD_MAX_AM_HEADER;
    status = ucx_.worker_query(worker_, &attributes);
    if (status != UCS_OK) return failed(config, status);
    address_ = attributes.address;
    address_bytes_ = attributes.address_length;
    head_bytes_max_ = std::min(attributes.max_am_header, kHeadBytesMax);
    status = ucx_.worker_get_efd(worker_, &descriptor_);
    if (status != UCS_OK) return failed("sleep", status);

    ucp_am_handler_param_t handler{};
    handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG;
    handler.id = kBatchId;
    handler.cb = on_message;
    handler.arg = this;
    status = ucx_.worker_set_am_recv_handler(worker_, &handler);
    return status == UCS_OK ? base::ok_status() : failed("active messages", status);
  }

  base::Status open_context(const WireConfig& config, bool with_memory) {
    ucp_config_t* settings = nullptr;
    ucs_status_t status = ucx_.config_read(nullptr, nullptr, &settings);
    if (status != UCS_OK) return failed("its configuration", status);
    status = configure(settings, config, with_memory);
    if (status != UCS_OK) {
      ucx_.config_release(settings);
      return failed("its configuration", status);
    }
    ucp_params_t params{};
    params.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_ESTIMATED_NUM_EPS;
    params.features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
    params.estimated_num_eps = ends_.size();
    if (with_memory) {
      params.field_mask |= UCP_PARAM_FIELD_MT_WORKERS_SHARED;
      params.features |= UCP_FEATURE_RMA | UCP_FEATURE_AMO32 | UCP_FEATURE_AMO64;
      params.mt_workers_shared = 1;  // memory is exposed by any thread
    }
    status = ucx_.init_version(UCP_API_MAJOR, UCP_API_MINOR, &params, settings, &context_);
    ucx_.config_release(settings);
    if (status == UCS_OK) return base::ok_status();
    context_ = nullptr;
    return failed(config, status);
  }

  void close_context() {
    const bool hangs = memory_->context_hangs();
    memory_ = std::make_unique<UcxMemory>(ucx_);
    if (context_ != nullptr && !hangs) ucx_.cleanup(context_);
    context_ = nullptr;
  }

  std::span<const std::byte> address() const noexcept override {
    return {reinterpret_cast<const std::byte*>(address_), address_bytes_};
  }
  int descriptor() const noexcept override { return descriptor_; }

  const char* connect(ProcessId peer, std::span<const std::byte> address) override {
    End& end = end_of(peer);
    ucp_ep_params_t params{};
    params.field_mask =
        UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
    params.address = reinterpret_cast<const ucp_address_t*>(address.data());
    params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
    params.err_handler = {on_error, &end};
    const ucs_status_t status = ucx_.ep_create(worker_, &params, &end.ep);
    if (status == UCS_OK) return nullptr;
    end.ep = nullptr;
    return end.trouble = ucx_.status_string(status);
  }
  bool connected(ProcessId peer) const noexcept override { return ends_[static_cast<std::size_t>(peer)].ep != nullptr; }

  Sent greet(ProcessId to, std::span<const std::byte> greeting) override {
    End& end = end_of(to);
    if (end.is_broken) return Sent::kFailed;
    AYT_CHECK(end.ep != nullptr && !end.has_sent, "a greeting to process {} behind a batch", to);
    ucp_request_param_t params{};
    // Without the second flag UCX would keep what does not go at once, and ask the peer's for its endpoint: L7
    params.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL;
    params.flags = UCP_AM_SEND_FLAG_EAGER;
    const ucs_status_ptr_t sent =
        ucx_.am_send_nbx(end.ep, kBatchId, nullptr, 0, greeting.data(), greeting.size(), &params);
    if (sent == nullptr) return Sent::kDone;
    AYT_CHECK(UCS_PTR_IS_ERR(sent), "UCX has kept a greeting to process {}", to);
    if (UCS_PTR_STATUS(sent) == UCS_ERR_NO_RESOURCE) return Sent::kNoRoom;
    end.trouble = ucx_.status_string(UCS_PTR_STATUS(sent));
    return Sent::kFailed;
  }

  Sent send(ProcessId to, std::span<const iovec> parts) override {
    End& end = end_of(to);
    if (end.is_broken) return Sent::kFailed;
    AYT_CHECK(end.ep != nullptr && !end.under_way, "a batch to process {}, to which one is under way", to);
    end.batch.clear();
    const bool padded = parts.back().iov_len < kPaddingEnd;
    const std::size_t last = parts.size() - (padded ? 2 : 1);
    for (const iovec& part : parts.first(last)) put(end, part);
    if (end.has_sent && last != 0 && parts[last].iov_len >= kDirectBytesMin && end.batch.size() <= head_bytes_max_) {
      const Sent sent = send_at_once(end, parts[last]);
      if (sent != Sent::kNoRoom) return sent;
    }
    for (const iovec& part : parts.subspan(last)) put(end, part);  // L4
    ucp_request_param_t params{};
    params.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS;
    params.flags = UCP_AM_SEND_FLAG_EAGER;  // L5
    // UCX asks for the peer's endpoint only for what may complete later. The first batch is to make it ask (L7).
    if (!std::exchange(end.has_sent, true)) params.op_attr_mask |= UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
    params.cb.send = on_send_end;
    params.user_data = &end;
    end.under_way = true;
    const ucs_status_ptr_t request =
        ucx_.am_send_nbx(end.ep, kBatchId, nullptr, 0, end.batch.data(), end.batch.size(), &params);
    if (UCS_PTR_IS_PTR(request) && end.under_way) return Sent::kUnderWay;
    end.under_way = false;
    sent_ &= ~end.bit();  // on_send_end() may have run already
    if (!UCS_PTR_IS_ERR(request)) return Sent::kDone;
    end.trouble = ucx_.status_string(UCS_PTR_STATUS(request));
    return Sent::kFailed;
  }

  std::size_t progress(Arrivals& arrivals) override {
    arrivals_ = &arrivals;
    const std::size_t did = ucx_.worker_progress(worker_);
    arrivals_ = nullptr;
    for (std::uint64_t broken = broken_; broken != 0; broken &= broken - 1) close(end_of(std::countr_zero(broken)));
    return did;
  }
  bool arm() override { return ucx_.worker_arm(worker_) != UCS_ERR_BUSY; }
  std::uint64_t take_sent() noexcept override { return std::exchange(sent_, 0); }
  std::uint64_t take_broken() noexcept override { return std::exchange(broken_, 0); }
  const char* trouble(ProcessId peer) const noexcept override { return ends_[static_cast<std::size_t>(peer)].trouble; }

  const Reaches& reaches() const noexcept override { return memory_->reaches(); }
  std::byte* allocate(std::size_t bytes) override { return memory_->allocate(bytes); }
  std::size_t expose(RegionId region, void* base, std::size_t bytes, std::span<std::byte> key, Reach* reach) override {
    return memory_->expose(region, base, bytes, key, reach);
  }
  void conceal(RegionId region) override { memory_->conceal(region); }
  void* learn(ProcessId of, const std::byte* key) override {
    const End& end = end_of(of);
    return end.ep == nullptr || end.is_broken ? nullptr : memory_->learn(end.ep, key);
  }
  void drop(void* key) override { memory_->drop(key); }
  void operate(ProcessId on, MemoryOp* first) override {
    const End& end = end_of(on);
    memory_->start(end.is_broken ? nullptr : end.ep, first);
  }
  bool has_ended() const noexcept override { return memory_->has_ended(); }
  MemoryOp* take_ended() noexcept override { return memory_->take_ended(); }
  void break_off(ProcessId peer) override { close(end_of(peer)); }

 private:
  End& end_of(ProcessId process) noexcept { return ends_[static_cast<std::size_t>(process)]; }

  static void put(End& end, const iovec& part) {
    std::memcpy(end.batch.extend(part.iov_len), part.iov_base, part.iov_len);
  }

  // What is in end.batch, and `rest` from where it lies: UCX sends it during the call, or nothing of it.
  Sent send_at_once(End& end, const iovec& rest) {
    ucp_request_param_t params{};
    params.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL;
    params.flags = UCP_AM_SEND_FLAG_EAGER;
    const ucs_status_ptr_t sent =
        ucx_.am_send_nbx(end.ep, kBatchId, end.batch.data(), end.batch.size(), rest.iov_base, rest.iov_len, &params);
    if (sent == nullptr) return Sent::kDone;
    AYT_CHECK(UCS_PTR_IS_ERR(sent), "UCX has kept a batch to process {}", end.process);
    if (UCS_PTR_STATUS(sent) == UCS_ERR_NO_RESOURCE) return Sent::kNoRoom;
    end.trouble = ucx_.status_string(UCS_PTR_STATUS(sent));
    return Sent::kFailed;
  }

  // Of one that UCX has reported broken: L5.
  void close(End& end) {
    if (end.ep == nullptr) return;
    ucp_request_param_t params{};
    params.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
    params.flags = UCP_EP_CLOSE_FLAG_FORCE;
    params.cb.send = [](void* request, ucs_status_t, void* ucx) {
      static_cast<const Library*>(ucx)->request_free(request);
    };
    params.user_data = const_cast<Library*>(&ucx_);
    ucx_.ep_close_nbx(std::exchange(end.ep, nullptr), &params);
  }

  ucs_status_t configure(ucp_config_t* settings, const WireConfig& config, bool with_memory) const {
    ucs_status_t status = ucx_.config_modify(settings, "NET_DEVICES", config.devices.c_str());
    if (status == UCS_OK && !config.transports.empty())
      status = ucx_.config_modify(settings, "TLS", config.transports.c_str());
    if (status == UCS_OK) status = ucx_.config_modify(settings, "ZCOPY_THRESH", "inf");  // L5
    if (status == UCS_OK && with_memory) {
      status = ucx_.config_modify(settings, "ATOMIC_MODE", "cpu");  // memory.hpp M2
      // By default adapters may let a flush overtake what is still on its way to memory.
      for (const char* name : {"PCI_RELAXED_ORDERING", "IB_PCI_RELAXED_ORDERING"})
        ucx_.config_modify(settings, name, "n");
      // 1.13's second protocols abort where an atomic is under way on an endpoint that is closed.
      if (std::string_view(ucx_.get_version_string()).starts_with("1.13"))
        ucx_.config_modify(settings, "PROTO_ENABLE", "n");
    }
    // What a version does not know it need not be told. Without the first, UCX uses no shared memory on connections whose
    // failure it is to report, and rightly so (L6): whoever wants it names it.
    if (!config.transports.empty() || with_memory)
      ucx_.config_modify(settings, "MM_ERROR_HANDLING", config.transports.empty() ? "n" : "y");
    // By either name: 1.13 knows a transport's settings here without its prefix alone, and takes others in silence.
    for (const char* name : {"TX_SEG_SIZE", "RX_SEG_SIZE", "TCP_TX_SEG_SIZE", "TCP_RX_SEG_SIZE"})
      ucx_.config_modify(settings, name, kTcpSegment);
    if (config.devices == "lo" && paces()) {
      if (std::getenv("UCX_TCP_RCVBUF") == nullptr)
        for (const char* name : {"RCVBUF", "TCP_RCVBUF"}) ucx_.config_modify(settings, name, kLoopbackWindow);
      if (std::getenv("UCX_TCP_SNDBUF") == nullptr)
        for (const char* name : {"SNDBUF", "TCP_SNDBUF"}) ucx_.config_modify(settings, name, kLoopbackUnsent);
    }
    return status;
  }

  base::Status failed(const char* what, ucs_status_t status) const {
    return base::error_status(base::Code::kUnavailable, "ucx: UCX {} cannot be used here: {}: {}",
                              ucx_.get_version_string(), what, ucx_.status_string(status));
  }
  base::Status failed(const WireConfig& config, ucs_status_t status) const {
    return base::error_status(base::Code::kUnavailable,
                              "ucx: UCX {} offers no way over devices '{}'{}{}: {} (UCX_NET_DEVICES, UCX_TLS)",
                              ucx_.get_version_string(), config.devices, config.transports.empty() ? "" : " with ",
                              config.transports, ucx_.status_string(status));
  }

  static ucs_status_t on_message(void* wire, const void* head, std::size_t head_bytes, void* data, std::size_t bytes,
                                 const ucp_am_recv_param_t* params) {
    auto& self = *static_cast<UcxWire*>(wire);
    // A rendezvous is refused by not taking it (L4); no process of a job begins one.
    if ((params->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) == 0 && self.arrivals_ != nullptr)
      self.arrivals_->on_batch(
          {{static_cast<const std::byte*>(head), head_bytes}, {static_cast<const std::byte*>(data), bytes}});
    return UCS_OK;
  }
  static void on_error(void* end, ucp_ep_h, ucs_status_t status) { static_cast<End*>(end)->breaks(status); }
  static void on_send_end(void* request, ucs_status_t status, void* user_data) {
    End& end = *static_cast<End*>(user_data);
    end.under_way = false;
    *end.sent |= end.bit();
    if (status != UCS_OK) end.breaks(status);
    end.ucx->request_free(request);
  }

  const Library& ucx_;
  std::vector<End> ends_;
  std::unique_ptr<UcxMemory> memory_;
  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  ucp_address_t* address_ = nullptr;
  std::size_t address_bytes_ = 0;
  std::size_t head_bytes_max_ = 0;
  int descriptor_ = -1;  // UCX's
  Arrivals* arrivals_ = nullptr;
  std::uint64_t sent_ = 0;
  std::uint64_t broken_ = 0;
};

}  // namespace

base::Status Wire::open(const WireConfig& config, std::unique_ptr<Wire>* wire) {
  const Library* library = nullptr;
  if (base::Status status = load_library(&library); !status) return status;
  auto made = std::make_unique<UcxWire>(*library, config.processes);
  sigset_t all, before;  // threads that UCX starts leave the program's signals alone
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  base::Status status = made->create(config);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (status.ok()) *wire = std::move(made);
  return status;
}

}  // namespace ayatori::net::ucx
