// SPDX-License-Identifier: Apache-2.0
// What the launcher and the members of one job share: one small memory (a memfd made by the launcher, or an anonymous
// mapping when there is no launcher) and the messages on one socket. Everything is plain data and atomics: the launcher
// maps it at another address than the members, who inherit theirs from the first image.
//
// J1. A field is written by whom its comment names; first-wins fields by compare-and-swap from zero.
// J2. The reason in `end` is written once, before `end.state` becomes kWritten; nobody reads it earlier.
// J3. A member that enters the run and one that left before it are never both unaware of each other: the member stores
//     its phase, then loads `left_early`; the launcher stores `left_early`, then loads the phases (all seq_cst).
// J4. Messages only hint: all facts lie in the memory, so that a lost or repeated message changes nothing but time.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "net/bootstrap/stat_names.hpp"

namespace ayatori::net::bootstrap {

inline constexpr int kMaxProcesses = 64;
inline constexpr std::uint64_t kMagic = 0x726f746179410001;     // "\1\0Ayator"
inline constexpr std::uint32_t kVersion = 4;                    // of this layout and of the messages
inline constexpr const char* kControlName = "ayatori-control";  // of the memfd, as /proc/PID/fd shows it
inline constexpr const char* kBootVariable = "AYATORI__BOOT";   // "CONTROL_FD,SOCKET_FD"
inline constexpr const char* kNoteOwner = "Ayatori";            // ELF note in every program that has the library
inline constexpr std::uint32_t kNoteType = 1;

enum class Phase : std::uint32_t {
  kUnborn = 0,
  kStarting = 1,  // from the library's constructor to run()
  kRunning = 2,   // inside ayatori::run
  kFinished = 3,  // run() returned, or the transport of net::open() is closed; main goes on
  kJoining = 4,   // inside net::open(), which waits for the other members
  kJoined = 5,    // holds a transport of net::open()
};

// JobControl::flags.
inline constexpr std::uint32_t kDebugged = 1;     // the first image is a child of gdb, not of the launcher
inline constexpr std::uint32_t kLabelOut = 2;     // members' standard output goes through the launcher
inline constexpr std::uint32_t kLabelErr = 4;     // standard error too
inline constexpr std::uint32_t kLabelMerged = 8;  // both are one file: one pipe, so that their order stays
inline constexpr std::uint32_t kWantStats = 16;   // the launcher wants the counters
inline constexpr std::uint32_t kWide = 32;        // the job has members on other machines, with a launcher each
inline constexpr std::uint32_t kLoopback = 64;    // loopback reaches every member

// What must be equal in all processes of a job whose threads move, if they were not forked from one image (likeness.hpp).
// Hashes; all 0: not asked for.
struct Likeness {
  std::uint64_t program = 0, libraries = 0, addresses = 0, secrets = 0, settings = 0;

  bool operator==(const Likeness&) const = default;
};

// How its peers reach a process, and what they call it: plain data, the same on all machines.
struct Card {
  char host[64] = {};               // its machine's name, for messages
  char place[80] = {};              // place.hpp: equal where loopback and shared memory reach it
  unsigned char address[28] = {};   // sockaddr_in or sockaddr_in6 of its listener
  std::uint32_t address_bytes = 0;  // 0: it has none
  Likeness likeness;                // of jobs of threads
  char meeting[8] = {};             // net/meeting.hpp; empty: it shares no memory with who was started apart
};
static_assert(sizeof(Card) == 224);
using Secret = std::array<unsigned char, 32>;

struct alignas(64) MemberControl {
  std::atomic<std::int32_t> pid{0};             // by the member and by whoever forked it
  std::atomic<std::uint32_t> phase{0};          // Phase; by the member
  std::atomic<std::uint32_t> adopted{0};        // by the first image: the launcher is the member's parent now (futex)
  std::atomic<std::uint32_t> called_exit{0};    // by the member: exit(exit_status) was called inside the run
  std::atomic<std::int32_t> exit_status{0};     // by the member before called_exit; by the launcher at its end
  std::atomic<std::uint32_t> has_exited{0};     // by the launcher: it is gone, and no signal killed it
  std::atomic<std::uint32_t> stats_written{0};  // by the member, after its row of stats
  std::atomic<std::uint32_t> has_left{0};       // by the member, at its end: it asks the others nothing any more
};

// Why the job ends before its time (J2).
struct alignas(64) EndControl {
  enum State : std::uint32_t { kNone = 0, kClaimed = 1, kWritten = 2 };
  std::atomic<std::uint32_t> state{kNone};
  std::int32_t process = -1;
  std::int32_t pid = 0;
  std::int32_t status = 0;
  char why[496] = {};
};

struct JobControl {
  // Constant after the launcher (or begin(), without one) has made it.
  std::uint64_t magic = kMagic;
  std::uint32_t version = kVersion;
  std::uint32_t bytes = 0;
  std::int32_t launcher_pid = 0;
  std::int32_t process_count = 1;
  std::uint32_t flags = 0;
  std::uint64_t job_id = 0;
  // Of the whole job, which has more members than process_count where kWide is set.
  std::int32_t job_processes = 1;
  std::int32_t first_process = 0;  // number there of this machine's process 0
  Secret secret{};                 // of the job's connections

  // Arrivals in the low half, generation in the high half: the process barrier (barrier.hpp).
  alignas(64) std::atomic<std::uint64_t> barrier{0};
  // Result of the run: 0 none yet, else 2^32 + status. First one wins.
  alignas(64) std::atomic<std::uint64_t> result{0};
  alignas(64) std::atomic<std::uint32_t> ending{0};  // by the launcher and end_job: members are about to be killed
  std::atomic<std::uint32_t> left_early{0};          // by the launcher: 1 + number of a member that never ran (J3)
  std::atomic<std::int32_t> left_early_status{0};    // before left_early
  EndControl end;
  // Cache lines for the layers above, zero at the start; who uses which is written where it is used.
  struct alignas(64) Line {
    std::atomic<std::uint64_t> words[8]{};
  };
  Line reserved[16];
  MemberControl members[kMaxProcesses];
  std::atomic<std::uint64_t> stats[kMaxProcesses][kStatSlots]{};  // row p: by member p
  // Of the whole job's processes: by the member, or by the launcher for members of other machines.
  Card cards[kMaxProcesses];
  std::atomic<std::uint32_t> card_filled[kMaxProcesses]{};  // release, after the card
  alignas(64) std::atomic<std::uint32_t> cards_filled{0};   // grows with each (futex)
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free && sizeof(std::atomic<std::uint32_t>) == 4);

// On the socket (SOCK_SEQPACKET), from members to the launcher.
enum class MessageKind : std::uint32_t {
  kStreams = 1,  // carries the read ends of a member's standard output, then error, as the label flags say
  kLook = 2,     // something changed in the control memory
};
struct Message {
  MessageKind kind;
  std::int32_t process;
};

}  // namespace ayatori::net::bootstrap
