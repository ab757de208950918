#include <gtest/gtest.h>

#include <ATen/ATen.h>

#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <random>
#include <set>

#include "model/lookup/coordinates.h"
#include "model/lookup/operators/lookup_operators.h"
#include "model/lookup/operators/table_keys.h"
#include "model/lookup/post_lookup.h"
#include "model/lookup/pre_lookup.h"
#include "tests/support/expect_error.h"

namespace embers {
namespace {

using testing_support::expect_error;

std::vector<const RowKernels*> all_kernels() {
  std::vector<const RowKernels*> kernels{&kPortableRowKernels};
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) kernels.push_back(&kAvx2RowKernels);
  if (&row_kernels() == &kAvx512RowKernels) kernels.push_back(&kAvx512RowKernels);
#endif
  return kernels;
}

// One random lookup; values in small ranges, so that every branch is met.
struct Input {
  std::vector<std::vector<float>> partitions;
  std::vector<int64_t> blocknums;
  PartitionStrategy strategy = PartitionStrategy::kDiv;
  int64_t dim = 1, rows = 1;
  std::vector<int64_t> ids, offsets{0};
  std::vector<int32_t> narrow_ids;
  bool narrow = false;
  std::optional<std::vector<float>> weights;
  LookupOptions options;

  LocalTable table() const {
    return LocalTable({partitions.begin(), partitions.end()}, dim, strategy, blocknums);
  }
  SparseIds sparse() const {
    SparseIds sparse{std::span(ids), offsets, {}};
    if (narrow) sparse.ids = std::span(narrow_ids);
    if (weights) sparse.weights = *weights;
    return sparse;
  }
  int64_t bags() const { return static_cast<int64_t>(offsets.size()) - 1; }
};

class Generator {
 public:
  explicit Generator(uint64_t seed) : random_(seed) {}
  int64_t upto(int64_t most) { return std::uniform_int_distribution<int64_t>(0, most)(random_); }
  bool coin() { return upto(1) == 1; }
  float value() { return std::uniform_real_distribution<float>(-2, 2)(random_); }
  std::vector<float> values(int64_t n) {
    std::vector<float> v(static_cast<size_t>(n));
    for (float& x : v) x = value();
    return v;
  }

  Input input(int64_t most_dim) {
    Input in;
    in.dim = 1 + upto(most_dim - 1);
    make_table(in);
    in.options.combiner = std::array{Combiner::kSum, Combiner::kMean, Combiner::kSqrtN}[upto(2)];
    in.options.prune_invalid_ids = coin();
    if (coin()) in.options.max_norm = 0.5f + static_cast<float>(upto(20)) / 8;
    if (coin()) in.options.default_id = upto(in.rows - 1);
    make_ids(in);
    return in;
  }

 private:
  void make_table(Input& in) {
    const int64_t parts = 1 + (coin() ? upto(4) : 0);
    in.rows = 1 + upto(11);
    in.strategy = coin() ? PartitionStrategy::kDiv : PartitionStrategy::kMod;
    const bool counted = in.strategy == PartitionStrategy::kDiv && coin();
    int64_t left = in.rows;
    for (int64_t p = 0; p < parts; ++p) {
      int64_t size = in.rows / parts + (p < in.rows % parts);
      if (counted) size = p + 1 == parts ? left : upto(left);
      left -= size;
      in.partitions.push_back(values(size * in.dim));
      if (counted) in.blocknums.push_back(size);
    }
  }

  void make_ids(Input& in) {
    const int64_t bags = upto(6);
    for (int64_t b = 0; b < bags; ++b) {
      for (int64_t i = upto(4); i > 0; --i)
        in.ids.push_back(*in.options.prune_invalid_ids && upto(5) == 0 ? -1 - upto(9) : upto(in.rows - 1));
      in.offsets.push_back(static_cast<int64_t>(in.ids.size()));
    }
    in.narrow_ids.assign(in.ids.begin(), in.ids.end());
    in.narrow = coin();
    if (!coin()) return;
    in.weights.emplace();
    for (size_t i = 0; i < in.ids.size(); ++i) in.weights->push_back(upto(6) == 0 ? 0 : value() + 0.5f);
  }

  std::mt19937_64 random_;
};

// Slow and obvious, in double: finds the row of an id by dealing all ids out, and everything else by its
// definition.
struct Slow {
  const Input& in;
  std::vector<std::vector<double>> rows;  // by id
  std::vector<std::pair<size_t, int64_t>> place;

  explicit Slow(const Input& input) : in(input) {
    const auto parts = static_cast<int64_t>(in.partitions.size());
    std::vector<int64_t> taken(in.partitions.size());
    size_t p = 0;
    for (int64_t id = 0; id < in.rows; ++id) {
      if (in.strategy == PartitionStrategy::kMod)
        p = static_cast<size_t>(id % parts);
      else
        while (taken[p] * in.dim == static_cast<int64_t>(in.partitions[p].size())) ++p;
      const auto row = in.partitions[p].begin() + taken[p] * in.dim;
      rows.emplace_back(row, row + in.dim);
      place.emplace_back(p, taken[p]++);
    }
  }

  std::vector<std::pair<int64_t, double>> bag(int64_t b) const {
    std::vector<std::pair<int64_t, double>> kept;
    for (int64_t p = in.offsets[b]; p < in.offsets[b + 1]; ++p) {
      const double w = in.weights ? (*in.weights)[p] : 1;
      if (*in.options.prune_invalid_ids && in.ids[p] < 0) continue;
      if (*in.options.prune_invalid_ids && in.weights && in.options.combiner != Combiner::kSum && !(w > 0))
        continue;
      kept.emplace_back(in.ids[p], w);
    }
    if (kept.empty() && in.options.default_id) kept.emplace_back(*in.options.default_id, 1);
    return kept;
  }

  double norm(int64_t id) const {
    double sum = 0;
    for (const double x : rows[id]) sum += x * x;
    return std::sqrt(sum);
  }

  std::vector<double> forward() const {
    std::vector<double> out(static_cast<size_t>(in.bags() * in.dim));
    for (int64_t b = 0; b < in.bags(); ++b) {
      double divisor = 0;
      for (const auto& [id, w] : bag(b)) {
        const double n = norm(id),
                     f = in.options.max_norm && n > *in.options.max_norm ? *in.options.max_norm / n : 1;
        for (int64_t k = 0; k < in.dim; ++k) out[b * in.dim + k] += w * f * rows[id][k];
        divisor += in.options.combiner == Combiner::kMean ? w : w * w;
      }
      if (in.options.combiner == Combiner::kSum) continue;
      if (in.options.combiner == Combiner::kSqrtN) divisor = std::sqrt(divisor);
      for (int64_t k = 0; k < in.dim; ++k) {
        double& x = out[b * in.dim + k];
        x = divisor == 0 ? 0 : x / divisor;
      }
    }
    return out;
  }

  double loss(const std::vector<float>& gradient) const {
    double sum = 0;
    const std::vector<double> out = forward();
    for (size_t i = 0; i < out.size(); ++i) sum += out[i] * gradient[i];
    return sum;
  }

  // By finite differences.
  double slope(int64_t id, int64_t column, const std::vector<float>& gradient) {
    constexpr double kStep = 1e-6;
    double& x = rows[id][column];
    const double before = x;
    x = before + kStep;
    const double above = loss(gradient);
    x = before - kStep;
    const double below = loss(gradient);
    x = before;
    return (above - below) / (2 * kStep);
  }

  // Rounding decides what happens here: a row at max_norm, or a divisor next to 0.
  bool on_an_edge() const {
    for (int64_t id = 0; in.options.max_norm && id < in.rows; ++id)
      if (std::abs(norm(id) - *in.options.max_norm) < 1e-3) return true;
    for (int64_t b = 0; b < in.bags() && in.options.combiner != Combiner::kSum; ++b) {
      double sum = 0;
      for (const auto& [id, w] : bag(b)) sum += in.options.combiner == Combiner::kMean ? w : w * w;
      if (sum != 0 && std::abs(sum) < 0.05) return true;
    }
    return false;
  }
};

void check_gradient(const Input& in, Slow& slow, const RowGradients& grads,
                    const std::vector<float>& gradient) {
  std::vector<bool> looked_up(in.rows);
  for (int64_t b = 0; b < in.bags(); ++b)
    for (const auto& [id, w] : slow.bag(b)) looked_up[id] = true;
  for (int64_t id = 0; id < in.rows; ++id) {
    const auto [p, row] = slow.place[id];
    const auto part = grads.rows.subspan(grads.part_begin[p], grads.part_begin[p + 1] - grads.part_begin[p]);
    ASSERT_TRUE(std::is_sorted(part.begin(), part.end()));
    ASSERT_EQ(std::count(part.begin(), part.end(), row), looked_up[id])
        << "rows are unique, and those looked up";
    if (!looked_up[id]) continue;
    const auto at = grads.part_begin[p] + (std::find(part.begin(), part.end(), row) - part.begin());
    for (int64_t k = 0; k < in.dim; k += 1 + in.dim / 8) {
      const double want = slow.slope(id, k, gradient);
      ASSERT_NEAR(grads.values[at * in.dim + k], want, 2e-4 * (1 + std::abs(want))) << "id " << id;
    }
  }
}

// How training uses such a pass: the clipping of each row is found once, ahead or while combining, and
// gradients are added up where the rows are. The result must be the same, bit for bit.
void check_dense(const Input& in, const RowKernels& kernels, LookupPass& pass, LookupWorkspace& workspace,
                 const std::vector<float>& out, const std::vector<float>& gradient,
                 const RowGradients& sorted) {
  Scratch<float> memory;
  RowClips::Memory clips_memory;
  RowClips clips;
  std::vector<float> clipped_rows;
  if (in.options.max_norm) {
    clips = clips_for(*pass.table, *in.options.max_norm, clips_memory);
    clipped_rows.assign(static_cast<size_t>(in.rows * in.dim), NAN);
    clips.rows = clipped_rows;
    pass.clips = &clips;
    pass.find_clips = in.rows % 2 == 0;
    if (!pass.find_clips) find_clips(*pass.table, clips, kernels);
  }
  std::vector<float> again(out.size(), NAN), values(static_cast<size_t>(in.rows * in.dim), NAN);
  post_lookup(in.options.combiner, in.options.max_norm, pass, workspace, again, kernels);
  ASSERT_EQ(again, out);
  const LookupPass* const passes[] = {&pass};
  const OutGradient gradients[] = {{gradient, in.dim}};
  dense_gradient(passes, gradients, memory, values, kernels);
  std::vector<float> want(values.size());
  for (size_t u = 0; u < sorted.rows.size(); ++u)
    std::copy_n(sorted.values.begin() + static_cast<ptrdiff_t>(u) * in.dim, in.dim,
                want.begin() + sorted.rows[u] * in.dim);
  ASSERT_EQ(values, want);
}

void check(const Input& in, Slow slow, Generator& random, const RowKernels& kernels, LookupPass& pass,
           LookupWorkspace& workspace) {
  const LocalTable table = in.table();
  std::vector<float> out(static_cast<size_t>(in.bags() * in.dim), NAN);
  pre_lookup(table, in.sparse(), in.options, pass);
  post_lookup(in.options.combiner, in.options.max_norm, pass, workspace, out, kernels);
  const std::vector<double> want = slow.forward();
  for (size_t i = 0; i < out.size(); ++i) ASSERT_NEAR(out[i], want[i], 2e-5 * (1 + std::abs(want[i]))) << i;
  const std::vector<float> gradient = random.values(static_cast<int64_t>(out.size()));
  const RowGradients sorted = post_lookup_gradient(pass, gradient, workspace, kernels);
  check_gradient(in, slow, sorted, gradient);
  if (in.narrow && table.partitions() == 1) check_dense(in, kernels, pass, workspace, out, gradient, sorted);
}

TEST(RowKernels, AreTheFastestOrThoseOfAName) {
  EXPECT_STREQ(choose_row_kernels("portable").instructions, "portable");
  const RowKernels& fastest = *all_kernels().back();
  EXPECT_EQ(&choose_row_kernels(nullptr), &fastest);
  EXPECT_EQ(&choose_row_kernels(""), &fastest);
  for (const RowKernels* kernels : all_kernels())
    EXPECT_EQ(&choose_row_kernels(kernels->instructions), kernels);
  expect_error(ErrorCode::kInvalid, {"'sse9'", "this machine runs", "portable"},
               [] { choose_row_kernels("sse9"); });
}

TEST(LookupOperators, AgreeWithASlowReferenceAndFiniteDifferencesOnTenThousandRandomInputs) {
  for (const RowKernels* kernels : all_kernels()) {
    SCOPED_TRACE(kernels->instructions);
    Generator random(7);
    LookupPass pass;  // used again and again, so that anything left behind shows
    LookupWorkspace workspace;
    for (int i = 0; i < 10000 && !testing::Test::HasFailure();) {
      SCOPED_TRACE(i);
      const Input in = random.input(i % 100 == 0 ? 300 : 9);
      const Slow slow(in);
      if (slow.on_an_edge()) continue;
      check(in, slow, random, *kernels, pass, workspace);
      ++i;
    }
  }
}

// A batch large enough for several ranges per thread, radix sort and streaming stores.
struct Large {
  Generator random{3};
  int64_t dim, rows, bags;
  std::vector<float> values;
  std::vector<int64_t> ids, offsets{0};
  std::vector<float> weights, gradient;
  explicit Large(int64_t dim, int64_t rows = 5000, int64_t bags = 3000, bool long_bags = false)
      : dim(dim), rows(rows), bags(bags), values(random.values(rows * dim)) {
    constexpr std::array kLong{63, 64, 65, 130, 1000};  // norms are found 64 or 32 at a time
    for (int64_t b = 0; b < bags; ++b) {
      int64_t count = b == 0 || b + 1 == bags ? 0 : random.upto(6);
      const bool is_long = long_bags && b % 100 == 50;
      if (is_long) count = kLong[static_cast<size_t>(b / 100) % kLong.size()];
      for (; count > 0; --count) ids.push_back(random.upto(rows - 1) * (is_long ? 1 : random.upto(1)));
      offsets.push_back(static_cast<int64_t>(ids.size()));
    }
    for (size_t i = 0; i < ids.size(); ++i) weights.push_back(random.value());
    gradient = random.values(bags * dim);
  }
};

// By the definition, in double.
class SlowClips {
 public:
  SlowClips(const Large& batch, float max_norm) : batch_(batch), max_norm_(max_norm) {
    for (int64_t row = 0; row < batch.rows; ++row) norms_.push_back(std::sqrt(dot(row, row_of(row))));
  }
  bool is_clipped(int64_t row) const { return norms_[static_cast<size_t>(row)] >= max_norm_; }
  // Whether rounding decides.
  bool on_an_edge(int64_t row) const {
    return std::abs(norms_[static_cast<size_t>(row)] / max_norm_ - 1) < 1e-5;
  }

  // sqrtn. Returns the share of unique rows that are clipped.
  double check(const RowKernels& kernels, bool weighted, size_t partitions) const {
    SCOPED_TRACE(testing::Message() << kernels.instructions << ", dim " << batch_.dim << ", weights "
                                    << weighted << ", partitions " << partitions);
    const LocalTable table(divided(partitions), batch_.dim);
    SparseIds ids{std::span(batch_.ids), batch_.offsets, {}};
    if (weighted) ids.weights = batch_.weights;
    LookupOptions options;
    options.combiner = Combiner::kSqrtN;
    options.max_norm = static_cast<float>(max_norm_);
    LookupPass pass;
    LookupWorkspace workspace;
    std::vector<float> out(static_cast<size_t>(batch_.bags * batch_.dim));
    pre_lookup(table, ids, options, pass);
    post_lookup(options.combiner, options.max_norm, pass, workspace, out, kernels);
    const RowGradients found = post_lookup_gradient(pass, batch_.gradient, workspace, kernels);
    check_outputs(weighted, out);
    return check_gradients(table, gradients(weighted), found);
  }

 private:
  void check_outputs(bool weighted, std::span<const float> out) const {
    const auto dim = static_cast<size_t>(batch_.dim);
    for (size_t b = 0; b + 1 < batch_.offsets.size(); ++b) {
      std::vector<double> want(dim);
      double squares = 0;
      for (auto p = static_cast<size_t>(batch_.offsets[b]); p < static_cast<size_t>(batch_.offsets[b + 1]);
           ++p) {
        const double weight = weighted ? batch_.weights[p] : 1;
        const double by =
            weight * std::min(1.0, max_norm_ / std::max(norms_[static_cast<size_t>(batch_.ids[p])], 1e-30));
        squares += weight * weight;
        for (size_t k = 0; k < dim; ++k) want[k] += by * row_of(batch_.ids[p])[k];
      }
      for (size_t k = 0; k < dim; ++k)
        ASSERT_NEAR(out[b * dim + k], squares == 0 ? 0 : want[k] / std::sqrt(squares), 1e-3)
            << "bag " << b << ", column " << k;
    }
  }
  double check_gradients(const LocalTable& table, const std::map<int64_t, std::vector<double>>& wanted,
                         const RowGradients& found) const {
    EXPECT_EQ(found.rows.size(), wanted.size());
    if (found.rows.size() != wanted.size()) return -1;
    size_t clipped = 0, u = 0, part = 0;
    for (const auto& [row, want] : wanted) {
      while (u >= found.part_begin[part + 1]) ++part;
      EXPECT_EQ(found.rows[u] + table.first_row(part), row);
      clipped += is_clipped(row);
      const double farther = row == 0 ? 1e-3 : 1e-4;  // half of all ids are 0
      for (size_t k = 0; k < want.size() && !on_an_edge(row); ++k)
        if (const double off = std::abs(found.values[u * want.size() + k] - want[k]);
            !(off <= farther * (1 + std::abs(want[k])))) {
          ADD_FAILURE() << "row " << row << ", column " << k << ": off by " << off;
          return -1;
        }
      ++u;
    }
    return static_cast<double>(clipped) / static_cast<double>(wanted.size());
  }
  const float* row_of(int64_t row) const { return batch_.values.data() + row * batch_.dim; }
  template <class Number>
  double dot(int64_t row, const Number* other) const {
    return std::inner_product(other, other + batch_.dim, row_of(row), 0.0, std::plus<>(),
                              [](double a, double b) { return a * b; });
  }
  std::vector<std::span<const float>> divided(size_t partitions) const {
    std::vector<std::span<const float>> parts;
    const int64_t rows = batch_.rows, count = static_cast<int64_t>(partitions);
    for (int64_t p = 0, first = 0; p < count; ++p) {
      const int64_t size = rows / count + (p < rows % count);
      parts.emplace_back(row_of(first), static_cast<size_t>(size * batch_.dim));
      first += size;
    }
    return parts;
  }
  std::map<int64_t, std::vector<double>> gradients(bool weighted) const {
    const auto dim = static_cast<size_t>(batch_.dim);
    std::map<int64_t, std::vector<double>> all;
    for (size_t b = 0; b + 1 < batch_.offsets.size(); ++b) {
      const auto begin = static_cast<size_t>(batch_.offsets[b]),
                 end = static_cast<size_t>(batch_.offsets[b + 1]);
      double squares = 0;
      for (size_t p = begin; p < end; ++p) squares += weighted ? std::pow(batch_.weights[p], 2) : 1;
      for (size_t p = begin; p < end; ++p) {
        std::vector<double>& sum = all.try_emplace(batch_.ids[p], dim).first->second;
        const double factor = (weighted ? batch_.weights[p] : 1) / std::sqrt(squares);
        for (size_t k = 0; k < dim; ++k) sum[k] += factor * batch_.gradient[b * dim + k];
      }
    }
    for (auto& [row, dy] : all) {
      if (!is_clipped(row)) continue;
      const double norm = norms_[static_cast<size_t>(row)], along = dot(row, dy.data()) / (norm * norm);
      for (size_t k = 0; k < dim; ++k) dy[k] = max_norm_ / norm * (dy[k] - along * row_of(row)[k]);
    }
    return all;
  }

  const Large& batch_;
  const double max_norm_;
  std::vector<double> norms_;
};

// Half of the rows; blocks of them, streamed where a dim allows it, and dims that registers do not hold.
TEST(LookupOperators, ClipAboutHalfOfManyRows) {
  for (const int64_t dim : {16, 64, 70, 128, 200, 256}) {
    const Large batch(dim, 20000, 5000, true);
    const SlowClips slow(batch, std::sqrt(4.0f / 3 * static_cast<float>(dim)));
    for (const RowKernels* kernels : all_kernels())
      for (const bool weighted : {false, true})
        for (const size_t partitions : {1, 3}) {
          const double share = slow.check(*kernels, weighted, partitions);
          EXPECT_GT(share, 0.25);
          EXPECT_LT(share, 0.75);
        }
  }
}

// Clipped rows are worked on 4, 8 or 16 at a time.
TEST(LookupOperators, ClipNoneAFewOrAllOfManyRows) {
  for (const int64_t dim : {16, 128, 256})
    for (const int64_t few : {0, 1, 16, 17}) {
      Large batch(dim, 20000, 5000, true);
      const std::set<int64_t> rows(batch.ids.begin(), batch.ids.end());
      auto row =
          few % 2 == 0 ? std::next(rows.begin(), 40) : std::prev(rows.end(), few);  // the last one, too
      for (int64_t i = 0; i < few; ++i, ++row)
        for (int64_t k = 0; k < dim; ++k) batch.values[static_cast<size_t>(*row * dim + k)] *= 100;
      const SlowClips slow(batch, 10 * std::sqrt(static_cast<float>(dim)));
      for (const RowKernels* kernels : all_kernels())
        EXPECT_NEAR(slow.check(*kernels, true, 1) * static_cast<double>(rows.size()), few, 1e-6);
    }
  const Large batch(64);
  for (const RowKernels* kernels : all_kernels())
    EXPECT_EQ(SlowClips(batch, 0.01f).check(*kernels, true, 1), 1);
}

TEST(LookupOperators, GiveTheSameBitsOnAnyNumberOfThreads) {
  for (const int64_t dim : {1, 16, 64, 200}) {
    const Large batch(dim);
    const LocalTable table({batch.values}, dim);
    const float half = std::sqrt(4.0f / 3 * static_cast<float>(dim));  // of the rows are longer
    for (const auto& max_norm : {std::optional<float>(), std::optional<float>(2), std::optional(half)}) {
      std::vector<std::vector<float>> outs, grads;
      for (const int threads : {1, 2, 3}) {
        LookupWorkspace workspace(threads);
        LookupPass pass;
        std::vector<float>& out = outs.emplace_back(3000 * dim);
        for (int again = 0; again < 3; ++again)
          embedding_lookup_sparse(table, {std::span(batch.ids), batch.offsets, batch.weights},
                                  Combiner::kMean, max_norm, pass, workspace, out);
        const RowGradients g = lookup_gradient(pass, batch.gradient, workspace);
        grads.emplace_back(g.values.begin(), g.values.end());
      }
      EXPECT_EQ(outs[0], outs[1]);
      EXPECT_EQ(outs[0], outs[2]);
      EXPECT_EQ(grads[0], grads[1]);
      EXPECT_EQ(grads[0], grads[2]);
    }
  }
}

TEST(LookupOperators, AgreeWithLibtorchsEmbeddingBag) {
  for (const int64_t dim : {1, 7, 16, 64, 128}) {
    const Large batch(dim);
    const LocalTable table({batch.values}, dim);
    const auto tensor = [](const auto& v, at::ScalarType type) {
      return at::from_blob(const_cast<void*>(static_cast<const void*>(v.data())),
                           {static_cast<int64_t>(v.size())}, type)
          .clone();
    };
    for (const int mode : {0, 1, 2}) {  // sum, mean, sum with per_sample_weights
      const bool weighted = mode == 2;
      auto rows = tensor(batch.values, at::kFloat).view({batch.rows, dim}).requires_grad_();
      const auto result = at::embedding_bag(
          rows, tensor(batch.ids, at::kLong), tensor(batch.offsets, at::kLong), false, mode % 2, true,
          weighted ? c10::optional<at::Tensor>(tensor(batch.weights, at::kFloat)) : c10::nullopt, true);
      const at::Tensor want = std::get<0>(result);
      want.backward(tensor(batch.gradient, at::kFloat).view({3000, dim}));
      const at::Tensor want_grad = rows.grad().coalesce();

      LookupWorkspace workspace;
      LookupPass pass;
      at::Tensor out = at::empty({3000, dim});
      SparseIds ids{std::span(batch.ids), batch.offsets, {}};
      if (weighted) ids.weights = batch.weights;
      embedding_lookup_sparse(table, ids, mode == 1 ? Combiner::kMean : Combiner::kSum, {}, pass, workspace,
                              {out.data_ptr<float>(), static_cast<size_t>(out.numel())});
      EXPECT_TRUE(at::allclose(out, want, 1e-5, 1e-5)) << "dim " << dim << " mode " << mode;
      const RowGradients grads = lookup_gradient(pass, batch.gradient, workspace);
      const std::vector<int64_t> got_rows(grads.rows.begin(), grads.rows.end());
      ASSERT_TRUE(at::equal(tensor(got_rows, at::kLong), want_grad.indices()[0]));
      EXPECT_TRUE(
          at::allclose(tensor(grads.values, at::kFloat).view({-1, dim}), want_grad.values(), 1e-3, 1e-4))
          << "dim " << dim << " mode " << mode;
    }
  }
}

TEST(LookupOperators, UseTheirMemoryAgain) {
  const Large batch(16);
  const LocalTable table({batch.values}, 16);
  LookupWorkspace workspace;
  LookupPass pass;
  std::vector<float> out(3000 * 16);
  const float *norms = nullptr, *values = nullptr;
  for (int call = 0; call < 3; ++call) {
    fused_safe_embedding_lookup_sparse(table, {std::span(batch.ids), batch.offsets, batch.weights},
                                       {Combiner::kMean, 1, 0, {}}, pass, workspace, out);
    const RowGradients grads = lookup_gradient(pass, batch.gradient, workspace);
    if (call > 0) {
      EXPECT_EQ(pass.norm, norms);
      EXPECT_EQ(grads.values.data(), values);
    }
    norms = pass.norm;
    values = grads.values.data();
  }
}

TEST(LookupOperators, RefuseWhatDoesNotFit) {
  const std::vector<float> values(6);
  const LocalTable table({values}, 2);
  const std::vector<int64_t> ids{0, 2}, offsets{0, 1, 2};
  LookupWorkspace workspace;
  LookupPass pass;
  std::vector<float> out(4);
  const auto look_up = [&](const SparseIds& sparse) {
    embedding_lookup_sparse(table, sparse, Combiner::kSum, {}, pass, workspace, out);
  };
  for (const std::vector<int64_t>& bad :
       std::vector<std::vector<int64_t>>{{}, {0}, {1, 2}, {0, 1}, {0, 2, 1, 2}, {0, -1, 2}})
    expect_error(ErrorCode::kInvalid, {"offsets", "2 ids"}, [&] { look_up({std::span(ids), bad, {}}); });
  const std::vector<float> weights(3);
  expect_error(ErrorCode::kInvalid, {"3 weights", "2 ids"}, [&] {
    look_up({std::span(ids), offsets, weights});
  });
  out.resize(3);
  expect_error(ErrorCode::kInvalid, {"room for 3", "need 4"}, [&] {
    look_up({std::span(ids), offsets, {}});
  });
  out.resize(4);
  look_up({std::span(ids), offsets, {}});
  expect_error(ErrorCode::kInvalid, {"gradient has 3"}, [&] { lookup_gradient(pass, weights, workspace); });
  expect_error(ErrorCode::kInvalid, {"0 threads"}, [] { LookupWorkspace none(0); });
  expect_error(ErrorCode::kInvalid, {"multiple of the dim"}, [&] { LocalTable({values}, 4); });
  expect_error(ErrorCode::kInvalid, {"dim 0"}, [&] { LocalTable({values}, 0); });
  expect_error(ErrorCode::kInvalid, {"at least one partition"}, [] { LocalTable({}, 1); });
}

TEST(BagOffsets, MergeAllDimensionsButTheLast) {
  EXPECT_EQ(bag_offsets(std::vector<int64_t>{0, 1, 2, 1, 0, 0, 1, 0, 3}, std::vector<int64_t>{2, 2, 4}),
            (std::vector<int64_t>{0, 0, 1, 3, 3}));
  EXPECT_EQ(bag_offsets({}, std::vector<int64_t>{0, 4}), (std::vector<int64_t>{0}));
}

TEST(TableKeys, NameRows) {
  const TableKeys keys(Keys(std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(keys.rows(Keys(std::vector<std::string>{"b", "", "a"})), (std::vector<int64_t>{1, -1, 0}));
  expect_error(ErrorCode::kInvalid, {"'c'", "number 0"},
               [&] { keys.rows(Keys(std::vector<std::string>{"c"})); });
}

}  // namespace
}  // namespace embers
