// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace ayatori::api {

const std::string& engine_reason();  // why the fault engine asked for was not taken; empty: it was
void ensure_started() noexcept;      // makes the linker keep the start-up code

}  // namespace ayatori::api
