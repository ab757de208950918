#include "actors/owner/staged_journal.h"

#include <fmt/format.h>

#include <cstring>

#include "schema/messages/received.h"
#include "storage/journal/journal_file.h"

namespace embers {

StagedJournal::StagedJournal(const std::string& directory, uint32_t owner, uint64_t run, Disk& disk)
    : path_(fmt::format("{}/shard-{}.staged", directory, owner)),
      stamp_(storage::journal_stamp(disk, run)),
      disk_(disk) {
  const uint64_t good = storage::read_records(disk_, path_, stamp_, [&](storage::RecordReader& record) {
    const std::string_view bytes = record.rest();
    Words words(bytes.size() / sizeof(capnp::word));
    std::memcpy(words.data(), bytes.data(), words.bytes().size());
    left_.push_back(received<wire::PushRequest>(std::move(words)));
  });
  storage::drop_after(disk_, path_, good);
  file_ = disk_.append(path_);
}

void StagedJournal::add(const Message<wire::PushRequest>& push) {
  storage::begin_record(record_);
  storage::append_span(record_, push.words().bytes());
  storage::write_record(*file_, record_, stamp_);
}

void StagedJournal::clear() { file_ = disk_.create(path_); }

}  // namespace embers
