#pragma once

#include <optional>

#include "actors/errors.h"
#include "actors/message_types.h"
#include "actors/spawn.h"

namespace embers {

// Waits for the answer to a request, in the blocking actor that made it; an error response is thrown.
template <class Answer, class Pending>
Answer receive_answer(caf::blocking_actor* self, Pending pending) {
  std::optional<Error> error;
  Answer answer;
  let_answer(self);
  pending.receive([&](const Answer& m) { answer = m; }, [&](caf::error& e) { error = from_caf(e); });
  if (error) throw Error(*error);
  return answer;
}

// Asks and waits. If the actor that was asked ends without an answer, that is an error response too.
template <class T, class Actor>
Message<typename KindOf<T>::Reply> ask(caf::blocking_actor* self, const Actor& whom,
                                       const Message<T>& question) {
  return receive_answer<Message<typename KindOf<T>::Reply>>(self,
                                                            self->request(whom, caf::infinite, question));
}

}  // namespace embers
