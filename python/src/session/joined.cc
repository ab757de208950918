#include "python/src/session/joined.h"

#include <algorithm>

#include "python/src/calls/living.h"

namespace embers::python {
namespace {

using Sessions = Living<client::Session>;

void leave(const Joined* joined) {
  if (joined->generation != fork_generation()) return;
  run_in_helper([joined] {
    joined->session->close();
    delete joined;
  });
}

}  // namespace

std::shared_ptr<const Joined> make_joined(Joined joined) {
  Sessions::here().add(joined.session);
  return {new Joined(std::move(joined)), leave};
}

bool close_sessions(const Deadline& deadline) {
  std::vector<std::shared_ptr<Promised<bool>>> left;
  for (auto& session : Sessions::here().all()) {
    left.push_back(std::make_shared<Promised<bool>>());
    run_in_helper([session = std::move(session), promised = left.back()]() mutable {
      session->close();
      session = nullptr;
      promised->keep(true);
    });
  }
  return std::all_of(left.begin(), left.end(), [&](const auto& promised) {
    return wait_in_slices(deadline, [&](auto slice) { return promised->wait_for(slice); });
  });
}

}  // namespace embers::python
