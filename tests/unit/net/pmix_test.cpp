// SPDX-License-Identifier: Apache-2.0
// The declarations by which libpmix.so.2 is called, against <pmix.h> where that is installed (Debian: libpmix-dev). The calls
// themselves: tests/system/net/mpirun.sh, scripts/full/13-slurm.sh.
#include <gtest/gtest.h>

#include <cstddef>
#include <type_traits>

#include "net/bootstrap/pmix_abi.hpp"

#if __has_include(<pmix.h>)
#include <pmix.h>
#endif

namespace {

#if __has_include(<pmix.h>)
namespace abi = ayatori::net::bootstrap::pmix_abi;

static_assert(sizeof(abi::Process) == sizeof(pmix_proc_t) &&
              offsetof(abi::Process, rank) == offsetof(pmix_proc_t, rank));
static_assert(sizeof(abi::Value) >= sizeof(pmix_value_t) && offsetof(abi::Value, data) == offsetof(pmix_value_t, data));
static_assert(sizeof(abi::Info) >= sizeof(pmix_info_t) && offsetof(abi::Info, value) == offsetof(pmix_info_t, value) &&
              offsetof(abi::Info, flags) == offsetof(pmix_info_t, flags));
static_assert(abi::kSuccess == PMIX_SUCCESS && abi::kRankWildcard == PMIX_RANK_WILDCARD);
static_assert(abi::kScopeGlobal == PMIX_GLOBAL);
static_assert(abi::kBool == PMIX_BOOL && abi::kString == PMIX_STRING && abi::kUint32 == PMIX_UINT32);
static_assert(sizeof(abi::Info) == sizeof(pmix_info_t), "one is passed, as an array of one");

TEST(Pmix, DeclarationsAreThoseOfItsHeader) {
  EXPECT_STREQ(abi::kJobSize, PMIX_JOB_SIZE);
  EXPECT_STREQ(abi::kCollectData, PMIX_COLLECT_DATA);
  // Functions differ in the types that are pointed to; number and kinds of arguments must not.
  EXPECT_TRUE((std::is_invocable_r_v<int, decltype(PMIx_Init), pmix_proc_t*, pmix_info_t*, std::size_t>));
  EXPECT_TRUE((std::is_invocable_r_v<int, decltype(PMIx_Finalize), const pmix_info_t*, std::size_t>));
  EXPECT_TRUE((std::is_invocable_r_v<int, decltype(PMIx_Put), std::uint8_t, const char*, pmix_value_t*>));
  EXPECT_TRUE((std::is_invocable_r_v<int, decltype(PMIx_Commit)>));
  EXPECT_TRUE((std::is_invocable_r_v<int, decltype(PMIx_Fence), const pmix_proc_t*, std::size_t, const pmix_info_t*,
                                     std::size_t>));
  EXPECT_TRUE((std::is_invocable_r_v<int, decltype(PMIx_Get), const pmix_proc_t*, const char*, const pmix_info_t*,
                                     std::size_t, pmix_value_t**>));
  EXPECT_TRUE((std::is_invocable_r_v<const char*, decltype(PMIx_Error_string), int>));
}
#else
TEST(Pmix, DeclarationsAreThoseOfItsHeader) { GTEST_SKIP() << "pmix.h is not installed (libpmix-dev)"; }
#endif

}  // namespace
