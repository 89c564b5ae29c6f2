// SPDX-License-Identifier: Apache-2.0
#include "net/collectives.hpp"

#include <algorithm>
#include <cstring>

#include "base/check.hpp"

namespace ayatori::net {
namespace {

constexpr HandlerId kUp = kNetHandlers;
constexpr HandlerId kDown = kNetHandlers + 1;

template <class T>
T apply(ReduceOp op, T a, T b) {
  switch (op) {
    case ReduceOp::kSum:
      if constexpr (std::is_signed_v<T> && std::is_integral_v<T>)
        return static_cast<T>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));  // wraps
      else
        return a + b;
    case ReduceOp::kMin: return std::min(a, b);
    case ReduceOp::kMax: return std::max(a, b);
    case ReduceOp::kAnd:
      if constexpr (std::is_integral_v<T>) return a & b;
      break;
    case ReduceOp::kOr:
      if constexpr (std::is_integral_v<T>) return a | b;
      break;
  }
  base::fatal("reduction: this operator needs integers");
}

template <class T>
void apply_all(ReduceOp op, std::byte* into, const std::byte* from, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; i += sizeof(T)) {
    T a, b;
    std::memcpy(&a, into + i, sizeof a);
    std::memcpy(&b, from + i, sizeof b);
    a = apply(op, a, b);
    std::memcpy(into + i, &a, sizeof a);
  }
}

}  // namespace

Collectives::Collectives(Transport& transport)
    : transport_(transport), self_(transport.self()), processes_(transport.processes()) {
  transport.set_handler(
      kUp, [](void* self, const Message& message) { static_cast<Collectives*>(self)->on_message(message, true); },
      this);
  transport.set_handler(
      kDown, [](void* self, const Message& message) { static_cast<Collectives*>(self)->on_message(message, false); },
      this);
}

bool Collectives::start_barrier(Callback on_complete) { return start(Shape{}, nullptr, nullptr, on_complete); }

bool Collectives::start_broadcast(const BroadcastParams& params) {
  AYT_CHECK(params.root >= 0 && params.root < processes_, "broadcast from process {} of {}", params.root, processes_);
  Shape shape;
  shape.kind = Kind::kBroadcast;
  shape.root = params.root;
  shape.bytes = params.size_bytes;
  return start(shape, params.data, params.data, params.on_complete);
}

bool Collectives::start_reduce(const ReduceParams& params) {
  AYT_CHECK(params.element != Element::kF64 || params.op == ReduceOp::kSum || params.op == ReduceOp::kMin ||
                params.op == ReduceOp::kMax,
            "reduction: this operator needs integers");
  Shape shape;
  shape.kind = Kind::kReduce;
  shape.element = params.element;
  shape.op = params.op;
  shape.bytes = params.count * 8;
  return start(shape, params.input, params.output, params.on_complete);
}

bool Collectives::start(const Shape& shape, const void* input, void* output, Callback on_complete) {
  if (shape.bytes + kCollectiveHeaderBytes > transport_.limits().payload_bytes_max) {
    on_complete({Outcome::kTooLarge, 0, 0});
    return true;
  }
  std::vector<Done> done;
  {
    std::lock_guard lock(mutex_);
    if (next_sequence_ >= give_up_from_) {
      done.push_back({on_complete, {Outcome::kPeerFailed, 0, 0}});
    } else {
      const Operation& before = operations_[(next_sequence_ - kWindow) % kSlots];
      if (before.used && before.sequence + kWindow == next_sequence_) return false;  // C2
      Operation& operation = slot_for(next_sequence_, shape);
      ++next_sequence_;
      operation.called = true;
      operation.input = input;
      operation.output = output;
      operation.on_complete = on_complete;
      if (input != nullptr && (shape.kind == Kind::kReduce || self_ == shape.root)) {
        operation.value.resize(shape.bytes);
        if (shape.bytes != 0) std::memcpy(operation.value.data(), input, shape.bytes);
      }
      advance(operation, done);
    }
  }
  for (const Done& d : done) d.callback(d.completion);
  return true;
}

Collectives::Operation& Collectives::slot_for(std::uint64_t sequence, const Shape& shape) {
  Operation& operation = operations_[sequence % kSlots];
  if (!operation.used) {
    operation = Operation{};
    operation.used = true;
    operation.sequence = sequence;
    operation.shape = shape;
  }
  AYT_CHECK(operation.sequence == sequence, "collective {} meets {}", sequence, operation.sequence);  // C2
  AYT_CHECK(
      operation.shape == shape,
      "collective {}: the processes call different operations (kind {} root {} bytes {}; kind {} root {} bytes {})",
      sequence, static_cast<int>(operation.shape.kind), operation.shape.root, operation.shape.bytes,
      static_cast<int>(shape.kind), shape.root, shape.bytes);  // C1
  return operation;
}

void Collectives::on_message(const Message& message, bool up) {
  Header header;
  AYT_CHECK(message.size_bytes >= sizeof header, "collective message of {} bytes", message.size_bytes);
  std::memcpy(&header, message.payload, sizeof header);
  const std::byte* data = message.payload + sizeof header;
  const std::size_t bytes = message.size_bytes - sizeof header;
  std::vector<Done> done;
  {
    std::lock_guard lock(mutex_);
    if (header.sequence >= give_up_from_) return;  // C5
    Operation& operation = slot_for(header.sequence, header.shape);
    if (up) {
      operation.children.push_back({message.source, std::vector<std::byte>(data, data + bytes)});
      advance(operation, done);
    } else {
      AYT_CHECK(operation.called && operation.sent_up, "collective {} came down early", header.sequence);
      operation.value.assign(data, data + bytes);
      finish(operation, done);
    }
  }
  for (const Done& d : done) d.callback(d.completion);
}

// Sends up, or turns the wave round at the root, when this process and its children are there.
void Collectives::advance(Operation& operation, std::vector<Done>& done) {
  const Shape& shape = operation.shape;
  const int rank = relative(self_, shape.root);
  const int children = std::clamp(processes_ - 1 - kArity * rank, 0, kArity);
  if (!operation.called || static_cast<int>(operation.children.size()) < children) return;
  if (shape.kind == Kind::kReduce) {  // C3
    std::sort(operation.children.begin(), operation.children.end(), [&](const auto& a, const auto& b) {
      return relative(a.source, shape.root) < relative(b.source, shape.root);
    });
    for (const Contribution& child : operation.children) combine(shape, operation.value.data(), child.data.data());
  }
  operation.sent_up = true;
  if (rank == 0) {
    finish(operation, done);
  } else {
    const bool carries = shape.kind == Kind::kReduce;
    send(absolute((rank - 1) / kArity, shape.root), kUp, {operation.sequence, shape},
         carries ? operation.value.data() : nullptr, carries ? operation.value.size() : 0);
  }
}

void Collectives::finish(Operation& operation, std::vector<Done>& done) {
  const Shape& shape = operation.shape;
  const int rank = relative(self_, shape.root);
  for (int child = kArity * rank + 1; child <= kArity * rank + kArity && child < processes_; ++child)
    send(absolute(child, shape.root), kDown, {operation.sequence, shape}, operation.value.data(),
         operation.value.size());
  AYT_CHECK(operation.value.size() == shape.bytes, "collective {}: {} bytes came, {} expected", operation.sequence,
            operation.value.size(), shape.bytes);
  if (shape.bytes != 0 && !(shape.kind == Kind::kBroadcast && rank == 0))
    std::memcpy(operation.output, operation.value.data(), shape.bytes);
  done.push_back({operation.on_complete, {}});
  operation.used = false;
}

void Collectives::send(ProcessId to, HandlerId handler, const Header& header, const std::byte* data,
                       std::size_t bytes) {
  std::vector<std::byte> packet(sizeof header + bytes);
  std::memcpy(packet.data(), &header, sizeof header);
  if (bytes != 0) std::memcpy(packet.data() + sizeof header, data, bytes);
  if (transport_.try_message_async({to, handler, packet.data(), packet.size(), {}})) return;
  outbox_.push_back({to, handler, std::move(packet)});  // C4
  outbox_size_.store(outbox_.size(), std::memory_order_relaxed);
}

std::size_t Collectives::progress() {
  std::size_t left = 0;
  std::lock_guard lock(mutex_);
  for (std::size_t tries = outbox_.size(); tries != 0; --tries) {
    Outgoing message = std::move(outbox_.front());
    outbox_.pop_front();
    if (transport_.try_message_async({message.to, message.handler, message.bytes.data(), message.bytes.size(), {}}))
      ++left;
    else
      outbox_.push_back(std::move(message));
  }
  outbox_size_.store(outbox_.size(), std::memory_order_relaxed);
  return left;
}

std::uint64_t Collectives::calls() {
  std::lock_guard lock(mutex_);
  return next_sequence_;
}

void Collectives::give_up_from(std::uint64_t sequence) {
  std::vector<Done> done;
  {
    std::lock_guard lock(mutex_);
    if (sequence >= give_up_from_) return;
    give_up_from_ = sequence;
    if (sequence == 0) {
      outbox_.clear();
      outbox_size_.store(0, std::memory_order_relaxed);
    }
    for (Operation& operation : operations_) {
      if (!operation.used || operation.sequence < sequence) continue;
      if (operation.called) done.push_back({operation.on_complete, {Outcome::kPeerFailed, 0, 0}});
      operation.used = false;
    }
  }
  for (const Done& d : done) d.callback(d.completion);
}

void Collectives::combine(const Shape& shape, std::byte* into, const std::byte* from) const {
  switch (shape.element) {
    case Element::kU64: apply_all<std::uint64_t>(shape.op, into, from, shape.bytes); break;
    case Element::kI64: apply_all<std::int64_t>(shape.op, into, from, shape.bytes); break;
    case Element::kF64: apply_all<double>(shape.op, into, from, shape.bytes); break;
  }
}

std::string_view outcome_name(Outcome outcome) noexcept {
  switch (outcome) {
    case Outcome::kOk: return "ok";
    case Outcome::kBadAddress: return "bad address";
    case Outcome::kNoRights: return "no rights";
    case Outcome::kTooLarge: return "too large";
    case Outcome::kPeerFailed: return "peer failed";
  }
  return "unknown";
}

}  // namespace ayatori::net
