// SPDX-License-Identifier: Apache-2.0
#include "net/collectives.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>

#include "base/check.hpp"
#include "base/log.hpp"
#include "net/process_set.hpp"

namespace ayatori::net {
namespace {

constexpr HandlerId kUpHandler = kNetHandlers;
constexpr HandlerId kDownHandler = kNetHandlers + 1;
constexpr HandlerId kAcrossHandler = kNetHandlers + 2;
constexpr std::uint64_t kElementBytes = 8;
constexpr std::uint64_t kTagBytes = 4;  // a gathered part's process number

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

void combine(Element element, ReduceOp op, std::byte* into, const std::byte* from, std::size_t bytes) {
  switch (element) {
    case Element::kU64: return apply_all<std::uint64_t>(op, into, from, bytes);
    case Element::kI64: return apply_all<std::int64_t>(op, into, from, bytes);
    case Element::kF64: return apply_all<double>(op, into, from, bytes);
  }
}

// C8.
void drop(ProcessId source, std::size_t bytes) {
  static constinit std::atomic<bool> told{false};
  base::log_warn_once(told, "process {} sent {} bytes for a collective that expects none such: they are dropped",
                      source, bytes);
}

}  // namespace

Collectives::Collectives(Transport& transport, const Letters& letters)
    : transport_(transport),
      self_(transport.self()),
      processes_(transport.processes()),
      letters_(letters),
      outbox_(transport) {
  transport.set_handler(
      kUpHandler,
      [](void* self, const Message& message) { static_cast<Collectives*>(self)->on_message(message, Way::kUp); }, this);
  transport.set_handler(
      kDownHandler,
      [](void* self, const Message& message) { static_cast<Collectives*>(self)->on_message(message, Way::kDown); },
      this);
  transport.set_handler(
      kAcrossHandler,
      [](void* self, const Message& message) { static_cast<Collectives*>(self)->on_message(message, Way::kAcross); },
      this);
}

// --- calls ---

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
  AYT_CHECK(params.root >= kAllProcesses && params.root < processes_, "reduction to process {} of {}", params.root,
            processes_);
  Shape shape;
  shape.kind = params.root == kAllProcesses ? Kind::kAllreduce : Kind::kReduce;
  shape.root = std::max(params.root, 0);
  shape.element = params.element;
  shape.op = params.op;
  shape.bytes = params.count * kElementBytes;
  return start(shape, params.input, params.output, params.on_complete);
}

bool Collectives::start_gather(const GatherParams& params) {
  AYT_CHECK(params.root >= kAllProcesses && params.root < processes_, "gather to process {} of {}", params.root,
            processes_);
  Shape shape;
  shape.kind = params.root == kAllProcesses ? Kind::kAllgather : Kind::kGather;
  shape.root = std::max(params.root, 0);
  shape.bytes = params.size_bytes;
  return start(shape, params.input, params.output, params.on_complete);
}

bool Collectives::start_alltoall(const AlltoallParams& params) {
  Shape shape;
  shape.kind = Kind::kAlltoallShort;
  shape.bytes = params.size_bytes;
  if (processes_ <= 2 || params.size_bytes > part_bytes_of(shape)) shape.kind = Kind::kAlltoallLong;
  return start(shape, params.input, params.output, params.on_complete);
}

// What of each process fits into one message of the operation.
std::uint64_t Collectives::part_bytes_of(const Shape& shape) const {
  const std::uint64_t room = transport_.limits().payload_bytes_max - sizeof(Header);
  const auto processes = static_cast<std::uint64_t>(processes_);
  std::uint64_t bytes = room;
  switch (shape.kind) {
    case Kind::kBarrier:
    case Kind::kBroadcast:
    case Kind::kAlltoallLong: break;
    case Kind::kReduce:
    case Kind::kAllreduce: bytes = room / kElementBytes * kElementBytes; break;
    case Kind::kGather: bytes = room / processes - std::min(room / processes, kTagBytes); break;
    case Kind::kAllgather:
    case Kind::kAlltoallShort: bytes = room / std::max<std::uint64_t>(processes / 2, 1); break;
  }
  AYT_CHECK(bytes != 0, "collectives of {} processes need messages larger than {} bytes", processes_,
            transport_.limits().payload_bytes_max);
  return bytes;
}

bool Collectives::start(const Shape& shape, const void* input, void* output, Callback on_complete) {
  Done done;
  {
    std::lock_guard lock(mutex_);
    if (calls_.size() == kCallsMax) return false;
    Call& call = calls_.emplace_back();
    call.number = next_call_++;
    call.shape = shape;
    call.input = static_cast<const std::byte*>(input);
    call.output = static_cast<std::byte*>(output);
    call.on_complete = on_complete;
    call.part_bytes = part_bytes_of(shape);
    begin_operations(done);
  }
  done.call();
  return true;
}

// As many as the window admits, in the order of the calls (C1, C2).
void Collectives::begin_operations(Done& done) {
  for (std::uint64_t number = next_call_ - calls_.size(); number != next_call_; ++number) {
    for (;;) {
      if (calls_.empty() || number < calls_.front().number) break;  // it ended
      Call& call = calls_[number - calls_.front().number];
      if (call.all_begun) break;
      if (next_sequence_ >= give_up_from_) {  // C5
        call.all_begun = true;
        call.outcome = Outcome::kPeerFailed;
        end_if_complete(call, done);
        break;
      }
      const Operation& before = operations_[(next_sequence_ - kWindow) % kSlots];
      if (before.used && before.sequence + kWindow == next_sequence_) return;
      begin(call, done);
    }
  }
}

void Collectives::begin(Call& call, Done& done) {
  Shape shape = call.shape;
  shape.bytes = std::min(call.part_bytes, call.shape.bytes - call.begun_bytes);
  Operation& operation = slot_for(next_sequence_++, shape);
  operation.begun = true;
  operation.call = call.number;
  if (shape.bytes != 0) {
    operation.input = call.input + call.begun_bytes;
    if (call.output != nullptr)
      operation.output = call.output + call.begun_bytes;  // it need not be where nothing is filled
  }
  operation.stride = call.shape.bytes;
  call.begun_bytes += shape.bytes;
  call.all_begun = call.begun_bytes == call.shape.bytes;
  ++call.under_way;
  if (letters_)
    open_.fetch_add(1, std::memory_order_seq_cst);  // before the look: pairs with pending() on a thread woken
  if (is_exchange(shape.kind)) {
    begin_exchange(operation);
    advance_exchange(operation, done);
  } else {
    begin_tree(operation);
    advance_tree(operation, done);
  }
  take_letters(operation, done);
}

void Collectives::complete(Operation& operation, Outcome outcome, Done& done) {
  operation.used = false;
  // relaxed: only spares looks; changed under the lock alone
  if (letters_) open_.store(open_.load(std::memory_order_relaxed) - 1, std::memory_order_relaxed);
  Call& call = calls_[operation.call - calls_.front().number];
  --call.under_way;
  if (outcome != Outcome::kOk) call.outcome = outcome;
  end_if_complete(call, done);
}

void Collectives::end_if_complete(Call& call, Done& done) {
  if (!call.all_begun || call.under_way != 0) return;
  done.add(call.on_complete, call.outcome);
  call.ended = true;
  while (!calls_.empty() && calls_.front().ended) calls_.pop_front();
}

// --- messages ---

Collectives::Operation& Collectives::slot_for(std::uint64_t sequence, const Shape& shape) {
  Operation& operation = operations_[sequence % kSlots];
  if (!operation.used) {
    std::vector<Arrival> arrivals = std::move(operation.arrivals);  // their memory serves again
    std::vector<std::byte> value = std::move(operation.value);
    arrivals.clear();
    value.clear();
    operation = Operation{};
    operation.used = true;
    operation.sequence = sequence;
    operation.shape = shape;
    operation.arrivals = std::move(arrivals);
    operation.value = std::move(value);
  }
  AYT_CHECK(operation.sequence == sequence, "collective {} meets {}", sequence, operation.sequence);  // C2
  check_shape(operation, shape);
  return operation;
}

void Collectives::check_shape(const Operation& operation, const Shape& shape) {
  AYT_CHECK(
      operation.shape == shape,
      "collective {}: the processes call different operations (kind {} root {} bytes {}; kind {} root {} bytes {})",
      operation.sequence, static_cast<int>(operation.shape.kind), operation.shape.root, operation.shape.bytes,
      static_cast<int>(shape.kind), shape.root, shape.bytes);
}

void Collectives::on_message(const Message& message, Way way) {
  Header header;
  if (message.size_bytes < sizeof header) return drop(message.source, message.size_bytes);
  std::memcpy(&header, message.payload, sizeof header);
  const std::byte* data = message.payload + sizeof header;
  const std::size_t bytes = message.size_bytes - sizeof header;
  Done done;
  {
    std::lock_guard lock(mutex_);
    if (header.sequence >= give_up_from_) return;  // C5
    if (!take_message(header, way, message.source, data, bytes, done)) return drop(message.source, message.size_bytes);
    begin_operations(done);
  }
  done.call();
}

bool Collectives::take_message(const Header& header, Way way, ProcessId source, const std::byte* data,
                               std::size_t bytes, Done& done) {
  if (!makes_sense(header.shape)) return false;
  const Operation& there = operations_[header.sequence % kSlots];
  const bool open = there.used && there.sequence == header.sequence;
  if (open) {
    check_shape(there, header.shape);
    if ((there.heard >> source & 1) != 0) return false;
  } else if (header.sequence - next_sequence_ >= kWindow) {  // completed, or too early (C2)
    return false;
  }
  if (!fits(header.shape, open && there.sent_up, way, source, header.round, data, bytes)) return false;
  Operation& operation = slot_for(header.sequence, header.shape);
  operation.heard |= bit_of(source);
  take(operation, way, source, header.round, data, bytes, done);
  return true;
}

// Some process may call it.
bool Collectives::makes_sense(const Shape& shape) const {
  const bool bits = shape.op == ReduceOp::kAnd || shape.op == ReduceOp::kOr;
  return shape.kind <= Kind::kAlltoallLong && shape.element <= Element::kF64 && shape.op <= ReduceOp::kOr &&
         (shape.element != Element::kF64 || !bits) && shape.padding == 0 && shape.root >= 0 &&
         shape.root < processes_ && shape.bytes <= transport_.limits().payload_bytes_max;
}

// A shape that makes sense.
bool Collectives::fits(const Shape& shape, bool sent_up, Way way, ProcessId source, std::uint32_t round,
                       const std::byte* data, std::size_t bytes) const {
  if (is_exchange(shape.kind))
    return way == Way::kAcross && round < rounds(shape.kind) && source == partner(shape.kind, round, false) &&
           bytes == round_bytes(shape, round);
  const int rank = relative(self_, shape.root), other = relative(source, shape.root);
  if (way == Way::kDown)
    return sent_up && rank != 0 && other == (rank - 1) / kArity &&
           bytes == (carries_down(shape.kind) ? shape.bytes : 0);
  if (way != Way::kUp || sent_up || other == 0 || (other - 1) / kArity != rank) return false;
  if (shape.kind == Kind::kGather) return gathered_fits(shape, other, data, bytes);
  return bytes == (carries_up(shape.kind) ? shape.bytes : 0);
}

// What the process of this rank and those below it gathered.
bool Collectives::gathered_fits(const Shape& shape, int rank, const std::byte* data, std::size_t bytes) const {
  std::uint64_t below = 0;
  for (int first = rank, last = rank; first < processes_; first = kArity * first + 1, last = kArity * last + kArity)
    below += static_cast<std::uint64_t>(std::min(last, processes_ - 1) - first + 1);
  const std::uint64_t entry_bytes = kTagBytes + shape.bytes;
  if (bytes != below * entry_bytes) return false;
  for (std::uint64_t i = 0; i < below; ++i) {
    std::uint32_t process = 0;
    std::memcpy(&process, data + i * entry_bytes, kTagBytes);
    if (process >= static_cast<std::uint32_t>(processes_)) return false;
  }
  return true;
}

void Collectives::take(Operation& operation, Way way, ProcessId source, std::uint32_t round, const std::byte* data,
                       std::size_t bytes, Done& done) {
  AYT_CHECK(is_exchange(operation.shape.kind) == (way == Way::kAcross), "collective {} goes the wrong way",
            operation.sequence);
  if (way == Way::kDown) {
    AYT_CHECK(operation.begun && operation.sent_up, "collective {} came down early", operation.sequence);
    if (carries_down(operation.shape.kind)) operation.value.assign(data, data + bytes);
    turn_tree(operation, done);
  } else {
    operation.arrivals.push_back({source, round, std::vector<std::byte>(data, data + bytes)});
    way == Way::kUp ? advance_tree(operation, done) : advance_exchange(operation, done);
  }
}

// --- letters (C7) ---

bool Collectives::expects(const Operation& operation, ProcessId from) const noexcept {
  const Shape& shape = operation.shape;
  if (from == self_ || (operation.heard >> from & 1) != 0) return false;
  if (shape.kind == Kind::kAlltoallLong) return true;
  if (is_exchange(shape.kind)) return from == partner(shape.kind, operation.round, false);
  const int rank = relative(self_, shape.root), other = relative(from, shape.root);
  return operation.sent_up ? rank != 0 && other == (rank - 1) / kArity : other != 0 && (other - 1) / kArity == rank;
}

bool Collectives::take_letter(Operation& operation, ProcessId from, Done& done) {
  if (!expects(operation, from)) return false;
  const void* const came = letters_.look(from, operation.sequence);
  if (came == nullptr) return false;
  Letter letter;
  std::memcpy(&letter, came, sizeof letter);
  operation.heard |= bit_of(from);
  const Way way = is_exchange(operation.shape.kind) ? Way::kAcross : operation.sent_up ? Way::kDown : Way::kUp;
  const bool sense = makes_sense(letter.shape);
  if (sense) check_shape(operation, letter.shape);
  if (!sense || letter.bytes > Letter::kDataBytes ||
      !fits(letter.shape, operation.sent_up, way, from, letter.round, letter.data, letter.bytes)) {
    drop(from, sizeof letter);
    return false;
  }
  take(operation, way, from, letter.round, letter.data, letter.bytes, done);
  return true;
}

// Those that are there and that the operation can go on with; one may be what lets it wait for the next.
std::size_t Collectives::take_letters(Operation& operation, Done& done) {
  std::size_t taken = 0;
  if (!letters_) return taken;
  const Kind kind = operation.shape.kind;
  for (bool again = true; again && operation.used;) {
    again = false;
    if (is_exchange(kind) && kind != Kind::kAlltoallLong) {  // waits for one process at a time
      again = take_letter(operation, partner(kind, operation.round, false), done);
      taken += again;
      continue;
    }
    for (ProcessId p = 0; p < processes_ && operation.used; ++p) {
      if (!take_letter(operation, p, done)) continue;
      again = true;
      ++taken;
    }
  }
  return taken;
}

template <class Each>
void Collectives::for_each_open(Each&& each) {
  const auto open = [this](std::uint64_t sequence) {
    const Operation& operation = operations_[sequence % kSlots];
    return operation.used && operation.begun && operation.sequence == sequence;
  };
  while (oldest_open_ != next_sequence_ && !open(oldest_open_)) ++oldest_open_;
  for (std::uint64_t sequence = oldest_open_; sequence != next_sequence_; ++sequence)
    if (open(sequence)) each(operations_[sequence % kSlots]);
}

// Looks at all, also those that are not expected: a process that calls something else is then noticed (C1).
bool Collectives::letters_came() {
  if (!letters_ || open_.load(std::memory_order_seq_cst) == 0) return false;  // pairs with begin()
  std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return true;  // somebody takes them, maybe
  bool came = false;
  for_each_open([&](const Operation& operation) {
    for (ProcessId p = 0; p < processes_; ++p) {
      const void* const letter = p == self_ ? nullptr : letters_.look(p, operation.sequence);
      if (letter == nullptr) continue;
      Shape shape;
      std::memcpy(&shape, letter, sizeof shape);  // the letter begins with it
      if (makes_sense(shape)) check_shape(operation, shape);
      came |= expects(operation, p);
    }
  });
  return came;
}

// --- trees ---

void Collectives::begin_tree(Operation& operation) {
  const Shape& shape = operation.shape;
  if (shape.kind == Kind::kBroadcast && self_ != shape.root) return;
  if (shape.kind == Kind::kGather) {
    const auto process = static_cast<std::uint32_t>(self_);
    operation.value.resize(kTagBytes);
    std::memcpy(operation.value.data(), &process, kTagBytes);
  }
  if (shape.bytes != 0) operation.value.insert(operation.value.end(), operation.input, operation.input + shape.bytes);
}

// Sends up, or turns the wave round at the root, when this process and its children are there.
void Collectives::advance_tree(Operation& operation, Done& done) {
  const Shape& shape = operation.shape;
  const int rank = relative(self_, shape.root);
  const int children = std::clamp(processes_ - 1 - kArity * rank, 0, kArity);
  if (!operation.begun || static_cast<int>(operation.arrivals.size()) < children) return;
  std::sort(operation.arrivals.begin(), operation.arrivals.end(), [&](const Arrival& a, const Arrival& b) {
    return relative(a.source, shape.root) < relative(b.source, shape.root);
  });
  for (const Arrival& child : operation.arrivals) {
    if (shape.kind == Kind::kGather) {
      operation.value.insert(operation.value.end(), child.data.begin(), child.data.end());
    } else if (carries_up(shape.kind)) {  // C3
      AYT_CHECK(child.data.size() == shape.bytes, "collective {}: {} bytes came, {} expected", operation.sequence,
                child.data.size(), shape.bytes);
      combine(shape.element, shape.op, operation.value.data(), child.data.data(), shape.bytes);
    }
  }
  operation.sent_up = true;
  if (rank == 0)
    turn_tree(operation, done);
  else
    send(absolute((rank - 1) / kArity, shape.root), Way::kUp, operation, 0, operation.value.data(),
         carries_up(shape.kind) ? operation.value.size() : 0);
}

void Collectives::turn_tree(Operation& operation, Done& done) {
  const Shape& shape = operation.shape;
  const int rank = relative(self_, shape.root);
  for (int child = kArity * rank + 1; child <= kArity * rank + kArity && child < processes_; ++child)
    send(absolute(child, shape.root), Way::kDown, operation, 0, operation.value.data(),
         carries_down(shape.kind) ? operation.value.size() : 0);
  if (rank == 0 || carries_down(shape.kind)) fill_output(operation);
  complete(operation, Outcome::kOk, done);
}

void Collectives::fill_output(Operation& operation) const {
  const Shape& shape = operation.shape;
  const std::uint64_t entry_bytes = shape.kind == Kind::kGather ? kTagBytes + shape.bytes : shape.bytes;
  const std::uint64_t entries = shape.kind == Kind::kGather ? static_cast<std::uint64_t>(processes_) : 1;
  AYT_CHECK(operation.value.size() == entries * entry_bytes, "collective {}: {} bytes came, {} expected",
            operation.sequence, operation.value.size(), entries * entry_bytes);
  if (shape.bytes == 0 || (shape.kind == Kind::kBroadcast && self_ == shape.root)) return;
  if (shape.kind != Kind::kGather) {
    std::memcpy(operation.output, operation.value.data(), shape.bytes);
    return;
  }
  for (std::uint64_t i = 0; i < entries; ++i) {
    const std::byte* const entry = operation.value.data() + i * entry_bytes;
    std::uint32_t process = 0;
    std::memcpy(&process, entry, kTagBytes);
    AYT_CHECK(process < static_cast<std::uint32_t>(processes_), "gather from process {} of {}", process, processes_);
    std::memcpy(operation.output + process * operation.stride, entry + kTagBytes, shape.bytes);
  }
}

// --- exchanges ---

std::uint32_t Collectives::rounds(Kind kind) const noexcept {
  const auto processes = static_cast<std::uint32_t>(processes_);
  return kind == Kind::kAlltoallLong ? processes - 1 : static_cast<std::uint32_t>(std::bit_width(processes - 1));
}

ProcessId Collectives::partner(Kind kind, std::uint32_t round, bool sends) const noexcept {
  const int distance = kind == Kind::kAlltoallLong ? static_cast<int>(round) + 1 : 1 << round;
  const bool forward = sends == (kind != Kind::kAllgather);
  return wrapped(self_ + (forward ? distance : processes_ - distance));
}

std::uint64_t Collectives::round_bytes(const Shape& shape, std::uint32_t round) const noexcept {
  const auto processes = static_cast<std::uint64_t>(processes_);
  const std::uint64_t bit = std::uint64_t{1} << round;
  switch (shape.kind) {
    case Kind::kAllgather: return std::min(bit, processes - bit) * shape.bytes;
    case Kind::kAlltoallLong: return shape.bytes;
    case Kind::kAlltoallShort: {
      const std::uint64_t beyond = processes % (2 * bit);  // of the numbers below `processes`, those with the bit
      return (processes / (2 * bit) * bit + (beyond > bit ? beyond - bit : 0)) * shape.bytes;
    }
    default: return 0;
  }
}

// `value` of an allgather: the parts of self, self + 1, ... so far; of a short alltoall: [i] on its way to self + i, in the end
// come from self - i.
void Collectives::begin_exchange(Operation& operation) {
  const Shape& shape = operation.shape;
  if (shape.bytes != 0 && shape.kind == Kind::kAllgather)
    operation.value.assign(operation.input, operation.input + shape.bytes);
  if (shape.bytes != 0 && shape.kind == Kind::kAlltoallShort) {
    for (int i = 0; i < processes_; ++i) {
      const std::byte* const part = operation.input + static_cast<std::uint64_t>(absolute(i, self_)) * operation.stride;
      operation.value.insert(operation.value.end(), part, part + shape.bytes);
    }
  }
  if (shape.kind == Kind::kAlltoallLong)
    for (std::uint32_t round = 0; round < rounds(shape.kind); ++round) send_round(operation, round);
}

void Collectives::advance_exchange(Operation& operation, Done& done) {
  if (!operation.begun) return;
  const Kind kind = operation.shape.kind;
  const std::uint32_t all = rounds(kind);
  while (operation.round < all) {
    const bool any_order = kind == Kind::kAlltoallLong;
    if (!any_order && !operation.sent_round) {
      send_round(operation, operation.round);
      operation.sent_round = true;
    }
    const auto found = std::find_if(operation.arrivals.begin(), operation.arrivals.end(), [&](const Arrival& arrival) {
      return any_order || arrival.round == operation.round;
    });
    if (found == operation.arrivals.end()) return;
    take_round(operation, *found);
    operation.arrivals.erase(found);
    operation.sent_round = false;
    ++operation.round;
  }
  if (operation.shape.bytes != 0) finish_exchange(operation);
  if (letters_ && all != 0) letters_.prepare(partner(kind, 0, true), operation.sequence + 1);
  complete(operation, Outcome::kOk, done);
}

void Collectives::send_round(const Operation& operation, std::uint32_t round) {
  const Shape& shape = operation.shape;
  const ProcessId to = partner(shape.kind, round, true);
  const std::uint64_t bytes = round_bytes(shape, round);
  if (shape.kind == Kind::kAlltoallLong) {
    const std::byte* const part =
        bytes == 0 ? nullptr : operation.input + static_cast<std::uint64_t>(to) * operation.stride;
    send(to, Way::kAcross, operation, round, part, bytes);
  } else if (shape.kind == Kind::kAlltoallShort && bytes != 0) {
    std::vector<std::byte> packed;
    packed.reserve(bytes);
    for (std::uint64_t i = 0; i < static_cast<std::uint64_t>(processes_); ++i) {
      const auto part = operation.value.begin() + static_cast<std::ptrdiff_t>(i * shape.bytes);
      if ((i >> round & 1) != 0) packed.insert(packed.end(), part, part + static_cast<std::ptrdiff_t>(shape.bytes));
    }
    send(to, Way::kAcross, operation, round, packed.data(), bytes);
  } else {
    send(to, Way::kAcross, operation, round, operation.value.data(), bytes);
  }
}

void Collectives::take_round(Operation& operation, const Arrival& arrival) const {
  const Shape& shape = operation.shape;
  AYT_CHECK(arrival.round < rounds(shape.kind) && arrival.source == partner(shape.kind, arrival.round, false) &&
                arrival.data.size() == round_bytes(shape, arrival.round),
            "collective {}: {} bytes from process {} in round {}", operation.sequence, arrival.data.size(),
            arrival.source, arrival.round);
  if (shape.bytes == 0) return;
  if (shape.kind == Kind::kAllgather) {
    operation.value.insert(operation.value.end(), arrival.data.begin(), arrival.data.end());
  } else if (shape.kind == Kind::kAlltoallLong) {
    std::memcpy(operation.output + static_cast<std::uint64_t>(arrival.source) * operation.stride, arrival.data.data(),
                shape.bytes);
  } else if (shape.kind == Kind::kAlltoallShort) {
    const std::byte* from = arrival.data.data();
    for (std::uint64_t i = 0; i < static_cast<std::uint64_t>(processes_); ++i) {
      if ((i >> arrival.round & 1) == 0) continue;
      std::memcpy(operation.value.data() + i * shape.bytes, from, shape.bytes);
      from += shape.bytes;
    }
  }
}

void Collectives::finish_exchange(Operation& operation) const {
  const Shape& shape = operation.shape;
  const auto output_of = [&](ProcessId process) {
    return operation.output + static_cast<std::uint64_t>(process) * operation.stride;
  };
  if (shape.kind == Kind::kAlltoallLong)
    std::memcpy(output_of(self_), operation.input + static_cast<std::uint64_t>(self_) * operation.stride, shape.bytes);
  if (shape.kind != Kind::kAllgather && shape.kind != Kind::kAlltoallShort) return;
  for (int i = 0; i < processes_; ++i) {
    const int distance = shape.kind == Kind::kAllgather ? i : processes_ - i;
    std::memcpy(output_of(absolute(distance, self_)),
                operation.value.data() + static_cast<std::uint64_t>(i) * shape.bytes, shape.bytes);
  }
}

// --- sending ---

void Collectives::send(ProcessId to, Way way, const Operation& operation, std::uint32_t round, const std::byte* data,
                       std::size_t bytes) {
  if (letters_ && bytes <= Letter::kDataBytes) {
    Letter letter{operation.shape, round, static_cast<std::uint32_t>(bytes), {}};
    if (bytes != 0) std::memcpy(letter.data, data, bytes);
    return letters_.post(to, operation.sequence, &letter);
  }
  const Header header{operation.sequence, operation.shape, round, 0};
  const HandlerId handler = way == Way::kUp ? kUpHandler : way == Way::kDown ? kDownHandler : kAcrossHandler;
  std::vector<std::byte> packet(sizeof header + bytes);
  std::memcpy(packet.data(), &header, sizeof header);
  if (bytes != 0) std::memcpy(packet.data() + sizeof header, data, bytes);
  outbox_.send(to, handler, std::move(packet));  // C4
}

std::size_t Collectives::progress() {
  Done done;
  std::size_t ran = 0;
  {
    std::lock_guard lock(mutex_);
    if (outbox_.pending()) ran = outbox_.progress();
    if (open_.load(std::memory_order_relaxed) != 0) {  // under the lock
      std::size_t taken = 0;
      for_each_open([&](Operation& operation) { taken += take_letters(operation, done); });
      if (taken != 0) begin_operations(done);
      ran += taken;
    }
  }
  done.call();
  return ran;
}

std::uint64_t Collectives::calls() {
  std::lock_guard lock(mutex_);
  return next_sequence_;
}

void Collectives::give_up_from(std::uint64_t sequence) {
  Done done;
  {
    std::lock_guard lock(mutex_);
    if (sequence >= give_up_from_) return;
    give_up_from_ = sequence;
    if (sequence == 0) outbox_.clear();
    for (Operation& operation : operations_) {
      if (!operation.used || operation.sequence < sequence) continue;
      if (operation.begun)
        complete(operation, Outcome::kPeerFailed, done);
      else
        operation.used = false;
    }
    begin_operations(done);
  }
  done.call();
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
