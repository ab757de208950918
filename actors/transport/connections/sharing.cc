#include "actors/transport/connections/sharing.h"

#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>

namespace embers {
namespace {

static_assert(Arena::kLeastWords > kSmallWords);

void write(wire::Share::File::Builder out, const SharedFile& file) {
  out.setDescriptor(file.descriptor);
  out.setInode(file.inode);
  out.setBytes(file.bytes);
}

SharedFile read(wire::Share::File::Reader in) { return {in.getDescriptor(), in.getInode(), in.getBytes()}; }

bool is_wanted() {
  const char* const text = std::getenv("EMBERS_SHARED_MEMORY");
  return text == nullptr || std::string_view(text) != "off";
}

}  // namespace

// --- SharedArena ---------------------------------------------------------------------------------

Words SharedArena::words(size_t words) {
  if (!used_ || words < Arena::kLeastWords) return Words(words);
  const auto shared = arena();
  return shared ? shared->words(words) : Words(words);
}

std::shared_ptr<Arena> SharedArena::arena() {
  const MutexLock lock(mutex_);
  if (!arena_ && !stopped_) arena_ = std::make_shared<Arena>();
  return arena_;
}

void SharedArena::stop() {
  std::shared_ptr<Arena> arena;
  {
    const MutexLock lock(mutex_);
    stopped_ = true;
    arena.swap(arena_);
  }
  if (arena) arena->stop();
}

// --- Sharing -------------------------------------------------------------------------------------

Sharing::~Sharing() {
  if (lender_) lender_->close();
}

std::optional<Message<wire::Share>> Sharing::offer() {
  try {
    arena_ = memory_->arena();
    if (!arena_) return std::nullopt;
    lender_ = std::make_shared<Lender>(peer_);
    arena_->add(lender_);
  } catch (const Error& e) {
    spdlog::debug("no memory is shared with process {}: {}", peer_, e.what());
    return std::nullopt;
  }
  return make_message<wire::Share>([&](wire::Share::Builder b) {
    write(b.initArena(), arena_->file());
    write(b.initSlots(), lender_->file());
  });
}

void Sharing::taken(bool taken) {
  if (!lender_) fail(ErrorCode::kBadFrame, "the peer takes memory that was not offered");
  if (!taken) return lender_->close();
  taken_ = true;
  memory_->use();
}

Message<wire::ShareTaken> Sharing::take(wire::Share::Reader offer) {
  if (borrower_) fail(ErrorCode::kBadFrame, "the peer offers its memory twice");
  try {
    borrower_ = std::make_shared<Borrower>(peer_, read(offer.getArena()), read(offer.getSlots()));
  } catch (const Error& e) {
    spdlog::debug("process {} shares its memory, but: {}", peer_, e.what());
  }
  return make_message<wire::ShareTaken>(
      [&](wire::ShareTaken::Builder b) { b.setTaken(borrower_ != nullptr); });
}

bool Sharing::reaches(const OutFrame& frame) const {
  return taken_ && frame.size > kSmallWords && arena_->page_of(frame.words).has_value();
}

std::optional<SharedPlace> Sharing::lend(const OutFrame& frame) {
  if (!reaches(frame)) return std::nullopt;
  const auto slot = lender_->lend(frame.owner);
  if (!slot) return std::nullopt;
  return SharedPlace{*arena_->page_of(frame.words), *slot};
}

Words Sharing::words(SharedPlace place, size_t words) const {
  if (!borrower_) fail(ErrorCode::kBadFrame, "a message is in memory that the peer has not shared");
  return borrower_->words(place, words);
}

std::optional<pid_t> shares_with(int socket) {
  static const bool wanted = is_wanted();
  ucred peer{};
  socklen_t size = sizeof peer;
  if (!wanted || ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return std::nullopt;
  if (peer.uid != ::geteuid() || peer.pid <= 0) return std::nullopt;
  return peer.pid;
}

}  // namespace embers
