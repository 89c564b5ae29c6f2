// SPDX-License-Identifier: Apache-2.0
// The part of libpmix.so.2's binary interface that pmix.cpp calls, as the PMIx standard fixes it (versions 3 to 5):
// declared here so that the build needs no PMIx. Where <pmix.h> is installed a test compares (tests/unit/net/pmix_test.cpp).
#pragma once

#include <cstddef>
#include <cstdint>

namespace ayatori::net::bootstrap::pmix_abi {

using Status = int;
inline constexpr Status kSuccess = 0;

inline constexpr std::size_t kNamespaceBytes = 256;
inline constexpr std::size_t kKeyBytes = 512;
inline constexpr std::uint32_t kRankWildcard = UINT32_MAX - 1;
inline constexpr std::uint8_t kScopeGlobal = 3;
inline constexpr std::uint16_t kBool = 1, kString = 3, kUint32 = 14;
inline constexpr const char* kJobSize = "pmix.job.size";
inline constexpr const char* kCollectData = "pmix.collect";

struct Process {
  char name_space[kNamespaceBytes];
  std::uint32_t rank;
};

struct Value {
  std::uint16_t type;
  union {
    bool flag;
    char* string;
    std::uint32_t uint32;
    std::uint64_t room[3];  // of the largest alternative
  } data;
};

struct Info {
  char key[kKeyBytes];
  std::uint32_t flags;
  Value value;
};

using Init = Status (*)(Process* self, Info* info, std::size_t infos);
using Finalize = Status (*)(const Info* info, std::size_t infos);
using Put = Status (*)(std::uint8_t scope, const char* key, Value* value);
using Commit = Status (*)();
using Fence = Status (*)(const Process* processes, std::size_t count, const Info* info, std::size_t infos);
using Get = Status (*)(const Process* process, const char* key, const Info* info, std::size_t infos, Value** value);
using ErrorString = const char* (*)(Status status);

}  // namespace ayatori::net::bootstrap::pmix_abi
