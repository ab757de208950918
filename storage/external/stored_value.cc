#include "storage/external/stored_value.h"

#include <cstring>
#include <type_traits>

#include "base/errors.h"
#include "schema/ids.h"

namespace embers::storage {
namespace {

constexpr uint32_t kMagic = 0x52626d45;  // "EmbR"

struct Header {
  uint64_t check;
  uint32_t magic, writer;
  uint64_t run, version;
};
static_assert(sizeof(Header) == kValueHeader && std::has_unique_object_representations_v<Header>);

uint64_t check_of(std::string_view value, std::string_view name) {
  return hash_key(value.substr(sizeof(uint64_t))) ^ hash_key(name);
}

[[noreturn]] void fail_foreign(std::string_view name, std::string_view what) {
  fail(ErrorCode::kCorrupt,
       "the value under '{}' is {}: something else writes to this server under the job's name", name, what);
}

}  // namespace

void append_value(std::string& to, std::string_view name, const ValueTag& tag, std::span<const float> floats,
                  std::string_view rest) {
  const size_t begin = to.size();
  const Header header{0, kMagic, tag.writer, tag.run, tag.version};
  to.append(reinterpret_cast<const char*>(&header), sizeof header);
  to.append(reinterpret_cast<const char*>(floats.data()), floats.size_bytes());
  to.append(rest);
  const uint64_t check = check_of(std::string_view(to).substr(begin), name);
  std::memcpy(to.data() + begin, &check, sizeof check);
}

bool read_value(std::string_view value, std::string_view name, uint64_t run, std::string_view rest,
                ValueTag& tag, std::span<float> out) {
  Header header;
  if (value.size() < sizeof header) fail_foreign(name, "not a row of embers");
  std::memcpy(&header, value.data(), sizeof header);
  if (header.magic != kMagic) fail_foreign(name, "not a row of embers");
  if (header.check != check_of(value, name)) fail_foreign(name, "damaged");
  if (header.run != run) return false;
  if (value.size() != sizeof header + out.size_bytes() + rest.size() || !value.ends_with(rest))
    fail_foreign(name, "a row of another table or key");
  if (!out.empty()) std::memcpy(out.data(), value.data() + sizeof header, out.size_bytes());
  tag = {header.run, header.version, header.writer};
  return true;
}

ValueTag tag_of(std::string_view value) {
  Header header{};
  if (value.size() >= sizeof header) std::memcpy(&header, value.data(), sizeof header);
  return {header.run, header.version, header.writer};
}

}  // namespace embers::storage
