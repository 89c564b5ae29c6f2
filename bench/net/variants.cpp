// SPDX-License-Identifier: Apache-2.0
#include "variants.hpp"

#include <sys/mman.h>
#include <sys/random.h>

#include <cerrno>
#include <utility>
#include <vector>

#include "net/offload/transport.hpp"
#include "net/shm/transport.hpp"
#include "net/tcp/transport.hpp"
#include "net/ucx/transport.hpp"

namespace bench {
namespace {

class ShmFabric final : public Fabric {
 public:
  static base::Status create(const FabricConfig& config, std::unique_ptr<Fabric>* fabric) {
    auto made = std::make_unique<ShmFabric>();
    net::shm::ShmConfig world;
    world.processes = config.processes;
    if (base::Status status = net::shm::ShmWorld::create(world, &made->world_); !status) return status;
    made->bytes_ = config.memory_bytes;
    made->memory_ = static_cast<std::byte*>(
        made->world_->map_shared(config.memory_bytes * static_cast<std::size_t>(config.processes)));
    if (made->memory_ == nullptr)
      return base::error_status(base::Code::kExhausted, "no {} MiB of shared memory for each of {} processes",
                                config.memory_bytes >> 20, config.processes);
    *fabric = std::move(made);
    return base::ok_status();
  }

  net::Transport& attach(net::ProcessId self) override {
    memory_ += static_cast<std::size_t>(self) * bytes_;
    transport_ = std::make_unique<net::shm::ShmTransport>(*world_, self);
    transport_->register_memory(memory_, bytes_, net::kAllRights);
    return *transport_;
  }
  std::byte* memory() const noexcept override { return memory_; }
  void detach() noexcept override { transport_.reset(); }

 private:
  std::unique_ptr<net::shm::ShmWorld> world_;
  std::byte* memory_ = nullptr;  // of all members; attach(): of this one
  std::size_t bytes_ = 0;
  std::unique_ptr<net::shm::ShmTransport> transport_;
};

// Over the loopback interface: tcp, and ucx by UCX's transports of that name.
class TcpFabric : public Fabric {
 public:
  ~TcpFabric() override {
    if (mapped_ != nullptr) munmap(mapped_, bytes_);
  }

  static base::Status create(const FabricConfig& config, std::unique_ptr<Fabric>* fabric) {
    return prepare(config, std::make_unique<TcpFabric>(), fabric);
  }

  net::Transport& attach(net::ProcessId self) override {
    config_.self = self;
    config_.listener = listeners_[static_cast<std::size_t>(self)].release();
    listeners_.clear();
    transport_ = make(std::move(config_));
    memory_ = memory_of(*transport_, mapped_, bytes_);
    transport_->register_memory(memory_, bytes_, net::kAllRights);
    return *transport_;
  }
  std::byte* memory() const noexcept override { return memory_; }
  void detach() noexcept override { transport_.reset(); }

 protected:
  static base::Status prepare(const FabricConfig& config, std::unique_ptr<TcpFabric> made,
                              std::unique_ptr<Fabric>* fabric) {
    made->config_.processes = config.processes;
    made->config_.addresses.resize(static_cast<std::size_t>(config.processes));
    made->listeners_.resize(static_cast<std::size_t>(config.processes));
    if (getrandom(made->config_.secret.data(), made->config_.secret.size(), 0) < 0)
      return base::system_status(errno, "the secret of the job");
    for (std::size_t p = 0; p < made->listeners_.size(); ++p) {
      base::Status status =
          net::tcp::listen_on(net::tcp::kLoopback, 0, &made->listeners_[p], &made->config_.addresses[p]);
      if (!status) return status;
    }
    // Private: each member has its own.
    void* const memory = mmap(nullptr, config.memory_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return base::system_status(errno, "memory");
    made->memory_ = made->mapped_ = static_cast<std::byte*>(memory);
    made->bytes_ = config.memory_bytes;
    *fabric = std::move(made);
    return base::ok_status();
  }

  virtual std::unique_ptr<net::Transport> make(net::tcp::TcpConfig config) {
    return std::make_unique<net::tcp::TcpTransport>(std::move(config));
  }
  // What a member registers, instead of what was mapped.
  virtual std::byte* memory_of(net::Transport&, std::byte* mapped, std::size_t) { return mapped; }

 private:
  net::tcp::TcpConfig config_;
  std::vector<net::tcp::Socket> listeners_;
  std::byte* mapped_ = nullptr;
  std::byte* memory_ = nullptr;
  std::size_t bytes_ = 0;
  std::unique_ptr<net::Transport> transport_;
};

enum class UcxWay { kTcp, kShm, kReach };

template <UcxWay kWay>
class UcxFabric final : public TcpFabric {
 public:
  static base::Status create(const FabricConfig& config, std::unique_ptr<Fabric>* fabric) {
    return prepare(config, std::make_unique<UcxFabric>(), fabric);
  }

 private:
  std::unique_ptr<net::Transport> make(net::tcp::TcpConfig config) override {
    net::ucx::UcxConfig mine;
    static_cast<net::tcp::TcpConfig&>(mine) = std::move(config);
    mine.transports = kWay == UcxWay::kTcp ? "tcp" : "posix";
    mine.machine = (std::uint64_t{1} << mine.processes) - 1;
    std::unique_ptr<net::ucx::UcxTransport> made;
    // In the member: UCX is not to be loaded before the fork.
    if (const base::Status status = net::ucx::UcxTransport::create(std::move(mine), &made); !status)
      base::exit_start_failure(status);
    return made;
  }
  std::byte* memory_of(net::Transport& net, std::byte* mapped, std::size_t bytes) override {
    if (kWay != UcxWay::kReach) return mapped;
    std::byte* const own = static_cast<net::ucx::UcxTransport&>(net).allocate(bytes);
    if (own == nullptr)
      base::exit_start_failure(
          base::error_status(base::Code::kUnavailable, "ucx: UCX reaches no memory by itself here (UCX's posix)"));
    return own;
  }
};

// Software offloading (thesis 4.4) over another fabric.
class OffloadFabric final : public Fabric {
 public:
  OffloadFabric(std::unique_ptr<Fabric> below, const net::offload::OffloadOptions& options)
      : below_(std::move(below)), options_(options) {}

  template <class Below, int executors>
  static base::Status create(const FabricConfig& config, std::unique_ptr<Fabric>* fabric) {
    std::unique_ptr<Fabric> below;
    if (base::Status status = Below::create(config, &below); !status) return status;
    net::offload::OffloadOptions options;
    options.mode = executors == 0 ? net::offload::OffloadMode::kWorker : net::offload::OffloadMode::kOffload;
    if (executors != 0) options.executors = executors;
    *fabric = std::make_unique<OffloadFabric>(std::move(below), options);
    return base::ok_status();
  }

  net::Transport& attach(net::ProcessId self) override {
    transport_ = std::make_unique<net::offload::OffloadTransport>(below_->attach(self), options_);
    return *transport_;
  }
  std::byte* memory() const noexcept override { return below_->memory(); }
  void detach() noexcept override {
    transport_.reset();
    below_->detach();
  }

 private:
  const std::unique_ptr<Fabric> below_;
  const net::offload::OffloadOptions options_;
  std::unique_ptr<net::offload::OffloadTransport> transport_;
};

constexpr Variant kVariants[] = {
    {"shm", "shared memory", ShmFabric::create},
    {"shm/offload", "an executor thread", OffloadFabric::create<ShmFabric, 1>},
    {"shm/worker", "whoever waits executes", OffloadFabric::create<ShmFabric, 0>},
    {"tcp", "loopback", TcpFabric::create},
    {"tcp/offload", "an executor thread", OffloadFabric::create<TcpFabric, 1>},
    {"tcp/offload2", "two of them", OffloadFabric::create<TcpFabric, 2>},
    {"tcp/worker", "whoever waits executes", OffloadFabric::create<TcpFabric, 0>},
    {"ucx", "UCX's TCP on loopback", UcxFabric<UcxWay::kTcp>::create, true},
    {"ucx/offload", "an executor thread", OffloadFabric::create<UcxFabric<UcxWay::kTcp>, 1>, true},
    {"ucx/shm", "UCX's shared memory", UcxFabric<UcxWay::kShm>::create, true},
    {"ucx/reach", "UCX's shared memory, without the target", UcxFabric<UcxWay::kReach>::create, true},
};

}  // namespace

std::span<const Variant> variants() { return kVariants; }

const Variant* find_variant(std::string_view name) {
  for (const Variant& variant : kVariants)
    if (name == variant.name) return &variant;
  return nullptr;
}

}  // namespace bench
