#include "data/synth.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <optional>
#include <string_view>
#include <vector>

#include "base/errors.h"
#include "base/files/temporary_file.h"
#include "data/random.h"

// Only +, -, *, /, floor and ldexp on doubles here, which IEEE 754 fixes to the last bit: exp, log and the
// like differ between math libraries.

namespace embers::data {
namespace {

constexpr uint64_t kTeacher = 0x7465616368657231;  // the seed of the teacher
constexpr size_t kBuffer = 1 << 20;                // bytes written at once
constexpr uint64_t kMinRows = 10;

// One column of counts: floor(2^(mean + spread * g)) + shift with a standard normal g.
struct Count {
  double mean, spread;
  int shift;
  double missing;  // share of rows
  double weight;   // of g in the teacher
};
constexpr std::array<Count, 13> kCounts = {{{1.0, 1.6, 0, 0.40, 0.30},
                                            {3.5, 2.4, -2, 0.00, 0.25},
                                            {3.0, 1.8, 0, 0.20, -0.10},
                                            {2.6, 1.2, 0, 0.20, 0.15},
                                            {10.5, 2.2, 0, 0.02, -0.35},
                                            {5.2, 1.9, 0, 0.20, -0.25},
                                            {2.8, 1.9, 0, 0.04, 0.30},
                                            {3.4, 1.3, 0, 0.00, 0.10},
                                            {5.6, 1.8, 0, 0.04, 0.00},
                                            {0.6, 0.6, 0, 0.40, 0.20},
                                            {1.6, 1.2, 0, 0.04, 0.25},
                                            {0.8, 1.0, 0, 0.75, 0.05},
                                            {2.8, 1.4, 0, 0.20, 0.10}}};

// One column of hashed strings: ids 0 .. vocabulary-1 with probability in proportion to 1 / (id + 1).
struct Category {
  uint32_t vocabulary;
  double missing;  // share of rows
  double weight;   // standard deviation of an id's weight in the teacher
};
constexpr std::array<Category, 26> kCategories = {
    {{1400, 0.00, 0.20},  {550, 0.00, 0.25},   {300000, 0.03, 0.25}, {150000, 0.03, 0.25},
     {300, 0.00, 0.15},   {20, 0.12, 0.20},    {12000, 0.00, 0.30},  {600, 0.00, 0.15},
     {10, 0.00, 0.20},    {60000, 0.00, 0.25}, {5200, 0.00, 0.25},   {250000, 0.03, 0.2},
     {3100, 0.00, 0.20},  {26, 0.00, 0.25},    {11000, 0.00, 0.25},  {200000, 0.03, 0.2},
     {10, 0.00, 0.35},    {4800, 0.00, 0.30},  {2000, 0.44, 0.20},   {12, 0.44, 0.25},
     {220000, 0.03, 0.2}, {17, 0.76, 0.20},    {15, 0.00, 0.30},     {50000, 0.03, 0.25},
     {90, 0.44, 0.20},    {35000, 0.44, 0.20}}};
constexpr uint32_t kLargestVocabulary = 300000;

// Columns whose ids have a joint weight beyond their own.
struct Pair {
  size_t first, second;
  double weight;
};
constexpr std::array<Pair, 4> kPairs = {{{8, 16, 0.35}, {13, 22, 0.30}, {5, 19, 0.30}, {4, 16, 0.30}}};

constexpr double kBias = -1.75;  // puts about a quarter of the labels at 1

// Nearly normal, mean 0, variance 1: the sum of four uniform numbers, 16 bits each.
double normal(uint64_t bits) {
  const uint64_t sum = (bits & 0xffff) + (bits >> 16 & 0xffff) + (bits >> 32 & 0xffff) + (bits >> 48);
  return (static_cast<double>(sum) * 0x1p-16 - 2.0) * 1.7320508075688772;
}

double exp2(double x) {
  const double whole = std::floor(x);
  const double y = (x - whole) * 0.6931471805599453;
  double series = 1;
  for (int k = 14; k > 0; --k) series = 1 + series * y / k;
  return std::ldexp(series, static_cast<int>(whole));
}

double logistic(double z) { return 1 / (1 + exp2(-z * 1.4426950408889634)); }

double id_weight(size_t column, uint64_t id) { return normal(mix(mix(kTeacher, column), id)); }

double pair_weight(size_t pair, uint64_t first, uint64_t second) {
  return normal(mix(mix(kTeacher, 1000 + pair), first << 32 | second));
}

// Draws ids in proportion to 1 / (id + 1), for any vocabulary up to the largest.
class Zipf {
 public:
  Zipf() {
    double sum = 0;
    for (uint32_t id = 0; id < kLargestVocabulary; ++id) sums_.push_back(sum += 1.0 / (id + 1));
  }
  uint32_t draw(uint32_t vocabulary, double uniform) const {
    const auto end = sums_.begin() + vocabulary - 1;
    return static_cast<uint32_t>(std::upper_bound(sums_.begin(), end, uniform * *end) - sums_.begin());
  }

 private:
  std::vector<double> sums_;  // sums_[i] = 1 + 1/2 + ... + 1/(i+1)
};

// Appends one row after another to a string; the label comes first, so the fields wait for it.
class RowWriter {
 public:
  void append(uint64_t seed, uint64_t row, std::string& out) {
    Random random(mix(seed, row));
    fields_.clear();
    const double z = kBias + add_counts(random) + add_categories(random);
    out += random.uniform() < logistic(z) ? '1' : '0';
    out += fields_;
    out += '\n';
  }

 private:
  double add_counts(Random& random) {
    double z = 0;
    for (const Count& count : kCounts) {
      const double g = normal(random.next());
      const bool missing = random.uniform() < count.missing;
      fields_ += '\t';
      if (missing) continue;
      const auto value = static_cast<int64_t>(exp2(count.mean + count.spread * g)) + count.shift;
      fmt::format_to(std::back_inserter(fields_), "{}", value);
      z += count.weight * g;
    }
    return z;
  }

  double add_categories(Random& random) {
    double z = 0;
    std::array<std::optional<uint32_t>, kCategories.size()> ids;
    for (size_t c = 0; c < kCategories.size(); ++c) {
      const uint32_t id = zipf_.draw(kCategories[c].vocabulary, random.uniform());
      const bool missing = random.uniform() < kCategories[c].missing;
      fields_ += '\t';
      if (missing) continue;
      ids[c] = id;
      const auto text = static_cast<uint32_t>(mix(mix(kTeacher, 100 + c), id));
      fmt::format_to(std::back_inserter(fields_), "{:08x}", text);
      z += kCategories[c].weight * id_weight(c, id);
    }
    for (size_t p = 0; p < kPairs.size(); ++p) {
      const auto first = ids[kPairs[p].first], second = ids[kPairs[p].second];
      if (first && second) z += kPairs[p].weight * pair_weight(p, *first, *second);
    }
    return z;
  }

  const Zipf zipf_;
  std::string fields_;  // of the row being written
};

// Rows [begin, end) into one file.
void write_rows(uint64_t begin, uint64_t end, uint64_t seed, const std::string& path, RowWriter& writer,
                const std::function<void(uint64_t)>& progress) {
  auto file = TemporaryFile::beside(path);
  if (!file) fail(ErrorCode::kInvalid, "cannot write '{}'; choose a folder that is writable", path);
  std::string buffer;
  for (uint64_t row = begin; row < end; ++row) {
    writer.append(seed, row, buffer);
    if (buffer.size() < kBuffer && row + 1 < end) continue;
    file->write(buffer);
    buffer.clear();
    if (progress) progress(row + 1);
  }
  if (!file->publish(path)) fail(file_error_code(errno), "cannot write '{}'", path);
}

}  // namespace

void write_criteo(uint64_t rows, uint64_t seed, const std::string& out_dir,
                  const std::function<void(uint64_t)>& progress) {
  if (rows < kMinRows)
    fail(ErrorCode::kInvalid, "{} rows cannot be divided into train and test; give at least {}", rows,
         kMinRows);
  RowWriter writer;
  const uint64_t train = rows - rows / 10;
  const std::filesystem::path dir(out_dir);
  write_rows(0, train, seed, (dir / "train.txt").string(), writer, progress);
  write_rows(train, rows, seed, (dir / "test.txt").string(), writer, progress);
}

}  // namespace embers::data
