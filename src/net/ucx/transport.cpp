// SPDX-License-Identifier: Apache-2.0
#include "net/ucx/transport.hpp"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sodium.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.hpp"
#include "base/clock.hpp"
#include "base/log.hpp"
#include "net/served/serve.hpp"
#include "net/served/thread_state.hpp"
#include "net/tcp/stream.hpp"

namespace ayatori::net::ucx {

using served::FrameHeader;
using served::FrameKind;
using served::Peer;
using served::PeerSink;
using served::Work;

namespace {

constexpr const char* kLoopbackDevice = "lo";
constexpr std::int64_t kLinkNs = 3'000'000'000;
constexpr ProcessId kWireMark = kMaxProcesses;                      // in epoll_: UCX's descriptor
constexpr std::size_t kLineFramesBytes = 2 * served::kHeaderBytes;  // more than that at once on a line is data

bool has_device(std::string_view name) {
  const std::string device(name.substr(0, name.find(':')));  // "mlx5_0:1": the port of an adapter
  if (device.empty() || device.find('/') != std::string::npos) return false;
  return ::if_nametoindex(device.c_str()) != 0 || ::access(("/sys/class/infiniband/" + device).c_str(), F_OK) == 0;
}

// An interface that is down, or has just been brought up; an adapter's name is none.
bool is_down(std::string_view name) {
  ifreq request{};
  if (name.size() >= sizeof request.ifr_name) return false;
  std::memcpy(request.ifr_name, name.data(), name.size());
  const tcp::Socket any(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  constexpr short kReady = IFF_UP | IFF_RUNNING;
  return ::ioctl(any.fd(), SIOCGIFFLAGS, &request) == 0 && (request.ifr_flags & kReady) != kReady;
}

// Links need a moment.
bool stays_down(std::string_view name) {
  const std::int64_t end_ns = base::real_now_ns() + kLinkNs;
  while (is_down(name)) {
    if (base::real_now_ns() > end_ns) return true;
    ::poll(nullptr, 0, 50);
  }
  return false;
}

std::string interfaces() {
  std::string names;
  struct if_nameindex* const all = ::if_nameindex();
  for (const struct if_nameindex* each = all; each != nullptr && each->if_index != 0; ++each)
    names += (names.empty() ? "" : ", ") + std::string(each->if_name);
  ::if_freenameindex(all);
  return names;
}

// With commas between them.
std::vector<std::string> names_in(std::string_view list) {
  std::vector<std::string> names;
  std::size_t comma = 0;
  while ((comma = list.find(',')) != std::string_view::npos) {
    names.emplace_back(list.substr(0, comma));
    list.remove_prefix(comma + 1);
  }
  names.emplace_back(list);
  return names;
}

// UCX passes over a device that it does not know, or that is down, and takes what is left.
base::Status check_devices(std::string_view devices) {
  for (const std::string& name : names_in(devices)) {
    if (name == "all")
      return base::error_status(base::Code::kInvalid,
                                "ucx: UCX_NET_DEVICES names the devices to use, never all of them; this machine has {}",
                                interfaces());
    if (!has_device(name))
      return base::error_status(base::Code::kInvalid,
                                "ucx: this machine has no network device '{}' (UCX_NET_DEVICES); it has {}", name,
                                interfaces());
    if (stays_down(name))
      return base::error_status(base::Code::kUnavailable,
                                "ucx: the network device '{}' is down: bring it up, or name another (UCX_NET_DEVICES)",
                                name);
  }
  return base::ok_status();
}

// Where UCX can use nothing but TCP, by interfaces of the kernel: this machine's addresses at these. Else none.
std::vector<tcp::SocketAddress> addresses_for_tcp_alone(const UcxConfig& config) {
  const std::vector<std::string> devices = names_in(config.devices), transports = names_in(config.transports);
  const bool tcp_alone = std::all_of(transports.begin(), transports.end(),
                                     [](const std::string& name) { return name == "tcp" || name == "self"; });
  if (!config.transports.empty() && !tcp_alone) return {};
  for (const std::string& device : devices)
    if (::if_nametoindex(device.c_str()) == 0) return {};
  std::vector<tcp::SocketAddress> addresses;
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) return {};
  for (const ifaddrs* each = all; each != nullptr; each = each->ifa_next) {
    const int family = each->ifa_addr != nullptr ? each->ifa_addr->sa_family : AF_UNSPEC;
    if ((family != AF_INET && family != AF_INET6) ||
        std::find(devices.begin(), devices.end(), each->ifa_name) == devices.end())
      continue;
    tcp::SocketAddress address;
    address.bytes = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    std::memcpy(&address.storage, each->ifa_addr, address.bytes);
    addresses.push_back(address);
  }
  ::freeifaddrs(all);
  return addresses;
}

// UCX's names of ways, as UCX_TLS takes them: of adapters, and of shared memory.
bool is_adapters(const std::string& name) {
  constexpr std::array kNames{"rc", "rc_v", "rc_x", "rc_verbs", "rc_mlx5", "dc", "dc_x", "dc_mlx5",
                              "ud", "ud_v", "ud_x", "ud_verbs", "ud_mlx5", "ib", "ugni", "self"};
  return std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}
bool is_memorys(const std::string& name) {
  constexpr std::array kNames{"sm", "shm", "mm", "posix", "sysv", "xpmem", "cma", "knem"};
  return std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}

bool may_use_tcp(const UcxConfig& config) {
  const std::vector<std::string> devices = names_in(config.devices), transports = names_in(config.transports);
  const bool by_name = std::all_of(transports.begin(), transports.end(),
                                   [](const std::string& name) { return is_adapters(name) || is_memorys(name); });
  if (!config.transports.empty() && by_name) return false;
  return std::any_of(devices.begin(), devices.end(),
                     [](const std::string& device) { return ::if_nametoindex(device.c_str()) != 0; });
}

// Over which a trial within this machine may have gone. By itself UCX takes no shared memory (wire.cpp).
bool may_use_memory(const UcxConfig& config) {
  const std::vector<std::string> transports = names_in(config.transports);
  return !config.transports.empty() && !std::all_of(transports.begin(), transports.end(), is_adapters);
}

bool goes_by(const std::vector<tcp::SocketAddress>& addresses, int connection) {
  tcp::SocketAddress own;
  own.bytes = sizeof own.storage;
  return !addresses.empty() && ::getsockname(connection, own.get(), &own.bytes) == 0 &&
         std::any_of(addresses.begin(), addresses.end(), [&own](const tcp::SocketAddress& address) {
           return tcp::is_same_host(*address.get(), *own.get());
         });
}

std::string given_or(const std::string& value, const char* variable, const char* otherwise) {
  if (!value.empty()) return value;
  const char* const set = std::getenv(variable);
  return set != nullptr && *set != '\0' ? set : otherwise;
}

}  // namespace

base::Status UcxTransport::create(UcxConfig config, std::unique_ptr<UcxTransport>* transport) {
  tcp::Socket listener(config.listener);
  config.devices = given_or(config.devices, "UCX_NET_DEVICES", kLoopbackDevice);
  config.transports = given_or(config.transports, "UCX_TLS", "");
  if (base::Status status = check_devices(config.devices); !status) return status;
  std::unique_ptr<Wire> wire;
  const bool tries = config.uses_reach && !may_use_tcp(config);  // U4
  if (base::Status status = Wire::open({config.processes, config.devices, config.transports, tries}, &wire); !status)
    return status;
  config.listener = listener.release();
  transport->reset(new UcxTransport(std::move(config), std::move(wire)));
  return base::ok_status();
}

UcxTransport::UcxTransport(UcxConfig&& config, std::unique_ptr<Wire>&& wire)
    : ServedTransport(config, "ucx"), config_(std::move(config)), wire_(std::move(wire)), entrance_(config_) {
  for (ProcessId p = 0; p < processes_; ++p)
    peers_.push_back(std::make_unique<UcxPeer>(p, limits_, config_.send_queue_bytes, reply_bytes_max()));
  set_key_handlers();
}

// --- start and end ---

void UcxTransport::start() {
  std::vector<tcp::Socket> sockets = entrance_.take();
  std::vector<Card> mine(sockets.size());
  for (const std::unique_ptr<Peer>& each : peers_) {
    UcxPeer& other = wire(*each);
    randombytes_buf(&other.token, sizeof other.token);
    const auto address = wire_->address();
    mine[static_cast<std::size_t>(other.process)] = {other.token, {address.begin(), address.end()}, exposes_};
  }
  std::vector<tcp::SocketAddress> data_addresses;  // of lines that carry data: control.hpp C4
  if (config_.long_data_by_line) data_addresses = addresses_for_tcp_alone(config_);
  std::vector<Card> theirs = exchange_cards(sockets, mine, config_.start_timeout_ns);
  for (const std::unique_ptr<Peer>& each : peers_) {
    const auto p = static_cast<std::size_t>(each->process);
    if (!sockets[p]) continue;
    UcxPeer& other = wire(*each);
    other.card = std::move(theirs[p]);
    watch(sockets[p].fd(), EPOLLIN, other.process);
    other.last_line_ns = base::real_now_ns();
    std::lock_guard lock(other.mutex);
    if (exposes_ && other.card.reaches && (!may_use_memory(config_) || on_this_machine(other.process)))
      reached_ |= bit_of(other.process);
    if (goes_by(data_addresses, sockets[p].fd())) other.long_queue = &other.line.queue;
    other.line.socket = std::move(sockets[p]);
    other.open = true;
  }
  watch(wire_->descriptor(), EPOLLIN, kWireMark);
  begin();
}

UcxTransport::~UcxTransport() {
  if (end()) leave();  // D7
  forget_keys();
}

// Sends what is still to be sent, says goodbye, and stays until the peers have all of it and hung up, or leave too. Nobody
// else uses the object any more.
void UcxTransport::leave() {
  FrameHeader goodbye;
  goodbye.kind = FrameKind::kLeave;
  goodbye.total = collective_calls();
  const void* const before = std::exchange(served::thread_state().polls, this);
  leaving_ = true;
  const std::int64_t start_ns = base::real_now_ns();
  std::uint64_t said = 0;
  std::uint64_t shut = 0;
  std::vector<pollfd> polled;
  while (true) {
    wire_->progress(*this);
    after_progress();
    polled.clear();
    for (const std::unique_ptr<Peer>& each : peers_) {
      UcxPeer& to = wire(*each);
      Line& line = to.line;
      if (!line.socket) continue;
      send_batches(to);
      send_ops(to);
      if ((said & bit_of(to.process)) == 0 && (to.deaf || (!to.sending && to.queue.idle())) && !has_ops(to) &&
          line.queue.idle()) {
        goodbye.serial = to.batches;
        line.queue.push_reply(goodbye);
        said |= bit_of(to.process);
      }
      send_line(to);
      if ((said & ~shut & bit_of(to.process)) != 0 && line.queue.idle()) {
        ::shutdown(line.socket.fd(), SHUT_WR);
        shut |= bit_of(to.process);
      }
      if (tcp::drop_some(line.socket.fd()))
        line.socket.close();
      else
        polled.push_back({line.socket.fd(), static_cast<short>(line.queue.idle() ? POLLIN : POLLIN | POLLOUT), 0});
    }
    if (polled.empty() || base::real_now_ns() - start_ns > kLeaveNs) break;
    ::poll(polled.data(), polled.size(), 1);
  }
  served::thread_state().polls = before;
}

void UcxTransport::sever() noexcept {
  for (const std::unique_ptr<Peer>& each : peers_) {
    std::lock_guard lock(each->mutex);
    if (each->open) ::shutdown(wire(*each).line.socket.fd(), SHUT_RDWR);
  }
}

void UcxTransport::stand_still() noexcept {
  base::Backoff backoff;
  while (!poll_lock_.try_lock()) backoff.wait();
}

bool UcxTransport::try_close(Peer& whom) {
  UcxPeer& it = wire(whom);
  it.deaf = true;
  if (!let_go(it)) return false;
  greeting_ &= ~bit_of(it.process);
  it.inbox.clear();
  if (it.line.socket) ::epoll_ctl(epoll_.fd(), EPOLL_CTL_DEL, it.line.socket.fd(), nullptr);  // a fork may hold it
  it.line.socket.close();
  it.line.queue.clear();
  full_ &= ~bit_of(it.process);
  return true;
}

void UcxTransport::heartbeat(Peer& to, std::int64_t now_ns, bool was_away) {
  UcxPeer& other = wire(to);
  if (was_away) other.last_line_ns = now_ns;
  // Batches may come by another path: of a line that stands still they tell nothing.
  if (!other.said_leave && now_ns - other.last_line_ns > config_.heartbeat_timeout_ns)
    return accuse(other, "nothing was heard on its connection for too long");
  if (now_ns - other.last_beat_ns < config_.heartbeat_interval_ns) return;
  other.last_beat_ns = now_ns;
  FrameHeader beat;
  beat.kind = FrameKind::kHeartbeat;
  {
    std::lock_guard lock(other.mutex);
    if (!other.line.queue.idle()) return;  // what waits there is heard, too
    other.line.queue.push_reply(beat);
  }
  dirty_ |= bit_of(other.process);
}

// --- sending ---

void UcxTransport::pump(Peer& to) {
  if (polls()) {
    send_batches(wire(to));
    send_ops(wire(to));
    return send_line(wire(to));
  }
  posted_.fetch_or(bit_of(to.process), std::memory_order_seq_cst);  // before the look at the lock: U1
  send_posted();
}

void UcxTransport::send_posted() {
  // seq_cst, a read-modify-write: behind the caller's unlock, or behind its bit; so of one who posts and one who releases the
  // lock, the later sees what the earlier did (U1)
  while (posted_.fetch_or(0, std::memory_order_seq_cst) != 0 && poll_lock_.try_lock()) {
    const void* const before = std::exchange(served::thread_state().polls, this);
    dirty_ |= posted_.exchange(0, std::memory_order_seq_cst);
    const std::uint64_t to = dirty_;
    pump_dirty();
    bool under_way = greeting_ != 0;
    for (std::uint64_t left = to; left != 0; left &= left - 1) {
      const UcxPeer& each = wire(peer(std::countr_zero(left)));
      under_way |= each.sending || each.ops_under_way != 0;
    }
    served::thread_state().polls = before;
    poll_lock_.unlock();
    ring_if_ended();
    if (!under_way) continue;
    armed_.store(true, std::memory_order_relaxed);  // whoever is woken arms: U2
    ring_all();
  }
  if (wire_news_.load(std::memory_order_relaxed)) ring_all();  // of this thread, or whoever set it rings, too
}

void UcxTransport::send_batches(UcxPeer& to) {
  std::array<iovec, 1 + served::SendQueue::kPartsOfOneSegmentMax> parts;
  std::unique_lock lock(to.mutex);
  if (!to.wired && to.open && !to.deaf && (to.has_greeted || !to.queue.idle())) {
    lock.unlock();
    greet(to);
    lock.lock();
  }
  for (int batches = 0; to.wired && to.open && !to.sending && !to.deaf && to.queue.compose(); ++batches) {
    if (batches == kBatchesPerSend) {  // then others, and what arrives
      posted_.fetch_or(bit_of(to.process), std::memory_order_seq_cst);
      break;
    }
    const std::span<iovec> batch = to.queue.batch();
    BatchHeader header{to.card.token, to.batches++, static_cast<std::uint32_t>(self_), 0};
    parts[0] = {&header, sizeof header};
    std::copy(batch.begin(), batch.end(), parts.begin() + 1);
    std::size_t bytes = 0;
    for (const iovec& part : batch) bytes += part.iov_len;
    lock.unlock();
    const Wire::Sent sent = wire_->send(to.process, std::span(parts).first(1 + batch.size()));
    to.sending = sent == Wire::Sent::kUnderWay;
    if (sent == Wire::Sent::kFailed) give_up(to, wire_->trouble(to.process));
    lock.lock();
    to.queue.advance(bytes);  // copied, or of no use any more
  }
  const bool some_ended = has_ended_some(to);
  lock.unlock();
  batch_ended(some_ended);
}

// What waits for the line (control.hpp C2, C4).
void UcxTransport::send_line(UcxPeer& to) {
  Line& line = to.line;
  std::unique_lock lock(to.mutex);
  if (!line.socket || line.deaf) return;
  bool full = false;
  std::size_t bytes = 0;
  for (int batches = 0; !full && line.queue.compose(); ++batches) {
    full = batches == kBatchesPerSend || bytes >= kLineBytesPerSend;  // epoll says at once that there is room
    if (full) break;
    lock.unlock();
    const std::ptrdiff_t sent = tcp::send_some(line.socket.fd(), line.queue.batch());
    lock.lock();
    line.deaf = sent < 0;
    full = sent <= 0;
    if (full) break;
    line.queue.advance(static_cast<std::size_t>(sent));
    if (!line.queue.batch().empty()) line.queue.cut();
    bytes += static_cast<std::size_t>(sent);
  }
  if (full) line.queue.cut();
  const bool wants_out = full && !line.deaf;
  if (wants_out == ((full_ & bit_of(to.process)) != 0)) return;
  full_ ^= bit_of(to.process);
  watch_room(line.socket.fd(), wants_out, to.process);
}

// The next step of U5.
void UcxTransport::greet(UcxPeer& to) {
  BatchHeader header{to.card.token, 0, static_cast<std::uint32_t>(self_), 1};
  if (!to.greeted) {
    const char* why = wire_->connected(to.process) ? nullptr : wire_->connect(to.process, to.card.address);  // U3
    if (why != nullptr) return give_up(to, why);
    const Wire::Sent sent = wire_->greet(to.process, std::as_bytes(std::span(&header, 1)));
    if (sent == Wire::Sent::kFailed) return give_up(to, wire_->trouble(to.process));
    to.greeted = sent == Wire::Sent::kDone;
    greeting_ = to.greeted ? greeting_ & ~bit_of(to.process) : greeting_ | bit_of(to.process);
  }
  if (!to.greeted || !to.has_greeted || to.process < self_) return;
  header.greets = 0;
  header.number = to.batches++;
  const iovec part{&header, sizeof header};
  const Wire::Sent sent = wire_->send(to.process, std::span(&part, 1));
  if (sent == Wire::Sent::kFailed) return give_up(to, wire_->trouble(to.process));
  to.wired = true;
  to.sending = sent == Wire::Sent::kUnderWay;
}

// UCX takes nothing more for it.
void UcxTransport::give_up(UcxPeer& whom, const char* why) {
  whom.deaf = true;
  greeting_ &= ~bit_of(whom.process);
  accuse(whom, why);  // U3
}

// --- receiving ---

Work UcxTransport::poll(std::int64_t now_ns) {
  work_ = {};
  if (processes_ == 1) return work_;
  now_ns_ = now_ns;
  if (!armed_.load(std::memory_order_relaxed)) {  // a hint: who lets it down looks again itself
    armed_.store(true, std::memory_order_relaxed);
    ring_all();  // U2
  }
  dirty_ |= posted_.exchange(0, std::memory_order_seq_cst);
  pump_dirty();
  for (int turn = 0; turn < kTurnsPerPoll; ++turn) {
    const bool did = wire_->progress(*this) != 0;
    after_progress();  // in any case: UCX does not count the end of a send
    if (did) busy_ = 0;
    if (!did || work_.ran != 0) break;  // who waits for what ran looks first
  }
  look_at_lines(now_ns);
  return work_;
}

void UcxTransport::look_at_lines(std::int64_t now_ns) {
  // Without asking epoll, to which UCX's descriptor alone costs a microsecond.
  for (std::uint64_t from = long_data_awaited_.load(std::memory_order_relaxed); from != 0; from &= from - 1) {
    UcxPeer& next = wire(peer(std::countr_zero(from)));
    next.misses = hear(next, now_ns) ? 0 : next.misses + 1;
    if (next.misses > kMissesMax) {
      next.misses = 0;
      long_data_awaited_.fetch_and(~bit_of(next.process), std::memory_order_relaxed);
    }
    pump_dirty();
  }
  if (now_ns - last_control_ns_ < (full_ != 0 ? kDataIntervalNs : kControlIntervalNs)) return;
  last_control_ns_ = now_ns;
  std::array<epoll_event, kMaxProcesses + 1> events;
  const int count = ::epoll_wait(epoll_.fd(), events.data(), static_cast<int>(events.size()), 0);
  for (int i = 0; i < count; ++i) {
    const auto process = static_cast<ProcessId>(events[static_cast<std::size_t>(i)].data.u32);
    if (process == self_) near_rang_ = true;
    if (process == self_ || process == kWireMark) continue;
    UcxPeer& from = wire(peer(process));
    const std::uint32_t what = events[static_cast<std::size_t>(i)].events;
    if ((what & EPOLLOUT) != 0) send_line(from);
    if ((what & ~std::uint32_t{EPOLLOUT}) != 0 && hear(from, now_ns))
      long_data_awaited_.fetch_or(bit_of(process), std::memory_order_relaxed);
    pump_dirty();
  }
  for (const std::unique_ptr<Peer>& each : peers_) look_at_leave(wire(*each), now_ns);
}

void UcxTransport::after_progress() {
  for (std::uint64_t sent = wire_->take_sent(); sent != 0; sent &= sent - 1) {
    UcxPeer& to = wire(peer(std::countr_zero(sent)));
    to.sending = false;
    dirty_ |= bit_of(to.process);
  }
  for (std::uint64_t broken = wire_->take_broken(); broken != 0; broken &= broken - 1) {
    UcxPeer& whom = wire(peer(std::countr_zero(broken)));
    give_up(whom, wire_->trouble(whom.process));
  }
  work_.ran += end_ops();
  dirty_ |= greeting_;
  pump_dirty();
}

void UcxTransport::on_batch(const Batch& message) {
  BatchHeader batch;
  const bool in_one = message.head.empty();
  const std::span<const std::byte> begin = in_one ? message.rest : message.head;
  const bool whole = parse_batch_header(begin, processes_, &batch);
  UcxPeer* const from = whole ? &wire(peer(static_cast<ProcessId>(batch.from))) : nullptr;
  if (from == nullptr || from->process == self_ || batch.token != from->token) {  // inbox.hpp B1
    static constinit std::atomic<bool> told{false};
    base::log_warn_once(told, "ucx: dropped a message from a stranger (others like it are not reported)");
    return;
  }
  // relaxed: retire_accused() orders
  if (!from->open || from->accused.load(std::memory_order_relaxed) != nullptr) return;
  if (batch.greets != 0 || !from->wired) dirty_ |= bit_of(from->process);
  if (batch.greets != 0)
    from->has_greeted = true;
  else if (from->process < self_ && from->greeted)
    from->wired = true;  // U5
  if (leaving_) return;
  from->last_heard_ns = from->leave_ns = now_ns_;
  if (batch.greets != 0) return;
  PeerSink sink(*this, *from);
  from->inbox.take(batch.number, {begin.subspan(sizeof batch), in_one ? std::span<const std::byte>{} : message.rest},
                   sink);
  work_ += sink.work();
  look_at_leave(*from, now_ns_);
}

// What came on the line. True: data.
bool UcxTransport::hear(UcxPeer& from, std::int64_t now_ns) {
  // relaxed: retire_accused() orders
  if (!from.open || from.hung_up || from.accused.load(std::memory_order_relaxed) != nullptr) return false;
  PeerSink sink(*this, from);
  LineSink line(sink);
  const tcp::Received received = tcp::receive_some(from.line.socket.fd(), from.line.receiver, line);
  if (received.bytes != 0) {
    from.last_heard_ns = from.last_line_ns = now_ns;
    bytes_by_lines_.fetch_add(received.bytes, std::memory_order_relaxed);
  }
  if (line.leave() != nullptr) {
    from.said_leave = true;
    from.leave_batches = line.leave()->serial;
    from.collective_calls = line.leave()->total;
    from.leave_ns = now_ns;
  }
  if (received.broken != nullptr && !from.said_leave) {
    accuse(from, received.broken);
  } else if (received.broken != nullptr) {
    from.hung_up = true;
    ::epoll_ctl(epoll_.fd(), EPOLL_CTL_DEL, from.line.socket.fd(), nullptr);
  }
  const bool data_came = received.bytes > kLineFramesBytes;
  work_ += sink.work();
  work_.served += data_came;
  return data_came;
}

void UcxTransport::look_at_leave(UcxPeer& from, std::int64_t now_ns) {
  if (!from.said_leave || !from.open) return;
  if (from.inbox.taken() >= from.leave_batches) {
    from.left = true;
    accuse(from, "it left");
  } else if (now_ns - from.leave_ns > kLateBatchesNs) {
    accuse(from, "it left before all that it had sent was here");
  }
}

// --- sleeping ---

std::int64_t UcxTransport::arm() {
  if (processes_ == 1) return kForever;
  if (!poll_lock_.try_lock()) return kNapNs;                                      // who has it may not sleep afterwards
  if (wire_news_.load(std::memory_order_relaxed)) return poll_lock_.unlock(), 0;  // set by who has the poll lock
  const bool armed = wire_->arm();
  if (!armed) armed_.store(false, std::memory_order_relaxed);  // the caller polls next
  busy_ = armed ? 0 : busy_ + 1;
  const bool nap = busy_ > kBusyMax;
  const bool greets = greeting_ != 0;  // when there is room UCX may not tell
  poll_lock_.unlock();
  send_posted();
  return armed ? (greets ? kNapNs : kForever) : nap ? kNapNs : 0;
}

}  // namespace ayatori::net::ucx
