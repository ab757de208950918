#include "storage/initializers/initializer.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/floats/copy_floats.h"
#include "base/params.h"
#include "base/suggest.h"
#include "storage/initializers/distributions.h"
#include "storage/initializers/random_words.h"

namespace embers::storage {
namespace {

// What all initializers share: the checks.
class TableInitializer : public Initializer {
 public:
  explicit TableInitializer(const TableSpec& table)
      : dim_(table.dim), table_(table.name), kind_(table.key_kind) {}

  void fill(KeysView keys, std::span<float> out, std::span<const uint8_t> skip) const final {
    check(keys, out.size(), skip.size());
    fill_rows(keys, out, skip);
  }

 protected:
  const size_t dim_;

 private:
  virtual void fill_rows(KeysView keys, std::span<float> out, std::span<const uint8_t> skip) const = 0;

  void check(KeysView keys, size_t floats, size_t flags) const {
    if (keys.kind != kind_)
      fail(ErrorCode::kInvalid, "table '{}' has {} keys, not {} keys", table_, name(kind_), name(keys.kind));
    if (floats != keys.size() * dim_)
      fail(ErrorCode::kInvalid, "table '{}': {} rows of {} floats do not fit into {} floats", table_,
           keys.size(), dim_, floats);
    if (flags != 0 && flags != keys.size())
      fail(ErrorCode::kInvalid, "table '{}': {} flags for {} keys", table_, flags, keys.size());
  }

  std::string table_;
  KeyKind kind_;
};

class Constant final : public TableInitializer {
 public:
  Constant(const TableSpec& table, double value)
      : TableInitializer(table), value_(static_cast<float>(value)) {}

 private:
  void fill_rows(KeysView keys, std::span<float> out, std::span<const uint8_t> skip) const override {
    for (size_t i = 0; i < keys.size(); ++i)
      if (skip.empty() || !skip[i]) std::ranges::fill(out.subspan(i * dim_, dim_), value_);
  }

  float value_;
};

uint64_t mix(uint64_t x) { return hash_key(static_cast<int64_t>(x)); }

PhiloxKey philox_key(uint64_t x) { return {static_cast<uint32_t>(x), static_cast<uint32_t>(x >> 32)}; }

// Column c of a key's row comes from word c % 4 of the Philox block whose counter is (hash of the key, c / 4)
// and whose key is (seed, table). Blocks of several rows are drawn at once.
template <class Distribution>
class Random final : public TableInitializer {
 public:
  Random(uint64_t seed, const TableSpec& table, Distribution distribution)
      : TableInitializer(table),
        first_column_(table.first_column),
        key_(philox_key(mix(mix(seed) + hash_key(std::string_view(table.name))))),
        distribution_(distribution) {}

 private:
  static constexpr size_t kWords = 4 * PhiloxBlocks::kMost;
  static_assert(kWords <= kMostQuantiles);

  // Columns of one row.
  struct Piece {
    float* to;
    size_t word, columns;  // the first one's, among those of all blocks
  };
  struct Batch {
    PhiloxBlocks blocks;
    std::array<Piece, PhiloxBlocks::kMost> pieces;
    size_t used_blocks = 0, used_pieces = 0;
  };

  void fill_rows(KeysView keys, std::span<float> out, std::span<const uint8_t> skip) const override {
    Batch batch;
    for (size_t i = 0; i < keys.size(); ++i) {
      if (!skip.empty() && skip[i]) continue;
      const uint64_t hash = hash_key(keys, i);
      for (size_t done = 0; done < dim_;) {
        done += add(batch, hash, first_column_ + done, &out[i * dim_ + done], dim_ - done);
        if (batch.used_blocks == PhiloxBlocks::kMost) draw(batch);
      }
    }
    draw(batch);
  }

  // As many of the next `columns` as there is room for.
  static size_t add(Batch& batch, uint64_t hash, size_t column, float* to, size_t columns) {
    const size_t word = column % 4, begin = batch.used_blocks;
    const size_t end = std::min(begin + (word + columns + 3) / 4, PhiloxBlocks::kMost);
    for (size_t b = begin; b < end; ++b) {
      batch.blocks.word0[b] = static_cast<uint32_t>(hash);
      batch.blocks.word1[b] = static_cast<uint32_t>(hash >> 32);
      batch.blocks.word2[b] = static_cast<uint32_t>(column / 4 + (b - begin));
      batch.blocks.word3[b] = 0;
    }
    columns = std::min(columns, 4 * (end - begin) - word);
    batch.used_blocks = end;
    batch.pieces[batch.used_pieces++] = {to, 4 * begin + word, columns};
    return columns;
  }

  void draw(Batch& batch) const {
    uint32_t words[kWords];
    float values[kWords];
    batch.blocks.draw(batch.used_blocks, key_, words);
    distribution_.draw(words, 4 * batch.used_blocks, values);
    for (size_t p = 0; p < batch.used_pieces; ++p)
      copy_floats(batch.pieces[p].to, values + batch.pieces[p].word, batch.pieces[p].columns);
    batch.used_blocks = batch.used_pieces = 0;
  }

  const size_t first_column_;  // whose value row[0] is
  const PhiloxKey key_;
  const Distribution distribution_;
};

using Made = std::unique_ptr<const Initializer>;

// What a maker gets: the request, and its name in error messages.
struct Request {
  uint64_t seed;
  const TableSpec& table;
  std::string what;

  Params params(Params defaults) const {
    return with_defaults(what, std::move(defaults), table.initializer.params);
  }
  template <class Distribution>
  Made random(Distribution distribution) const {
    return std::make_unique<Random<Distribution>>(seed, table, distribution);
  }
};

Made make_zeros(const Request& r) {
  r.params({});
  return std::make_unique<Constant>(r.table, 0);
}

Made make_ones(const Request& r) {
  r.params({});
  return std::make_unique<Constant>(r.table, 1);
}

Made make_constant(const Request& r) {
  return std::make_unique<Constant>(r.table, r.params({{"value", 0}}).at("value"));
}

Made make_uniform(const Request& r) {
  const Params p = r.params({{"minval", -0.05}, {"maxval", 0.05}});
  const double low = p.at("minval"), high = p.at("maxval");
  if (low > high) fail(ErrorCode::kInvalid, "{}: minval = {} is above maxval = {}", r.what, low, high);
  return r.random(Uniform(low, high));
}

template <Normal::Cut kCut>
Made make_normal(const Request& r) {
  const Params p = r.params({{"mean", 0}, {"stddev", 0.05}});
  const double stddev = p.at("stddev");
  if (stddev < 0) fail(ErrorCode::kInvalid, "{}: stddev = {} must not be negative", r.what, stddev);
  return r.random(Normal(p.at("mean"), stddev, kCut));
}

enum class Fan : uint8_t { kIn, kAverage };

// scale / fan, as Keras' VarianceScaling.
double variance(const TableSpec& table, double scale, Fan fan) {
  const double fan_out = table.is_part() ? table.row_dim : table.dim;
  const double fan_in = table.input_dim > 0 ? static_cast<double>(table.input_dim) : fan_out;
  return scale / std::max(1.0, fan == Fan::kIn ? fan_in : (fan_in + fan_out) / 2);
}

template <int kScale, Fan kFan>
Made make_scaled_uniform(const Request& r) {
  r.params({});
  const double limit = std::sqrt(3 * variance(r.table, kScale, kFan));
  return r.random(Uniform(-limit, limit));
}

template <int kScale, Fan kFan>
Made make_scaled_normal(const Request& r) {
  constexpr double kTruncatedStddev = .87962566103423978;  // of a standard normal cut at two sigma
  r.params({});
  const double stddev = std::sqrt(variance(r.table, kScale, kFan)) / kTruncatedStddev;
  return r.random(Normal(0, stddev, Normal::Cut::kAtTwoSigma));
}

struct Known {
  const char* name;
  Made (*make)(const Request&);
};

constexpr Known kKnown[] = {
    {"zeros", make_zeros},
    {"ones", make_ones},
    {"constant", make_constant},
    {"uniform", make_uniform},
    {"random_uniform", make_uniform},
    {"normal", make_normal<Normal::Cut::kNo>},
    {"random_normal", make_normal<Normal::Cut::kNo>},
    {"truncated_normal", make_normal<Normal::Cut::kAtTwoSigma>},
    {"glorot_uniform", make_scaled_uniform<1, Fan::kAverage>},
    {"glorot_normal", make_scaled_normal<1, Fan::kAverage>},
    {"he_uniform", make_scaled_uniform<2, Fan::kIn>},
    {"he_normal", make_scaled_normal<2, Fan::kIn>},
    {"lecun_uniform", make_scaled_uniform<1, Fan::kIn>},
    {"lecun_normal", make_scaled_normal<1, Fan::kIn>},
};

}  // namespace

std::unique_ptr<const Initializer> Initializer::make(uint64_t seed, const TableSpec& table) {
  const std::string& name = table.initializer.name;
  const auto known =
      std::find_if(std::begin(kKnown), std::end(kKnown), [&](const Known& k) { return k.name == name; });
  if (known == std::end(kKnown))
    fail(ErrorCode::kInvalid, "table '{}': unknown initializer '{}'{}", table.name, name,
         suggestion(name, initializer_names()));
  return known->make({seed, table, fmt::format("table '{}': initializer '{}'", table.name, name)});
}

const std::vector<std::string>& initializer_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const Known& known : kKnown) all.emplace_back(known.name);
    return all;
  }();
  return names;
}

}  // namespace embers::storage
