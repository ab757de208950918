// What is at the place of a checkpoint when its writer, or the host, dies at any call and in the middle of
// any write.
#include <gtest/gtest.h>

#include <random>
#include <set>

#include "storage/checkpoint/checkpoint.h"
#include "tests/storage/store_testing.h"
#include "tests/support/simulated_disk.h"

namespace embers::storage {
namespace {

using testing_support::Died;
using testing_support::SimulatedHost;

constexpr uint64_t kCheckpointSeeds = 500, kCheckpointLives = 8;
const char* const kPlace = "/deep/er/model";
constexpr float kNone = -1;

ModelSpec small_model() {
  ModelSpec m;
  m.tables = {spec("a", 2), spec("b", 1, KeyKind::kBytes)};
  return m;
}

void save_whole(Disk& disk, float value) {
  const auto writer = CheckpointWriter::make(kPlace, disk);
  const size_t width = small_model().tables[0].dim;
  for (int64_t key = 0; key < 3; ++key) writer->add(0, ints({key}), std::vector<float>(width, value));
  writer->add(1, strings({"x", "y"}), std::vector<float>(2, value));
  writer->finish(small_model(), {{"value", value}});
}

// The value of the checkpoint that is there, whose rows all have it.
float whole_value_at(Disk& disk) {
  if (!disk.exists(std::string(kPlace) + "/manifest.json")) return kNone;
  const auto reader = CheckpointReader::open(kPlace, disk);
  const float value = reader->manifest().at("value");
  size_t floats = 0;
  for (TableId table = 0; table < 2; ++table)
    reader->read(table, 2, [&](KeysView, std::span<const float> values) {
      for (const float x : values) EXPECT_EQ(x, value);
      floats += values.size();
    });
  EXPECT_EQ(floats, 3 * small_model().tables[0].dim + 2);
  return value;
}

TEST(CheckpointCuts, LeaveTheOldOneOrTheNewOneWhole) {
  uint64_t died = 0, hosts = 0, news = 0;
  for (uint64_t seed = 1; seed <= kCheckpointSeeds; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    SimulatedHost host(seed);
    std::set<float> may_be{kNone};  // the last that was finished, and those that were begun since
    for (uint64_t life = 0; life < kCheckpointLives; ++life) {
      const float found = whole_value_at(*host.start());
      ASSERT_TRUE(may_be.contains(found)) << found;
      news += found == *may_be.rbegin() && may_be.size() > 1;
      const auto process = host.start();
      // Whoever makes the directories must live to sync them.
      if (life > 0) process->kill_after(random() % 60);
      const auto value = static_cast<float>(life);
      may_be.insert(value);
      try {
        save_whole(*process, value);
        may_be = {value};
      } catch (const Died&) {
        ++died;
      }
      process->kill();
      if (random() % 2 == 0) continue;
      host.die();
      ++hosts;
    }
  }
  EXPECT_GT(died, kCheckpointSeeds);
  EXPECT_GT(hosts, kCheckpointSeeds);
  EXPECT_GT(news, kCheckpointSeeds / 10);
}

}  // namespace
}  // namespace embers::storage
