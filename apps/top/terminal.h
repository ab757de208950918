#pragma once

#include <termios.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/top/view.h"

namespace embers {

// The terminal of this process's standard output, as a screen of its own that comes and goes: what was there
// before is there again afterwards. Nothing here waits for a terminal that does not read: a frame that comes
// while another one is being written replaces whatever waits.
//
// *Thread safety*: none; everything happens in the thread that runs the io_context.
class Terminal {
 public:
  // kInvalid if there is none, or it cannot do what is needed (TERM=dumb).
  Terminal(boost::asio::io_context& io, const std::string& type);
  ~Terminal() { leave(); }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  // The screen comes with the next frame, also when somebody else has changed the terminal meanwhile.
  void enter();
  // Takes it away.
  void leave();

  struct Size {
    size_t columns = 80, lines = 24;
  };
  Size size() const;
  // Draws the lines, which fit the size, on the screen: over the last frame, or on an empty screen (`anew`).
  void show(const std::vector<Line>& lines, bool anew = false);

  // Calls `pressed` for each key, and `gone` once when the terminal has gone.
  void on_keys(std::function<void(char)> pressed, std::function<void()> gone);

 private:
  void write_next();
  // For a second at most.
  void write_now(std::string_view text);
  void read_keys();

  boost::asio::posix::stream_descriptor terminal_;
  int fd_ = -1;                 // of the same
  termios before_{};            // its settings
  bool entered_ = false;        // the settings are ours
  bool fresh_ = false;          // the screen is to come with the next frame
  bool anew_ = false;           // the next frame needs an empty screen
  std::string writing_, next_;  // frames; "" for none
  std::function<void(char)> pressed_;
  std::function<void()> gone_;
  char key_ = 0;
};

}  // namespace embers
