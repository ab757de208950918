#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "schema/ids.h"
#include "schema/table_spec.h"

namespace embers::storage {

// Names of rows and slots in an external store:
//
//   row   <job>/<table>/<key>
//   slots <job>/<table>/<key>#slots
//
// <table> is "<table>#<first column>" for an owner's columns of a table whose columns are spread over owners.
// An int64 key is its decimal text. Bytes that are not printable ASCII, and "%", "#", " " and (except in a
// table's name) "/", are written %XX, so that no two keys share a name and every protocol accepts them. A key
// whose name would exceed KeyValueServer::kLongestName is written as "#" and 32 hexadecimal digits of its
// hash; the value then repeats the key in full.
class StoredNames {
 public:
  // kInvalid when job and table leave no room for a hashed key.
  StoredNames(std::string_view job, const TableSpec& table);

  // Replaces the list with the names of the rows of `keys`, followed by those of their slots if `slots`.
  void assign(KeysView keys, bool slots);
  const std::vector<std::string_view>& names() const { return names_; }

  // The part of a value that tells the i-th of `keys` from others with the same hash: "", or the key in full.
  std::string_view rest(KeysView keys, size_t i) const;

  // The name under which an owner of a job leaves a mark at every server.
  static std::string mark(std::string_view job, uint32_t owner);
  // The name under which it publishes the version of its rows.
  static std::string version(std::string_view job, uint32_t owner);

 private:
  void append(KeysView keys, size_t i, std::string_view suffix);
  bool is_long(std::string_view key) const;

  std::string prefix_;
  std::string bytes_;         // all names, one after another
  std::vector<size_t> ends_;  // of the i-th name in bytes_
  std::vector<std::string_view> names_;
};

}  // namespace embers::storage
