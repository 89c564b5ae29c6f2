// SPDX-License-Identifier: Apache-2.0
// The receiving end of one connection, without the connection: says where the next bytes are to be put and cuts what
// arrived into frames. Used by the thread that polls.
//
// V1. Frames are looked at in a staging buffer in which a byte lies at the place modulo 8 that it has in the stream: bodies
//     are 8-aligned (frame.hpp F1). They are valid during the sink's call.
// V2. The data of a kData goes where the sink says; from the stream directly if the place is one piece of kDirectBytesMin
//     at least, else through staging.
// V3. Behind long data little is read ahead: what follows is likely to be long data again, whose bytes had better not lie in
//     staging.
// V4. Memory is bounded by the longest frame, whatever arrives.
#pragma once

#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "net/served/sink.hpp"

namespace ayatori::net::tcp {

using served::DataPlace;
using served::FrameHeader;
using served::FrameLimits;
using served::FrameSink;

class Receiver {
 public:
  explicit Receiver(const FrameLimits& limits);

  // Room for the next bytes: kIovecs at most, and how many bytes that is. May be asked for again without use of it.
  static constexpr std::size_t kIovecs = 2;
  std::span<iovec> room(std::size_t* bytes);
  // That many bytes were put there. False: the stream makes no sense, the sink was told.
  bool received(std::size_t bytes, FrameSink& sink);

 private:
  static constexpr std::size_t kReadAheadBytes = 64 * 1024;
  static constexpr std::size_t kReadAheadShort = 1024;           // V3
  static constexpr std::uint32_t kLongDataBytesMin = 16 * 1024;  // V3
  static constexpr std::size_t kDirectBytesMin = 4096;
  static constexpr int kFramesBehindData = 16;  // V3: so many more, and it is over

  bool take_frames(FrameSink& sink);
  bool take_data(FrameSink& sink);
  std::span<std::byte> direct_room();

  // Constant after construction.
  const FrameLimits limits_;
  const std::size_t staging_bytes_;
  std::unique_ptr<std::byte[]> staging_;

  std::size_t begin_ = 0;  // of what waits in staging_
  std::size_t end_ = 0;
  std::array<iovec, kIovecs> iovecs_{};
  std::size_t direct_bytes_ = 0;  // of the room that was given out last

  bool in_data_ = false;
  bool behind_long_data_ = false;
  int frames_behind_data_ = 0;  // since then
  FrameHeader data_header_;
  DataPlace place_;
  std::size_t data_left_ = 0;
  std::size_t padding_left_ = 0;
};

}  // namespace ayatori::net::tcp
