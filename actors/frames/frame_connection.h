#pragma once

#include "actors/frames/frame.h"

namespace embers {

// Where frames to a peer go: a Connection (connection.h), or one that a test simulates.
//
// *Thread safety*: all members from any thread.
class FrameConnection {
 public:
  virtual ~FrameConnection() = default;
  // Frames arrive in the order in which they are sent. Does nothing once the connection has ended.
  virtual void send(OutFrame frame) = 0;
  // Sends what is queued, then ends the connection.
  virtual void finish() = 0;
};

}  // namespace embers
