#pragma once

#include <span>
#include <string>
#include <string_view>

namespace embers {

// The name nearest to `wrong` by edit distance, or "" when none is near enough to help.
std::string nearest(std::string_view wrong, std::span<const std::string> known);

// "; did you mean 'adagrad'?" or, when nothing is near, "; known: a, b, c".
std::string suggestion(std::string_view wrong, std::span<const std::string> known);

}  // namespace embers
