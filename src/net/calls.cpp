// SPDX-License-Identifier: Apache-2.0
#include "net/calls.hpp"

#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <utility>

#include <ayatori/net/blocking.hpp>
#include "base/check.hpp"
#include "base/log.hpp"

namespace ayatori::net {
namespace {

constexpr HandlerId kRequestHandler = kNetHandlers + 4;
constexpr HandlerId kResultHandler = kNetHandlers + 5;
constexpr auto kRetryAfter = std::chrono::microseconds(200);

// What a peer sends is no reason to end: dropped, and told once.
void drop(ProcessId caller, Calls::FunctionId function) {
  static constinit std::atomic<bool> told{false};
  base::log_warn_once(told, "process {} called function {}, which nobody serves: it is dropped", caller, function);
}

}  // namespace

Calls::Calls(Transport& transport) : transport_(transport) {
  transport.set_handler(kRequestHandler, on_request, this);
  transport.set_handler(kResultHandler, on_result, this);
}

Calls::~Calls() { stop(); }

void Calls::stop() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard guard(mutex_);
    stop_ = true;
  }
  news_.notify_one();
  thread_.join();
}

void Calls::serve(FunctionId id, Function function, void* context) {
  AYT_CHECK(id < kFunctionsMax && functions_[id].function == nullptr, "no such function, or served already: {}", id);
  functions_[id] = {function, context};
}

void Calls::start() {
  thread_ = std::thread([this] { main(); });
}

std::optional<Bytes> Calls::call(ProcessId to, FunctionId id, std::span<const std::byte> argument) {
  Waiting waiting{to, false, std::nullopt};
  Header header{0, id, 0};
  {
    const std::lock_guard guard(waiting_mutex_);
    header.serial = ++next_serial_;
    waiting_.emplace(header.serial, &waiting);
  }
  const auto done = [&] {
    const std::lock_guard guard(waiting_mutex_);
    return waiting.done;
  };
  if (transport_.peer_failed(to))
    on_peer_failed(to);  // its failure may have been told before this call was there to end
  else
    send(to, kRequestHandler, header, argument);
  wait_until(transport_, done);
  return std::move(waiting.result);
}

void Calls::post(ProcessId to, FunctionId id, Bytes argument) { send(to, kRequestHandler, {0, id, 0}, argument); }

void Calls::on_peer_failed(ProcessId process) {
  const std::lock_guard guard(waiting_mutex_);
  for (auto at = waiting_.begin(); at != waiting_.end();) {
    if (at->second->process != process) {
      ++at;
      continue;
    }
    at->second->done = true;
    at = waiting_.erase(at);
  }
  transport_.wake();
}

void Calls::on_request(void* self, const Message& message) {
  auto& calls = *static_cast<Calls*>(self);
  Served served;
  served.caller = message.source;
  if (message.size_bytes < sizeof served.header) return;  // a broken peer's: its call ends with its process
  std::memcpy(&served.header, message.payload, sizeof served.header);
  if (served.header.function >= kFunctionsMax) return;
  served.argument.assign(message.payload + sizeof served.header, message.payload + message.size_bytes);
  {
    const std::lock_guard guard(calls.mutex_);
    calls.served_.push_back(std::move(served));
  }
  calls.news_.notify_one();
}

void Calls::on_result(void* self, const Message& message) {
  auto& calls = *static_cast<Calls*>(self);
  Header header;
  if (message.size_bytes < sizeof header) return;
  std::memcpy(&header, message.payload, sizeof header);
  const std::lock_guard guard(calls.waiting_mutex_);
  const auto at = calls.waiting_.find(header.serial);
  if (at == calls.waiting_.end() || at->second->process != message.source) return;
  at->second->result.emplace(message.payload + sizeof header, message.payload + message.size_bytes);
  at->second->done = true;
  calls.waiting_.erase(at);
  calls.transport_.wake();
}

void Calls::send(ProcessId to, HandlerId handler, const Header& header, std::span<const std::byte> body) {
  Bytes message(sizeof header + body.size());
  std::memcpy(message.data(), &header, sizeof header);
  if (!body.empty()) std::memcpy(message.data() + sizeof header, body.data(), body.size());
  if (try_send(to, handler, message)) return;
  {
    const std::lock_guard guard(mutex_);
    kept_.push_back({to, handler, std::move(message)});
  }
  news_.notify_one();
}

// Takes the message when it returns true.
bool Calls::try_send(ProcessId to, HandlerId handler, Bytes& message) {
  if (message.size() <= transport_.limits().payload_bytes_max)
    return transport_.try_message_async({to, handler, message.data(), message.size(), {}});
  auto owned = std::make_unique<Bytes>(std::move(message));
  const Callback done{[](void* bytes, Completion) { delete static_cast<Bytes*>(bytes); }, owned.get()};
  if (transport_.try_message_async({to, handler, owned->data(), owned->size(), done})) {
    (void)owned.release();  // NOLINT(bugprone-unused-return-value): the completion frees it
    return true;
  }
  message = std::move(*owned);
  return false;
}

void Calls::retry_kept() {
  std::deque<Kept> kept;
  {
    const std::lock_guard guard(mutex_);
    kept.swap(kept_);
  }
  for (Kept& k : kept) {
    if (try_send(k.to, k.handler, k.message)) continue;
    const std::lock_guard guard(mutex_);
    kept_.push_back(std::move(k));
  }
}

void Calls::main() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    if (!kept_.empty()) {
      lock.unlock();
      retry_kept();
      lock.lock();
      if (!kept_.empty()) news_.wait_for(lock, kRetryAfter, [&] { return stop_; });
      continue;
    }
    if (served_.empty()) {
      news_.wait(lock, [&] { return stop_ || !served_.empty() || !kept_.empty(); });
      continue;
    }
    Served served = std::move(served_.front());
    served_.pop_front();
    lock.unlock();
    const Row& row = functions_[served.header.function];
    if (row.function != nullptr) {
      const Bytes result = row.function(row.context, served.caller, served.argument);
      if (served.header.serial != 0) send(served.caller, kResultHandler, served.header, result);
    } else {
      drop(served.caller, served.header.function);
    }
    lock.lock();
  }
}

}  // namespace ayatori::net
