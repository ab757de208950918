// The program embers-compute: the commands that need libtorch. The program embers, which has the others,
// turns into this one to run them.
#include "apps/command_line/run_program.h"
#include "apps/compute/compute.h"
#include "apps/op/op.h"
#include "apps/process/runtime.h"
#include "base/errors.h"
#include "base/tune_malloc.h"
#include "model/step.h"

namespace {

void begin_to_train() {
  embers::run_as_batch();
  embers::ask_for_huge_pages();
}

}  // namespace

int main(int argc, char** argv) {
  using namespace embers;
  choose_blas_core();
  return run_program(argc, argv, [](const Command& command) {
    return std::visit(
        Overloaded{
            [](const TrainOptions& o) { return begin_to_train(), train(o); },
            [](const MasterOptions& o) { return run_as_batch(), serve_master(o); },
            [](const WorkerOptions& o) { return begin_to_train(), serve_worker(o); },
            [](const ExamineOptions& o) { return examine(o.join); },
            [](const EvaluateOptions& o) { return evaluate(o); },
            [](const PredictOptions& o) { return predict(o); },
            [](const CheckOptions& o) { return check(o.job); },
            [](const PlanOptions& o) { return plan_job(o); }, [](const OpOptions& o) { return run_op(o); },
            [](const auto&) -> int { fail(ErrorCode::kInvalid, "this is a command of the program embers"); }},
        command);
  });
}
