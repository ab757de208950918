#pragma once

#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "actors/door/roles.h"
#include "actors/frames/session.h"

namespace embers {

// Which requests a server takes, and the actors that answer them.
//
// *Thread safety*: const members from any thread; others when no frame is asked at the same time.
class Dispatch {
 public:
  // A request whose actor is still to come, and its peer.
  struct Held {
    caf::strong_actor_ptr session;
    InFrame frame;
  };

  // Requests of interface I for `destination` go to `actor`.
  template <class I>
  void serve(Destination destination, typename I::Actor actor);
  // Requests of interface I for `destination` are held until it is served.
  template <class I>
  void expect(Destination destination);
  // Those held until now, of all destinations, in the order in which they came. They are not settled, so each
  // connection has as many at most as may arrive unanswered (transport/README.md).
  std::vector<Held> take_held() { return std::exchange(held_, {}); }
  // Whether this role may send any of them.
  bool takes_from(wire::Role role) const;
  // Gives the request to its actor, on behalf of the session's peer. What is wrong with it is answered; a
  // denial is returned as well, for the log.
  std::optional<Error> ask(Session& session, InFrame& frame);

 private:
  using Handler = std::function<void(Session& session, InFrame& frame)>;
  template <class T, class Actor>
  void add_handler(Destination destination, const Actor& actor);

  std::map<std::pair<uint16_t, uint16_t>, Handler> handlers_;  // by (destination, kind); empty: held
  std::vector<Held> held_;
};

template <class T, class Actor>
void Dispatch::add_handler(Destination destination, const Actor& actor) {
  handlers_[{static_cast<uint16_t>(destination), static_cast<uint16_t>(KindOf<T>::kind)}] =
      [actor](Session& session, InFrame& frame) {
        const FrameHeader header = frame.header;
        Message<T> question = decode<T>(frame);
        check_claims(session.role(), question.get());
        session.ask(actor, header, std::move(question));
      };
}

namespace detail {
template <class I>
struct ForEachRequest;
template <class... Requests>
struct ForEachRequest<Interface<MessageList<Requests...>>> {
  template <class F>
  static void call(F&& f) {
    (f.template operator()<Requests>(), ...);
  }
};
}  // namespace detail

template <class I>
void Dispatch::serve(Destination destination, typename I::Actor actor) {
  detail::ForEachRequest<I>::call([&]<class T>() { add_handler<T>(destination, actor); });
}

template <class I>
void Dispatch::expect(Destination destination) {
  detail::ForEachRequest<I>::call([&]<class T>() {
    handlers_[{static_cast<uint16_t>(destination), static_cast<uint16_t>(KindOf<T>::kind)}] = nullptr;
  });
}

// Made once (dispatch.cc) instead of in every file that uses them.
extern template void Dispatch::serve<MasterInterface>(Destination, MasterActor);
extern template void Dispatch::serve<OptimizerInterface>(Destination, OptimizerActor);
extern template void Dispatch::serve<ShardInterface>(Destination, ShardActor);

}  // namespace embers
