#include "base/errors.h"

#include <cerrno>

namespace embers {

std::string_view name(ErrorCode code) {
  switch (code) {
    case ErrorCode::kUnavailable:
      return "unavailable";
    case ErrorCode::kTimeout:
      return "timeout";
    case ErrorCode::kStaleMap:
      return "staleMap";
    case ErrorCode::kStaleVersion:
      return "staleVersion";
    case ErrorCode::kStaleLease:
      return "staleLease";
    case ErrorCode::kInvalid:
      return "invalid";
    case ErrorCode::kBadFrame:
      return "badFrame";
    case ErrorCode::kMismatch:
      return "mismatch";
    case ErrorCode::kUnknownTable:
      return "unknownTable";
    case ErrorCode::kMissingKey:
      return "missingKey";
    case ErrorCode::kUnreachable:
      return "unreachable";
    case ErrorCode::kDenied:
      return "denied";
    case ErrorCode::kFenced:
      return "fenced";
    case ErrorCode::kLost:
      return "lost";
    case ErrorCode::kJobFailed:
      return "jobFailed";
    case ErrorCode::kCorrupt:
      return "corrupt";
    case ErrorCode::kInternal:
      return "internal";
    case ErrorCode::kDisk:
      return "disk";
    case ErrorCode::kEnded:
      return "ended";
  }
  return "internal";
}

ErrorCode error_code(uint8_t number) {
  const auto code = static_cast<ErrorCode>(number);
  return name(code) == "internal" ? ErrorCode::kInternal : code;
}

ErrorCode file_error_code(int error_number) {
  switch (error_number) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
    case EIO:
      return ErrorCode::kDisk;
    default:
      return ErrorCode::kInvalid;
  }
}

}  // namespace embers
