// SPDX-License-Identifier: Apache-2.0
// Random race-free fork-join programs, and the value that every read of them must return whatever the schedule.
//
// Who uses it: main.cpp makes one per seed, runtime.cpp runs it.
// A variable is one aligned word of 1, 2, 4 or 8 bytes, packed without gaps (false sharing on purpose).
// Y1. Access follows tokens: each variable has a number of tokens; who holds all may write, who holds one may read. A
//     fork divides or gives away tokens, a join takes those of the joined thread. So each read has one legal value:
//     that of the serial execution, which is what the generator computes.
// Y2. A frame is left only by a thread that holds all tokens of the frame's variables.
// Y3. A thread handle, too, is held by one thread: it may pass to a child at its fork or, unjoined, to the joiner.
// Y4. Variables under a mutex have no tokens: their value is whatever the holder before left (checked at run time).
#pragma once

#include <cstdint>
#include <vector>

#include "machine.hpp"

namespace ayatori::sim {

struct Op {
  enum Kind : std::uint8_t {
    kRead,      // variable, expected value
    kWrite,     // variable, value
    kCall,      // a frame of `value` bytes
    kReturn,    // of `value` bytes
    kAllocate,  // the slot of thread `target`
    kFork,      // thread `target` here, child first
    kForkOn,    // thread `target` on process `value`
    kJoin,      // thread `target`
    kReap,      // frees the slot of thread `target`
    kCompute,   // `value` scheduling points
    kYield,
    kLock,    // mutex `target`
    kBump,    // mutex variable `target`: reads, checks, adds `value`, writes
    kUnlock,  // mutex `target`
  };
  Kind kind;
  std::uint16_t target;
  std::uint64_t value;
};

struct Variable {
  int thread;            // whose stack it lies on; -1: heap
  std::uint32_t offset;  // bytes below the end of the slot, or above the start of the heap
  std::uint8_t bytes;
  std::uint64_t value;  // after the serial execution
};

struct Program {
  std::vector<std::vector<Op>> threads;  // 0 is the root
  std::vector<Variable> variables;
  std::vector<int> heap_variables;   // with tokens
  std::vector<int> mutex_variables;  // without
  int mutexes = 0;
};

// Draws a program for the machine. At most kMaxSlots threads.
Program make_program(Random& random, const Shape& shape, int threads);

}  // namespace ayatori::sim
