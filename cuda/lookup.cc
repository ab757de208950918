#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cuda/calls.h"
#include "cuda/device.h"
#include "cuda/kernels.h"

// The C interface of lookups: checks, memory, launches.
using namespace embers::cuda;

namespace {

constexpr int64_t kMostPlaces = (int64_t{1} << 31) - (int64_t{1} << 12);
constexpr uint64_t kMostKeys = (uint64_t{1} << 32) - (uint64_t{1} << 10);

int round_up(int x, int to) { return (x + to - 1) / to * to; }

// Device memory for a copy of an array.
template <class T>
class Copied {
 public:
  explicit Copied(const std::vector<T>& from) : memory_(memory(sizeof(T) * from.size())) {
    if (!from.empty()) copy(memory_.get(), from.data(), sizeof(T) * from.size(), nullptr);
    wait(nullptr);
  }
  T* get() const { return static_cast<T*>(memory_.get()); }

 private:
  Memory memory_;
};

bool aligned(const void* at, size_t bytes) { return reinterpret_cast<uintptr_t>(at) % bytes == 0; }

void need(bool holds, const std::string& what) {
  if (!holds) throw Error(what);
}

void check_table(const embers_cuda_table& t, size_t n) {
  const std::string table = "table " + std::to_string(n) + ": ";
  need(t.dim >= 1 && t.dim <= kMostDim, table + "dim " + std::to_string(t.dim) + " must be from 1 to 1024");
  need(t.count >= 0, table + "a negative number of rows");
  need(t.count == 0 || t.rows != nullptr, table + "no rows");
  need(t.row_stride >= t.dim && t.row_stride < int64_t{1} << 32,
       table + "row_stride must be from dim to 2^32 - 1");
  need(t.slots[0] == nullptr || (t.slot_stride >= 1 && t.slot_stride < int64_t{1} << 32),
       table + "slot_stride must be from 1 to 2^32 - 1");
  need(t.max_norm == 0 || (t.max_norm > 0 && std::isfinite(t.max_norm)),
       table + "max_norm is " + std::to_string(t.max_norm) + ": it must be positive and finite");
  need(t.partitions <= 1 || t.first != nullptr, table + "several partitions need `first`");
}

void check_column(const embers_cuda_model& model, int n) {
  const embers_cuda_column& c = model.columns[n];
  const std::string column = "column " + std::to_string(n) + ": ";
  need(c.table >= 0 && c.table < model.table_count, column + "there is no table " + std::to_string(c.table));
  need(n == 0 || c.table >= model.columns[n - 1].table,
       column + "columns must be in the order of their tables");
  need(c.combiner >= EMBERS_CUDA_SUM && c.combiner <= EMBERS_CUDA_SQRTN,
       column + "sparse ids need a combiner: sum, mean or sqrtn");
  need(c.out_column >= 0, column + "a negative out_column");
}

// Whether lanes can take four neighbouring numbers of every row.
bool is_wide(const embers_cuda_model& model) {
  const size_t number = model.number_type == EMBERS_CUDA_FLOAT16 ? 2 : 4;
  for (int i = 0; i < model.table_count; ++i) {
    const embers_cuda_table& t = model.tables[i];
    if (t.dim % 4 != 0 || t.row_stride % 4 != 0 || !aligned(t.rows, 4 * number)) return false;
    for (const float* slot : t.slots)
      if (slot != nullptr && t.slot_stride != 1 && (t.slot_stride % 4 != 0 || !aligned(slot, 16)))
        return false;
  }
  for (int i = 0; i < model.column_count; ++i)
    if (model.columns[i].out_column % 4 != 0) return false;
  return true;
}

std::vector<Column> columns_of(const embers_cuda_model& model) {
  std::vector<Column> columns;
  int defaults = 0;
  for (int i = 0; i < model.column_count; ++i) {
    columns.push_back({model.columns[i], defaults});
    defaults += model.columns[i].has_default != 0;
  }
  return columns;
}

std::vector<Table> tables_of(const embers_cuda_model& model, int wide) {
  std::vector<Table> tables;
  uint64_t key = 0;
  int column = 0, defaults = 0;
  for (int i = 0; i < model.table_count; ++i) {
    Table t{model.tables[i],
            static_cast<uint32_t>(model.tables[i].row_stride),
            static_cast<uint32_t>(model.tables[i].slot_stride),
            static_cast<uint32_t>(key),
            column,
            0,
            defaults,
            0,
            lanes_for(model.tables[i].dim, wide)};
    for (; column < model.column_count && model.columns[column].table == i; ++column) {
      ++t.columns;
      t.defaults += model.columns[column].has_default != 0;
    }
    defaults += t.defaults;
    key += static_cast<uint64_t>(t.is.count) + 1;
    tables.push_back(t);
  }
  return tables;
}

int chunks_of(const std::vector<Table>& tables, int wide) {
  int chunks = 1;
  for (const Table& t : tables) chunks = std::max(chunks, (t.is.dim + t.lanes * wide - 1) / (t.lanes * wide));
  if (wide == 4) return *std::lower_bound(std::begin(kWideChunks), std::end(kWideChunks), chunks);
  return *std::lower_bound(std::begin(kNarrowChunks), std::end(kNarrowChunks), chunks);
}

// A part of a block of memory that is handed out piece by piece.
class Layout {
 public:
  explicit Layout(void* at) : at_(static_cast<char*>(at)) {}
  template <class T>
  T* take(int64_t count) {
    T* const taken = at_ == nullptr ? nullptr : reinterpret_cast<T*>(at_ + bytes_);
    bytes_ += (sizeof(T) * static_cast<size_t>(count) + 255) / 256 * 256;
    return taken;
  }
  size_t bytes() const { return bytes_; }

 private:
  char* at_;
  size_t bytes_ = 0;
};

}  // namespace

// A model on the device; its tables twice, for lanes that take one number and for lanes that take four.
struct embers_cuda_lookup {
  explicit embers_cuda_lookup(const embers_cuda_model& model)
      : number_type(model.number_type),
        can_be_wide(is_wide(model)),
        column_count(model.column_count),
        columns(columns_of(model)),
        narrow(tables_of(model, 1)),
        wide(tables_of(model, 4)),
        device_columns(columns),
        device_narrow(narrow),
        device_wide(wide),
        problems(std::vector<Problems>{kNone}),
        any(allocate_flag()) {
    for (const Table& t : narrow) {
      most_dim = std::max(most_dim, t.is.dim);
      rows += t.is.count;
      most_rows = std::max(most_rows, static_cast<uint64_t>(t.is.count));
      same_dims = same_dims && t.is.dim == narrow[0].is.dim;
      column_each = column_each && t.columns == 1;
      grows = grows || t.is.grows != 0;
      plain = plain && t.is.max_norm == 0 && t.is.partitions <= 1 && t.defaults == 0;
    }
    for (const Column& c : columns) {
      width = std::max(width, c.is.out_column + narrow[static_cast<size_t>(c.is.table)].is.dim);
      defaults += c.is.has_default != 0;
      scaled = scaled || c.is.combiner != EMBERS_CUDA_SUM;
    }
  }
  ~embers_cuda_lookup() { release_flag(any); }
  embers_cuda_lookup(const embers_cuda_lookup&) = delete;
  embers_cuda_lookup& operator=(const embers_cuda_lookup&) = delete;

  static constexpr Problems kNone{0, ~0ull, 0};

  int device = current_device();
  int number_type;
  bool can_be_wide;
  int column_count;
  int defaults = 0;  // columns with a default_id
  int most_dim = 1;
  int width = 0;            // of a result
  bool same_dims = true;    // of all tables
  bool plain = true;        // no max_norm, default_id or partitions
  bool column_each = true;  // each table has one
  bool grows = false;       // any table
  bool scaled = false;      // any column's sums are divided
  uint64_t most_rows = 0;   // of a table
  int64_t rows = 0;         // of all
  std::vector<Column> columns;
  std::vector<Table> narrow, wide;
  Copied<Column> device_columns;
  Copied<Table> device_narrow, device_wide;
  Copied<Problems> problems;
  int* any;
};

namespace {

// How a minibatch is worked on.
struct Plan {
  const embers_cuda_lookup& lookup;
  const embers_cuda_batch& batch;
  int items;   // ids, and bags of columns with a default_id
  int places;  // of the longer of the two lines
  int shift;
  int bag_bits = 0;  // of ShortItems, where they will do

  Plan(const embers_cuda_lookup& l, const embers_cuda_batch& b) : lookup(l), batch(b) {
    need(b.bags >= 0 && b.id_count >= 0, "a negative number of bags or ids");
    const bool fits = b.bags <= kMostPlaces && b.id_count <= kMostPlaces &&
                      b.id_count + (l.column_count + int64_t{1}) * b.bags <= kMostPlaces;
    need(fits, std::to_string(b.id_count) + " ids in " + std::to_string(l.column_count) + " columns of " +
                   std::to_string(b.bags) + " bags are too many for one call: use smaller batches");
    need(b.bags == 0 || b.offsets != nullptr, "no offsets");
    need(b.id_count == 0 || b.ids != nullptr, "no ids");
    items = b.bags == 0 ? 0 : static_cast<int>(b.id_count + l.defaults * b.bags);
    places = static_cast<int>(b.id_count + l.column_count * b.bags);
    // Units small enough to give every processor several warps, and large enough to be worth a search. Larger
    // ones only as long as there are so many that few processors idle while the last ones are worked on.
    const int groups = kWarp / lanes_for(l.most_dim, l.can_be_wide ? 4 : 1);
    const auto units_for = [&](int warps) { return int64_t{processors()} * warps * groups; };
    shift = 4;
    while (shift < 6 && places >> (shift + 1) >= units_for(32)) ++shift;
    while (shift < 8 && places >> (shift + 1) >= units_for(6 * 24)) ++shift;
    const int bits = bits_of(static_cast<uint64_t>(std::max<int64_t>(b.bags - 1, 1)));
    if (is_plain() && l.column_each && !l.grows && bits_of(l.most_rows) + bits <= 32) bag_bits = bits;
  }

  static int bits_of(uint64_t x) {
    int bits = 0;
    for (; x > 0; x /= 2) ++bits;
    return bits;
  }
  bool is_plain() const { return lookup.plain && batch.weights == nullptr; }

  int units() const { return (places >> shift) + 2; }
  int larger_units() const { return (units() >> kTogetherShift) + 2; }

  State state(Layout& memory) const {
    State state{};
    state.items =
        bag_bits != 0 ? static_cast<void*>(memory.take<ShortItem>(items)) : memory.take<Item>(items);
    state.bag_bits = bag_bits;
    state.scales = memory.take<float>(int64_t{lookup.column_count} * batch.bags);
    if (batch.weights != nullptr) state.shares = memory.take<Share>(items);
    return state;
  }
  Pieces pieces(Layout& memory, Layout& counters) const {
    Pieces pieces{};
    pieces.floats = round_up(lookup.most_dim, 4) + 4;
    pieces.sums = memory.take<float>(int64_t{2} * units() * pieces.floats);
    pieces.larger_sums = memory.take<float>(int64_t{2} * larger_units() * pieces.floats);
    pieces.arrived = counters.take<unsigned>(int64_t{2} * units());
    pieces.larger_arrived = counters.take<unsigned>(int64_t{2} * larger_units());
    return pieces;
  }
  SortTask sort(const State& state, const Steps& steps, Layout& memory) const {
    const auto tables = static_cast<int>(lookup.narrow.size());
    const int blocks = sort_blocks(tables, bag_bits != 0);
    SortTask task{};
    task.model = model(false);
    task.batch = batch;
    task.items = state.items;
    task.sorted[0] = memory.take<Item>(items);
    task.sorted[1] = memory.take<Item>(items);
    task.bag_bits = bag_bits;
    task.count = items;
    task.stretch = std::max(round_up((items + blocks - 1) / blocks, kWarp), kWarp);
    task.plan = sort_plan(lookup.most_rows + 1);
    task.few_pieces = few_pieces();
    const int64_t digits = int64_t{1} << task.plan.bits;
    task.counts = memory.take<unsigned>(digits * (blocks + tables));
    task.totals = memory.take<unsigned>(digits * tables);
    task.block_runs = memory.take<unsigned>(blocks);
    task.runs_before = memory.take<int>(units() + 1);
    task.shift = shift;
    task.steps = steps;
    task.steps.rate = memory.take<float>(1);
    return task;
  }
  Model model(bool wide) const {
    return {wide ? lookup.device_wide.get() : lookup.device_narrow.get(), lookup.device_columns.get(),
            static_cast<int32_t>(lookup.narrow.size()), lookup.column_count};
  }
  Kind kind(bool wide) const {
    const int groups = kWarp / lanes_for(lookup.most_dim, wide ? 4 : 1);
    return {lookup.number_type,
            wide ? 4 : 1,
            chunks_of(wide ? lookup.wide : lookup.narrow, wide ? 4 : 1),
            (places >> shift) / groups + 1,
            is_plain(),
            lookup.most_dim <= 4 * (wide ? 4 : 1),
            2 * batch.id_count < 3 * lookup.rows,
            lookup.same_dims ? lookup.most_dim : 0};
  }
  Reports reports() const { return {lookup.problems.get(), lookup.any}; }
  bool is_wide(const float* at, int64_t stride) const {
    return lookup.can_be_wide && stride % 4 == 0 && aligned(at, 16);
  }
};

Steps steps_of(const embers_cuda_update& u) {
  need(u.steps != nullptr, "steps are counted in a number on the device");
  return {u.steps, nullptr, u.rule == EMBERS_CUDA_ADAM, u.learning_rate, u.beta_1, u.beta_2};
}

Rule rule_of(const embers_cuda_update& u) {
  const auto f = [](double x) { return static_cast<float>(x); };
  return {u.rule, u.weight_decay, f(1 - u.beta_1), f(1 - u.beta_2), f(u.epsilon)};
}

void check_slots(const embers_cuda_lookup& lookup, const embers_cuda_update& update) {
  need(update.rule >= EMBERS_CUDA_SGD && update.rule <= EMBERS_CUDA_ROWWISE_ADAGRAD,
       "there is no such update rule");
  const int slots = update.rule == EMBERS_CUDA_SGD ? 0 : update.rule == EMBERS_CUDA_ADAM ? 2 : 1;
  for (size_t i = 0; i < lookup.narrow.size(); ++i)
    for (int s = 0; s < slots; ++s) {
      const embers_cuda_table& t = lookup.narrow[i].is;
      const std::string table = "table " + std::to_string(i) + ": ";
      need(t.slots[s] != nullptr || t.count == 0, table + "the update rule keeps " + std::to_string(slots) +
                                                      " slots of each row, and slots[" + std::to_string(s) +
                                                      "] is null");
      need(update.rule == EMBERS_CUDA_ROWWISE_ADAGRAD || t.slot_stride >= t.dim || t.count == 0,
           table + "slot_stride is below dim");
    }
}

void backward(const embers_cuda_lookup& lookup, const embers_cuda_batch& batch, const Rule& rule,
              const Steps& steps, const float* out_gradient, int64_t stride, void* state_memory,
              void* workspace, void* counters, int64_t* rows, float* values, int64_t value_stride,
              int64_t* count, void* stream) {
  const Plan plan(lookup, batch);
  if (count != nullptr && plan.items == 0) zero(count, sizeof *count, stream);
  if (plan.items == 0 && steps.count == nullptr) return;
  need(stride >= 0 && std::max<int64_t>(batch.bags - 1, 0) * stride + lookup.width < int64_t{1} << 32,
       "the gradient has more than 2^32 numbers: use smaller batches");
  Layout state_layout(state_memory), layout(workspace), counter_layout(counters);
  const State state = plan.state(state_layout);
  const Pieces pieces = plan.pieces(layout, counter_layout);
  bool wide = plan.is_wide(out_gradient, stride);
  if (rows != nullptr) wide = wide && plan.is_wide(values, value_stride);
  Kind kind = plan.kind(wide);
  kind.plain = kind.plain && lookup.column_each;
  SortTask sort = plan.sort(state, steps, layout);
  sort.run_count = count;
  if (rows == nullptr) sort.runs_before = nullptr;
  const bool takes_short = plan.bag_bits != 0 && backward_takes_short_items(kind, rule);
  sort.lengthen = !takes_short;
  launch_sort(sort, stream);
  if (plan.items == 0) return;
  BackwardTask task{};
  task.model = plan.model(wide);
  task.batch = batch;
  task.sorted = sort.sorted[(sort.plan.passes + 1) % 2];
  task.bag_bits = takes_short ? plan.bag_bits : 0;
  task.out_gradient = out_gradient;
  task.gradient_stride = stride;
  task.state = state;
  task.scaled = lookup.scaled;
  task.pieces = pieces;
  task.reports = plan.reports();
  task.rule = rule;
  task.rate = sort.steps.rate;
  task.shift = plan.shift;
  task.runs_before = sort.runs_before;
  task.rows = rows;
  task.values = values;
  task.value_stride = value_stride;
  launch_backward(kind, task, stream);
}

ForwardTask forward_task(const Plan& plan, bool wide, float* out, int64_t out_stride, void* state) {
  ForwardTask task{};
  task.model = plan.model(wide);
  task.batch = plan.batch;
  task.out = out;
  task.out_stride = out_stride;
  Layout layout(state);
  task.state = plan.state(layout);
  task.reports = plan.reports();
  task.shift = plan.shift;
  return task;
}

}  // namespace

extern "C" {

int embers_cuda_lookup_create(const embers_cuda_model* model, embers_cuda_lookup** lookup) {
  return call([&] {
    need(model->number_type == EMBERS_CUDA_FLOAT32 || model->number_type == EMBERS_CUDA_FLOAT16,
         "rows are float32 or float16");
    need(model->table_count >= 1 && model->column_count >= 1,
         "a model has at least one table and one column");
    uint64_t keys = 0;
    for (int i = 0; i < model->table_count; ++i) {
      check_table(model->tables[i], static_cast<size_t>(i));
      keys += static_cast<uint64_t>(model->tables[i].count) + 1;
    }
    need(keys < kMostKeys,
         "the tables have " + std::to_string(keys) + " rows: a call takes fewer than 2^32 - 2^10");
    for (int i = 0; i + 1 < model->table_count; ++i)
      need(model->tables[i].grows == 0, "table " + std::to_string(i) + " grows: only the last table can");
    for (int i = 0; i < model->column_count; ++i) check_column(*model, i);
    *lookup = new embers_cuda_lookup(*model);
  });
}

int embers_cuda_lookup_destroy(embers_cuda_lookup* lookup) {
  return call([&] {
    if (lookup == nullptr) return;
    const OnDevice on(lookup->device);
    delete lookup;
  });
}

int embers_cuda_lookup_memory(const embers_cuda_lookup* lookup, const embers_cuda_batch* batch, size_t* state,
                              size_t* workspace, size_t* counters) {
  return call([&] {
    const OnDevice on(lookup->device);
    const Plan plan(*lookup, *batch);
    Layout state_layout(nullptr), layout(nullptr), counter_layout(nullptr);
    const State carried = plan.state(state_layout);
    plan.pieces(layout, counter_layout);
    plan.sort(carried, Steps{}, layout);
    *state = state_layout.bytes();
    *workspace = layout.bytes();
    *counters = counter_layout.bytes();
  });
}

int embers_cuda_lookup_forward(const embers_cuda_lookup* lookup, const embers_cuda_batch* batch, float* out,
                               int64_t out_stride, void* state, void* workspace, void* counters,
                               void* stream) {
  return call([&] {
    const OnDevice on(lookup->device);
    const Plan plan(*lookup, *batch);
    if (batch->bags == 0) return;
    const bool wide = plan.is_wide(out, out_stride);
    ForwardTask task = forward_task(plan, wide, out, out_stride, state);
    Layout layout(workspace), counter_layout(counters);
    task.pieces = plan.pieces(layout, counter_layout);
    launch_forward(plan.kind(wide), task, stream);
  });
}

int embers_cuda_lookup_update(const embers_cuda_lookup* lookup, const embers_cuda_batch* batch,
                              const embers_cuda_update* update, const float* out_gradient,
                              int64_t gradient_stride, void* state, void* workspace, void* counters,
                              void* stream) {
  return call([&] {
    const OnDevice on(lookup->device);
    check_slots(*lookup, *update);
    backward(*lookup, *batch, rule_of(*update), steps_of(*update), out_gradient, gradient_stride, state,
             workspace, counters, nullptr, nullptr, 0, nullptr, stream);
  });
}

int embers_cuda_lookup_gradients(const embers_cuda_lookup* lookup, const embers_cuda_batch* batch,
                                 const float* out_gradient, int64_t gradient_stride, void* state,
                                 void* workspace, void* counters, int64_t* rows, float* values,
                                 int64_t value_stride, int64_t* count, void* stream) {
  return call([&] {
    const OnDevice on(lookup->device);
    need(rows != nullptr && values != nullptr && count != nullptr, "gradients need rows, values and count");
    need(value_stride >= lookup->most_dim, "value_stride is below dim");
    backward(*lookup, *batch, Rule{}, Steps{}, out_gradient, gradient_stride, state, workspace, counters,
             rows, values, value_stride, count, stream);
  });
}

int embers_cuda_lookup_weight_gradient(const embers_cuda_lookup* lookup, const embers_cuda_batch* batch,
                                       const float* out_gradient, int64_t gradient_stride, const void* state,
                                       float* weight_gradient, void* stream) {
  return call([&] {
    const OnDevice on(lookup->device);
    const Plan plan(*lookup, *batch);
    need(batch->weights != nullptr || batch->id_count == 0, "there are no weights");
    if (batch->bags == 0 || batch->id_count == 0) return;
    const bool wide = plan.is_wide(out_gradient, gradient_stride);
    const ForwardTask task =
        forward_task(plan, wide, const_cast<float*>(out_gradient), 0, const_cast<void*>(state));
    launch_weight_gradient(plan.kind(wide), {task, out_gradient, gradient_stride, weight_gradient}, stream);
  });
}

int embers_cuda_lookup_problems(embers_cuda_lookup* lookup, embers_cuda_problems* problems, void* stream) {
  return call([&] {
    const OnDevice on(lookup->device);
    Problems found{};
    copy(&found, lookup->problems.get(), sizeof found, stream);
    copy(lookup->problems.get(), &embers_cuda_lookup::kNone, sizeof found, stream);
    wait(stream);
    *lookup->any = 0;
    *problems = {static_cast<int64_t>(found.bad_ids), static_cast<int64_t>(found.first >> 32) - 1,
                 static_cast<int64_t>(found.first & 0xffffffffu), static_cast<int64_t>(found.bad_gradients)};
  });
}

int embers_cuda_lookup_has_problems(const embers_cuda_lookup* lookup) {
  return *static_cast<const volatile int*>(lookup->any);
}

}  // extern "C"
