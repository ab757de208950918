// What `embers bench lookup` and `bench model` compare with: whatever way it is done, the result is the same.
#include "bench/peers/lookup_peers.h"

#include <gtest/gtest.h>

#include <map>

#include "model/step.h"

namespace embers {
namespace {

constexpr int64_t kDim = 3, kRows = 6;

class LookupPeers : public testing::Test {
 protected:
  LookupPeers() {
    for (size_t i = 0; i < table_.size(); ++i) table_[i] = static_cast<float>(i * i % 13) - 6;
    set_threads(1);  // ThreadSanitizer does not see how those of OpenBLAS hand work over
  }

  struct Result {
    std::vector<float> output;
    std::map<int64_t, std::vector<float>> gradient;  // of rows
  };
  static Result result_of(LookupPeer& peer, const LookupColumn& column) {
    peer.forward(column);
    std::vector<float> of_output(peer.output().size());
    for (size_t i = 0; i < of_output.size(); ++i) of_output[i] = static_cast<float>(i % 5) - 2;
    peer.backward(of_output);
    Result result{{peer.output().begin(), peer.output().end()}, {}};
    const auto rows = peer.gradient_rows();
    const auto values = peer.gradient_values();
    EXPECT_EQ(values.size(), rows.size() * kDim);
    for (size_t i = 0; i < rows.size(); ++i) {
      const auto row = values.subspan(i * kDim, kDim);
      EXPECT_TRUE(result.gradient.emplace(rows[i], std::vector<float>(row.begin(), row.end())).second)
          << "row " << rows[i] << " twice";
    }
    return result;
  }
  static void expect_same(const Result& a, const Result& b, const std::string& how) {
    ASSERT_EQ(a.output.size(), b.output.size()) << how;
    for (size_t i = 0; i < a.output.size(); ++i) EXPECT_NEAR(a.output[i], b.output[i], 1e-5) << how;
    ASSERT_EQ(a.gradient.size(), b.gradient.size()) << how;
    for (const auto& [row, values] : a.gradient) {
      ASSERT_TRUE(b.gradient.contains(row)) << how;
      for (size_t k = 0; k < kDim; ++k) EXPECT_NEAR(values[k], b.gradient.at(row)[k], 1e-5) << how;
    }
  }

  std::vector<float> table_ = std::vector<float>(kRows * kDim);
  const LookupColumn column_{{3, 1, 3, 5, 1, 1, 4}, {0, 3, 4, 7}, {0.5f, 1, 2, 1, 0.25f, 1, 3}};
};

TEST_F(LookupPeers, EveryWayGivesTheSame) {
  for (const Combiner combiner : {Combiner::kSum, Combiner::kMean}) {
    const Result wanted = result_of(*chain_peer(table_, kDim, combiner, kChainWays.front()), column_);
    for (const ChainWay& way : kChainWays) {
      const auto peer = chain_peer(table_, kDim, combiner, way);
      result_of(*peer, {{2, 2}, {0, 2}, {1, 1}});  // leaves nothing behind
      expect_same(wanted, result_of(*peer, column_), name(way));
    }
    for (const BagWay way : kBagWays) {
      const auto peer = embedding_bag_peer(table_, kDim, combiner, way);
      result_of(*peer, {{2, 2}, {0, 2}, {1, 1}});
      expect_same(wanted, result_of(*peer, column_), name(way));
    }
  }
}

TEST_F(LookupPeers, AMeanIsOneOfRowsAndItsGradientIsDivided) {
  const Result result = result_of(*chain_peer(table_, kDim, Combiner::kMean, {}), column_);
  for (size_t k = 0; k < kDim; ++k) {
    EXPECT_FLOAT_EQ(result.output[k], (2 * table_[3 * kDim + k] + table_[kDim + k]) / 3);
    EXPECT_FLOAT_EQ(result.output[kDim + k], table_[5 * kDim + k]);
    const float first = static_cast<float>(k % 5) - 2, last = static_cast<float>((2 * kDim + k) % 5) - 2;
    EXPECT_FLOAT_EQ(result.gradient.at(3)[k], 2 * first / 3);
    EXPECT_NEAR(result.gradient.at(1)[k], first / 3 + 2 * last / 3, 1e-6);
  }
}

TEST_F(LookupPeers, ChainsPruneFillAndClipWhicheverWay) {
  // A negative id, a bag that is empty from the beginning, one that is after pruning, a weight of 0.
  const LookupColumn rough{{3, -1, 3, -7, 1, 2}, {0, 3, 3, 4, 6}, {1, 1, 2, 1, 0, 3}};
  for (const std::optional<float> max_norm : {std::optional<float>(), std::optional<float>(4)}) {
    const Result wanted = result_of(*chain_peer(table_, kDim, Combiner::kMean, {}, max_norm), rough);
    for (size_t k = kDim; k < 3 * kDim; ++k) EXPECT_EQ(wanted.output[k], 0);
    for (const ChainWay& way : kChainWays)
      expect_same(wanted, result_of(*chain_peer(table_, kDim, Combiner::kMean, way, max_norm), rough),
                  name(way));
  }
}

}  // namespace
}  // namespace embers
