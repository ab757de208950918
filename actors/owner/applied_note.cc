#include "actors/owner/applied_note.h"

#include "base/errors.h"
#include "storage/journal/journal_file.h"

namespace embers {

// epoch u32, version, minibatches, examples before, left out u64 each, first u8; then u64, u32 for each
// minibatch.
storage::Note to_note(const AppliedNote& note) {
  storage::Note out{"", note.first};
  storage::append_number(out.bytes, note.epoch);
  storage::append_number(out.bytes, note.version);
  storage::append_number(out.bytes, note.minibatches);
  storage::append_number(out.bytes, note.examples_before);
  storage::append_number(out.bytes, note.left_out);
  storage::append_number(out.bytes, static_cast<uint8_t>(note.first));
  for (const auto& [minibatch, examples] : note.applied) {
    storage::append_number(out.bytes, minibatch);
    storage::append_number(out.bytes, examples);
  }
  return out;
}

AppliedNote read_note(std::string_view bytes) {
  storage::RecordReader from(bytes);
  AppliedNote note;
  try {
    note.epoch = from.number<uint32_t>();
    note.version = from.number<uint64_t>();
    note.minibatches = from.number<uint64_t>();
    note.examples_before = from.number<uint64_t>();
    note.left_out = from.number<uint64_t>();
    note.first = from.number<uint8_t>() != 0;
    while (!from.empty()) {
      const auto minibatch = from.number<uint64_t>();
      note.applied.emplace_back(minibatch, from.number<uint32_t>());
    }
  } catch (const storage::RecordReader::BadRecord&) {
    fail(ErrorCode::kCorrupt, "a journal's note of what was applied has {} bytes: embers did not write it",
         bytes.size());
  }
  return note;
}

}  // namespace embers
