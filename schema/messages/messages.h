#pragma once

#include <cstdint>
#include <string_view>

#include "schema/message_kinds.h"

namespace embers {

// Raised whenever a message changes in a way that an older peer would misread.
inline constexpr uint32_t kProtocol = 9;
inline constexpr char kNumberFormat[] = "float32-le";

// Name for messages; "" for an unknown number.
std::string_view name(Kind kind);

// Name for messages; "" for an unknown number, which may come from the wire.
std::string_view name(wire::Role role);

}  // namespace embers
