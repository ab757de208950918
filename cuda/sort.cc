#include "cuda/sort.h"

#include "cuda/kernels.h"

namespace embers::cuda {
namespace {

template <class AnyItem>
EMBERS_KERNEL void EMBERS_THREADS(kSortThreads, kSortBlocks) sort(SortTask task) {
  constexpr bool kShort = sizeof(AnyItem) < sizeof(Item);
  auto& memory = *reinterpret_cast<SortMemory<AnyItem>*>(shared_memory());
  int* const begins = reinterpret_cast<int*>(shared_memory() + sizeof memory);
  if (task.steps.count != nullptr && block_index() == blocks() - 1 && thread_index() == 0)
    count_step(task.steps);
  if (task.count == 0) return;
  const int tables = task.model.table_count;
  for (int t = thread_index(); t < tables; t += threads())
    begins[t] = region_of(task.batch, task.model.tables[t]).begin;
  if (thread_index() == 0) begins[tables] = region_of(task.batch, task.model.tables[tables - 1]).end;
  sync_block();
  bool few = true;
  for (int t = 0; t < tables; ++t) few = few && pieces_of(task, begins, t).count <= task.few_pieces;
  const auto* from = static_cast<const AnyItem*>(task.items);
  for (int pass = 0; pass < task.plan.passes; ++pass) {
    auto* const to = static_cast<AnyItem*>(task.sorted[pass % 2]);
    const bool lengthen = kShort && task.lengthen && pass == task.plan.passes - 1;
    const auto digits_of = [&](int table) {
      const int low_bit = pass * task.plan.bits;
      return kShort ? Digits{0, task.bag_bits + low_bit, task.plan.bits}
                    : Digits{task.model.tables[table].first_key, low_bit, task.plan.bits};
    };
    each_piece(task, begins, [&](int table, const Piece& piece) {
      count_digits(task, from, piece, digits_of(table), memory);
    });
    sync_grid();
    if (!few) {
      add_up_pieces(task, begins, memory);
      sync_grid();
    }
    each_piece(task, begins, [&](int table, const Piece& piece) {
      find_bases(task, begins, table, piece, !few, memory);
      if constexpr (kShort) {
        if (lengthen) {
          const Table& of = task.model.tables[table];
          const auto first_bag = static_cast<uint32_t>(of.first_column * task.batch.bags);
          const Lengthened longer{static_cast<Item*>(task.sorted[pass % 2]), of.first_key,
                                  static_cast<uint32_t>(of.is.count), first_bag, task.bag_bits};
          move_piece(from, longer, piece, digits_of(table), memory);
          return;
        }
      }
      move_piece(from, Moved<AnyItem>{to}, piece, digits_of(table), memory);
    });
    if (pass < task.plan.passes - 1 || task.runs_before != nullptr) sync_grid();
    from = to;
  }
  if (task.runs_before != nullptr)
    count_runs(task, static_cast<const Item*>(task.sorted[(task.plan.passes + 1) % 2]), begins[tables],
               memory);
}

template <class AnyItem>
size_t shared_bytes(int tables) {
  return sizeof(SortMemory<AnyItem>) + sizeof(int) * (static_cast<size_t>(tables) + 1);
}

template <class AnyItem>
int blocks_of(int tables) {
  return blocks_at_once(sort<AnyItem>, kSortThreads, shared_bytes<AnyItem>(tables));
}

}  // namespace

int sort_blocks(int tables, bool short_items) {
  return short_items ? blocks_of<ShortItem>(tables) : blocks_of<Item>(tables);
}

void launch_sort(const SortTask& task, void* stream) {
  const int tables = task.model.table_count;
  const bool short_items = task.bag_bits != 0;
  const size_t shared = short_items ? shared_bytes<ShortItem>(tables) : shared_bytes<Item>(tables);
  launch(short_items ? sort<ShortItem> : sort<Item>, {sort_blocks(tables, short_items), kSortThreads, shared},
         true, stream, task, "sorting");
}

}  // namespace embers::cuda
