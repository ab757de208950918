#include "cuda/index/index.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>

#include "cuda/calls.h"
#include "cuda/device.h"

// The C interface of indexes: memory, growth, launches.
using namespace embers::cuda;

namespace {

constexpr int64_t kMostRows = (int64_t{1} << 31) - 1;

int64_t places_for(int64_t keys) {
  int64_t places = 1024;
  while (places < 2 * keys) places *= 2;
  return places;
}

template <class Task>
void launch_over(void (*kernel)(Task), int64_t threads, const Task& task, void* stream, const char* what) {
  constexpr int kThreads = 256;
  const int64_t wanted = (threads + kThreads - 1) / kThreads, most = int64_t{processors()} * 8;
  if (wanted == 0) return;
  launch(kernel, {static_cast<int>(std::min(wanted, most)), kThreads, 0}, false, stream, task, what);
}

}  // namespace

struct embers_cuda_index {
  explicit embers_cuda_index(const embers_cuda_index_options& o) : options(o) {
    counts = memory(2 * sizeof(Word));
    zero(counts.get(), 2 * sizeof(Word), nullptr);
    set_places(places_for(options.capacity), 0, nullptr);
    set_capacity(options.capacity, 0, nullptr);
    wait(nullptr);
    first.low = options.low;
    first.high = options.high;
    first.last = std::nextafter(static_cast<float>(options.high), static_cast<float>(options.low));
    first.stream[0] = static_cast<uint32_t>(options.stream);
    first.stream[1] = static_cast<uint32_t>(options.stream >> 32);
    first.slots[0] = options.slot_values[0];
    first.slots[1] = options.slot_values[1];
  }

  size_t number_bytes() const { return options.number_type == EMBERS_CUDA_FLOAT16 ? 2 : 4; }
  Word* count() const { return static_cast<Word*>(counts.get()); }
  Word* filled() const { return count() + 1; }

  IndexView view() const {
    return {static_cast<Word*>(keys.get()),
            static_cast<int32_t*>(places_rows.get()),
            static_cast<Word>(places),
            static_cast<int64_t*>(key_of.get()),
            count(),
            capacity};
  }
  IndexRows table() const {
    return {rows.get(),         {static_cast<float*>(slots[0].get()), static_cast<float*>(slots[1].get())},
            options.dim,        options.slot_dim,
            options.slot_count, options.number_type == EMBERS_CUDA_FLOAT16};
  }

  int64_t read_count(void* stream) {
    Word known = 0;
    copy(&known, count(), sizeof known, stream);
    wait(stream);
    return at_most = static_cast<int64_t>(known);
  }

  void set_places(int64_t wanted, int64_t keys_now, void* stream) {
    Memory new_keys = memory(sizeof(Word) * static_cast<size_t>(wanted + 1));
    Memory new_rows = memory(sizeof(int32_t) * static_cast<size_t>(wanted + 1));
    IndexView larger = view();
    larger.keys = static_cast<Word*>(new_keys.get());
    larger.rows = static_cast<int32_t*>(new_rows.get());
    larger.places = static_cast<Word>(wanted);
    launch_over(clear_keys, wanted + 1, ClearTask{larger.keys, larger.places + 1}, stream, "clearing");
    if (keys_now > 0) launch_over(rehash, places + 1, RehashTask{view(), larger}, stream, "rehashing");
    wait(stream);
    keys = std::move(new_keys);
    places_rows = std::move(new_rows);
    places = wanted;
  }

  // Rows and slots in new memory for `wanted` rows, of which `kept` are copied. Everything is there before
  // anything changes.
  void set_capacity(int64_t wanted, int64_t kept, void* stream) {
    const auto larger = [&](const Memory& from, size_t bytes_of_row) {
      Memory to = memory(bytes_of_row * static_cast<size_t>(wanted));
      if (kept > 0) copy(to.get(), from.get(), bytes_of_row * static_cast<size_t>(kept), stream);
      return to;
    };
    const size_t slot_bytes = sizeof(float) * static_cast<size_t>(options.slot_dim);
    Memory new_rows = larger(rows, number_bytes() * static_cast<size_t>(options.dim)), new_slots[2];
    for (int s = 0; s < options.slot_count; ++s) new_slots[s] = larger(slots[s], slot_bytes);
    Memory new_key_of = larger(key_of, sizeof(int64_t));
    wait(stream);
    rows = std::move(new_rows);
    for (int s = 0; s < 2; ++s) slots[s] = std::move(new_slots[s]);
    key_of = std::move(new_key_of);
    capacity = wanted;
  }

  // Room for the keys of a call, before they are put in.
  void make_places(int64_t more, void* stream) {
    if (2 * (at_most + more) <= places) return;
    const int64_t now = read_count(stream);
    if (2 * (now + more) <= places) return;
    set_places(places_for(now + more), now, stream);
  }

  // Memory for the rows that a call has numbered, after that.
  void make_rows(void* stream) {
    if (at_most <= capacity) return;
    const int64_t now = read_count(stream);
    if (now <= capacity) return;
    if (now > kMostRows) throw Error("an index has at most 2^31 - 1 rows");
    Word kept = 0;
    copy(&kept, filled(), sizeof kept, stream);
    wait(stream);
    set_capacity(std::max(now, std::min(2 * capacity, kMostRows)), static_cast<int64_t>(kept), stream);
    launch_over(name_rows, places + 1, NumberTask{view()}, stream, "naming rows");
  }

  void find_or_create(const int64_t* of, int64_t n, bool skip_negative, int64_t* found, void* stream) {
    make_places(n, stream);
    launch_over(insert, n, InsertTask{view(), of, n, skip_negative}, stream, "creating rows");
    at_most += n;
    make_rows(stream);
    launch_over(fill, std::clamp(n, int64_t{1}, int64_t{1} << 16) * kWarp,
                FillTask{view(), table(), first, filled()}, stream, "first values");
    copy(filled(), count(), sizeof(Word), stream);
    launch_over(find, n, FindTask{view(), of, n, skip_negative, found}, stream, "finding rows");
  }

  int device = current_device();
  embers_cuda_index_options options;
  FirstValues first{};
  Memory keys, places_rows, key_of, rows, slots[2], counts;
  int64_t places = 0, capacity = 0;
  int64_t at_most = 0;  // rows that there may be, without waiting to see
};

extern "C" {

int embers_cuda_index_create(const embers_cuda_index_options* options, embers_cuda_index** index) {
  return call([&] {
    const auto& o = *options;
    if (o.dim < 1 || o.dim > 1024) throw Error("dim " + std::to_string(o.dim) + " must be from 1 to 1024");
    if (o.number_type != EMBERS_CUDA_FLOAT32 && o.number_type != EMBERS_CUDA_FLOAT16)
      throw Error("rows are float32 or float16");
    if (o.slot_count < 0 || o.slot_count > 2) throw Error("a row has up to two slots");
    if (o.slot_count > 0 && o.slot_dim != 1 && o.slot_dim != o.dim)
      throw Error("a slot has dim floats, or one");
    if (!(o.low <= o.high) || !std::isfinite(o.high - o.low))
      throw Error("first values: low must not be above high");
    if (o.capacity < 1 || o.capacity > kMostRows) throw Error("capacity must be from 1 to 2^31 - 1 rows");
    *index = new embers_cuda_index(o);
  });
}

int embers_cuda_index_destroy(embers_cuda_index* index) {
  return call([&] {
    if (index == nullptr) return;
    const OnDevice on(index->device);
    delete index;
  });
}

int embers_cuda_index_find(embers_cuda_index* index, const int64_t* keys, int64_t count,
                           int32_t skip_negative, int64_t* rows, void* stream) {
  return call([&] {
    const OnDevice on(index->device);
    launch_over(find, count, FindTask{index->view(), keys, count, skip_negative != 0, rows}, stream,
                "finding rows");
  });
}

int embers_cuda_index_find_or_create(embers_cuda_index* index, const int64_t* keys, int64_t count,
                                     int32_t skip_negative, int64_t* rows, void* stream) {
  return call([&] {
    const OnDevice on(index->device);
    index->find_or_create(keys, count, skip_negative != 0, rows, stream);
  });
}

int embers_cuda_index_table(const embers_cuda_index* index, embers_cuda_table* table) {
  return call([&] {
    table->rows = index->rows.get();
    for (int s = 0; s < 2; ++s) table->slots[s] = static_cast<float*>(index->slots[s].get());
    table->count = index->capacity;
    table->grows = 1;
    table->dim = index->options.dim;
    table->row_stride = index->options.dim;
    table->slot_stride = std::max(index->options.slot_dim, 1);
  });
}

int embers_cuda_index_size(embers_cuda_index* index, int64_t* count, void* stream) {
  return call([&] {
    const OnDevice on(index->device);
    *count = std::min(index->read_count(stream), index->capacity);
  });
}

int embers_cuda_index_export(embers_cuda_index* index, int64_t first, int64_t count, int64_t* keys,
                             float* values, float* slot_0, float* slot_1, void* stream) {
  return call([&] {
    const OnDevice on(index->device);
    const int64_t all = std::min(index->read_count(stream), index->capacity);  // rows that have memory
    if (first < 0 || count < 0 || first > all || count > all - first)
      throw Error("rows " + std::to_string(first) + " to " + std::to_string(first + count) + " of " +
                  std::to_string(all) + " cannot be exported");
    copy(keys, static_cast<int64_t*>(index->key_of.get()) + first,
         sizeof(int64_t) * static_cast<size_t>(count), stream);
    launch_over(copy_rows, count * kWarp,
                CopyTask{index->table(), nullptr, first, count, values, {slot_0, slot_1}, false}, stream,
                "exporting");
  });
}

int embers_cuda_index_import(embers_cuda_index* index, const int64_t* keys, int64_t count,
                             const float* values, const float* slot_0, const float* slot_1, void* stream) {
  return call([&] {
    const OnDevice on(index->device);
    const Memory numbers = memory(sizeof(int64_t) * static_cast<size_t>(count));
    auto* const rows = static_cast<int64_t*>(numbers.get());
    index->find_or_create(keys, count, false, rows, stream);
    launch_over(copy_rows, count * kWarp,
                CopyTask{index->table(),
                         rows,
                         0,
                         count,
                         const_cast<float*>(values),
                         {const_cast<float*>(slot_0), const_cast<float*>(slot_1)},
                         true},
                stream, "importing");
    wait(stream);
  });
}

}  // extern "C"
