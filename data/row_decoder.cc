#include "data/row_decoder.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <numeric>
#include <optional>

#include "base/errors.h"
#include "base/suggest.h"
#include "data/categorical.h"

namespace embers::data {
namespace {

// A string for people: unprintable bytes escaped, long strings cut.
std::string shown(std::string_view text) {
  constexpr size_t kLongest = 60;
  Keys one(KeyKind::kBytes);
  one.push_back(text.substr(0, kLongest));
  return fmt::format("'{}'{}", to_string(one, 0), text.size() > kLongest ? "..." : "");
}

template <class... Args>
[[noreturn]] void bad(const job::Column& column, fmt::format_string<Args...> format, Args&&... args) {
  throw BadRow(fmt::format("column '{}': {}", column.name, fmt::format(format, std::forward<Args>(args)...)));
}

template <class Number>
Number parse_number(const job::Column& column, std::string_view text, const char* kind) {
  std::string_view digits = text;
  if (digits.size() > 1 && digits[0] == '+' && digits[1] != '-') digits.remove_prefix(1);
  Number value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error == std::errc::result_out_of_range) bad(column, "{} is out of the range of {}", shown(text), kind);
  if (error != std::errc() || end != digits.data() + digits.size())
    bad(column, "{} is not {}", shown(text), kind);
  return value;
}

int64_t parse_int(const job::Column& column, std::string_view text) {
  return parse_number<int64_t>(column, text, "an int64 number");
}

// Digits that a double holds exactly, with or without a minus: what most numbers of data files are, in a
// third of from_chars()'s time.
std::optional<double> whole_number(std::string_view text) {
  constexpr size_t kMostDigits = 15;
  const bool minus = text.starts_with('-');
  const std::string_view digits = text.substr(minus ? 1 : 0);
  if (digits.empty() || digits.size() > kMostDigits) return {};
  int64_t value = 0;
  for (const char c : digits) {
    if (c < '0' || c > '9') return {};
    value = value * 10 + (c - '0');
  }
  const auto number = static_cast<double>(value);
  return minus ? -number : number;
}

// A number that is finite also as a float.
double parse_float(const job::Column& column, std::string_view text) {
  if (const std::optional<double> whole = whole_number(text)) return *whole;
  const double value = parse_number<double>(column, text, "a finite number");
  if (!std::isfinite(value)) bad(column, "{} is not a finite number", shown(text));
  if (!std::isfinite(static_cast<float>(value))) bad(column, "{} is out of the range of float", shown(text));
  return value;
}

// log1p, that of small whole numbers, which counts are, from a table.
float log1p_of(double x) {
  constexpr size_t kSmall = 1024;
  static const auto of_small = [] {
    std::array<float, kSmall> table;
    for (size_t i = 0; i < kSmall; ++i) table[i] = static_cast<float>(std::log1p(i));
    return table;
  }();
  x = std::max(x, 0.0);
  if (x < kSmall && !std::signbit(x))
    if (const auto whole = static_cast<size_t>(x); static_cast<double>(whole) == x) return of_small[whole];
  return static_cast<float>(std::log1p(x));
}

bool contains(const std::vector<std::string>& texts, std::string_view text) {
  return std::find(texts.begin(), texts.end(), text) != texts.end();
}

float parse_label(const job::Column& column, std::string_view text) {
  if (column.positive.empty()) return static_cast<float>(parse_float(column, text));
  if (contains(column.positive, text)) return 1;
  if (!column.negative.empty() && !contains(column.negative, text)) {
    bad(column, "label {} is not one of the declared values", shown(text));
  }
  return 0;
}

float transformed(const job::Feature& feature, double x) {
  if (feature.transform == job::Transform::kLog1p) return log1p_of(x);
  return static_cast<float>((x - feature.a) / feature.b);
}

}  // namespace

// What a row's columns hold and which features they feed. The values are those of the row being decoded.
struct RowDecoder::Plan {
  struct Value {
    explicit Value(const job::Column& column) : column(&column) {}
    const job::Column* column;
    size_t uses = 0;             // by features, their weights and inputs included, and as the label
    bool keeps_present = false;  // has weights, or is some
    // Without a separator, and all that it feeds is one numeric feature, or one hashed one: what that feature
    // takes from the row is known as soon as the text is. The feature's number, or kNoFeature.
    static constexpr size_t kNoFeature = SIZE_MAX;
    size_t only_number = kNoFeature, only_hash = kNoFeature;
    bool missing = false;
    double number = 0;
    std::vector<std::string_view> texts;  // without the missing ones
    std::vector<int64_t> ints;            // of an int column, beside the texts
    std::vector<double> numbers;          // of a float column, beside the texts
    std::vector<bool> present;            // if kept: of each value, whether it is among the above
  };
  struct NumericFeature {
    const job::Feature* feature;
    const Value* value;
    float missing;           // transformed
    bool of_column = false;  // its column feeds nothing else: see Value::only_number
  };
  struct CategoricalFeature {
    const job::Feature* feature = nullptr;
    const Value* value = nullptr;             // none for a crossed feature
    const Value* weights = nullptr;           // if any
    std::vector<CategoricalFeature> crossed;  // inputs of a crossed feature
    int64_t missing = 0;                      // key of an int64 feature
    std::string_view missing_text;
    bool of_column = false;    // its column feeds nothing else: see Value::only_hash
    int64_t missing_hash = 0;  // then: the id of a missing value
    // Of the row being decoded. They are added to the minibatch once the row is known to be good.
    int64_t hash = 0;                          // of_column: the id, or kNoId
    std::vector<int64_t> ids;                  // unless raw
    std::vector<float> id_weights;             // of the raw keys or ids, where the feature has weights
    std::vector<std::vector<uint64_t>> terms;  // of the inputs of a cross
  };

  explicit Plan(const job::Job& job) : missing(job.data.missing) {
    for (const std::string& text : missing) missing_sizes |= size_bit(text);
    // Features point to values, so all values are made first.
    for (const job::Column& column : job.data.columns) values.emplace_back(column);
    for (Value& value : values) {
      if (value.column->type == job::ColumnType::kLabel) label = &value;
      if (&value == label) ++value.uses;
    }
    for (const job::Feature& feature : job.features) add(feature);
    find_columns_of_one();
  }

  // Finds the columns with only_number and only_hash.
  void find_columns_of_one() {
    const auto feeds_one = [&](const Value& value, job::ColumnType type) {
      return value.uses == 1 && value.column->separator.empty() && value.column->type == type;
    };
    for (size_t i = 0; i < numeric.size(); ++i) {
      Value& value = values[static_cast<size_t>(numeric[i].value - values.data())];
      if (!feeds_one(value, job::ColumnType::kFloat)) continue;
      value.only_number = i;
      numeric[i].of_column = true;
    }
    for (size_t i = 0; i < categorical.size(); ++i) {
      CategoricalFeature& c = categorical[i];
      if (c.value == nullptr || c.weights != nullptr || c.feature->ids.kind != job::IdKind::kHashBucket)
        continue;
      Value& value = values[static_cast<size_t>(c.value - values.data())];
      if (!feeds_one(value, job::ColumnType::kString)) continue;
      value.only_hash = i;
      c.of_column = true;
      c.missing_hash =
          c.feature->has_missing_key ? hash_bucket(c.missing_text, c.feature->ids.num_buckets) : job::kNoId;
    }
    numbers.resize(numeric.size());
  }

  Value& value_of(const std::string& column) {
    const auto value =
        std::find_if(values.begin(), values.end(), [&](const Value& v) { return v.column->name == column; });
    ++value->uses;
    return *value;
  }

  void add(const job::Feature& feature) {
    if (feature.categorical) {
      categorical.push_back(planned(feature));
      return;
    }
    Value& value = value_of(feature.column);
    numeric.push_back({&feature, &value, transformed(feature, feature.missing_number)});
  }

  CategoricalFeature planned(const job::Feature& feature) {
    CategoricalFeature c;
    c.feature = &feature;
    c.missing_text = feature.missing_key;
    if (!feature.weights.empty()) {
      Value& weights = value_of(feature.weights);
      weights.keeps_present = true;
      c.weights = &weights;
    }
    if (feature.ids.kind == job::IdKind::kCrossed) {
      for (const job::Feature& input : feature.crossed) c.crossed.push_back(planned(input));
      c.terms.resize(c.crossed.size());
      return c;
    }
    Value& value = value_of(feature.column);
    value.keeps_present |= c.weights != nullptr;
    c.value = &value;
    if (feature.has_missing_key && reads_ints(c)) c.missing = std::stoll(feature.missing_key);
    return c;
  }

  // Whether a feature that is not crossed takes its column's values as int64 numbers.
  static bool reads_ints(const CategoricalFeature& c) {
    if (c.feature->ids.kind == job::IdKind::kBucketized) return false;
    return c.feature->ids.kind == job::IdKind::kRaw ? c.feature->key_kind == KeyKind::kInt64
                                                    : c.value->column->type == job::ColumnType::kInt;
  }

  static uint64_t size_bit(std::string_view text) { return uint64_t{1} << std::min(text.size(), size_t{63}); }
  bool is_missing(std::string_view text) const {
    return (missing_sizes & size_bit(text)) != 0 && contains(missing, text);
  }

  void parse(Value& value, std::string_view text);
  void parse_piece(Value& value, std::string_view text);
  void add_numeric(Minibatch& out);
  static Values values_of(const CategoricalFeature& feature);
  static void make_ids(CategoricalFeature& feature);
  static void make_weights(CategoricalFeature& feature);
  static void add_keys(const CategoricalFeature& feature, Ids& ids);

  const std::vector<std::string>& missing;
  uint64_t missing_sizes = 0;  // a bit for each, so that few texts need a comparison
  std::vector<Value> values;   // in order of declaration
  const Value* label = nullptr;
  std::vector<NumericFeature> numeric;          // order of Minibatch::numeric
  std::vector<float> numbers;                   // of them, of the row being decoded
  std::vector<CategoricalFeature> categorical;  // order of Minibatch::ids
};

void RowDecoder::Plan::parse_piece(Value& value, std::string_view text) {
  const bool present = !is_missing(text);
  if (value.keeps_present) value.present.push_back(present);
  if (!present) return;
  if (value.column->type == job::ColumnType::kInt) {
    value.ints.push_back(parse_int(*value.column, text));
    value.number = static_cast<double>(value.ints.back());
  } else if (value.column->type == job::ColumnType::kFloat) {
    value.number = parse_float(*value.column, text);
    value.numbers.push_back(value.number);
  } else if (value.column->type == job::ColumnType::kLabel) {
    value.number = parse_label(*value.column, text);
  }
  value.texts.push_back(text);
}

void RowDecoder::Plan::parse(Value& value, std::string_view text) {
  if (value.only_hash != Value::kNoFeature) {
    CategoricalFeature& c = categorical[value.only_hash];
    c.hash = is_missing(text) ? c.missing_hash : hash_bucket(text, c.feature->ids.num_buckets);
    return;
  }
  if (value.only_number != Value::kNoFeature) {
    const NumericFeature& n = numeric[value.only_number];
    numbers[value.only_number] =
        is_missing(text) ? n.missing : transformed(*n.feature, parse_float(*value.column, text));
    return;
  }
  value.texts.clear();
  value.ints.clear();
  value.numbers.clear();
  value.present.clear();
  const std::string& separator = value.column->separator;
  for (size_t end; !separator.empty() && (end = text.find(separator)) != std::string_view::npos;) {
    parse_piece(value, text.substr(0, end));
    text.remove_prefix(end + separator.size());
  }
  parse_piece(value, text);
  value.missing = value.texts.empty();
  if (value.missing && &value == label) bad(*value.column, "the label is missing");
}

void RowDecoder::Plan::add_numeric(Minibatch& out) {
  for (size_t i = 0; i < numeric.size(); ++i)
    if (const NumericFeature& n = numeric[i]; !n.of_column)
      numbers[i] = n.value->missing ? n.missing : transformed(*n.feature, n.value->number);
  out.numeric.insert(out.numeric.end(), numbers.begin(), numbers.end());
}

// What the feature reads from the row: the column's values, or what stands in for a missing one.
Values RowDecoder::Plan::values_of(const CategoricalFeature& c) {
  const bool replaced = c.value->missing && c.feature->has_missing_key;
  if (c.feature->ids.kind == job::IdKind::kBucketized) {
    if (replaced) return std::span(&c.feature->missing_number, 1);
    return std::span(&c.value->number, c.value->missing ? 0 : 1);
  }
  if (reads_ints(c)) return replaced ? std::span(&c.missing, 1) : std::span<const int64_t>(c.value->ints);
  return replaced ? std::span(&c.missing_text, 1) : std::span<const std::string_view>(c.value->texts);
}

void RowDecoder::Plan::make_ids(CategoricalFeature& c) {
  c.ids.clear();
  try {
    if (c.value != nullptr) return append_ids(c.feature->ids, values_of(c), c.ids);
    for (size_t i = 0; i < c.crossed.size(); ++i) {
      c.terms[i].clear();
      append_cross_terms(c.crossed[i].feature->ids, values_of(c.crossed[i]), c.terms[i]);
    }
    append_crosses(c.feature->ids, c.terms, c.ids);
  } catch (const BadValue& problem) {
    throw BadRow(fmt::format("feature '{}': {}", c.feature->name, problem.what()));
  }
}

// One weight for each value that is there; 1 for what stands in for a missing one.
void RowDecoder::Plan::make_weights(CategoricalFeature& c) {
  c.id_weights.clear();
  const auto& weights = *c.weights;
  if (c.value != nullptr && c.value->missing && c.feature->has_missing_key) return c.id_weights.push_back(1);
  const std::vector<bool> present =
      c.value != nullptr ? c.value->present : std::vector<bool>(c.ids.size(), true);
  const bool nothing = c.ids.empty() && c.value == nullptr && weights.missing;  // an empty text is one value
  if (present.size() != weights.present.size() && !nothing) {
    bad(*weights.column, "{} weights for {} values of feature '{}'", weights.present.size(), present.size(),
        c.feature->name);
  }
  for (size_t i = 0, at = 0; i < present.size(); ++i) {
    if (present[i] && !weights.present[i]) {
      bad(*weights.column, "the weight of value {} of feature '{}' is missing", i + 1, c.feature->name);
    }
    if (present[i]) c.id_weights.push_back(static_cast<float>(weights.numbers[at]));
    at += weights.present[i] ? 1 : 0;
  }
}

void RowDecoder::Plan::add_keys(const CategoricalFeature& c, Ids& ids) {
  const bool weighted = c.weights != nullptr;
  if (c.of_column) {
    if (c.hash >= 0) ids.keys.push_back(c.hash);
  } else if (c.feature->ids.kind == job::IdKind::kRaw) {
    const Values values = values_of(c);
    if (const auto* const ints = std::get_if<std::span<const int64_t>>(&values)) {
      for (const int64_t key : *ints) ids.keys.push_back(key);
    } else {
      for (const std::string_view key : std::get<std::span<const std::string_view>>(values))
        ids.keys.push_back(key);
    }
    if (weighted) ids.weights.insert(ids.weights.end(), c.id_weights.begin(), c.id_weights.end());
  } else {
    for (size_t i = 0; i < c.ids.size(); ++i) {
      if (c.ids[i] < 0) continue;
      ids.keys.push_back(c.ids[i]);
      if (weighted) ids.weights.push_back(c.id_weights[i]);
    }
  }
  ids.offsets.push_back(static_cast<int64_t>(ids.keys.size()));
}

RowDecoder::RowDecoder(const job::Job& job)
    : plan_(std::make_unique<Plan>(job)), dialect_(job.data), splitter_(dialect_) {}

RowDecoder::~RowDecoder() = default;

void RowDecoder::decode(std::string_view row, const std::vector<uint32_t>& order, Minibatch& out) {
  if (splitter_.split(row) != FieldError::kNone) {
    throw BadRow(
        fmt::format("text after the closing quote of field {}; double a quote that is part of the text",
                    splitter_.fields().size()));
  }
  const auto& fields = splitter_.fields();
  if (fields.size() != plan_->values.size()) {
    throw BadRow(fmt::format("expected {} columns, found {}", plan_->values.size(), fields.size()));
  }
  for (size_t i = 0; i < fields.size(); ++i) {
    Plan::Value& value = plan_->values[order.empty() ? i : order[i]];
    if (value.uses > 0) plan_->parse(value, fields[i]);
  }
  for (Plan::CategoricalFeature& c : plan_->categorical) {
    if (c.feature->ids.kind != job::IdKind::kRaw && !c.of_column) Plan::make_ids(c);
    if (c.weights != nullptr) Plan::make_weights(c);
  }
  plan_->add_numeric(out);
  for (size_t i = 0; i < plan_->categorical.size(); ++i) plan_->add_keys(plan_->categorical[i], out.ids[i]);
  if (plan_->label != nullptr) out.labels.push_back(static_cast<float>(plan_->label->number));
  ++out.examples;
}

Minibatch RowDecoder::start(uint64_t epoch, uint64_t index, uint64_t examples) const {
  Minibatch minibatch;
  minibatch.epoch = epoch;
  minibatch.index = index;
  minibatch.numeric.reserve(examples * plan_->numeric.size());
  minibatch.labels.reserve(examples);
  minibatch.records.reserve(examples);
  for (const auto& c : plan_->categorical) {
    Ids& ids = minibatch.ids.emplace_back();
    ids.keys = Keys(c.feature->key_kind);
    ids.keys.reserve(examples);
    ids.offsets.reserve(examples + 1);
  }
  return minibatch;
}

void RowDecoder::finish(Minibatch& minibatch) const {
  for (Ids& ids : minibatch.ids) {
    const int64_t width = ids.examples() == 0 ? 0 : ids.offsets[1];
    bool dense = width > 0;
    for (int64_t e = 0; dense && e < ids.examples(); ++e)
      dense = ids.offsets[e + 1] - ids.offsets[e] == width;
    ids.width = dense ? width : 0;
  }
}

std::vector<uint32_t> header_order(const std::vector<std::string>& names,
                                   const std::vector<job::Column>& columns, const std::string& place) {
  if (names.size() != columns.size()) {
    fail(ErrorCode::kInvalid, "{}: the header has {} names, but the job file declares {} columns", place,
         names.size(), columns.size());
  }
  std::vector<std::string> declared;
  for (const job::Column& column : columns) declared.push_back(column.name);
  std::vector<uint32_t> order;
  for (const std::string& name : names) {
    const auto it = std::find(declared.begin(), declared.end(), name);
    if (it == declared.end())
      fail(ErrorCode::kInvalid,
           "{}: the header names {}, which is not a declared column{} (header = true: the "
           "first line of each file must name the columns)",
           place, shown(name), suggestion(name, declared));
    const auto column = static_cast<uint32_t>(it - declared.begin());
    if (std::find(order.begin(), order.end(), column) != order.end())
      fail(ErrorCode::kInvalid, "{}: the header names {} twice", place, shown(name));
    order.push_back(column);
  }
  return std::is_sorted(order.begin(), order.end()) ? std::vector<uint32_t>() : order;
}

}  // namespace embers::data
