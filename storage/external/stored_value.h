#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace embers::storage {

// Who wrote a value of an external store, and when.
struct ValueTag {
  uint64_t run = 0;      // number of the job's run
  uint64_t version = 0;  // of the table: its writer's updates and restores so far; 0: as first created
  uint32_t writer = 0;   // number of the owner
};

// A value:
//
//   check   u64   XXH3 of all that follows, xored with that of the name it is stored under
//   magic   u32   "EmbR"
//   writer  u32
//   run     u64
//   version u64
//   floats  f32 each
//   rest          the key in full where the name holds only its hash, see StoredNames
//
// all little-endian. A value of another program, one under a wrong name, or one that is torn can therefore
// not be read back.
constexpr size_t kValueHeader = 32;

// Appends a value to `to`.
void append_value(std::string& to, std::string_view name, const ValueTag& tag, std::span<const float> floats,
                  std::string_view rest);

// Copies the floats of a value to `out`, and returns true; if its run is not `run`, an older run of the job
// left it there, and false is returned. kCorrupt naming `name` for a value that cannot be read back.
bool read_value(std::string_view value, std::string_view name, uint64_t run, std::string_view rest,
                ValueTag& tag, std::span<float> out);

// The tag of a value that may not be one of embers; zeros for one too short to have a tag.
ValueTag tag_of(std::string_view value);

}  // namespace embers::storage
