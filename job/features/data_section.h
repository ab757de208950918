#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace embers::job {

class Section;

enum class ColumnType : uint8_t { kInt, kFloat, kString, kLabel, kIgnore };

struct Column {
  std::string name;
  ColumnType type = ColumnType::kString;
  std::string separator;              // between the values of a column that has several; "" for one value
  std::vector<std::string> positive;  // kLabel: strings that mean 1 ...
  std::vector<std::string> negative;  // ... and 0; if only this is empty, all other strings mean 0. Both
                                      // empty: the column's number is the label
};

// [data]
struct DataSection {
  std::string dir = ".";
  std::vector<std::string> train, test;  // file names or globs, relative to dir
  std::string format = "csv";            // csv | tsv | criteo
  char separator = ',';
  bool header = false;
  bool trim = true;
  std::string comment;                   // lines that begin with this are skipped; "": none
  std::vector<std::string> missing{""};  // strings that mean "no value"
  std::vector<Column> columns;
  bool skip_bad_rows = false;  // on_bad_row = "error" | "skip"
  bool shuffle = true;
  uint32_t block_records = 4096;  // unit of the permutation
};

void read(Section& section, DataSection& data);

}  // namespace embers::job
