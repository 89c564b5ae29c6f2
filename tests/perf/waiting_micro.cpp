// SPDX-License-Identifier: Apache-2.0
// What it costs to wait for a descriptor, or to hand a call to somebody else, with epoll and OS threads and with io_uring;
// the figures of docs/design/blocking-calls.md. Uses nothing of the library. Usage: waiting_micro [ROUNDS]
#include <fcntl.h>
#include <linux/io_uring.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

// The median of 15 rounds, in ns an operation.
double median_ns(int operations, const std::function<void()>& operation) {
  std::vector<double> rounds;
  for (int r = 0; r < 15; ++r) {
    const auto begin = Clock::now();
    for (int i = 0; i < operations; ++i) operation();
    rounds.push_back(std::chrono::duration<double, std::nano>(Clock::now() - begin).count() / operations);
  }
  std::ranges::sort(rounds);
  return rounds[rounds.size() / 2];
}
void tell(const char* what, double ns) { std::printf("%-64s %9.0f ns\n", what, ns); }

void need(bool ok, const char* what) {
  if (ok) return;
  std::perror(what);
  std::exit(1);
}

// A ring of 64 entries by the system calls alone.
class Ring {
 public:
  bool open(unsigned flags) {
    io_uring_params p{};
    p.flags = flags;
    fd_ = static_cast<int>(syscall(SYS_io_uring_setup, 64, &p));
    if (fd_ < 0) return false;
    const std::size_t bytes =
        std::max(p.sq_off.array + p.sq_entries * sizeof(unsigned), p.cq_off.cqes + p.cq_entries * sizeof(io_uring_cqe));
    auto* const at =
        static_cast<char*>(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, IORING_OFF_SQ_RING));
    entries_ = static_cast<io_uring_sqe*>(
        mmap(nullptr, p.sq_entries * sizeof(io_uring_sqe), PROT_READ | PROT_WRITE, MAP_SHARED, fd_, IORING_OFF_SQES));
    need(at != MAP_FAILED && entries_ != MAP_FAILED, "mmap");
    sq_tail_ = reinterpret_cast<unsigned*>(at + p.sq_off.tail);
    sq_mask_ = *reinterpret_cast<unsigned*>(at + p.sq_off.ring_mask);
    sq_array_ = reinterpret_cast<unsigned*>(at + p.sq_off.array);
    cq_head_ = reinterpret_cast<unsigned*>(at + p.cq_off.head);
    cq_tail_ = reinterpret_cast<unsigned*>(at + p.cq_off.tail);
    return true;
  }
  void submit(std::uint8_t operation, int fd, unsigned events, std::uint8_t flags = 0) {
    const unsigned tail = *sq_tail_;
    io_uring_sqe& e = entries_[tail & sq_mask_];
    std::memset(&e, 0, sizeof e);
    e.opcode = operation;
    e.fd = fd;
    e.flags = flags;
    e.poll32_events = events;
    sq_array_[tail & sq_mask_] = tail & sq_mask_;
    std::atomic_ref(*sq_tail_).store(tail + 1, std::memory_order_release);
    need(syscall(SYS_io_uring_enter, fd_, 1, 0, 0, nullptr, 0) == 1, "io_uring_enter");
  }
  bool take() {
    const unsigned head = *cq_head_;
    if (head == std::atomic_ref(*cq_tail_).load(std::memory_order_acquire)) return false;
    std::atomic_ref(*cq_head_).store(head + 1, std::memory_order_release);
    return true;
  }
  void sleep() { syscall(SYS_io_uring_enter, fd_, 0, 1, IORING_ENTER_GETEVENTS, nullptr, 0); }

 private:
  int fd_ = -1;
  io_uring_sqe* entries_ = nullptr;
  unsigned *sq_tail_ = nullptr, *sq_array_ = nullptr, *cq_head_ = nullptr, *cq_tail_ = nullptr;
  unsigned sq_mask_ = 0;
};

struct Pipe {
  int ends[2];
  Pipe() { need(pipe(ends) == 0, "pipe"); }
  void fill() const { need(write(ends[1], "x", 1) == 1, "write"); }
  void drain() const {
    char c;
    need(read(ends[0], &c, 1) == 1, "read");
  }
};

void registers(int fd, int epoll) {
  const int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
  epoll_event event{EPOLLIN | EPOLLONESHOT, {.fd = copy}};
  need(copy >= 0 && epoll_ctl(epoll, EPOLL_CTL_ADD, copy, &event) == 0, "epoll_ctl");
}
void forgets(int copy, int epoll) {  // closing alone would not do: the file is still open elsewhere
  need(epoll_ctl(epoll, EPOLL_CTL_DEL, copy, nullptr) == 0, "epoll_ctl");
  close(copy);
}

// Somebody who sleeps for what arrives and passes it on in memory, as to a worker that spins.
class Reaper {
 public:
  explicit Reaper(std::function<bool()> await)
      : thread_([this, await = std::move(await)] {
          while (!leaving_.load())
            if (await()) seen_.fetch_add(1);
        }) {}
  void await() {
    while (seen_.load() == taken_) __builtin_ia32_pause();
    ++taken_;
  }
  void leave() { leaving_.store(true); }
  void join() { thread_.join(); }

 private:
  std::atomic<bool> leaving_{false};
  std::atomic<std::uint32_t> seen_{0};
  std::uint32_t taken_ = 0;
  std::thread thread_;
};

void cached_page(int operations) {
  char name[] = "/tmp/waiting_micro.XXXXXX";
  const int fd = mkstemp(name);
  unlink(name);
  static char page[4096];
  need(fd >= 0 && write(fd, page, sizeof page) == sizeof page, "temporary file");
  tell("pread of a cached page", median_ns(operations, [&] { need(pread(fd, page, 4096, 0) == 4096, "pread"); }));
  const iovec v{page, sizeof page};
  tell("preadv2 with RWF_NOWAIT", median_ns(operations, [&] {
         const ssize_t n = preadv2(fd, &v, 1, 0, RWF_NOWAIT);
         need(n == 4096 || (n < 0 && errno == EOPNOTSUPP), "preadv2");
       }));
  tell("the write of a page", median_ns(operations, [&] { need(pwrite(fd, page, 4096, 0) == 4096, "pwrite"); }));
  tell("pwritev2 with RWF_NOWAIT, whatever it says",
       median_ns(operations, [&] { (void)!pwritev2(fd, &v, 1, 0, RWF_NOWAIT); }));
  pollfd p{fd, POLLOUT, 0};
  tell("poll for no time", median_ns(operations, [&] { (void)poll(&p, 1, 0); }));
  close(fd);
}

void one_thread(int operations, Ring* ring) {
  const Pipe pipe;
  const int epoll = epoll_create1(EPOLL_CLOEXEC);
  tell("write and read of a pipe", median_ns(operations, [&] { pipe.fill(), pipe.drain(); }));
  tell("... with a wait between: dup, epoll_ctl, epoll_wait, close", median_ns(operations, [&] {
         registers(pipe.ends[0], epoll);
         pipe.fill();
         epoll_event event;
         need(epoll_wait(epoll, &event, 1, 0) == 1, "epoll_wait");
         forgets(event.data.fd, epoll);
         pipe.drain();
       }));
  close(epoll);
  if (!ring) return;
  tell("... with a wait between: io_uring POLL_ADD, look at the ring", median_ns(operations, [&] {
         ring->submit(IORING_OP_POLL_ADD, pipe.ends[0], POLLIN);
         pipe.fill();
         while (!ring->take()) {
         }
         pipe.drain();
       }));
}

void with_reaper(int operations, bool uring) {
  const Pipe pipe, end;
  if (!uring) {
    const int epoll = epoll_create1(EPOLL_CLOEXEC);
    Reaper reaper([&] {
      epoll_event event;
      if (epoll_wait(epoll, &event, 1, -1) != 1) return false;
      forgets(event.data.fd, epoll);
      return true;
    });
    tell("a wait that a sleeping OS thread sees: epoll", median_ns(operations, [&] {
           registers(pipe.ends[0], epoll);
           pipe.fill();
           reaper.await();
           pipe.drain();
         }));
    reaper.leave();
    registers(end.ends[0], epoll);
    end.fill();
    reaper.join();
    close(epoll);
    return;
  }
  Ring ring;
  need(ring.open(0), "io_uring_setup");
  Reaper reaper([&] {
    ring.sleep();
    return ring.take();
  });
  tell("a wait that a sleeping OS thread sees: io_uring", median_ns(operations, [&] {
         ring.submit(IORING_OP_POLL_ADD, pipe.ends[0], POLLIN);
         pipe.fill();
         reaper.await();
         pipe.drain();
       }));
  reaper.leave();
  ring.submit(IORING_OP_NOP, -1, 0);
  reaper.join();
}

// Handing a call to an OS thread, or to a thread of the kernel.
void hand_over(int operations, Ring* ring) {
  std::mutex lock;
  std::condition_variable arrived;
  int jobs = 0;
  bool leaving = false;
  std::atomic<int> done{0};
  std::thread helper([&] {
    std::unique_lock guard(lock);
    for (;;) {
      arrived.wait(guard, [&] { return jobs > 0 || leaving; });
      if (leaving) return;
      --jobs;
      done.fetch_add(1);
    }
  });
  int wanted = 0;
  tell("an empty call by an OS thread that sleeps", median_ns(operations, [&] {
         {
           const std::lock_guard guard(lock);
           ++jobs;
         }
         arrived.notify_one();
         ++wanted;
         while (done.load() != wanted) __builtin_ia32_pause();
       }));
  {
    const std::lock_guard guard(lock);
    leaving = true;
  }
  arrived.notify_one();
  helper.join();
  if (!ring) return;
  tell("an empty call by a thread of io_uring (IOSQE_ASYNC)", median_ns(operations, [&] {
         ring->submit(IORING_OP_NOP, -1, 0, IOSQE_ASYNC);
         while (!ring->take()) __builtin_ia32_pause();
       }));
}

// Does a completion disturb the OS thread that submitted the request? It waits in calls that are not begun again.
void disturbs(const char* how, unsigned flags) {
  Ring ring;
  if (!ring.open(flags)) {
    std::printf("%-64s refused\n", how);
    return;
  }
  const Pipe asked, other;
  const int epoll = epoll_create1(EPOLL_CLOEXEC);
  epoll_event event{EPOLLIN, {.fd = other.ends[0]}};
  need(epoll_ctl(epoll, EPOLL_CTL_ADD, other.ends[0], &event) == 0, "epoll_ctl");
  int interrupted = 0;
  for (int i = 0; i < 20; ++i) {
    ring.submit(IORING_OP_POLL_ADD, asked.ends[0], POLLIN);
    std::thread writer([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      asked.fill();
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      other.fill();
    });
    interrupted += epoll_wait(epoll, &event, 1, -1) < 0 && errno == EINTR;
    writer.join();
    other.drain();
    asked.drain();
    while (!ring.take()) {
    }
  }
  std::printf("%-64s %9d of 20\n", how, interrupted);
  close(epoll);
}

}  // namespace

int main(int argc, char** argv) {
  const int operations = argc > 1 ? std::atoi(argv[1]) : 5'000;
  Ring ring;
  const bool has_ring = ring.open(0);
  if (!has_ring) std::printf("io_uring is refused: %s\n", std::strerror(errno));
  cached_page(operations);
  one_thread(operations, has_ring ? &ring : nullptr);
  with_reaper(operations, false);
  if (has_ring) with_reaper(operations, true);
  hand_over(operations, has_ring ? &ring : nullptr);
  if (has_ring) {
    disturbs("epoll_wait that a completion interrupts (EINTR)", 0);
    disturbs("... with IORING_SETUP_COOP_TASKRUN", IORING_SETUP_COOP_TASKRUN);
  }
  return 0;
}
