// SPDX-License-Identifier: Apache-2.0
// Where operator new and thrown exceptions of the calling code come from. Called on any OS thread, any stack.
#pragma once

namespace ayatori::api {

// On a user-level thread, or while a detail::SpaceNew of this OS thread lives, and there is a space: memory of the
// space; else the C library's.
bool wants_space() noexcept;

}  // namespace ayatori::api
