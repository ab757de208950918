#include "job/features/data_section.h"

#include <algorithm>

#include "base/errors.h"
#include "job/document/section.h"
#include "job/features/criteo.h"

namespace embers::job {
namespace {

constexpr int64_t kMaxBlockRecords = 1 << 24;

void read_separator(Section& section, DataSection& data) {
  std::string text(1, data.separator);
  section.read("separator", text);
  if (text.size() != 1 || text == "\"" || text == "\n" || text == "\r") {
    section.fail_at("separator", "'separator' must be one byte, and neither a quote nor a line break");
  }
  data.separator = text[0];
}

Column read_column(Section section) {
  Column column;
  section.read("name", column.name);
  if (column.name.empty()) section.fail_at("name", "needs a 'name'");
  section.read_choice("type", column.type,
                      {{"int", ColumnType::kInt},
                       {"float", ColumnType::kFloat},
                       {"string", ColumnType::kString},
                       {"label", ColumnType::kLabel},
                       {"ignore", ColumnType::kIgnore}});
  section.read("separator", column.separator);
  section.read("positive", column.positive);
  section.read("negative", column.negative);
  section.done();
  const bool several = column.type != ColumnType::kLabel && column.type != ColumnType::kIgnore;
  if (section.has("separator") && (!several || column.separator.empty())) {
    section.fail_at(
        "separator",
        "'separator' must not be empty; only int, string and float columns can hold several values");
  }
  if (column.type != ColumnType::kLabel && (section.has("positive") || section.has("negative"))) {
    section.fail_at(section.has("positive") ? "positive" : "negative",
                    "'positive' and 'negative' belong to a column of type label");
  }
  if (column.positive.empty() && !column.negative.empty()) {
    section.fail_at("negative", "'negative' also needs 'positive'");
  }
  for (const std::string& text : column.positive) {
    if (std::find(column.negative.begin(), column.negative.end(), text) == column.negative.end()) continue;
    section.fail_at("negative", fmt::format("'{}' is both in 'positive' and in 'negative'", text));
  }
  return column;
}

void check_unique(const Section& section, const std::vector<Column>& columns, const std::string& place) {
  const Column& last = columns.back();
  for (size_t i = 0; i + 1 < columns.size(); ++i) {
    if (columns[i].name == last.name) {
      fail(ErrorCode::kInvalid, "{}: {} column '{}' is declared twice", place, section.title(), last.name);
    }
    if (columns[i].type == ColumnType::kLabel && last.type == ColumnType::kLabel) {
      fail(ErrorCode::kInvalid, "{}: {} has two labels, '{}' and '{}'; a row has one", place, section.title(),
           columns[i].name, last.name);
    }
  }
}

std::vector<Column> read_columns(Section& section) {
  const toml::node* const node = section.find("columns");
  const toml::array* const list = node == nullptr ? nullptr : node->as_array();
  if (list == nullptr || list->empty()) {
    section.fail_at("columns",
                    "needs 'columns', a list of { name = ..., type = ... }, one for each field of a row");
  }
  std::vector<Column> columns;
  for (const toml::node& item : *list) {
    const std::string title = fmt::format("[data] column {}", columns.size() + 1);
    columns.push_back(read_column(section.below(as_section(item, title), title, "columns")));
    check_unique(section, columns, where(item.source()));
  }
  return columns;
}

enum class Format : uint8_t { kCsv, kTsv, kCriteo };

Format read_format(Section& section, DataSection& data) {
  Format format = Format::kCsv;
  section.read_choice("format", format,
                      {{"csv", Format::kCsv}, {"tsv", Format::kTsv}, {"criteo", Format::kCriteo}});
  section.read("format", data.format);
  if (format != Format::kCsv) data.separator = '\t';
  return format;
}

}  // namespace

void read(Section& section, DataSection& data) {
  section.read("dir", data.dir);
  section.read("train", data.train);
  section.read("test", data.test);
  const Format format = read_format(section, data);
  read_separator(section, data);
  section.read("header", data.header);
  section.read("trim", data.trim);
  section.read("comment", data.comment);
  section.read("missing", data.missing);
  section.read_choice("on_bad_row", data.skip_bad_rows, {{"error", false}, {"skip", true}});
  section.read("shuffle", data.shuffle);
  section.read_count("block_records", data.block_records, 1, kMaxBlockRecords);
  if (format != Format::kCriteo) {
    data.columns = read_columns(section);
  } else if (section.find("columns") != nullptr) {
    section.fail_at("columns", "'columns' are implied by format = \"criteo\"; leave one of the two out");
  } else {
    data.columns = criteo_columns();
  }
  section.done();
  if (data.train.empty()) section.fail_at("train", "needs 'train', the files to train on");
}

}  // namespace embers::job
