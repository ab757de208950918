#ifndef EMBERS_CUDA_H
#define EMBERS_CUDA_H

/* Fused embedding lookups on a GPU, over device pointers: forward, and a backward pass that adds up the
   gradients of each row and applies an update rule to it. All columns of a model go into each launch. Nothing
   is allocated and nothing waits for the device, except where a function says so. Semantics are those of
   embers' lookup operators and update rules on the CPU (model/README.md, docs/optimizers.md).

   Functions return 0, or EMBERS_CUDA_ERROR with the reason in embers_cuda_error(). All pointers are device
   pointers but those to structs of this file, to handles, and to sizes and counts that a function returns.
   Streams are cudaStream_t. *Thread safety*: calls that share a workspace or a table must be on one stream.
 */

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define EMBERS_CUDA_ERROR 1

/* The reason why the last call of this thread failed. */
const char* embers_cuda_error(void);

enum { EMBERS_CUDA_FLOAT32 = 0, EMBERS_CUDA_FLOAT16 = 1 };
enum { EMBERS_CUDA_SUM = 1, EMBERS_CUDA_MEAN = 2, EMBERS_CUDA_SQRTN = 3 };
enum { EMBERS_CUDA_DIV = 0, EMBERS_CUDA_MOD = 1 };
enum {
  EMBERS_CUDA_GRADIENTS = 0, /* no update: the gradient of each row that was looked up */
  EMBERS_CUDA_SGD = 1,
  EMBERS_CUDA_ADAGRAD = 2,        /* slots[0]: sum of squares */
  EMBERS_CUDA_ADAM = 3,           /* slots[0], slots[1]: m and v */
  EMBERS_CUDA_ROWWISE_ADAGRAD = 4 /* slots[0]: one float a row, sum of mean squares */
};

/* A table: rows x dim numbers, row after row. */
typedef struct {
  void* rows;          /* of the number type of the call */
  float* slots[2];     /* rows x dim each, or null; what the update rule keeps of each row */
  int64_t count;       /* of rows; all tables of a call together have fewer than 2^32 - 2^10 */
  int64_t row_stride;  /* numbers from one row to the next, at least dim */
  int64_t slot_stride; /* floats from one row's slot to the next */
  int32_t dim;         /* 1 to 1024 */
  float max_norm;      /* > 0: rows with a larger L2 norm are scaled to it when they are looked up; 0: none */
  /* Which row has which id. With one partition id i is row i. With more, rows are numbered one partition
     after another, and partition p has rows [first[p], first[p + 1]) : first is a device pointer to
     partitions + 1. */
  int32_t partitions;
  int32_t strategy; /* EMBERS_CUDA_DIV or EMBERS_CUDA_MOD */
  int32_t counted;  /* div: ids follow `first` rather than being spread evenly (blocknums) */
  /* Its count may be larger in a backward pass than in the forward pass: only the last table's. Without it,
     counts must be the same in both. */
  int32_t grows;
  const int64_t* first;
} embers_cuda_table;

/* A column: bags of ids of one table. Columns of the same table follow one another. */
typedef struct {
  int32_t table;
  int32_t combiner;
  int32_t prune_ids;     /* leave out ids < 0 (else they are errors) ... */
  int32_t prune_weights; /* ... and ids whose weight is not > 0, unless the combiner is sum */
  int32_t has_default;   /* bags without ids get the row default_id with weight 1 (else zeros) */
  int32_t out_column;    /* where its part of a row of the result begins */
  int64_t default_id;
} embers_cuda_column;

typedef struct {
  const embers_cuda_table* tables; /* on the host; copied */
  int32_t table_count;
  const embers_cuda_column* columns; /* on the host; copied */
  int32_t column_count;
  int32_t number_type; /* of rows */
} embers_cuda_model;

/* A minibatch: column_count x bags bags. Bag b of column c has ids [offsets[c * bags + b], offsets[c * bags +
 * b + 1]). */
typedef struct {
  const int64_t* ids;
  const int64_t* offsets; /* column_count x bags + 1, from 0 to at most id_count, not descending */
  const float* weights;   /* of each id, or null: 1 */
  int64_t id_count; /* those beyond the last offset do not count; with (column_count + 1) x bags at most 2^31
                       - 2^12 */
  int64_t bags;     /* of each column */
} embers_cuda_batch;

/* How a step changes rows. *steps, on the device, is the number of steps so far: the call adds one. (So that
   each replay of a CUDA graph that has captured the call is a step of its own.) */
typedef struct {
  int32_t rule;
  float weight_decay; /* times the row, added to its gradient */
  double learning_rate, beta_1, beta_2, epsilon;
  int64_t* steps;
} embers_cuda_update;

/* A prepared model. Copies the tables and columns to the device: waits for it. */
typedef struct embers_cuda_lookup embers_cuda_lookup;
int embers_cuda_lookup_create(const embers_cuda_model* model, embers_cuda_lookup** lookup);
int embers_cuda_lookup_destroy(embers_cuda_lookup* lookup);

/* Device memory that calls need, in bytes, at addresses that are multiples of 256. `state` carries a forward
   pass to its backward pass. `workspace` and `counters` may be shared by all passes of a stream. `counters`
   must be zeros before its first use, and every call leaves zeros in it. */
int embers_cuda_lookup_memory(const embers_cuda_lookup* lookup, const embers_cuda_batch* batch, size_t* state,
                              size_t* workspace, size_t* counters);

/* out[bags x out_stride]: each column's dim floats at its out_column. state may be null: no backward pass
   follows. One launch. */
int embers_cuda_lookup_forward(const embers_cuda_lookup* lookup, const embers_cuda_batch* batch, float* out,
                               int64_t out_stride, void* state, void* workspace, void* counters,
                               void* stream);

/* out_gradient[bags x gradient_stride] to each row's gradient, and the rule applied to row and slots in the
   same pass. A gradient that is not finite changes nothing and is counted (embers_cuda_lookup_problems). Two
   launches. */
int embers_cuda_lookup_update(const embers_cuda_lookup* lookup, const embers_cuda_batch* batch,
                              const embers_cuda_update* update, const float* out_gradient,
                              int64_t gradient_stride, void* state, void* workspace, void* counters,
                              void* stream);

/* The same with gradients as the result; may be called again for the same state: rows[k] is the number of a
   row, over all tables one after another, and values[k x value_stride] its gradient; ascending. Room for at
   least as many as there are ids and default bags. *count, on the device, becomes their number. Two launches.
 */
int embers_cuda_lookup_gradients(const embers_cuda_lookup* lookup, const embers_cuda_batch* batch,
                                 const float* out_gradient, int64_t gradient_stride, void* state,
                                 void* workspace, void* counters, int64_t* rows, float* values,
                                 int64_t value_stride, int64_t* count, void* stream);

/* weight_gradient[id_count]: gradients of the weights; of ids beyond the last offset it stays as it is.
 * Before an update changes the rows. One launch. */
int embers_cuda_lookup_weight_gradient(const embers_cuda_lookup* lookup, const embers_cuda_batch* batch,
                                       const float* out_gradient, int64_t gradient_stride, const void* state,
                                       float* weight_gradient, void* stream);

/* What was wrong since the last call of this function. Waits for the stream. */
typedef struct {
  int64_t bad_ids;       /* ids that are no row; they were left out */
  int64_t position;      /* of the first of them among the ids, or -1 when it is a default_id */
  int64_t bag;           /* column x bags + bag in which it stands */
  int64_t bad_gradients; /* rows whose gradient was not finite; they were left as they were */
} embers_cuda_problems;
int embers_cuda_lookup_problems(embers_cuda_lookup* lookup, embers_cuda_problems* problems, void* stream);
/* Whether there may be any, without waiting: of the calls that have ended. */
int embers_cuda_lookup_has_problems(const embers_cuda_lookup* lookup);

/* A table whose rows are created when their key is first seen: a hash index, rows and slots in device memory
   of its own, all of which grow. Keys are any int64. */
typedef struct embers_cuda_index embers_cuda_index;
typedef struct {
  int32_t number_type;
  int32_t dim;
  int32_t slot_count;   /* 0 to 2 */
  int32_t slot_dim;     /* floats of a slot: dim, or 1 for EMBERS_CUDA_ROWWISE_ADAGRAD */
  float slot_values[2]; /* with which slots begin */
  double low, high;     /* rows begin uniform over [low, high), or with `low` where both are the same ... */
  uint64_t stream;      /* ... by random numbers that depend on this, the key and the column alone */
  int64_t capacity;     /* rows for which there is memory in the beginning */
} embers_cuda_index_options;
int embers_cuda_index_create(const embers_cuda_index_options* options, embers_cuda_index** index);
int embers_cuda_index_destroy(embers_cuda_index* index);

/* rows[count] becomes the row of each key; of keys that have none, -1. With skip_negative keys below 0 have
 * none. */
int embers_cuda_index_find(embers_cuda_index* index, const int64_t* keys, int64_t count,
                           int32_t skip_negative, int64_t* rows, void* stream);
/* The same, but each key without a row gets one. Waits for the stream when memory may have to grow: what the
   table of a lookup points to is then elsewhere. */
int embers_cuda_index_find_or_create(embers_cuda_index* index, const int64_t* keys, int64_t count,
                                     int32_t skip_negative, int64_t* rows, void* stream);
/* Sets rows, slots, count, strides, dim and grows of a lookup's table; count is the number of rows that there
 * is memory for. */
int embers_cuda_index_table(const embers_cuda_index* index, embers_cuda_table* table);
/* The number of rows. Waits for the stream. */
int embers_cuda_index_size(embers_cuda_index* index, int64_t* count, void* stream);
/* Waits for the stream. Keys, rows and slots of rows [first, first + count): keys[count], values[count x
   dim], and count x slot_dim floats of each slot, or null. */
int embers_cuda_index_export(embers_cuda_index* index, int64_t first, int64_t count, int64_t* keys,
                             float* values, float* slot_0, float* slot_1, void* stream);
/* The reverse, which allocates and waits for the stream, too: creates the keys that there are not, and sets
   rows and slots. Slots that are null keep what they have. Keys must be unique. */
int embers_cuda_index_import(embers_cuda_index* index, const int64_t* keys, int64_t count,
                             const float* values, const float* slot_0, const float* slot_1, void* stream);

#ifdef __cplusplus
}
#endif

#endif
