#pragma once

#include <map>
#include <string>

namespace embers {

using Params = std::map<std::string, double>;

// `defaults` with the values of `given` put in. kInvalid, beginning with `what` ("optimizer 'adam'"), for a
// parameter that has no default (the nearest known one is suggested) or a value that is not a finite number.
Params with_defaults(const std::string& what, Params defaults, const Params& given);

}  // namespace embers
