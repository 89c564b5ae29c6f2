// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace ayatori::api {

const std::string& engine_reason();  // why the fault engine asked for was not taken; empty: it was
// Starts the library if nobody has; before main, on its thread, the first time. Makes the linker keep the start-up code.
void ensure_started() noexcept;

}  // namespace ayatori::api
