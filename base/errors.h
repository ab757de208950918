#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace embers {

// What the *caller* should do about an error. The high nibble of an ErrorCode is its remedy.
enum class Remedy : uint8_t {
  kRetry = 1,    // the same request may succeed later, elsewhere or on a new connection
  kRefresh = 2,  // fetch newer state (owner map, version, lease), then ask again
  kFix = 3,      // the request, file, option or address is wrong: change it
  kGiveUp = 4,   // the job cannot go on
};

// Stable on the wire: never renumber.
enum class ErrorCode : uint8_t {
  kUnavailable = 0x11,   // the peer cannot be reached now, or the connection ended
  kTimeout = 0x12,       // no answer in time
  kStaleMap = 0x21,      // routed by an old owner map
  kStaleVersion = 0x22,  // computed on an old model version
  kStaleLease = 0x23,    // the lease was given to somebody else
  kInvalid = 0x31,       // an argument, a file or an option is wrong
  kBadFrame = 0x32,      // bytes from the wire that are not a message of embers
  kMismatch = 0x33,      // handshake: protocol, job, model or numeric settings differ
  kUnknownTable = 0x34,
  kMissingKey = 0x35,   // a pushed key that the store does not hold
  kUnreachable = 0x36,  // an address that never answered: gave up
  kDenied = 0x37,       // not without the job's secret, not as this user, or not in this role
  kFenced = 0x41,       // this process was given up on; its work went to others
  kLost = 0x42,         // another process of the job is gone
  kJobFailed = 0x43,    // the job ended with an error elsewhere
  kCorrupt = 0x44,      // a checkpoint or index that cannot be read back
  kInternal = 0x45,     // a bug in embers
  kDisk = 0x46,         // a disk that is full or fails
  kEnded = 0x47,        // the job is over, and ended well
};

constexpr Remedy remedy(ErrorCode code) { return static_cast<Remedy>(static_cast<uint8_t>(code) >> 4); }

// Name as users see it, e.g. "staleMap".
std::string_view name(ErrorCode code);

// The code with this number; kInternal for an unknown number (it may come from the wire).
ErrorCode error_code(uint8_t number);

// The code for a file that could not be read or written, by errno: kDisk for a disk that is full or fails,
// else kInvalid: its path or its permissions are wrong.
ErrorCode file_error_code(int error_number);

// The one exception type of embers. what() says what was wrong, where (file:line, table, key, host) and what
// to do.
class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ErrorCode code() const noexcept { return code_; }

 private:
  ErrorCode code_;
};

template <class... Args>
[[noreturn]] void fail(ErrorCode code, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(code, fmt::format(format, std::forward<Args>(args)...));
}

// Runs `body`; an error that it throws gets the place ("job.toml:12") as a prefix of its message.
template <class Body>
decltype(auto) at_place(const std::string& place, Body&& body) {
  try {
    return body();
  } catch (const Error& e) {
    throw Error(e.code(), fmt::format("{}: {}", place, e.what()));
  }
}

// Exit status of a process that ends with this error: 2 for what the user can fix, else 1.
constexpr int exit_status(ErrorCode code) { return remedy(code) == Remedy::kFix ? 2 : 1; }

}  // namespace embers
