#pragma once

#include <caf/all.hpp>

#include "base/errors.h"
#include "schema/messages/codec.h"

namespace embers {

// Between an embers error and the form in which CAF's responses carry it (category "embers"). CAF's own
// errors, such as a request to an actor that is gone, become kUnavailable, its timeouts kTimeout. The empty
// error, which is the reason given by an actor that ends normally, becomes kUnavailable too.
caf::error to_caf(const Error& error);
Error from_caf(const caf::error& error);

// Runs a handler's body: what it throws becomes an error response, so that no exception kills the actor and
// every request is answered. `kind` names the message that may turn out malformed.
template <class F>
auto guarded(Kind kind, F&& body) -> caf::result<decltype(body())> {
  try {
    return decoding(kind, body);
  } catch (const Error& e) {
    return to_caf(e);
  } catch (const std::exception& e) {
    return to_caf(Error(ErrorCode::kInternal, e.what()));
  }
}

// The same for handlers that answer later through a promise, or not at all: errors go to `deliver`.
template <class F, class Deliver>
void guarded(Kind kind, F&& body, Deliver&& deliver) {
  try {
    decoding(kind, body);
  } catch (const Error& e) {
    deliver(e);
  } catch (const std::exception& e) {
    deliver(Error(ErrorCode::kInternal, e.what()));
  }
}

}  // namespace embers
