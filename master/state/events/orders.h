#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "master/state/events/events.h"

namespace embers {

// What the master wants of members, and the requests with which they wait for it. A member's request says
// which order it has received last, and is answered by the next one, or by none after a while, so that both
// ends notice silence. It also says which order it has carried out last: they are carried out one after
// another. Plain state, owned by the master.
//
// Invariants: (1) a member gets its orders in the order in which they were given; (2) an order is sent again
// until a request says that it was received, so a lost answer loses nothing; (3) one request of each member
// waits at most, and every request is settled once: by ready(), or by ask() or forget() returning it.
class Orders {
 public:
  struct Settled {
    Ticket ticket;
    Order order;  // number 0: none
  };

  // The member is to do this; returns the number by which it will say that it has.
  uint64_t give(uint64_t member, Order::What what, uint64_t value, Time now);
  // A member's request. Returns its earlier one, if that still waits: it is no longer needed. kInvalid for
  // orders that were never given, or were carried out before they were received.
  std::optional<Ticket> ask(uint64_t member, Ticket ticket, uint64_t received, uint64_t carried_out,
                            Time now);
  // Takes the member's request if there is an order for it.
  std::optional<Settled> ready(uint64_t member);
  // Takes the requests of all that have an answer now: an order, or none to those that came before
  // `none_before`.
  std::vector<Settled> ready(Time none_before);
  // Nothing more is wanted of the member. Returns its request, if one waits.
  std::optional<Ticket> forget(uint64_t member);

  // Whether it has said so.
  bool carried_out(uint64_t member, uint64_t number) const;
  // Members that were given an order before this moment, and have not carried it out.
  std::vector<uint64_t> late(Time given_before) const;
  size_t waiting() const;

 private:
  struct Given {
    Order order;
    Time at;
  };
  struct Request {
    Ticket ticket;
    uint64_t received;
    Time since;
  };
  struct Of {
    const Order* next(uint64_t received) const;

    uint64_t last = 0;       // number of the latest order
    std::deque<Given> open;  // not carried out
    std::optional<Request> request;
  };

  std::map<uint64_t, Of> members_;
};

}  // namespace embers
