// SPDX-License-Identifier: Apache-2.0
// libFuzzer on what lies above the wire in the net layer (net/calls, net/collectives, net/long_messages): one process of a job
// whose peers proved the secret and are broken. They send any bytes to these handlers, in any order, while this process
// issues genuine operations. Nothing is read or written outside its place, what no operation asked for is dropped, and once
// the peers have failed each accepted request has completed, once, and the process serves itself as before.
//
// The input: kHeadBytes that choose the job and what collectives this process calls, then steps (Process::step). A step's
// first byte says what happens; messages are made of few bytes, or are bytes of the input as they are (the raw ones).
// - A message whose shape is one that a sound process could send, but not the one that this process calls, is left out: that
//   ends the job by intention (collectives.hpp C1).
// - Room of more than kRoomBytesMax cannot be had here: a peer may ask for 1 GiB, which this process may refuse.
// - Functions of Calls are served on one thread that all inputs share; each input waits until its requests were served.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <new>
#include <span>
#include <utility>
#include <vector>

#include <ayatori/net/transport.hpp>
#include "base/log.hpp"
#include "net/calls.hpp"
#include "net/collectives.hpp"
#include "net/long_messages.hpp"

namespace {
constexpr std::size_t kRoomBytesMax = std::size_t{64} << 10;
thread_local bool running_input = false;
}  // namespace

// Not inlined: GCC 12 would find malloc() and delete, or new and free(), and warn.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  if (running_input && bytes > kRoomBytesMax) throw std::bad_alloc();
  void* const memory = std::malloc(std::max<std::size_t>(bytes, 1));
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
[[gnu::noinline]] void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return std::malloc(std::max<std::size_t>(bytes, 1));
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace {

using namespace ayatori::net;

constexpr std::size_t kPayloadBytesMax = 160;
constexpr int kProcessesMax = 16;
constexpr int kCallsMax = 64;  // collectives that one input calls
constexpr int kLongsMax = 100;
constexpr HandlerId kUp = kNetHandlers, kDown = kNetHandlers + 1, kAcross = kNetHandlers + 2;
constexpr HandlerId kLong = LongMessages::kHandler;
constexpr HandlerId kRequest = kNetHandlers + 4, kResult = kNetHandlers + 5;

// --- the messages, as they are on the wire ---

enum ShapeKind : std::uint8_t { kBarrier, kBroadcast, kReduce, kAllreduce, kGather, kAllgather, kShort, kAlltoall };
struct Shape {
  std::uint8_t kind = kBarrier;
  std::uint8_t element = 0;
  std::uint8_t op = 0;
  std::uint8_t padding = 0;
  std::int32_t root = 0;
  std::uint64_t bytes = 0;
  friend bool operator==(const Shape&, const Shape&) = default;
};
struct CollectiveHeader {
  std::uint64_t sequence;
  Shape shape;
  std::uint32_t round;
  std::uint32_t padding;
};
constexpr std::size_t kLetterDataBytes = 32;
struct Letter {
  Shape shape;
  std::uint32_t round;
  std::uint32_t bytes;
  std::byte data[kLetterDataBytes];
};
static_assert(sizeof(Letter) == Letters::kBytes);
struct LongHeader {
  std::uint32_t kind;  // ask, grant, refuse, part
  std::uint32_t handler;
  std::uint64_t id;
  std::uint64_t total_bytes;
  std::uint64_t offset;
};
struct CallHeader {
  std::uint64_t serial;
  std::uint32_t function;
  std::uint32_t padding;
};

using Packet = std::vector<std::byte>;
template <class Header>
Packet packet_of(const Header& header, std::size_t bytes, std::uint8_t filling) {
  Packet packet(sizeof header + bytes, std::byte{filling});
  std::memcpy(packet.data(), &header, sizeof header);
  return packet;
}

// --- a transport that does what it is told ---

class FakeTransport : public Transport {
 public:
  FakeTransport(ProcessId self, int processes) : self_(self), processes_(processes) {}

  // In a piece of memory of its own size, as a handler may assume it: 8-aligned.
  void deliver(ProcessId source, HandlerId id, std::span<const std::byte> payload) {
    void* const copy = std::malloc(std::max<std::size_t>(payload.size(), 1));
    if (!payload.empty()) std::memcpy(copy, payload.data(), payload.size());
    deliver(id, {source, static_cast<const std::byte*>(copy), payload.size(), {}});
    std::free(copy);
  }
  void deliver(HandlerId id, const Message& message) {
    if (id < handlers_.size() && handlers_[id].function != nullptr)
      handlers_[id].function(handlers_[id].context, message);
  }

  ProcessId self() const noexcept override { return self_; }
  int processes() const noexcept override { return processes_; }
  bool on_this_machine(ProcessId) const noexcept override { return true; }
  Capabilities capabilities() const noexcept override { return {}; }
  Limits limits() const noexcept override { return {kPayloadBytesMax, LongMessages::kBytesMax, 16}; }
  Counters counters() const noexcept override { return {}; }
  RegionId register_memory(void*, std::size_t, std::uint8_t) override { return kNoRegion; }
  void unregister_memory(RegionId) override {}
  void* direct_pointer(const RemoteAddress&, std::size_t) noexcept override { return nullptr; }
  bool try_read_async(const ReadParams&) override { return false; }
  bool try_write_async(const WriteParams&) override { return false; }
  bool try_atomic_async(const AtomicParams&) override { return false; }
  bool try_read_list_async(const ListParams&) override { return false; }
  bool try_write_list_async(const ListParams&) override { return false; }
  bool try_read_strided_async(const StridedParams&) override { return false; }
  bool try_write_strided_async(const StridedParams&) override { return false; }
  bool try_flush_async(ProcessId, Callback) override { return false; }
  bool try_fence(ProcessId) override { return false; }
  void set_handler(HandlerId id, HandlerFunction function, void* context) override {
    if (id >= handlers_.size() || handlers_[id].function != nullptr) std::abort();
    handlers_[id] = {function, context};
  }
  bool try_message_async(const MessageParams& params) override {  // to nobody
    if (params.destination < 0 || params.destination >= processes_) std::abort();
    params.on_complete({});
    return true;
  }
  bool try_rpc_async(const RpcParams&) override { return false; }
  void reply(const ReplyToken&, const void*, std::size_t) override {}
  bool try_barrier_async(Callback) override { return false; }
  bool try_broadcast_async(const BroadcastParams&) override { return false; }
  bool try_reduce_async(const ReduceParams&) override { return false; }
  bool try_gather_async(const GatherParams&) override { return false; }
  bool try_alltoall_async(const AlltoallParams&) override { return false; }
  void set_peer_failure_handler(PeerFailureFunction, void*) override {}
  bool peer_failed(ProcessId) const noexcept override { return false; }
  void start() override {}
  std::size_t progress() override { return 0; }
  bool wait(bool (*until)(void*), void* data, std::int64_t) override { return until(data); }
  void wake() noexcept override {}

 private:
  struct Handler {
    HandlerFunction function = nullptr;
    void* context = nullptr;
  };
  const ProcessId self_;
  const int processes_;
  std::array<Handler, kHandlersMax> handlers_;
};

// --- who serves calls ---

class Server {
 public:
  static Server& instance() {
    static Server* const server = new Server;  // its thread runs to the end
    return *server;
  }
  void request(ProcessId source, std::span<const std::byte> packet) {
    transport_.deliver(source, kRequest, packet);
    ++requests_;
  }
  void wait_until_served() {
    if (std::exchange(requests_, 0) == 0) return;
    const std::uint32_t before = seen_.load(std::memory_order_relaxed);
    const CallHeader last{0, kLastFunction, 0};
    transport_.deliver(kNobody, kRequest, std::as_bytes(std::span(&last, 1)));
    while (seen_.load(std::memory_order_acquire) == before) seen_.wait(before);  // pairs with the function's add
  }

 private:
  static constexpr Calls::FunctionId kEcho = 0, kNothing = 1, kLastFunction = Calls::kFunctionsMax - 1;
  static constexpr ProcessId kNobody = kProcessesMax;  // no input's source
  Server() : transport_(0, kProcessesMax + 1), calls_(transport_) {
    calls_.serve(
        kEcho,
        [](void*, ProcessId, std::span<const std::byte> argument) { return Bytes(argument.begin(), argument.end()); },
        nullptr);
    calls_.serve(kNothing, [](void*, ProcessId, std::span<const std::byte>) { return Bytes(); }, nullptr);
    calls_.serve(
        kLastFunction,
        [](void* seen, ProcessId caller, std::span<const std::byte>) {
          if (caller != kNobody) return Bytes();
          auto& number = *static_cast<std::atomic<std::uint32_t>*>(seen);
          number.fetch_add(1, std::memory_order_release);  // pairs with wait_until_served()
          number.notify_one();
          return Bytes();
        },
        &seen_);
    calls_.start();
  }

  FakeTransport transport_;
  std::atomic<std::uint32_t> seen_{0};
  Calls calls_;
  int requests_ = 0;
};

// --- the process ---

constexpr std::size_t kHeadBytes = 12;
alignas(64) std::byte letter_room[std::size_t{1024} * kProcessesMax * kProcessesMax];

class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size) : bytes_(data, size) {}
  bool ended() const { return bytes_.empty(); }
  std::uint8_t byte() {
    if (bytes_.empty()) return 0;
    const std::uint8_t byte = bytes_.front();
    bytes_ = bytes_.subspan(1);
    return byte;
  }
  int below(int bound) { return byte() % bound; }
  std::span<const std::byte> rest(std::size_t bytes) {
    const auto part = bytes_.first(std::min(bytes, bytes_.size()));
    bytes_ = bytes_.subspan(part.size());
    return std::as_bytes(part);
  }

 private:
  std::span<const std::uint8_t> bytes_;
};

class Process final : public FakeTransport {
 public:
  static void run(const std::uint8_t* data, std::size_t size) {
    Input input(data, size);
    const int processes = 1 + input.below(kProcessesMax);
    const ProcessId self = input.below(processes);
    Process process(self, processes, input);
    while (process.step()) continue;
    process.end();
  }

 private:
  Process(ProcessId self, int processes, Input& input)
      : FakeTransport(self, processes),
        input_(input),
        by_letters_(input.below(2) != 0),
        no_room_(input.byte()),
        collectives_(*this, letters(self)),
        long_messages_(*this, [](Transport& of, HandlerId id,
                                 const Message& message) { static_cast<Process&>(of).deliver(id, message); }),
        calls_(*this) {
    set_handler(
        kUserHandlers,
        [](void* of, const Message& message) {
          auto& process = *static_cast<Process*>(of);
          for (std::size_t i = 0; i < message.size_bytes; ++i)
            process.sum_ += std::to_integer<unsigned>(message.payload[i]);
          process.from_self_ += message.source == process.self();
        },
        this);
    static_assert(kHeadBytes == 4 + 2 * kPlanned);
    for (Planned& planned : planned_) {
      planned.what = input.byte();
      planned.size = input.byte();
      cut(planned);
    }
  }

  // One step of the input. False: there is none.
  bool step() {
    if (input_.ended()) return false;
    switch (input_.below(18)) {
      case 0: call_collective(); break;
      case 1: made_collective(); break;
      case 2: raw_collective(); break;
      case 3: made_letter(); break;
      case 4: raw_letter(); break;
      case 5: {
        const ProcessId to = source();
        start_long(to, kPayloadBytesMax + 1 + std::size_t{input_.byte()} * 2);
        break;
      }
      case 6: made_long(); break;
      case 7: raw(kLong); break;
      case 8: call(); break;
      case 9: {
        const ProcessId from = source();
        const CallHeader header{input_.byte(), 0, 0};
        send(from, kResult, packet_of(header, input_.byte(), 7));
        break;
      }
      case 10: {
        const ProcessId from = source();
        const CallHeader header{input_.byte(), input_.byte() % (Calls::kFunctionsMax + 1), 0};
        Server::instance().request(from, packet_of(header, std::size_t{input_.byte()} * 2, 7));
        break;
      }
      case 11: make_progress(); break;
      case 12: fail(source()); break;
      case 13: {
        const ProcessId who = source();
        leave(who, input_.byte());
        break;
      }
      case 14: raw(static_cast<HandlerId>(input_.below(2) != 0 ? kResult : kRequest)); break;
      case 15: {
        const ProcessId from = source();
        const std::uint64_t sequence = some_sequence();
        sound_collective(from, sequence, input_.byte());
        break;
      }
      case 16: {
        const std::uint64_t sequence = some_sequence();
        const std::uint8_t flaw = input_.byte();
        for (int twice = 0; twice < 2; ++twice)  // what comes down is taken after what goes up
          for (ProcessId p = 0; p < processes(); ++p) sound_collective(p, sequence, flaw);
        break;
      }
      default: no_room_ = input_.byte();
    }
    return true;
  }

  // The broken peers fail. What this process was promised comes nevertheless.
  void end() {
    for (ProcessId p = 0; p < processes(); ++p) fail(p);
    no_room_ = 0;
    running_ = false;
    for (int i = 0; i < 100 && (i == 0 || long_messages_.under_way()); ++i) make_progress();  // of messages to itself
    for (const Request& request : requests_)
      if (request.completed != 1) std::abort();  // N3
    // Nothing is left of them: a message for which there is never room is refused at once, others come.
    from_self_ = 0;
    start_long(self(), LongMessages::kBytesMax);
    start_long(self(), kPayloadBytesMax + 1);
    for (int i = 0; i < 10 && long_messages_.under_way(); ++i) make_progress();
    make_progress();  // it comes
    const std::size_t count = requests_.size();
    if (requests_[count - 2].completed != 1 || requests_[count - 2].outcome != Outcome::kTooLarge) std::abort();
    if (requests_[count - 1].completed != 1 || requests_[count - 1].outcome != Outcome::kOk) std::abort();
    if (from_self_ != 1 || long_messages_.under_way() || long_messages_.pending()) std::abort();
    Server::instance().wait_until_served();
  }

  // --- genuine operations ---

  struct Request {
    std::vector<std::byte> input, output;
    int completed = 0;
    Outcome outcome = Outcome::kOk;
  };
  // Until end(). One that is not accepted counts as completed.
  Request& new_request(std::size_t input_bytes, std::size_t output_bytes) {
    Request& request = requests_.emplace_back();
    request.input.resize(input_bytes);
    request.output.resize(output_bytes);
    return request;
  }
  static Callback callback_of(Request& request) {
    return {[](void* of, Completion completion) {
              auto& its = *static_cast<Request*>(of);
              its.outcome = completion.outcome;
              ++its.completed;
            },
            &request};
  }

  // The n-th call of this process is planned_[n % kPlanned], so the shape of each operation is known (shape_of()).
  static constexpr int kPlanned = 4;
  struct Planned {
    std::uint8_t what = 0;
    std::uint8_t size = 0;
    ShapeKind kind() const { return static_cast<ShapeKind>(what % 7); }  // kShort: any alltoall
    ProcessId root(int processes) const { return what / 7 % processes; }
    Element element() const { return static_cast<Element>(size % 3); }
    ReduceOp op() const { return static_cast<ReduceOp>(size / 64 % (element() == Element::kF64 ? 3 : 4)); }
    std::size_t bytes() const {
      if (kind() == kBarrier) return 0;
      if (kind() == kBroadcast) return std::size_t{size} * 2;
      return kind() <= kAllreduce ? size % 64u * 8u : size % 64u;
    }
  };
  void cut(const Planned& planned) {
    const auto n = static_cast<std::size_t>(processes());
    constexpr std::size_t kRoom = kPayloadBytesMax - sizeof(CollectiveHeader);
    const std::size_t half = kRoom / std::max<std::size_t>(n / 2, 1);
    Shape shape;
    shape.kind = planned.kind();
    std::size_t part = kRoom;
    if (shape.kind == kBroadcast || shape.kind == kReduce || shape.kind == kGather)
      shape.root = planned.root(processes());
    if (shape.kind == kGather) part = kRoom / n - 4;
    if (shape.kind == kAllgather) part = half;
    if (shape.kind == kShort && (n <= 2 || planned.bytes() > half))
      shape.kind = kAlltoall;
    else if (shape.kind == kShort)
      part = half;
    if (shape.kind == kReduce || shape.kind == kAllreduce) {
      shape.element = static_cast<std::uint8_t>(planned.element());
      shape.op = static_cast<std::uint8_t>(planned.op());
    }
    for (std::size_t left = planned.bytes();;) {
      shape.bytes = std::min(part, left);
      shapes_.push_back(shape);
      left -= shape.bytes;
      if (left == 0) break;
    }
  }
  const Shape& shape_of(std::uint64_t sequence) const { return shapes_[sequence % shapes_.size()]; }

  void call_collective() {
    if (called_ == kCallsMax) return;
    const Planned& planned = planned_[called_ % kPlanned];
    const std::size_t one = planned.bytes(), all = one * static_cast<std::size_t>(processes());
    const ProcessId root = planned.root(processes());
    const bool is_root = self() == root;
    bool accepted = false;
    Request* request = nullptr;
    switch (planned.kind()) {
      case kBarrier:
        request = &new_request(0, 0);
        accepted = collectives_.start_barrier(callback_of(*request));
        break;
      case kBroadcast:
        request = &new_request(0, one);
        accepted = collectives_.start_broadcast({root, request->output.data(), one, callback_of(*request)});
        break;
      case kReduce:
      case kAllreduce: {
        const bool to_all = planned.kind() == kAllreduce;
        request = &new_request(one, to_all || is_root ? one : 0);
        accepted = collectives_.start_reduce({request->input.data(), request->output.data(), one / 8, planned.element(),
                                              planned.op(), callback_of(*request), to_all ? kAllProcesses : root});
        break;
      }
      case kGather:
      case kAllgather: {
        const bool to_all = planned.kind() == kAllgather;
        request = &new_request(one, to_all || is_root ? all : 0);
        accepted = collectives_.start_gather(
            {to_all ? kAllProcesses : root, request->input.data(), request->output.data(), one, callback_of(*request)});
        break;
      }
      default:
        request = &new_request(all, all);
        accepted =
            collectives_.start_alltoall({request->input.data(), request->output.data(), one, callback_of(*request)});
    }
    if (accepted)
      ++called_;
    else
      requests_.pop_back();
  }

  void start_long(ProcessId to, std::size_t bytes) {
    if (++longs_ > kLongsMax && running_) return;
    // What is refused is not read.
    Request& request = new_request(bytes <= kRoomBytesMax ? bytes : 0, 0);
    const MessageParams params{to, kUserHandlers, request.input.data(), bytes, callback_of(request)};
    if (!long_messages_.start(params)) request.completed = 1;
  }

  // The next steps happen while it waits.
  void call() {
    const ProcessId to = source();
    const std::size_t bytes = std::size_t{input_.byte()} * 2;
    if (in_call_ || to == self()) return;
    in_call_ = true;
    const Packet argument(bytes);
    const auto result = calls_.call(to, 0, argument);
    in_call_ = false;
    if (!result && !has_failed(to)) std::abort();  // calls.hpp C2
  }

  void make_progress() {
    collectives_.letters_came();
    collectives_.progress();
    long_messages_.progress();
    to_self_.swap(arriving_);
    for (const ToSelf& message : arriving_) deliver(self(), message.handler, message.payload);
    arriving_.clear();
  }

  // --- what peers do ---

  ProcessId source() { return input_.below(processes()); }
  bool has_failed(ProcessId process) const { return (failed_ >> process & 1) != 0; }

  // Of whom the transport knows to have failed nothing comes any more. This process is not broken itself.
  void send(ProcessId from, HandlerId handler, std::span<const std::byte> packet) {
    if (from == self() || has_failed(from)) return;
    if (handler <= kAcross && packet.size() >= sizeof(CollectiveHeader)) {
      CollectiveHeader header;
      std::memcpy(&header, packet.data(), sizeof header);
      if (other_call(header.sequence, header.shape)) return;
    }
    if (handler == kRequest)
      Server::instance().request(from, packet);
    else
      deliver(from, handler, packet);
  }
  // C1: see the top.
  bool other_call(std::uint64_t sequence, const Shape& shape) const {
    return shape != shape_of(sequence) && shape.kind <= kAlltoall && shape.element <= 2 && shape.op <= 4 &&
           shape.padding == 0 && shape.root >= 0 && shape.root < processes() && shape.bytes <= kPayloadBytesMax;
  }

  void raw(HandlerId handler) {
    const ProcessId from = source();
    send(from, handler, input_.rest(input_.byte()));
  }
  void raw_collective() { raw(static_cast<HandlerId>(kUp + input_.below(3))); }

  std::uint64_t some_sequence() { return collectives_.calls() + static_cast<std::uint64_t>(input_.below(24)) - 12; }
  std::size_t some_length(const Shape& shape) {
    const std::uint8_t choice = input_.byte();
    const std::size_t entry = shape.kind == kGather ? shape.bytes + 4 : shape.bytes;
    return choice < 128 ? std::min<std::size_t>(entry * (choice % 17), 4 * kPayloadBytesMax) : choice - 128u;
  }
  void made_collective() {
    const ProcessId from = source();
    const std::uint64_t sequence = some_sequence();
    const Shape shape = shape_of(sequence);
    const std::uint8_t way_and_round = input_.byte();
    const std::size_t bytes = some_length(shape);
    send(from, static_cast<HandlerId>(kUp + way_and_round % 3),
         packet_of(CollectiveHeader{sequence, shape, way_and_round / 3u % 20u, 0}, bytes, input_.byte()));
  }

  // What a sound process sends to this one, if it does; `flaw` 0 to 3: but for something.
  void sound_collective(ProcessId from, std::uint64_t sequence, std::uint8_t flaw) {
    const Shape shape = shape_of(sequence);
    const int n = processes();
    HandlerId way = kAcross;
    std::uint32_t round = 0;
    std::size_t bytes = 0;
    if (shape.kind == kBarrier || shape.kind >= kAllgather) {
      const bool back = shape.kind == kAllgather;
      const int distance = (back ? from - self() + n : self() - from + n) % n;
      if (distance == 0) return;
      if (shape.kind == kAlltoall) {
        round = static_cast<std::uint32_t>(distance - 1);
        bytes = shape.bytes;
      } else {
        if ((distance & (distance - 1)) != 0) return;
        while (1 << round != distance) ++round;
        if (shape.kind == kAllgather) bytes = shape.bytes * static_cast<std::size_t>(std::min(distance, n - distance));
        for (int i = 0; shape.kind == kShort && i < n; ++i)
          if ((i & distance) != 0) bytes += shape.bytes;
      }
    } else {
      const int rank = (self() - shape.root + n) % n, other = (from - shape.root + n) % n;
      const bool up = other != 0 && (other - 1) / 4 == rank;
      if (!up && (rank == 0 || other != (rank - 1) / 4)) return;
      way = up ? kUp : kDown;
      if (shape.kind == kAllreduce || shape.kind == (up ? kReduce : kBroadcast)) bytes = shape.bytes;
      if (up && shape.kind == kGather)
        for (int first = other, last = other; first < n; first = 4 * first + 1, last = 4 * last + 4)
          bytes += static_cast<std::size_t>(std::min(last, n - 1) - first + 1) * (4 + shape.bytes);
    }
    if (flaw == 0) ++bytes;
    if (flaw == 1) bytes -= std::min<std::size_t>(bytes, 1);
    if (flaw == 2) ++round;
    if (flaw == 3) way = way == kUp ? kDown : kUp;
    const std::uint8_t filling = flaw % 3 == 0 ? 0 : flaw;  // 0: of a gather's process numbers, too
    if (bytes <= kLetterDataBytes && by_letters_ && flaw % 4 != 0) {
      Letter letter{shape, round, static_cast<std::uint32_t>(bytes), {}};
      std::memset(letter.data, filling, sizeof letter.data);
      post(from, sequence, letter);
    } else {
      send(from, way, packet_of(CollectiveHeader{sequence, shape, round, 0}, bytes, filling));
    }
  }

  void post(ProcessId from, std::uint64_t sequence, const Letter& letter) {
    if (!by_letters_ || from == self() || has_failed(from) || other_call(sequence, letter.shape)) return;
    letters(from).post(self(), sequence, &letter);
  }
  void made_letter() {
    const ProcessId from = source();
    const std::uint64_t sequence = some_sequence();
    Letter letter{shape_of(sequence), input_.byte() % 20u, 0, {}};
    letter.bytes = static_cast<std::uint32_t>(some_length(letter.shape));
    std::memset(letter.data, input_.byte(), sizeof letter.data);
    post(from, sequence, letter);
  }
  void raw_letter() {
    const ProcessId from = source();
    const std::uint64_t sequence = some_sequence();
    const auto bytes = input_.rest(sizeof(Letter));
    Letter letter{};
    if (!bytes.empty()) std::memcpy(static_cast<void*>(&letter), bytes.data(), bytes.size());
    post(from, sequence, letter);
  }

  void made_long() {
    constexpr std::uint64_t kTotals[] = {kPayloadBytesMax + 1,
                                         kPayloadBytesMax + 40,
                                         0,
                                         1,
                                         kPayloadBytesMax,
                                         kRoomBytesMax * 2,
                                         LongMessages::kBytesMax - 1,
                                         ~0ul,
                                         LongMessages::kBytesMax + 1,
                                         LongMessages::kBytesMax};
    constexpr std::uint32_t kHandlers[] = {kUserHandlers, kUserHandlers, kLong,    kUp,          kDown,
                                           kAcross,       kResult,       kRequest, kHandlersMax, kHandlersMax - 1};
    const ProcessId from = source();
    LongHeader header{};
    header.kind = input_.byte() % 5u;
    header.handler = kHandlers[input_.below(std::size(kHandlers))];
    header.id = input_.byte();
    header.total_bytes = kTotals[input_.below(std::size(kTotals))];
    header.offset = input_.byte();
    if (header.offset == 255) header.offset = ~std::uint64_t{0} - 16;
    Packet packet = packet_of(header, input_.byte(), 1);
    // of a part: perhaps a message inside
    const auto inside = input_.rest(input_.below(2) != 0 ? packet.size() - sizeof header : 0);
    if (!inside.empty()) std::memcpy(packet.data() + sizeof header, inside.data(), inside.size());
    send(from, kLong, packet);
  }

  // A transport tells of each once. In the end those fail, too, that have left: so calls of them return.
  void fail(ProcessId process) {
    if (process == self() || has_failed(process)) return;
    failed_ |= std::uint64_t{1} << process;
    calls_.on_peer_failed(process);
    collectives_.on_peer_failure();
    long_messages_.on_peer_failed(process);
  }
  void leave(ProcessId process, std::uint64_t calls) {
    if (process == self() || has_failed(process) || (left_ >> process & 1) != 0) return;
    left_ |= std::uint64_t{1} << process;
    collectives_.on_peer_left(calls);
    long_messages_.on_peer_left(process);
  }

  // --- the transport ---

  bool try_message_async(const MessageParams& params) override {
    if (params.destination < 0 || params.destination >= processes()) std::abort();
    if (params.size_bytes > kPayloadBytesMax && params.on_complete.function == nullptr) std::abort();
    if (!has_failed(params.destination) && (no_room_ >> (tries_++ % 8) & 1) != 0) return false;
    if (params.destination == self()) {
      const auto* const bytes = static_cast<const std::byte*>(params.payload);
      to_self_.push_back({params.handler, Packet(bytes, bytes + params.size_bytes)});
    }
    params.on_complete({has_failed(params.destination) ? Outcome::kPeerFailed : Outcome::kOk, 0, 0});
    return true;
  }
  bool peer_failed(ProcessId process) const noexcept override { return has_failed(process); }
  bool wait(bool (*until)(void*), void* data, std::int64_t) override {
    while (!until(data)) {
      if (step()) continue;
      for (ProcessId p = 0; p < processes(); ++p) fail(p);
      if (!until(data)) std::abort();
    }
    return true;
  }

  Letters letters(ProcessId of) {
    if (!by_letters_) return {};
    const std::size_t bytes = Letters::bytes_needed(processes());
    if (bytes > sizeof letter_room) std::abort();
    // Only what comes to this process is looked at.
    const std::size_t mine = bytes / static_cast<std::size_t>(processes());
    if (!letters_cleared_) std::memset(letter_room + mine * static_cast<std::size_t>(self()), 0, mine);
    letters_cleared_ = true;
    return {letter_room, processes(), of, [](void*, ProcessId) {}, nullptr};
  }

  struct ToSelf {
    HandlerId handler;
    Packet payload;
  };

  Input& input_;
  const bool by_letters_;
  bool letters_cleared_ = false;
  std::uint8_t no_room_;  // bit: that try of 8 finds none
  std::uint64_t tries_ = 0;
  Collectives collectives_;
  LongMessages long_messages_;
  Calls calls_;  // never started: Server serves
  std::array<Planned, kPlanned> planned_;
  std::vector<Shape> shapes_;
  int called_ = 0;
  int longs_ = 0;
  bool running_ = true;  // not in end()
  bool in_call_ = false;
  std::deque<Request> requests_;
  std::vector<ToSelf> to_self_, arriving_;
  std::uint64_t failed_ = 0, left_ = 0;
  unsigned sum_ = 0;
  int from_self_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < kHeadBytes) return 0;
  ayatori::base::set_log_level(ayatori::base::LogLevel::kError);
  Server::instance();
  running_input = true;
  Process::run(data, size);
  running_input = false;
  return 0;
}
