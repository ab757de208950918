#include "apps/op/op.h"

#include <array>
#include <iostream>
#include <iterator>

#include "apps/commands.h"
#include "base/errors.h"
#include "base/suggest.h"

namespace embers {
namespace op {
namespace {

constexpr int kMostDepth = 32;  // keeps what recurses off the end of the stack

struct Kind {
  const char* name;
  Json (*run)(const Json& the_case);
};

constexpr std::array kKinds = {
    Kind{"embedding_lookup", lookup},
    Kind{"embedding_lookup_sparse", lookup},
    Kind{"safe_embedding_lookup_sparse", lookup},
    Kind{"fused_embedding_lookup_sparse", lookup},
    Kind{"fused_safe_embedding_lookup_sparse", lookup},
    Kind{"optimizer", optimizer},
    Kind{"initializer", initializer},
    Kind{"schedule", schedule},
};

const Kind& kind_of(const Json& the_case) {
  if (!given(the_case, "op")) fail(ErrorCode::kInvalid, "the case has no \"op\": name the operator to run");
  const std::string& name = text(at(the_case, "op"), "op");
  std::vector<std::string> known;
  for (const Kind& kind : kKinds) {
    if (name == kind.name) return kind;
    known.emplace_back(kind.name);
  }
  fail(ErrorCode::kInvalid, "there is no op '{}'{}", name, suggestion(name, known));
}

}  // namespace

const char* const kHelp =
    R"(Reads one case from standard input and writes its result to standard output, both JSON.

The lookup operators: embedding_lookup, embedding_lookup_sparse, safe_embedding_lookup_sparse,
fused_embedding_lookup_sparse, fused_safe_embedding_lookup_sparse.
  {"op": NAME,
   "params": [[[..row..], ..], ..partitions],  "partition_strategy": "div" | "mod",  "blocknums": [..] | null,
   "ids": nested lists (dense ids)   or   "indices": [[r, c], ..], "values": [..], "dense_shape": [R, C],
   "weights": [..] | null,  "combiner": "sum" | "mean" | "sqrtn" | null,  "max_norm": x | null,
   "default_id": i | null,  "prune_invalid_ids": true | false,  "keys": [[..], ..partitions] | null,
   "grad": upstream gradient in the shape of the output, or null}
An absent key is null; partition_strategy null is div; prune_invalid_ids null is false, but for the safe operators,
which prune (TensorFlow). default_id null gives zeros for rows without ids; sparse ids need a combiner. With keys
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

A bad case: {"error": "..."} with exit status 1. NaN and infinities are spelled "nan", "inf", "-inf".)";

Answer answer(const Json& the_case) {
  try {
    return {kind_of(the_case).run(the_case), false};
  } catch (const Error& e) {
    return {{{"error", e.what()}}, true};
  } catch (const std::exception& e) {
    return {{{"error", std::string("the case does not fit: ") + e.what()}}, true};
  }
}

Answer answer(const std::string& text) {
  Json the_case;
  try {
    the_case = Json::parse(text, [](int depth, Json::parse_event_t, Json&) {
      if (depth > kMostDepth) fail(ErrorCode::kInvalid, "it is nested more than {} deep", kMostDepth);
      return true;
    });
  } catch (const std::exception& e) {
    return {{{"error", std::string("the case is no JSON: ") + e.what()}}, true};
  }
  return answer(the_case);
}

}  // namespace op

int run_op() {
  const std::string text{std::istreambuf_iterator<char>(std::cin), {}};
  const op::Answer answer = op::answer(text);
  fmt::print("{}\n", answer.json.dump(-1, ' ', false, op::Json::error_handler_t::replace));
  return answer.failed ? 1 : 0;
}

}  // namespace embers
