// SPDX-License-Identifier: Apache-2.0
// Bytes of a connection out and in, without blocking: for whoever owns its socket.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <span>

#include "net/tcp/receiver.hpp"

namespace ayatori::net::tcp {

// How many bytes went, 0: there is no room, -1: the connection is of no use any more; its receiving side tells why.
std::ptrdiff_t send_some(int socket, std::span<iovec> parts);

struct Received {
  std::size_t bytes = 0;
  const char* broken = nullptr;  // why nothing more will come
};
// What has arrived, a few rooms of the receiver at most; what makes no sense the sink was told.
Received receive_some(int socket, Receiver& receiver, FrameSink& sink);

// Some of what has arrived and nobody wants any more. True: nothing more will come.
bool drop_some(int socket);

}  // namespace ayatori::net::tcp
