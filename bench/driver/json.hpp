// SPDX-License-Identifier: Apache-2.0
// What all JSON files of the benchmarks have in common, and the writing of files.
#pragma once

#include <nlohmann/json.hpp>

#include <string>

namespace bench {

using Json = nlohmann::ordered_json;

// {"schema": 1, "kind", "date", "quick", "machine"}; machine: what `ayatori info --json` prints, null when it is none.
Json document_head(const std::string& kind, const std::string& machine, bool quick);
Json number(double value);  // null for NaN

// All false, with a message on standard error, when the file cannot be written; the first one leaves no file behind.
bool can_write(const std::string& path);
bool write_text(const std::string& path, const std::string& text);
bool write_text(const std::string& path, const Json& json);

}  // namespace bench
