#include "actors/frames/proxy.h"

#include <algorithm>

#include "actors/errors.h"
#include "actors/frames/frame_link.h"

namespace embers {

template struct detail::RequestsOf<MasterInterface>;
template struct detail::RequestsOf<OptimizerInterface>;
template struct detail::RequestsOf<ShardInterface>;

void Proxy::enqueue(caf::mailbox_element_ptr what, caf::execution_unit* host) {
  if (handle_system_message(*what, host, false)) return;
  MutexLock lock(mutex_);
  if (ended_) {
    const caf::error reason = reason_;
    lock.unlock();
    if (what->sender && what->mid.is_request())  // bounce() would not say why
      what->sender->enqueue(ctrl(), what->mid.response_id(), caf::make_message(reason), host);
    return;
  }
  const uint64_t correlation = static_cast<uint64_t>(destination_) << 48 | ++last_;
  auto request = read_(what->content(), destination_, correlation);
  if (!request) {
    lock.unlock();
    return bounce(what, caf::sec::unexpected_message);
  }
  const uint64_t connection = link_->connection();
  open_.emplace(correlation, Open{std::move(what->sender), what->mid.response_id(), request->read_reply,
                                  connection, link_->is_kept() ? request->frame : OutFrame()});
  lock.unlock();
  link_->send(std::move(request->frame), connection);
}

std::vector<OutFrame> Proxy::ask_again(uint64_t connection) {
  std::vector<OutFrame> frames;
  {
    const MutexLock lock(mutex_);
    for (auto& [correlation, open] : open_) {
      if (open.connection >= connection || open.frame.size == 0) continue;
      open.connection = connection;
      frames.push_back(open.frame);
    }
  }
  std::sort(frames.begin(), frames.end(),
            [](const OutFrame& a, const OutFrame& b) { return a.header.correlation < b.header.correlation; });
  return frames;
}

void Proxy::receive(InFrame& frame) {
  Open open;
  {
    const MutexLock lock(mutex_);
    const auto known = open_.find(frame.header.correlation);
    if (known == open_.end()) return;
    open = std::move(known->second);
    open_.erase(known);
  }
  const auto answer = [&](caf::message message) {
    if (open.asker) open.asker->enqueue(ctrl(), open.id, std::move(message), nullptr);
  };
  try {
    answer(open.read_reply(frame));
  } catch (const Error& e) {
    answer(caf::make_message(to_caf(e)));
    if (e.code() == ErrorCode::kBadFrame && !frame.error()) link_->close(e);
  }
}

void Proxy::end_link(const Error& why) { link_->close(why); }

bool Proxy::cleanup(caf::error&& reason, caf::execution_unit* host) {
  std::unordered_map<uint64_t, Open> open;
  {
    const MutexLock lock(mutex_);
    if (!std::exchange(ended_, true)) reason_ = reason;
    open.swap(open_);
  }
  for (auto& [correlation, o] : open)
    if (o.asker) o.asker->enqueue(ctrl(), o.id, caf::make_message(reason), host);
  return monitorable_actor::cleanup(std::move(reason), host);
}

void Proxy::on_destroy() {
  if (getf(is_cleaned_up_flag)) return;
  cleanup(caf::exit_reason::unreachable, nullptr);
  monitorable_actor::on_destroy();
}

}  // namespace embers
