// SPDX-License-Identifier: Apache-2.0
// Outcome of what depends on a peer, a device, the environment or user data: decided and logged once, by whoever can
// still do something about it. Programmers' errors are checks (check.hpp). Made on native stacks only.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "base/format.hpp"

namespace ayatori::base {

enum class Code : std::uint8_t {
  kOk = 0,
  kInvalid,      // a value, an option or a message that makes no sense
  kUnavailable,  // the kernel, the container or the hardware does not offer it
  kExhausted,    // memory, descriptors, address space, slots
  kPeerLost,     // another member is gone
  kTimeout,
  kSystem,  // a system call failed for another reason
};

std::string_view code_name(Code code) noexcept;

class [[nodiscard]] Status {
 public:
  Status() noexcept = default;  // ok
  Status(Code code, std::string message) : code_(code), message_(std::move(message)) {}

  bool ok() const noexcept { return code_ == Code::kOk; }
  explicit operator bool() const noexcept { return ok(); }
  Code code() const noexcept { return code_; }
  const std::string& message() const noexcept { return message_; }  // empty when ok

 private:
  Code code_ = Code::kOk;
  std::string message_;
};

inline Status ok_status() noexcept { return {}; }

template <class... Args>
Status error_status(Code code, fmt::format_string<Args...> text, Args&&... args) {
  return {code, formatted(text, std::forward<Args>(args)...)};
}

// "what: No such file or directory"; the code follows from `error_number`.
Status system_status(int error_number, std::string_view what);

// Start-up failed: one line on standard error, then _exit(125), without the program's atexit handlers and flushes.
inline constexpr int kStartFailureExit = 125;
[[noreturn]] void exit_start_failure(const Status& status) noexcept;

}  // namespace ayatori::base
