#pragma once

#include <optional>

#include "actors/errors.h"
#include "actors/message_types.h"

namespace embers {

// Asks and waits, in a blocking actor; an error response is thrown. If the actor that was asked ends without
// an answer, that is an error response too.
template <class T, class Actor>
Message<typename KindOf<T>::Reply> ask(caf::blocking_actor* self, const Actor& whom,
                                       const Message<T>& question) {
  std::optional<Error> error;
  Message<typename KindOf<T>::Reply> answer;
  self->request(whom, caf::infinite, question)
      .receive([&](const Message<typename KindOf<T>::Reply>& m) { answer = m; },
               [&](caf::error& e) { error = from_caf(e); });
  if (error) throw Error(*error);
  return answer;
}

}  // namespace embers
