#include "client/pipeline/cached_pull.h"

namespace embers {

void PullPlan::restore_positions() {
  for (auto& tables : routed)
    for (RoutedTable& part : tables)
      if (const auto& rest = rests[part.source])
        for (uint32_t& position : part.positions) position = rest->positions[position];
}

RowCaches::RowCaches(const Owners& owners, size_t rows, uint64_t staleness) {
  for (const TableSpec& table : owners.tables) {
    dims_.push_back(table.dim);
    tables_.push_back(is_reserved(table.name) || is_split(table, owners.handles.size())
                          ? nullptr
                          : std::make_unique<RowCache>(table.key_kind, table.dim, rows, staleness));
  }
}

void RowCaches::take(Work& work, PullPlan& plan) {
  plan.step = ++step_;
  plan.rests.resize(plan.lists.size());
  for (size_t i = 0; i < plan.lists.size(); ++i) {
    TableKeyList& list = plan.lists[i];
    RowCache* const cache = tables_[list.table].get();
    if (cache == nullptr) continue;
    RowCache::Found found = cache->find(list.keys, plan.step, plan.places[i], plan.oldest);
    work.cache_hits += found.hits;
    plan.rests[i] = std::make_unique<PullPlan::Rest>(PullPlan::Rest{Keys(list.keys.kind), {}});
    PullPlan::Rest& rest = *plan.rests[i];
    for (const uint32_t place : found.missing) rest.keys.push_back_from(list.keys, place);
    rest.positions = std::move(found.missing);
    list.keys = rest.keys;
  }
}

void RowCaches::keep(const PullPlan& plan, size_t owner, uint64_t version) {
  for (const RoutedTable& part : plan.routed[owner]) {
    RowCache* const cache = tables_[part.table].get();
    if (cache == nullptr) continue;
    FloatBuffer rows(part.keys.size() * dims_[part.table]);
    collect(plan.places[part.source], dims_[part.table], part.positions, rows.span());
    cache->put(part.keys, plan.step, owner, version, rows.span());
  }
}

}  // namespace embers
