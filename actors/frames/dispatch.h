#pragma once

#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "actors/door/roles.h"
#include "actors/frames/line.h"
#include "actors/frames/session.h"

namespace embers {

// Which requests a server takes, and the actors that answer them.
//
// *Thread safety*: const members from any thread; others when no frame is asked at the same time.
class Dispatch {
 public:
  // Requests of masters wait in lines from now on (line.h). `on_turn` is called in any thread when some of
  // them may go: give() what take_turns() returns. Before serve().
  void line_up(std::function<void()> on_turn) { on_turn_ = std::move(on_turn); }
  // Requests of interface I for `destination` go to `actor`.
  template <class I>
  void serve(Destination destination, typename I::Actor actor);
  // Requests of interface I for `destination` are held until it is served.
  template <class I>
  void expect(Destination destination);
  // Those held until now, of all destinations, in the order in which they came. They are not settled, so each
  // connection has as many at most as may arrive unanswered (transport/README.md).
  std::vector<HeldRequest> take_held() { return std::exchange(held_, {}); }
  // Whether this role may send any of them.
  bool takes_from(wire::Role role) const;
  // Gives the request to its actor, on behalf of the session's peer. What is wrong with it is answered; a
  // denial is returned as well, for the log. It may have to wait in a line.
  std::optional<Error> ask(Session& session, InFrame& frame);
  // Those who have waited in a line and may go now: some of them, so ask again until there are none.
  std::vector<HeldRequest> take_turns();
  // Those of one peer that wait in a line, since its connection has ended.
  std::vector<HeldRequest> take_turns_of(const caf::strong_actor_ptr& session);
  // As ask(), at once.
  std::optional<Error> give(Session& session, InFrame& frame);

 private:
  struct Handler {
    std::function<void(Session& session, InFrame& frame)> take;  // empty: held
    std::shared_ptr<Line> line;                                  // of its actor, if requests wait for that
  };
  template <class T, class Actor>
  void add_handler(Destination destination, const Actor& actor, const std::shared_ptr<Line>& line);
  Handler& handler_of(const Session& session, const InFrame& frame);
  template <class Step>
  static std::optional<Error> answering(Session& session, const InFrame& frame, Step&& step);

  std::map<std::pair<uint16_t, uint16_t>, Handler> handlers_;  // by (destination, kind)
  std::vector<HeldRequest> held_;
  std::function<void()> on_turn_;
  std::vector<std::shared_ptr<Line>> lines_;
};

template <class T, class Actor>
void Dispatch::add_handler(Destination destination, const Actor& actor, const std::shared_ptr<Line>& line) {
  handlers_[{static_cast<uint16_t>(destination), static_cast<uint16_t>(KindOf<T>::kind)}] = {
      [actor](Session& session, InFrame& frame) {
        const FrameHeader header = frame.header;
        Message<T> question = decode<T>(frame);
        check_claims(session.role(), question.get());
        session.ask(actor, header, std::move(question));
      },
      line};
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
  std::shared_ptr<Line> line;
  if (std::is_same_v<I, MasterInterface> && on_turn_) {
    line = std::make_shared<Line>(on_turn_);
    lines_.push_back(line);
  }
  detail::ForEachRequest<I>::call([&]<class T>() { add_handler<T>(destination, actor, line); });
}

template <class I>
void Dispatch::expect(Destination destination) {
  detail::ForEachRequest<I>::call([&]<class T>() {
    handlers_[{static_cast<uint16_t>(destination), static_cast<uint16_t>(KindOf<T>::kind)}] = {};
  });
}

// Made once (dispatch.cc) instead of in every file that uses them.
extern template void Dispatch::serve<MasterInterface>(Destination, MasterActor);
extern template void Dispatch::serve<OptimizerInterface>(Destination, OptimizerActor);
extern template void Dispatch::serve<ShardInterface>(Destination, ShardActor);

}  // namespace embers
