#include "actors/errors.h"

namespace embers {
namespace {

constexpr auto kCategory = caf::atom("embers");

}  // namespace

caf::error to_caf(const Error& error) {
  return caf::error{static_cast<uint8_t>(error.code()), kCategory,
                    caf::make_message(std::string(error.what()))};
}

Error from_caf(const caf::error& error) {
  if (!error)
    return Error(ErrorCode::kUnavailable,
                 "the actor that was asked has ended");  // CAF 0.17: an empty error has no category
  if (error.category() == kCategory && error.context().match_elements<std::string>())
    return Error(error_code(error.code()), error.context().get_as<std::string>(0));
  if (error == caf::sec::request_timeout) return Error(ErrorCode::kTimeout, "no answer in time");
  return Error(ErrorCode::kUnavailable, "the actor that was asked is gone (" + caf::to_string(error) + ")");
}

}  // namespace embers
