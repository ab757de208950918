#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/errors.h"
#include "base/floats/float_buffer.h"
#include "schema/ids.h"
#include "schema/messages/message.h"
#include "schema/messages/packed_keys.h"
#include "schema/partition.h"
#include "schema/table_spec.h"

// The one place, besides the *.capnp files, that knows how bytes of messages are laid out. Messages with rows
// are built inside their final buffer: rows are gathered straight into it and read in place.
namespace embers {

// Keys of one table, with values (gradients, rows) or without.
struct TableSlices {
  TableId table = 0;
  KeysView keys;
  uint32_t width = 0;             // floats per key, 0 without values
  std::span<const float> values;  // keys.size() x width; if they came as halves, empty until in_floats()
  NumberType number_type = NumberType::kFloat32;  // what values are, or are to be, sent as
  std::span<const uint16_t> halves = {};          // the values, if they came as halves
};

// The values of slices that came as halves, converted to floats in `room`, which the result views.
TableSlices in_floats(const TableSlices& slices, FloatBuffer& room);

// Plain form of wire::Origin, field by field.
struct Origin {
  uint64_t job = 0;
  uint64_t incarnation = 0;
  uint32_t epoch = 0;
  uint64_t minibatch = 0;
  uint32_t attempt = 0;
  uint64_t version = 0;
  uint32_t map_version = 0;
  uint32_t examples = 0;
  uint64_t step = 0;
};

Origin read(wire::Origin::Reader origin);

// Of an import: which one it is, and which map it was routed by.
struct ImportOrigin {
  uint32_t map_version = 0;
  uint64_t incarnation = 0;
  uint64_t number = 0;  // among those of the incarnation
};

// --- building ------------------------------------------------------------------------------------

// `rows_as`: what rows of embedding tables are to be sent as.
Message<wire::PullRequest> make_pull(const Origin& origin, wire::ReadMode mode, bool create,
                                     std::span<const TableSlices> tables,
                                     NumberType rows_as = NumberType::kFloat32,
                                     KeysSent keys = KeysSent::kAsTheyAre);

// The rows of one table of a pull's reply, to be filled in place.
struct RowsShape {
  TableId table;
  uint32_t dim;
  size_t keys;
  NumberType number_type = NumberType::kFloat32;  // what they are sent as
};
// fill(i, rows) writes keys x dim floats of shapes[i] into the outgoing buffer, or into one from which they
// are copied there as halves. `memory`: where the message is built. `own_step`: the last of the asker's that
// the rows have.
Message<wire::PullReply> make_pull_reply(uint64_t version, std::span<const RowsShape> shapes,
                                         const std::function<void(size_t i, std::span<float> rows)>& fill,
                                         WordsMemory* memory = nullptr, uint64_t own_step = 0);

Message<wire::PushRequest> make_push(const Origin& origin, std::span<const TableSlices> tables,
                                     WordsMemory* memory = nullptr, KeysSent keys = KeysSent::kAsTheyAre);
Message<wire::RestoreRequest> make_restore(std::span<const TableSlices> tables, bool only_absent);
Message<wire::ImportRequest> make_import(const ImportOrigin& origin, std::span<const TableSlices> tables);
Message<wire::ScanReply> make_scan_reply(uint64_t next, const TableSlices& rows);
Message<wire::ErrorReply> make_error(ErrorCode code, std::string_view text);

void write(wire::Table::Builder out, const TableSpec& table);

// --- reading: every size is checked; a wrong one is kBadFrame ------------------------------------

// Keys that came packed, as int64 again.
using UnpackedKeys = std::vector<std::vector<int64_t>>;

// Views into the message, or into `unpacked`, valid as long as both. Table numbers must be below `tables`.
// Values that came as halves are kBadFrame unless the caller can take them, and so are packed keys without
// `unpacked`.
std::vector<TableSlices> read_slices(capnp::List<wire::TableKeys>::Reader list, size_t tables,
                                     bool takes_halves = false, UnpackedKeys* unpacked = nullptr);

// Rows as they came: one of the two is empty.
struct SentRows {
  NumberType number_type;
  std::span<const float> floats;
  std::span<const uint16_t> halves;
};
// Rows of table i of a pull's reply, which must be for this table, dim and number of keys.
SentRows read_sent_rows(wire::PullReply::Reader reply, size_t i, const RowsShape& expected);
// The same for a caller that asked for float32: other rows are kBadFrame.
std::span<const float> read_rows(wire::PullReply::Reader reply, size_t i, const RowsShape& expected);

TableSpec read(wire::Table::Reader table);
OwnerMap read_owner_map(wire::JoinReply::Reader reply, size_t owners);
std::vector<std::string> read_texts(capnp::List<capnp::Text>::Reader texts);
std::span<const float> read_floats(capnp::Data::Reader data);
std::span<const uint64_t> read_words(capnp::Data::Reader data);
capnp::Data::Reader as_data(std::span<const float> floats);
capnp::Data::Reader as_data(std::span<const uint64_t> numbers);
capnp::Data::Reader as_data(std::span<const std::byte> bytes);
std::span<const std::byte> as_bytes(capnp::Data::Reader data);
void write_texts(capnp::List<capnp::Text>::Builder out, std::span<const std::string> texts);

// Runs `read`; a kj::Exception (malformed message) becomes kBadFrame naming the kind.
template <class F>
auto decoding(Kind kind, F&& read) {
  try {
    return read();
  } catch (const kj::Exception& e) {
    fail(ErrorCode::kBadFrame, "malformed {}: {}", name(kind), e.getDescription().cStr());
  }
}

}  // namespace embers
