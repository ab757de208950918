#pragma once

namespace embers {

// For `embers help op`: the cases of apps/op/.
inline constexpr char kOpHelp[] =
    R"(Reads one case from standard input and writes its result to standard output, both JSON. With --lines every line of
standard input is a case, and its result is the line with the same number: thousands of cases cost one start.

The lookup operators: embedding_lookup, embedding_lookup_sparse, safe_embedding_lookup_sparse,
fused_embedding_lookup_sparse, fused_safe_embedding_lookup_sparse.
  {"op": NAME,
   "params": [[[..row..], ..], ..partitions],  "partition_strategy": "div" | "mod",  "blocknums": [..] | null,
   "ids": nested lists (dense ids)   or   "indices": [[r, c], ..], "values": [..], "dense_shape": [R, C],
   "weights": [..] | null,  "combiner": "sum" | "mean" | "sqrtn" | null,  "max_norm": x | null,
   "default_id": i | null,  "prune_invalid_ids": true | false,  "keys": [[..], ..partitions] | null,
   "grad": upstream gradient in the shape of the output, or null}
An absent key is null; partition_strategy null is div; prune_invalid_ids null is false, except for the safe operators,
which prune (as in TensorFlow). default_id null gives zeros for rows without ids; sparse ids need a combiner. With keys
(raw keys of the rows: strings or integers), ids name rows by their key.
Result: {"output": [..], "grads": [{"partition": p, "ids": [..row numbers, ascending], "values": [[..], ..]}, ..]}

Steps of an optimizer; params are those of [optimizer] in a job file, clipping included.
  {"op": "optimizer", "name": "adam", "params": {"beta_1": 0.9, ..} | null,  "rows": {KEY: [..], ..},
   "schedule": {"name": "cosine", "params": {..}} | null,
   "steps": [{"keys": [KEY, ..], "grads": [[..], ..], "lr": x | null}, ..]}
lr null is the optimizer's own learning rate, scheduled or not. Gradients of a key that occurs twice in a step are added
up. Result: {"trace": [{"rows": {KEY: [..], ..}, "slots": {"m": {KEY: [..], ..}, ..}}, ..]}, after each step.

First values of rows; keys are all integers or all strings; input_dim (0) is the number of rows, for fans.
  {"op": "initializer", "name": "uniform", "params": {..} | null,  "seed": s,  "table": NAME,  "keys": [..],  "dim": d,
   "input_dim": n | null}
Result: {"rows": {KEY: [..], ..}}.

Learning rates; steps count from 0; initial_learning_rate is one of the params.
  {"op": "schedule", "name": "exponential", "params": {"initial_learning_rate": 0.1, ..},  "steps": [..]}
Result: {"learning_rates": [..]}.

A bad case: {"error": "..."} with exit status 1; with --lines the others are still answered, and the status is 1
if any was bad. An empty line is a bad case. NaN and infinities are spelled "nan", "inf", "-inf".)";

}  // namespace embers
