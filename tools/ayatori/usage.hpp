// SPDX-License-Identifier: Apache-2.0
// What CLI11 does not do by itself for the commands that use it.
#pragma once

#include <CLI/CLI.hpp>

#include <string>
#include <utility>

namespace ayatori::tool {

// Help whose first line is ours: CLI11's would not name what stands behind the options.
class UsageFormatter : public CLI::Formatter {
 public:
  explicit UsageFormatter(std::string usage) : usage_("Usage: " + std::move(usage) + "\n") {}
  std::string make_usage(const CLI::App*, std::string) const override { return usage_; }

 private:
  std::string usage_;
};

}  // namespace ayatori::tool
