// SPDX-License-Identifier: Apache-2.0
// Kinds of system-call arguments, and what each call does with its arguments (rows in syscalls.def). Constant.
#pragma once

#include <sys/syscall.h>

#include <array>
#include <cstdint>

namespace ayatori::dsm::fault {

enum class Kind : std::uint8_t {
  kNone,
  kPath,
  kIn,
  kOut,
  kInOut,
  kInN,
  kOutN,
  kInOutN,
  kOutAt,
  kInOutAt,
  kDataIn,
  kDataOut,
  kFdSet,
  kMask,
  kWord,
  kTouch
};

struct Arg {
  Kind kind = Kind::kNone;
  std::uint8_t index = 0;   // of the argument with the length
  std::uint16_t bytes = 0;  // size, or of an element
};

struct Row {
  bool known = false;
  Arg args[6];
};

constexpr auto make_syscall_rows() {
  std::array<Row, 512> rows{};
  constexpr Arg _{}, PATH{Kind::kPath, 0, 0}, FD_SET{Kind::kFdSet, 0, 0}, MASK{Kind::kMask, 0, 8},
      WORD{Kind::kWord, 0, 4}, TOUCH{Kind::kTouch, 0, 0};
#define IN(b) (Arg{Kind::kIn, 0, b})
#define OUT(b) (Arg{Kind::kOut, 0, b})
#define IO(b) (Arg{Kind::kInOut, 0, b})
#define IN_N(u, k) (Arg{Kind::kInN, k, u})
#define OUT_N(u, k) (Arg{Kind::kOutN, k, u})
#define IO_N(u, k) (Arg{Kind::kInOutN, k, u})
#define OUT_AT(k) (Arg{Kind::kOutAt, k, 0})
#define IO_AT(k) (Arg{Kind::kInOutAt, k, 0})
#define DATA_IN(k) (Arg{Kind::kDataIn, k, 1})
#define DATA_OUT(k) (Arg{Kind::kDataOut, k, 1})
#define ROW(name, ...) rows[SYS_##name] = Row{true, {__VA_ARGS__}};
#include "dsm/fault/syscalls.def"
#undef IN
#undef OUT
#undef IO
#undef IN_N
#undef OUT_N
#undef IO_N
#undef OUT_AT
#undef IO_AT
#undef DATA_IN
#undef DATA_OUT
#undef ROW
  return rows;
}
inline constexpr auto kSyscallRows = make_syscall_rows();

}  // namespace ayatori::dsm::fault
