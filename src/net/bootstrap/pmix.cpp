// SPDX-License-Identifier: Apache-2.0
#include "net/bootstrap/pmix.hpp"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <sys/random.h>

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "net/bootstrap/place.hpp"
#include "net/bootstrap/pmix_abi.hpp"

namespace ayatori::net::bootstrap {
namespace {

constexpr const char* kPlaceKey = "ayatori.place";
constexpr const char* kHostKey = "ayatori.host";
constexpr const char* kCardKey = "ayatori.card";
constexpr const char* kSecretKey = "ayatori.secret";

template <class Function>
bool find(void* library, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(dlsym(library, name));
  return *function != nullptr;
}

std::string to_hex(const void* bytes, std::size_t count) {
  std::string text;
  for (const unsigned char byte : std::span(static_cast<const unsigned char*>(bytes), count))
    text += base::formatted("{:02x}", byte);
  return text;
}

bool from_hex(const std::string& text, void* bytes, std::size_t count) {
  if (text.size() != 2 * count) return false;
  for (std::size_t i = 0; i < count; ++i) {
    char* end = nullptr;
    const std::string digits = text.substr(2 * i, 2);
    static_cast<unsigned char*>(bytes)[i] = static_cast<unsigned char>(std::strtoul(digits.c_str(), &end, 16));
    if (*end != '\0') return false;
  }
  return true;
}

}  // namespace

// One session with the server. One thread at a time.
class Pmix {
 public:
  base::Status connect() {
    void* const library = dlopen(kPmixLibrary, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr)
      return base::error_status(
          base::Code::kUnavailable,
          "this job was started under PMIx, but {} cannot be loaded (Debian: apt install libpmix2): {}", kPmixLibrary,
          dlerror());
    if (!find(library, "PMIx_Init", &init_) || !find(library, "PMIx_Finalize", &finalize_) ||
        !find(library, "PMIx_Put", &put_) || !find(library, "PMIx_Commit", &commit_) ||
        !find(library, "PMIx_Fence", &fence_) || !find(library, "PMIx_Get", &get_) ||
        !find(library, "PMIx_Error_string", &error_string_))
      return base::error_status(base::Code::kUnavailable, "{} is not the library that it is called: {}", kPmixLibrary,
                                dlerror());
    if (const auto status = init_(&self_, nullptr, 0); status != pmix_abi::kSuccess)
      return failed("cannot reach the job's PMIx server", status);
    connected_ = true;
    return base::ok_status();
  }
  void leave() {
    if (std::exchange(connected_, false)) finalize_(nullptr, 0);
  }

  int self() const { return static_cast<int>(self_.rank); }
  int processes() const { return processes_; }

  base::Status size(int* processes) {
    pmix_abi::Process all = self_;
    all.rank = pmix_abi::kRankWildcard;
    pmix_abi::Value* value = nullptr;
    const auto status = get_(&all, pmix_abi::kJobSize, nullptr, 0, &value);
    if (status != pmix_abi::kSuccess) return failed("PMIx does not tell the job's size", status);
    if (value->type != pmix_abi::kUint32)
      return base::error_status(base::Code::kInvalid, "PMIx tells the job's size as type {}", value->type);
    *processes = processes_ = static_cast<int>(value->data.uint32);
    std::free(value);
    return base::ok_status();
  }

  base::Status put(const char* key, std::string text) {
    pmix_abi::Value value{};
    value.type = pmix_abi::kString;
    value.data.string = text.data();
    const auto status = put_(pmix_abi::kScopeGlobal, key, &value);
    return status == pmix_abi::kSuccess ? base::ok_status() : failed("PMIx takes no value", status);
  }

  // What all have put before is known to all.
  base::Status exchange() {
    if (const auto status = commit_(); status != pmix_abi::kSuccess) return failed("PMIx commits nothing", status);
    pmix_abi::Info collect{};
    std::strcpy(collect.key, pmix_abi::kCollectData);
    collect.value.type = pmix_abi::kBool;
    collect.value.data.flag = true;
    const auto status = fence_(nullptr, 0, &collect, 1);
    return status == pmix_abi::kSuccess ? base::ok_status() : failed("the fence of PMIx failed", status);
  }

  base::Status get(int process, const char* key, std::string* text) {
    pmix_abi::Process of = self_;
    of.rank = static_cast<std::uint32_t>(process);
    pmix_abi::Value* value = nullptr;
    const auto status = get_(&of, key, nullptr, 0, &value);
    if (status != pmix_abi::kSuccess)
      return failed(base::formatted("PMIx does not tell {} of process {}", key, process).c_str(), status);
    if (value->type != pmix_abi::kString || value->data.string == nullptr)
      return base::error_status(base::Code::kInvalid, "PMIx tells {} of process {} as type {}", key, process,
                                value->type);
    *text = value->data.string;
    std::free(value->data.string);
    std::free(value);
    return base::ok_status();
  }

 private:
  base::Status failed(const char* what, pmix_abi::Status status) const {
    const char* const text = error_string_(status);
    return base::error_status(base::Code::kSystem, "{}: {} ({})", what, text != nullptr ? text : "error", status);
  }

  bool connected_ = false;
  int processes_ = 1;
  pmix_abi::Process self_{};
  pmix_abi::Init init_ = nullptr;
  pmix_abi::Finalize finalize_ = nullptr;
  pmix_abi::Put put_ = nullptr;
  pmix_abi::Commit commit_ = nullptr;
  pmix_abi::Fence fence_ = nullptr;
  pmix_abi::Get get_ = nullptr;
  pmix_abi::ErrorString error_string_ = nullptr;
};

namespace {

// X1. `work` fills its argument; what it captures must outlive a call that is given up.
template <class Result>
base::Status within(std::int64_t timeout_ns, std::function<base::Status(Result*)> work, Result* result) {
  struct Shared {
    std::mutex mutex;
    std::condition_variable changed;
    bool done = false;
    base::Status status;
    Result result{};
  };
  auto shared = std::make_shared<Shared>();
  sigset_t all, before;  // the program's signals are not that thread's business, nor that of those PMIx starts
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread([shared, work = std::move(work)] {
    base::Status status = work(&shared->result);
    std::lock_guard lock(shared->mutex);
    shared->status = std::move(status);
    shared->done = true;
    shared->changed.notify_one();
  }).detach();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  std::unique_lock lock(shared->mutex);
  if (!shared->changed.wait_for(lock, std::chrono::nanoseconds(timeout_ns), [&] { return shared->done; }))
    return base::error_status(base::Code::kTimeout,
                              "the processes of this PMIx job did not all join within {} s "
                              "(AYATORI_START_TIMEOUT)",
                              timeout_ns / base::kNsPerSecond);
  *result = std::move(shared->result);
  return shared->status;
}

// What process 0 makes for all.
struct JobKeys {
  Secret secret;
  std::uint64_t job;
};

// Who is there, and what process 0 has made for all.
base::Status begin(Pmix& pmix, PmixJob* job) {
  if (base::Status status = pmix.connect(); !status.ok()) return status;
  job->self = pmix.self();
  if (base::Status status = pmix.size(&job->processes); !status.ok()) return status;
  if (job->processes < 1 || job->processes > kMaxProcesses)
    return base::error_status(base::Code::kInvalid, "a job of {} processes; 1 to {} are possible", job->processes,
                              kMaxProcesses);
  if (job->processes == 1) return base::ok_status();
  const std::string place = place_of_this_process();
  if (base::Status status = pmix.put(kPlaceKey, place); !status.ok()) return status;
  if (base::Status status = pmix.put(kHostKey, host_of_this_process()); !status.ok()) return status;
  JobKeys keys{};
  if (job->self == 0) {
    if (getrandom(&keys, sizeof keys, 0) != sizeof keys)
      return base::error_status(base::Code::kSystem, "no random bytes for the job's secret");
    if (base::Status status = pmix.put(kSecretKey, to_hex(&keys, sizeof keys)); !status.ok()) return status;
  }
  if (base::Status status = pmix.exchange(); !status.ok()) return status;
  job->loopback = true;
  for (int p = 0; p < job->processes; ++p) {
    std::string other;
    if (base::Status status = pmix.get(p, kPlaceKey, &other); !status.ok()) return status;
    job->loopback = job->loopback && other == place;
    if (base::Status status = pmix.get(p, kHostKey, &other); !status.ok()) return status;
    job->hosts.push_back(std::move(other));
  }
  std::string text;
  if (base::Status status = pmix.get(0, kSecretKey, &text); !status.ok()) return status;
  if (!from_hex(text, &keys, sizeof keys))
    return base::error_status(base::Code::kInvalid, "process 0 was built with another version of Ayatori");
  job->secret = keys.secret;
  job->job = keys.job;
  return base::ok_status();
}

base::Status exchange_cards(Pmix& pmix, const std::string& mine, int processes, std::vector<std::string>* all) {
  if (base::Status status = pmix.put(kCardKey, to_hex(mine.data(), mine.size())); !status.ok()) return status;
  if (base::Status status = pmix.exchange(); !status.ok()) return status;
  for (int p = 0; p < processes; ++p) {
    std::string text;
    if (base::Status status = pmix.get(p, kCardKey, &text); !status.ok()) return status;
    std::string card(mine.size(), '\0');
    if (!from_hex(text, card.data(), card.size()))
      return base::error_status(base::Code::kInvalid, "process {} was built with another version of Ayatori", p);
    all->push_back(std::move(card));
  }
  return base::ok_status();
}

base::Status join(const MakeCard& make_card, Membership* result) {
  Pmix pmix;
  PmixJob job;
  const auto rest = [&] {
    if (base::Status status = begin(pmix, &job); !status.ok()) return status;
    result->self = job.self;
    result->processes = job.processes;
    result->secret = job.secret;
    result->job = job.job;
    if (job.processes == 1) return base::ok_status();
    Card mine;
    if (base::Status status = make_card(job.loopback, &mine); !status.ok()) return status;
    std::vector<std::string> cards;
    const std::string bytes(reinterpret_cast<const char*>(&mine), sizeof mine);
    if (base::Status status = exchange_cards(pmix, bytes, job.processes, &cards); !status.ok()) return status;
    result->cards.resize(cards.size());
    for (std::size_t p = 0; p < cards.size(); ++p) std::memcpy(&result->cards[p], cards[p].data(), sizeof(Card));
    return base::ok_status();
  };
  base::Status status = rest();
  pmix.leave();  // X3
  return status;
}

}  // namespace

base::Status join_pmix(MakeCard make_card, std::int64_t timeout_ns, Membership* result) {
  return within<Membership>(
      timeout_ns, [make_card = std::move(make_card)](Membership* job) { return join(make_card, job); }, result);
}

PmixSession::PmixSession() : pmix_(std::make_shared<Pmix>()) {}

base::Status PmixSession::enter(std::int64_t timeout_ns, PmixJob* job) {
  return within<PmixJob>(timeout_ns, [pmix = pmix_](PmixJob* result) { return begin(*pmix, result); }, job);
}

base::Status PmixSession::exchange(const std::string& mine, std::vector<std::string>* all) {
  return exchange_cards(*pmix_, mine, pmix_->processes(), all);
}

void PmixSession::leave() { pmix_->leave(); }

}  // namespace ayatori::net::bootstrap
