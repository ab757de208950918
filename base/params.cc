#include "base/params.h"

#include <cmath>
#include <vector>

#include "base/errors.h"
#include "base/suggest.h"

namespace embers {
namespace {

[[noreturn]] void fail_unknown(const std::string& what, const std::string& name, const Params& defaults) {
  if (defaults.empty()) fail(ErrorCode::kInvalid, "{} takes no parameters: remove '{}'", what, name);
  std::vector<std::string> known;
  for (const auto& [key, value] : defaults) known.push_back(key);
  fail(ErrorCode::kInvalid, "{} has no parameter '{}'{}", what, name, suggestion(name, known));
}

}  // namespace

Params with_defaults(const std::string& what, Params defaults, const Params& given) {
  for (const auto& [name, value] : given) {
    const auto known = defaults.find(name);
    if (known == defaults.end()) fail_unknown(what, name, defaults);
    if (!std::isfinite(value))
      fail(ErrorCode::kInvalid, "{}: {} = {} must be a finite number", what, name, value);
    known->second = value;
  }
  return defaults;
}

}  // namespace embers
