#include "cuda/sort.h"

#include "cuda/kernels.h"

namespace embers::cuda {
namespace {

EMBERS_KERNEL void EMBERS_THREADS(kSortThreads, kSortBlocks) sort(SortTask task) {
  SortMemory& memory = *reinterpret_cast<SortMemory*>(shared_memory());
  int* const begins = reinterpret_cast<int*>(shared_memory() + sizeof(SortMemory));
  if (task.steps.count != nullptr && block_index() == blocks() - 1 && thread_index() == 0)
    count_step(task.steps);
  if (task.count == 0) return;
  const int tables = task.model.table_count;
  for (int t = thread_index(); t < tables; t += threads())
    begins[t] = region_of(task.batch, task.model.tables[t]).begin;
  if (thread_index() == 0) begins[tables] = region_of(task.batch, task.model.tables[tables - 1]).end;
  sync_block();
  const Item* from = task.items;
  for (int pass = 0; pass < task.plan.passes; ++pass) {
    Item* const to = task.sorted[pass % 2];
    const auto digits_of = [&](int table) {
      return Digits{task.model.tables[table].first_key, pass * task.plan.bits, task.plan.bits};
    };
    each_piece(task, begins, [&](int table, const Piece& piece) {
      count_digits(task, from, piece, digits_of(table), memory);
    });
    sync_grid();
    add_up_pieces(task, begins, memory);
    sync_grid();
    each_piece(task, begins, [&](int table, const Piece& piece) {
      find_bases(task, table, piece, begins[table], memory);
      const Digits digits = digits_of(table);
      int begin = piece.begin;
      for (; begin + kTile <= piece.end; begin += kTile)
        move_tile<true>(from, to, begin, begin + kTile, digits, memory);
      if (begin < piece.end) move_tile<false>(from, to, begin, piece.end, digits, memory);
    });
    sync_grid();
    from = to;
  }
  if (task.runs_before != nullptr) count_runs(task, from, begins[tables], memory);
}

}  // namespace

size_t shared_bytes(int tables) {
  return sizeof(SortMemory) + sizeof(int) * (static_cast<size_t>(tables) + 1);
}

int sort_blocks(int tables) { return blocks_at_once(sort, kSortThreads, shared_bytes(tables)); }

void launch_sort(const SortTask& task, void* stream) {
  const int tables = task.model.table_count;
  launch(sort, {sort_blocks(tables), kSortThreads, shared_bytes(tables)}, true, stream, task, "sorting");
}

}  // namespace embers::cuda
