// SPDX-License-Identifier: Apache-2.0
// The net layer's umbrella: what layers above include. Transports themselves (net/shm, net/sim) are included only by
// whoever creates one.
#pragma once

#include <ayatori/net/blocking.hpp>
#include <ayatori/net/transport.hpp>
#include <ayatori/net/types.hpp>
