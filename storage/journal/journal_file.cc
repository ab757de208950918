#include "storage/journal/journal_file.h"

#include "schema/ids.h"

namespace embers::storage {
namespace {

constexpr size_t kCheck = sizeof(uint64_t), kHeader = 2 * sizeof(uint64_t);

uint64_t check_of(std::string_view record, uint64_t stamp) { return hash_key(record.substr(kCheck)) ^ stamp; }

}  // namespace

uint64_t journal_stamp(Disk& disk, uint64_t run) { return run ^ hash_key(disk.boot()); }

uint64_t read_records(Disk& disk, const std::string& path, uint64_t stamp,
                      const std::function<void(RecordReader&)>& visit) {
  const std::string text = disk.exists(path) ? disk.open(path)->read_all() : "";
  std::string_view rest = text;
  try {
    while (rest.size() >= kHeader) {
      RecordReader header(rest);
      const auto check = header.number<uint64_t>(), size = header.number<uint64_t>();
      if (size > rest.size() - kHeader) break;
      const std::string_view record = rest.substr(0, kHeader + size);
      if (check != check_of(record, stamp)) break;
      RecordReader reader(record.substr(kHeader));
      visit(reader);
      rest.remove_prefix(record.size());
    }
  } catch (const RecordReader::BadRecord&) {
  }
  return text.size() - rest.size();
}

void drop_after(Disk& disk, const std::string& path, uint64_t bytes) {
  if (disk.exists(path) && disk.open(path)->size() > bytes) disk.truncate(path, bytes);
}

void begin_record(std::string& record) { record.assign(kHeader, 0); }

void write_record(File& file, std::string& record, uint64_t stamp) {
  const uint64_t size = record.size() - kHeader;
  std::memcpy(record.data() + kCheck, &size, sizeof size);
  const uint64_t check = check_of(record, stamp);
  std::memcpy(record.data(), &check, sizeof check);
  file.write(record);
}

}  // namespace embers::storage
