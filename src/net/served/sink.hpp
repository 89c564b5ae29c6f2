// SPDX-License-Identifier: Apache-2.0
// Between what cuts arriving bytes into frames (net/tcp/receiver.hpp, net/ucx/inbox.hpp) and what is done with them
// (serve.hpp). Used by the thread that polls.
#pragma once

#include "net/served/frame.hpp"
#include "net/served/walk.hpp"

namespace ayatori::net::served {

// Where the data of one kData goes.
struct DataPlace {
  Walk* walk = nullptr;  // nullptr: nowhere, it is dropped
  bool whole_words = false;
};

// What is done with frames. false: this frame makes no sense here, `refuse` was told why.
class FrameSink {
 public:
  virtual ~FrameSink() = default;
  virtual bool on_frame(const Frame& frame) = 0;
  virtual bool on_data(const FrameHeader& header, DataPlace* place) = 0;  // begins
  virtual bool on_data_end(const FrameHeader& header) = 0;
  virtual void refuse(const char* why) = 0;  // the stream ends here
};

}  // namespace ayatori::net::served
