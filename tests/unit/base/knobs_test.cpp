// SPDX-License-Identifier: Apache-2.0
// Claims about the knob table. Method: load_knobs() on hand-made environments.
#include "base/knobs.hpp"

#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "base/log.hpp"

namespace ayatori::base {
namespace {

std::vector<std::string>& warnings() {
  static std::vector<std::string> lines;
  return lines;
}

class Knobs : public testing::Test {
 protected:
  void SetUp() override {
    reset_knobs();
    warnings().clear();
    set_log_sink([](LogLevel, std::string_view line) { warnings().emplace_back(line); });
  }
  void TearDown() override {
    reset_knobs();
    set_log_sink(nullptr);
  }
  static Status load(std::vector<const char*> environment) {
    environment.push_back(nullptr);
    return load_knobs(environment.data());
  }
};

TEST_F(Knobs, EveryRowIsUsableAndItsDefaultIsInItsRange) {
  std::set<std::string_view> names;
  for (const Knob& knob : knob_table()) {
    EXPECT_TRUE(std::string_view(knob.name).starts_with("AYATORI_"));
    EXPECT_TRUE(names.insert(knob.name).second) << knob.name;
    EXPECT_TRUE(check_knob_value(knob, knob.default_text).ok()) << check_knob_value(knob, knob.default_text).message();
    EXPECT_GT(std::string_view(knob.help).size(), 10u) << knob.name;
    EXPECT_NE(std::string_view(knob.simulation), "") << knob.name;
    EXPECT_NE(knob_range_text(knob), "") << knob.name;
    EXPECT_EQ(knob_value_text(knob), knob.default_text);
  }
}

TEST_F(Knobs, DefaultsAreInForceBeforeLoading) {
  EXPECT_EQ(knob_size("AYATORI_STACK_SIZE"), std::uint64_t{1} << 20);
  EXPECT_EQ(knob_size("AYATORI_SPACE_BASE"), parse_size(find_knob("AYATORI_SPACE_BASE")->default_text));
  EXPECT_EQ(knob_int("AYATORI_WORKERS"), 0);
  EXPECT_EQ(knob_string("AYATORI_ENGINE"), "auto");
  EXPECT_EQ(knob_string("AYATORI_STATS"), "");
  EXPECT_FALSE(knob_bool("AYATORI_CHECK"));
}

TEST_F(Knobs, EnvironmentOverridesDefaults) {
  ASSERT_TRUE(load({"HOME=/", "AYATORI_STACK_SIZE=256K", "AYATORI_ENGINE=mprotect", "AYATORI_CHECK=yes",
                    "AYATORI_STATS=/tmp/a=b.json", "AYATORI_NET_DELAY=1500", "AYATORI_SPACE_BASE=0x1000000000"})
                  .ok());
  EXPECT_EQ(knob_size("AYATORI_STACK_SIZE"), 262'144u);
  EXPECT_EQ(knob_string("AYATORI_ENGINE"), "mprotect");
  EXPECT_TRUE(knob_bool("AYATORI_CHECK"));
  EXPECT_EQ(knob_string("AYATORI_STATS"), "/tmp/a=b.json");
  EXPECT_EQ(knob_int("AYATORI_NET_DELAY"), 1'500);
  EXPECT_EQ(knob_size("AYATORI_SPACE_BASE"), 0x1000000000u);
  EXPECT_EQ(knob_value_text(*find_knob("AYATORI_STACK_SIZE")), "256K");
  EXPECT_EQ(knob_value_text(*find_knob("AYATORI_SPACE_BASE")), "0x1000000000");
  EXPECT_TRUE(warnings().empty());
}

TEST_F(Knobs, BadValueNamesKnobValueAndRangeAndChangesNothing) {
  const Status status = load({"AYATORI_WORKERS=2", "AYATORI_STACK_SIZE=100K"});
  EXPECT_EQ(status.code(), Code::kInvalid);
  EXPECT_EQ(status.message(),
            "AYATORI_STACK_SIZE=100K is not valid: AYATORI_STACK_SIZE takes 16K..64M, a power of two in bytes");
  EXPECT_EQ(knob_int("AYATORI_WORKERS"), 0);
  for (const char* bad :
       {"AYATORI_WORKERS=-1", "AYATORI_WORKERS=257", "AYATORI_WORKERS=", "AYATORI_WORKERS=2x", "AYATORI_ENGINE=sigsegv",
        "AYATORI_ENGINE=", "AYATORI_ENGINE=uffd|mprotect", "AYATORI_CHECK=maybe", "AYATORI_SPACE_SIZE=1M",
        "AYATORI_SPACE_SIZE=99999999999999999999T", "AYATORI_SPACE_BASE=0x200000001000", "AYATORI_BLOCK_SIZE=64Q"}) {
    EXPECT_FALSE(load({bad}).ok()) << bad;
  }
}

TEST_F(Knobs, UnknownNameIsWarnedOfOnceWithTheNearestName) {
  ASSERT_TRUE(load({"AYATORI_WORKER=2", "AYATORI__HANDOVER=1", "AYATORI_TEST_DELAY=1", "AYATORIX=1"}).ok());
  ASSERT_EQ(warnings().size(), 1u);
  EXPECT_NE(warnings()[0].find("AYATORI_WORKER in the environment"), std::string::npos);
  EXPECT_NE(warnings()[0].find("nearest name is AYATORI_WORKERS"), std::string::npos);
}

TEST_F(Knobs, LogKnobSetsTheLevelBeforeOthersWarn) {
  ASSERT_TRUE(load({"AYATORI_NONSENSE=2", "AYATORI_LOG=error"}).ok());
  EXPECT_TRUE(warnings().empty());
  EXPECT_FALSE(log_enabled(LogLevel::kWarn));
  reset_knobs();
  EXPECT_TRUE(log_enabled(LogLevel::kWarn));
}

TEST_F(Knobs, SetKnobObeysTheSameRules) {
  EXPECT_TRUE(set_knob("AYATORI_CACHE_LIMIT", "2M").ok());
  EXPECT_EQ(knob_size("AYATORI_CACHE_LIMIT"), 2'097'152u);
  EXPECT_FALSE(set_knob("AYATORI_CACHE_LIMIT", "2").ok());
  EXPECT_FALSE(set_knob("AYATORI_NO_SUCH", "2").ok());
  EXPECT_EQ(knob_size("AYATORI_CACHE_LIMIT"), 2'097'152u);
}

TEST_F(Knobs, SizesTakeSuffixesAndHexadecimals) {
  EXPECT_EQ(parse_size("0"), 0u);
  EXPECT_EQ(parse_size("4096"), 4'096u);
  EXPECT_EQ(parse_size("3k"), 3'072u);
  EXPECT_EQ(parse_size("7T"), std::uint64_t{7} << 40);
  EXPECT_EQ(parse_size("0xfF"), 255u);
  for (const char* bad : {"", "K", "1KK", "-1", " 1", "1 ", "0x", "1.5G", "8388608T", "9223372036854775808"})
    EXPECT_EQ(parse_size(bad), std::nullopt) << bad;
  EXPECT_EQ(size_text(65'536), "64K");
  EXPECT_EQ(size_text(65'537), "65537");
  EXPECT_EQ(size_text(0), "0");
}

TEST(KnobsDeath, UnknownNameOrKindInTheCodeIsAProgrammersError) {
  EXPECT_DEATH(knob_int("AYATORI_NO_SUCH"), "no knob is named AYATORI_NO_SUCH");
  EXPECT_DEATH(knob_size("AYATORI_WORKERS"), "AYATORI_WORKERS is not a size");
}

}  // namespace
}  // namespace ayatori::base
