// SPDX-License-Identifier: Apache-2.0
// All of the base layer; files that need one part include that part.
#pragma once

#include "base/cache_line.hpp"
#include "base/check.hpp"
#include "base/clock.hpp"
#include "base/format.hpp"
#include "base/futex.hpp"
#include "base/identity.hpp"
#include "base/knobs.hpp"
#include "base/log.hpp"
#include "base/shared_lock.hpp"
#include "base/status.hpp"
#include "base/waiter.hpp"
