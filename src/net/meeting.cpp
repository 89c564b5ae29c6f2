// SPDX-License-Identifier: Apache-2.0
#include "net/meeting.hpp"

#include <poll.h>
#include <sodium.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.hpp"
#include "base/clock.hpp"
#include "base/log.hpp"
#include "net/process_set.hpp"

namespace ayatori::net {
namespace {

namespace boot = bootstrap;
using served::Descriptor;

constexpr std::uint64_t kMagic = 0x6d65657421000001;
constexpr std::size_t kDescriptorsMax = 1 + static_cast<std::size_t>(kMaxProcesses);
constexpr std::size_t kPage = 4096;
constexpr std::size_t kWhyBytes = 160;
constexpr std::int64_t kGatherNs = 10 * base::kNsPerSecond;  // all have just given their cards
constexpr int kOffersMax = 4;  // unanswered: the kernel bounds the descriptors of a user that are under way
constexpr std::int64_t kRetryNs = 20 * base::kNsPerMs;
using Proof = std::array<unsigned char, 32>;

// One message each (SOCK_SEQPACKET), plain data: all run one version, and on one machine.
struct Hello {  // to the first
  std::uint64_t magic = kMagic;
  std::uint64_t job = 0;
  std::uint64_t pid_namespace = 0;
  std::uint64_t process = 0;
};
struct SignedHello {
  Hello hello;
  Proof proof{};
};
struct Offer {  // from the first, with the world's descriptors
  std::uint64_t job = 0;
  shm::ShmPlan plan;
};
struct SignedOffer {
  Offer offer;
  Proof proof{};
};
struct Answer {
  char why_not[kWhyBytes] = {};  // empty: it is in
};
struct Word {  // G3
  std::uint64_t members = 0;
};

void put_text(std::string_view text, char (&to)[kWhyBytes]) {
  std::memcpy(to, text.data(), std::min(text.size(), kWhyBytes - 1));
}
std::string_view text_of(const char (&from)[kWhyBytes]) { return {from, ::strnlen(from, kWhyBytes)}; }

// Of a message to `process` of the job, or by it: neither is taken for the other.
template <class Message>
Proof prove(const boot::Secret& secret, char what, std::int32_t process, const Message& message) {
  AYT_CHECK(sodium_init() >= 0, "libsodium cannot be used here");
  Proof result;
  crypto_generichash_state state;
  crypto_generichash_init(&state, secret.data(), secret.size(), result.size());
  const auto add = [&state](const auto& object) {
    crypto_generichash_update(&state, reinterpret_cast<const unsigned char*>(&object), sizeof object);
  };
  add(what);
  add(process);
  add(message);
  crypto_generichash_final(&state, result.data(), result.size());
  return result;
}

bool equal(const Proof& one, const Proof& other) noexcept {
  return sodium_memcmp(one.data(), other.data(), one.size()) == 0;
}

std::uint64_t pid_namespace() noexcept {
  struct stat names{};
  return ::stat("/proc/self/ns/pid", &names) == 0 ? names.st_ino : 0;
}

bool same_user(int socket) noexcept {
  ucred who{};
  socklen_t bytes = sizeof who;
  return ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &who, &bytes) == 0 && who.uid == ::geteuid();
}

sockaddr_un address_of(std::string_view name, socklen_t* bytes) noexcept {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::size_t length = std::min(name.size(), sizeof address.sun_path - 1);
  std::memcpy(address.sun_path + 1, name.data(), length);  // behind a zero: abstract
  *bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
  return address;
}

int poll_ms(std::int64_t wait_ns) noexcept {
  return static_cast<int>(std::clamp<std::int64_t>(wait_ns / base::kNsPerMs + 1, 0, 1000));
}

// False: it is not readable in time.
bool readable(int fd, std::int64_t deadline_ns) noexcept {
  while (true) {
    const std::int64_t left_ns = deadline_ns - base::real_now_ns();
    if (left_ns <= 0) return false;
    pollfd polled{fd, POLLIN, 0};
    if (::poll(&polled, 1, poll_ms(left_ns)) == 1) return true;
  }
}

// 0, or the error number.
template <class Message>
int send_message(int socket, const Message& message, const std::vector<int>& descriptors = {}) noexcept {
  iovec part{const_cast<Message*>(&message), sizeof message};
  alignas(cmsghdr) char room[CMSG_SPACE(kDescriptorsMax * sizeof(int))] = {};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  if (!descriptors.empty()) {
    const std::size_t bytes = descriptors.size() * sizeof(int);
    header.msg_control = room;
    header.msg_controllen = CMSG_SPACE(bytes);
    cmsghdr* const rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(bytes);
    std::memcpy(CMSG_DATA(rights), descriptors.data(), bytes);
  }
  ssize_t sent = 0;
  do sent = ::sendmsg(socket, &header, MSG_NOSIGNAL | MSG_DONTWAIT);
  while (sent < 0 && errno == EINTR);
  if (sent < 0) return errno;
  return sent == static_cast<ssize_t>(sizeof message) ? 0 : EMSGSIZE;
}

// One that is there. False: it is none of the kind, or the connection ended.
template <class Message>
bool receive_message(int socket, Message* message, std::vector<Descriptor>* descriptors = nullptr) {
  iovec part{message, sizeof *message};
  alignas(cmsghdr) char room[CMSG_SPACE(kDescriptorsMax * sizeof(int))] = {};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = room;
  header.msg_controllen = sizeof room;
  ssize_t got = 0;
  do got = ::recvmsg(socket, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  while (got < 0 && errno == EINTR);
  if (got < 0) return false;
  std::vector<Descriptor> came;
  for (cmsghdr* rights = CMSG_FIRSTHDR(&header); rights != nullptr; rights = CMSG_NXTHDR(&header, rights)) {
    if (rights->cmsg_level != SOL_SOCKET || rights->cmsg_type != SCM_RIGHTS) continue;
    for (std::size_t at = 0; at + sizeof(int) <= rights->cmsg_len - CMSG_LEN(0); at += sizeof(int)) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(rights) + at, sizeof fd);
      came.emplace_back(fd);
    }
  }
  if (descriptors != nullptr) *descriptors = std::move(came);
  return got == static_cast<ssize_t>(sizeof *message) && (header.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) == 0;
}

std::string names_of(std::uint64_t processes) {
  std::string text;
  for (std::uint64_t left = processes; left != 0; left &= left - 1)
    text += base::formatted("{}{}", text.empty() ? "" : ", ", std::countr_zero(left));
  return text;
}

// The first of a meeting.
class Host {
 public:
  Host(const boot::Membership& job, int listener, std::uint64_t others)
      : job_(job), listener_(listener), left_(others) {}

  std::unique_ptr<shm::ShmWorld> gather(shm::ShmConfig config, std::size_t shared_bytes, std::int64_t timeout_ns) {
    timeout_ns = std::min(timeout_ns / 2, kGatherNs);  // the others connect meanwhile, and wait as long as that
    const std::int64_t deadline_ns = base::real_now_ns() + timeout_ns;
    const std::uint64_t self = bit_of(job_.self);
    config.members = left_ | self;
    if (const base::Status status = shm::ShmWorld::create_apart(config, shared_bytes, &world_); !status.ok())
      why_ = status.message();
    while (left_ != 0 && turn(deadline_ns)) continue;
    if (left_ != 0)
      warn(left_,
           base::formatted("they did not come within {:.1f} s", static_cast<double>(timeout_ns) / base::kNsPerSecond));
    std::uint64_t members = self;
    for (const Guest& guest : guests_)
      if (guest.state == State::kIn) members |= bit(guest);
    if (world_ != nullptr) world_->keep_members(members);
    for (const Guest& guest : guests_)
      if (guest.state == State::kIn) send_message(guest.socket.fd(), Word{members});  // or it ends: G3
    return members == self ? nullptr : std::move(world_);
  }

 private:
  enum class State : std::uint8_t { kStranger, kOwed, kOffered, kIn };
  struct Guest {
    Descriptor socket;
    std::int32_t process = -1;
    State state = State::kStranger;
  };
  static std::uint64_t bit(const Guest& guest) noexcept { return bit_of(guest.process); }

  // False: the time is over.
  bool turn(std::int64_t deadline_ns) {
    std::int64_t wait_ns = deadline_ns - base::real_now_ns();
    if (wait_ns <= 0) return false;
    bool owes = false;
    for (Guest& guest : guests_)
      if (guest.state == State::kOwed) owes |= !offer(guest);
    if (owes || deaf_) wait_ns = std::min(wait_ns, kRetryNs);
    std::vector<pollfd> polled{{std::exchange(deaf_, false) ? -1 : listener_, POLLIN, 0}};
    for (const Guest& guest : guests_)
      polled.push_back({guest.state == State::kIn ? -1 : guest.socket.fd(), POLLIN, 0});
    if (::poll(polled.data(), polled.size(), poll_ms(wait_ns)) <= 0) return true;
    for (std::size_t i = 1; i < polled.size(); ++i)
      if (polled[i].revents != 0 && !hear(guests_[i - 1])) lose(guests_[i - 1]);
    guests_.erase(std::remove_if(guests_.begin(), guests_.end(), [](const Guest& guest) { return !guest.socket; }),
                  guests_.end());
    if (polled[0].revents == 0) return true;
    Descriptor socket(::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket) deaf_ = errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS;
    if (socket && same_user(socket.fd()) && guests_.size() < 2 * static_cast<std::size_t>(kMaxProcesses)) {  // G2
      guests_.emplace_back();
      guests_.back().socket = std::move(socket);
    }
    return true;
  }

  // False: it is lost.
  bool hear(Guest& guest) {
    if (guest.state == State::kStranger) return greet(guest);
    Answer answer;
    if (!receive_message(guest.socket.fd(), &answer) || guest.state != State::kOffered) return false;
    --offers_;
    left_ &= ~bit(guest);
    if (answer.why_not[0] == '\0') {
      guest.state = State::kIn;
      return true;
    }
    warn(bit(guest), text_of(answer.why_not));
    guest.state = State::kStranger;  // told
    return false;
  }

  void lose(Guest& guest) {
    guest.socket.close();
    if (guest.state == State::kStranger) return;
    left_ &= ~bit(guest);
    if (guest.state == State::kOffered) --offers_;
    warn(bit(guest), "it ended, or could not take what was handed to it");
  }

  bool greet(Guest& guest) {
    SignedHello theirs;
    if (!receive_message(guest.socket.fd(), &theirs)) return false;
    const Hello& hello = theirs.hello;
    if (hello.magic != kMagic || hello.job != job_.job || hello.process >= static_cast<std::uint64_t>(job_.processes))
      return false;
    const auto process = static_cast<std::int32_t>(hello.process);
    if ((left_ >> process & 1) == 0 || !equal(theirs.proof, prove(job_.secret, 'h', process, hello))) return false;
    for (const Guest& other : guests_)
      if (other.process == process) return false;
    guest.process = process;
    const bool apart = hello.pid_namespace == 0 || hello.pid_namespace != pid_namespace();  // G4
    if (!apart && world_ != nullptr) {
      guest.state = State::kOwed;
      return true;
    }
    left_ &= ~bit(guest);
    warn(bit(guest), apart ? "it is in another pid namespace" : std::string_view(why_));
    return false;
  }

  // False: later.
  bool offer(Guest& guest) {
    if (offers_ >= kOffersMax) return false;
    SignedOffer mine;
    mine.offer.job = job_.job;
    mine.offer.plan = world_->plan();
    mine.proof = prove(job_.secret, 'o', guest.process, mine.offer);
    const int error = send_message(guest.socket.fd(), mine, world_->descriptors());
    if (error == ETOOMANYREFS || error == EAGAIN) return false;
    guest.state = State::kOffered;  // where nothing was sent the connection is broken, which shows when it is heard
    ++offers_;
    return true;
  }

  void warn(std::uint64_t processes, std::string_view why) const {
    base::log_warn("process {}: no memory is shared with the others of this machine, they talk over the network: {}",
                   names_of(processes), why);
  }

  const boot::Membership& job_;
  const int listener_;
  std::uint64_t left_;  // of whom nothing is known yet
  std::vector<Guest> guests_;
  int offers_ = 0;     // unanswered
  bool deaf_ = false;  // no descriptor for who calls: for a moment
  std::unique_ptr<shm::ShmWorld> world_;
  std::string why_;  // there is none
};

// Whoever is not the first.
base::Status join(const boot::Membership& job, int first, const shm::ShmConfig& config, std::size_t shared_bytes,
                  std::int64_t timeout_ns, std::unique_ptr<shm::ShmWorld>* result) {
  const char* const name = job.cards[static_cast<std::size_t>(first)].meeting;
  socklen_t bytes = 0;
  const sockaddr_un address = address_of({name, ::strnlen(name, sizeof boot::Card::meeting)}, &bytes);
  const Descriptor socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  const timeval limit{static_cast<time_t>(timeout_ns / base::kNsPerSecond), 1000};
  if (!socket || ::setsockopt(socket.fd(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit) != 0)  // of connect()
    return base::ok_status();
  while (::connect(socket.fd(), reinterpret_cast<const sockaddr*>(&address), bytes) != 0)
    if (errno != EINTR) return base::ok_status();
  if (!same_user(socket.fd())) return base::ok_status();  // G2
  SignedHello mine;
  mine.hello.job = job.job;
  mine.hello.pid_namespace = pid_namespace();
  mine.hello.process = static_cast<std::uint64_t>(job.self);
  mine.proof = prove(job.secret, 'h', job.self, mine.hello);
  SignedOffer theirs;
  std::vector<Descriptor> descriptors;
  if (send_message(socket.fd(), mine) != 0 || !readable(socket.fd(), base::real_now_ns() + timeout_ns))
    return base::ok_status();
  const bool whole = receive_message(socket.fd(), &theirs, &descriptors);
  if (theirs.offer.job != job.job || !equal(theirs.proof, prove(job.secret, 'o', job.self, theirs.offer)))
    return base::ok_status();
  Answer answer;
  std::unique_ptr<shm::ShmWorld> world;
  const shm::ShmPlan& plan = theirs.offer.plan;
  if (!whole) {
    put_text("it may have too few descriptors (ulimit -n)", answer.why_not);
  } else if (plan.config.processes != config.processes || plan.config.rpcs_max != config.rpcs_max ||
             plan.config.reply_bytes_max != config.reply_bytes_max || plan.shared_bytes != shared_bytes) {
    put_text("its settings differ (AYATORI_NET_MEMORY)", answer.why_not);
  } else if (const base::Status status = shm::ShmWorld::adopt(plan, std::move(descriptors), &world); !status.ok()) {
    put_text(status.message(), answer.why_not);
  }
  if (send_message(socket.fd(), answer) != 0 || world == nullptr) return base::ok_status();
  Word word;
  if (!readable(socket.fd(), base::real_now_ns() + timeout_ns + kGatherNs) || !receive_message(socket.fd(), &word))
    return base::error_status(
        base::Code::kPeerLost,
        "process {}, which hands their memory to the processes of this machine, is gone or stands "
        "still",
        first);  // G3
  world->keep_members(word.members);
  *result = std::move(world);
  return base::ok_status();
}

}  // namespace

void Meeting::open() noexcept {
  Descriptor socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  socklen_t bytes = sizeof address;
  // Without a name: the kernel chooses one of five digits.
  if (!socket || ::bind(socket.fd(), reinterpret_cast<const sockaddr*>(&address), sizeof address.sun_family) != 0 ||
      ::listen(socket.fd(), kMaxProcesses) != 0 ||
      ::getsockname(socket.fd(), reinterpret_cast<sockaddr*>(&address), &bytes) != 0)
    return;
  const std::size_t before = offsetof(sockaddr_un, sun_path) + 1;
  if (bytes <= before || bytes - before >= sizeof boot::Card::meeting) return;
  name_.assign(address.sun_path + 1, bytes - before);
  socket_ = std::move(socket);
}

base::Status Meeting::meet(const boot::Membership& job, shm::ShmConfig config, std::size_t shared_bytes,
                           std::int64_t timeout_ns, std::unique_ptr<shm::ShmWorld>* world) {
  const Descriptor listener = std::move(socket_);
  shared_bytes = (shared_bytes + kPage - 1) / kPage * kPage;
  std::uint64_t members = 0;
  for (std::size_t p = 0; p < job.cards.size(); ++p) {
    const boot::Card& mine = job.cards[static_cast<std::size_t>(job.self)];
    if (job.cards[p].meeting[0] != '\0' && std::strncmp(job.cards[p].place, mine.place, sizeof mine.place) == 0)
      members |= bit_of(static_cast<ProcessId>(p));
  }
  if ((members >> job.self & 1) == 0 || !listener || std::has_single_bit(members)) return base::ok_status();
  const int first = std::countr_zero(members);
  if (first != job.self) return join(job, first, config, shared_bytes, timeout_ns, world);
  *world = Host(job, listener.fd(), members & ~bit_of(first)).gather(config, shared_bytes, timeout_ns);
  return base::ok_status();
}

}  // namespace ayatori::net
