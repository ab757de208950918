#pragma once

#include <string>

#include "apps/command_line/command.h"
#include "apps/op/op_json.h"

// `embers op`: runs one case, given as JSON, through the code that training uses, so that anybody can check
// embers against another system. Each kind of op has a file of its own, with one function that takes the
// whole case and returns the whole result; it is entered in the list in op.cc.
namespace embers::op {

// The five lookup operators, then steps of an optimizer, first values of rows, and learning rates;
// apps/command_line/op_help.h documents the cases.
Json lookup(const Json& the_case);
Json optimizer(const Json& the_case);
Json initializer(const Json& the_case);
Json schedule(const Json& the_case);

// Runs a case: the result, or {"error": "..."}.
struct Answer {
  Json json;
  bool failed = false;
};
Answer answer(const std::string& text);
Answer answer(const Json& the_case);

}  // namespace embers::op

namespace embers {

// embers op: a case from standard input, or one a line, its result to standard output. Returns the exit
// status.
int run_op(const OpOptions& options);

}  // namespace embers
