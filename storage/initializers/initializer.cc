#include "storage/initializers/initializer.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/params.h"
#include "base/philox.h"
#include "base/suggest.h"
#include "storage/initializers/normal_quantile.h"

namespace embers::storage {
namespace {

// What all initializers share: the checks, and one call of fill_row per key.
class RowInitializer : public Initializer {
 public:
  explicit RowInitializer(const TableSpec& table)
      : first_column_(table.first_column), table_(table.name), kind_(table.key_kind), dim_(table.dim) {}

  void fill(KeysView keys, std::span<float> out, std::span<const uint8_t> skip) const final {
    check(keys, out.size(), skip.size());
    for (size_t i = 0; i < keys.size(); ++i)
      if (skip.empty() || !skip[i]) fill_row(hash_key(keys, i), out.subspan(i * dim_, dim_));
  }

 protected:
  const size_t first_column_;  // whose value row[0] is

 private:
  virtual void fill_row(uint64_t key_hash, std::span<float> row) const = 0;

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
  size_t dim_;
};

class Constant final : public RowInitializer {
 public:
  Constant(const TableSpec& table, double value) : RowInitializer(table), value_(static_cast<float>(value)) {}

 private:
  void fill_row(uint64_t, std::span<float> row) const override { std::fill(row.begin(), row.end(), value_); }

  float value_;
};

uint64_t mix(uint64_t x) { return hash_key(static_cast<int64_t>(x)); }

// Column c of a key's row comes from word c % 4 of the Philox block whose counter is (hash of the key, c / 4)
// and whose key is (seed, table).
template <class Distribution>
class Random final : public RowInitializer {
 public:
  Random(uint64_t seed, const TableSpec& table, Distribution distribution)
      : RowInitializer(table),
        stream_(words(mix(mix(seed) + hash_key(std::string_view(table.name))))),
        distribution_(distribution) {}

 private:
  static std::array<uint32_t, 2> words(uint64_t x) {
    return {static_cast<uint32_t>(x), static_cast<uint32_t>(x >> 32)};
  }

  void fill_row(uint64_t key_hash, std::span<float> row) const override {
    const auto [low, high] = words(key_hash);
    for (size_t done = 0, n = 0; done < row.size(); done += n) {
      const size_t column = first_column_ + done, word = column % 4;
      const auto random = philox({low, high, static_cast<uint32_t>(column / 4), 0}, stream_);
      n = std::min<size_t>(4 - word, row.size() - done);
      for (size_t i = 0; i < n; ++i) row[done + i] = distribution_(random[word + i]);
    }
  }

  std::array<uint32_t, 2> stream_;
  Distribution distribution_;
};

// Uniform over [low, high), as tf.random.uniform.
class Uniform {
 public:
  Uniform(double low, double high)
      : low_(low),
        range_(high - low),
        last_(std::nextafter(static_cast<float>(high), static_cast<float>(low))) {}
  float operator()(uint32_t random) const {
    const double unit = (random >> 8) * 0x1p-24;
    return std::min(static_cast<float>(low_ + range_ * unit), last_);  // rounding may reach `high`
  }

 private:
  double low_, range_;
  float last_;
};

class Normal {
 public:
  Normal(double mean, double stddev) : mean_(mean), stddev_(stddev) {}
  float operator()(uint32_t random) const {
    const double unit = (random + 0.5) * 0x1p-32;
    return static_cast<float>(mean_ + stddev_ * normal_quantile(unit));
  }

 private:
  double mean_, stddev_;
};

// Normal, within two standard deviations of the mean, as tf.random.truncated_normal.
class TruncatedNormal {
 public:
  TruncatedNormal(double mean, double stddev) : mean_(mean), stddev_(stddev) {}
  float operator()(uint32_t random) const {
    constexpr double kBelow = 0.02275013194817920720;  // P(X < -2)
    const double unit = (random + 0.5) * 0x1p-32;
    return static_cast<float>(mean_ + stddev_ * normal_quantile(kBelow + (1 - 2 * kBelow) * unit));
  }

 private:
  double mean_, stddev_;
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

template <class Distribution>
Made make_normal(const Request& r) {
  const Params p = r.params({{"mean", 0}, {"stddev", 0.05}});
  const double stddev = p.at("stddev");
  if (stddev < 0) fail(ErrorCode::kInvalid, "{}: stddev = {} must not be negative", r.what, stddev);
  return r.random(Distribution(p.at("mean"), stddev));
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
  return r.random(TruncatedNormal(0, std::sqrt(variance(r.table, kScale, kFan)) / kTruncatedStddev));
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
    {"normal", make_normal<Normal>},
    {"random_normal", make_normal<Normal>},
    {"truncated_normal", make_normal<TruncatedNormal>},
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
