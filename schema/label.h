#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>

#include "base/errors.h"

namespace embers {

inline constexpr size_t kLongestLabel = 64;  // bytes

// The name that whoever started a process gave it, which people see in logs and tables. kInvalid for one that
// would spoil them.
inline void check_label(std::string_view label) {
  const auto is_control = [](unsigned char c) { return c < 0x20 || c == 0x7f; };
  if (label.size() > kLongestLabel || std::any_of(label.begin(), label.end(), is_control))
    fail(ErrorCode::kInvalid, "EMBERS_LABEL: a label has at most {} bytes, and no control characters",
         kLongestLabel);
}

}  // namespace embers
