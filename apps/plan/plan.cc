#include "apps/plan/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "apps/plan/profiled_job.h"
#include "base/errors.h"
#include "master/partitions.h"

namespace embers::plan {
namespace {

using Minibatches = std::vector<Minibatch>;

std::string with(uint32_t shards) {
  return shards == 1 ? "with 1 shard" : fmt::format("with {} shards", shards);
}

// Why this table cannot be split by columns; "" if it can.
std::string why_token_only(const TableSpec& table, uint32_t shards) {
  return shards == 1 ? "with one shard the strategies are the same" : why_whole_rows(table);
}

// One way to pull and push: which tables, and how each is split.
struct Side {
  Minibatches minibatches;
  std::vector<double> seconds;  // of a step, by block
  double bytes = 0;

  Cost cost() const {
    const auto [least, most] = std::minmax_element(seconds.begin(), seconds.end());
    return {median(seconds), *least, *most, bytes};
  }
};

class Profile {
 public:
  Profile(const Workload& workload, uint32_t shards, const Effort& effort,
          const std::function<void(const std::string&)>& say, const Surroundings& surroundings)
      : workload_(workload), effort_(effort), say_(say) {
    plan_.shards = shards;
    for (size_t t = 0; t < workload.tables.size(); ++t) describe(t);
    say_(fmt::format("starting a job {}", with(shards)));
    job_.emplace(workload.job, profiled_, shards, surroundings);
  }

  ShardsPlan measure() {
    const size_t tables = plan_.tables.size();
    for (size_t t = 0; t < tables; ++t) {
      TablePlan& table = plan_.tables[t];
      if (workload_.all_keys(t) == 0) continue;
      say_(fmt::format("{}: table '{}' ({} of {})", with(plan_.shards), table.name, t + 1, tables));
      std::vector<Side> sides{side({{t, Partition::kToken}})};
      if (table.token_only.empty()) sides.push_back(side({{t, Partition::kEncoding}}));
      run(sides);
      table.token = sides[0].cost();
      if (sides.size() == 1) continue;
      table.encoding = sides[1].cost();
      table.ratio = paired_ratio(sides[0].seconds, sides[1].seconds);
      if (table.ratio > kClearlyFaster) table.recommended = Partition::kEncoding;
    }
    measure_whole();
    return std::move(plan_);
  }

 private:
  using Choices = std::vector<std::pair<size_t, Partition>>;  // by table

  void describe(size_t t) {
    const TableSpec& table = workload_.tables[t];
    TablePlan& plan = plan_.tables.emplace_back();
    plan.name = table.name;
    plan.rows = table.input_dim;
    plan.dim = table.dim;
    plan.keys = static_cast<double>(workload_.all_keys(t)) / static_cast<double>(workload_.keys.size());
    plan.token_only = why_token_only(table, plan_.shards);
    JobScale scale = scale_of(workload_.job, workload_.batch_size);
    scale.owners = plan_.shards;
    const PartitionChoice choice = settle_partition(table, scale);
    plan.automatic = choice.partition;
    plan.automatic_why = choice.why;
    for (const Partition partition : {Partition::kToken, Partition::kEncoding}) {
      if (partition == Partition::kEncoding && !plan.token_only.empty()) continue;
      places_[{t, partition}] = profiled_.size();
      profiled_.push_back(table);
      profiled_.back().partition = partition;
    }
  }

  Side side(const Choices& choices) const {
    Side side;
    for (const auto& keys : workload_.keys) {
      auto& minibatch = side.minibatches.emplace_back();
      for (const auto& [t, partition] : choices)
        if (!keys[t].empty()) minibatch.push_back({places_.at({t, partition}), keys[t]});
    }
    return side;
  }

  Side side_of_all(const std::function<Partition(const TablePlan&)>& partition) const {
    Choices choices;
    for (size_t t = 0; t < plan_.tables.size(); ++t) choices.emplace_back(t, partition(plan_.tables[t]));
    return side(choices);
  }

  // Blocks of all sides, in turns, there and back.
  void run(std::vector<Side>& sides) {
    double seconds = 0;
    for (Side& s : sides) {  // rows come into being, which does not count
      job_->run(s.minibatches, s.minibatches.size());
      seconds = std::max(seconds, job_->run(s.minibatches, s.minibatches.size()).seconds);
    }
    const double block = std::clamp(
        effort_.seconds / static_cast<double>(2 * effort_.rounds * (plan_.tables.size() + 2)), 0.02, 0.25);
    const size_t of_all = sides[0].minibatches.size();
    const size_t steps = of_all * std::max<size_t>(1, static_cast<size_t>(block / seconds) / of_all);
    for (size_t round = 0; round < effort_.rounds; ++round)
      for (size_t i = 0; i < sides.size(); ++i) {
        Side& s = sides[round % 2 ? sides.size() - 1 - i : i];
        const Step step = job_->run(s.minibatches, steps);
        s.seconds.push_back(step.seconds);
        s.bytes = step.sent + step.received;
      }
  }

  void measure_whole() {
    say_(fmt::format("{}: whole minibatches", with(plan_.shards)));
    const auto any = [&](const auto& is) {
      return std::any_of(plan_.tables.begin(), plan_.tables.end(), is);
    };
    const bool encodes = any([](const TablePlan& t) { return t.encoding.has_value(); });
    const bool recommends = any([](const TablePlan& t) { return t.recommended == Partition::kEncoding; });
    const bool mixes = recommends && any([](const TablePlan& t) {
                         return t.encoding && t.recommended == Partition::kToken;
                       });
    std::vector<Side> sides{side_of_all([](const TablePlan&) { return Partition::kToken; })};
    if (encodes)
      sides.push_back(side_of_all(
          [](const TablePlan& t) { return t.encoding ? Partition::kEncoding : Partition::kToken; }));
    if (mixes) sides.push_back(side_of_all([](const TablePlan& t) { return t.recommended; }));
    run(sides);
    plan_.token = sides[0].cost();
    if (encodes) plan_.encoding = sides[1].cost();
    plan_.recommended = mixes ? sides[2].cost() : recommends ? *plan_.encoding : plan_.token;
  }

  const Workload& workload_;
  const Effort effort_;
  const std::function<void(const std::string&)>& say_;
  ShardsPlan plan_;
  std::vector<TableSpec> profiled_;  // each table once for each way to split it
  std::map<std::pair<size_t, Partition>, size_t> places_;
  std::optional<ProfiledJob> job_;
};

}  // namespace

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

double paired_ratio(const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> ratios;
  for (size_t i = 0; i < a.size(); ++i) ratios.push_back(a[i] / b[i]);
  return median(std::move(ratios));
}

const ShardsPlan& Plan::recommended() const {
  return *std::find_if(shards.begin(), shards.end(),
                       [&](const ShardsPlan& s) { return s.shards == recommended_shards; });
}

Plan make_plan(const Workload& workload, const std::vector<uint32_t>& shards, const Effort& effort,
               const std::function<void(const std::string& line)>& say, const Surroundings& surroundings) {
  Plan plan;
  plan.job = workload.job.job.name;
  plan.minibatches = workload.keys.size();
  if (workload.tables.empty())
    fail(ErrorCode::kInvalid, "the model of job '{}' has no embedding tables: there is nothing to plan",
         plan.job);
  for (const uint32_t n : shards)
    plan.shards.push_back(Profile(workload, n, effort, say, surroundings).measure());
  const auto best = std::min_element(
      plan.shards.begin(), plan.shards.end(),
      [](const ShardsPlan& a, const ShardsPlan& b) { return a.recommended.seconds < b.recommended.seconds; });
  plan.recommended_shards = best->shards;
  return plan;
}

}  // namespace embers::plan
