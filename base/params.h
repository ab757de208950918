#pragma once

#include <map>
#include <string>

namespace embers {

using Params = std::map<std::string, double>;

// `defaults`, overridden by `given`. kInvalid, with a message that begins with `what` ("optimizer 'adam'"),
// for a parameter that has no default (the nearest known one is suggested) or a value that is not a finite
// number.
Params with_defaults(const std::string& what, Params defaults, const Params& given);

}  // namespace embers
