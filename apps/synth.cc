// embers synth: generated data.
#include <spdlog/spdlog.h>

#include <chrono>
#include <filesystem>

#include "apps/synth.h"
#include "data/synth.h"

namespace embers {

int synth_criteo(const SynthOptions& options) {
  auto last = std::chrono::steady_clock::now();
  data::write_criteo(options.rows, options.seed, options.out, [&](uint64_t done) {
    const auto now = std::chrono::steady_clock::now();
    if (done < options.rows && now - last < std::chrono::seconds(1)) return;
    last = now;
    spdlog::info("{} of {} rows", done, options.rows);
  });
  const std::filesystem::path out(options.out);
  fmt::print("{} rows in {} and {}\n", options.rows, (out / "train.txt").string(),
             (out / "test.txt").string());
  return 0;
}

}  // namespace embers
