#include "master/evaluator.h"

#include <optional>

#include "actors/errors.h"
#include "actors/spawn.h"

namespace embers {
namespace {

struct EvaluatorState {
  EvaluatorState() = default;  // no aggregate: see actors/README.md
  std::optional<Evaluation> evaluation;
  static inline const char* name = "evaluator";

  Evaluation& current() {
    if (!evaluation) fail(ErrorCode::kInternal, "no evaluation is under way");
    return *evaluation;
  }
};

EvaluatorActor::behavior_type evaluator_behavior(EvaluatorActor::stateful_pointer<EvaluatorState> self,
                                                 int /*see actors/README.md*/) {
  EvaluatorState& state = self->state;
  return {
      [&state](begin_evaluation_atom, const std::string& predictions) -> caf::result<void> {
        try {
          state.evaluation.reset();
          state.evaluation.emplace(predictions);
          return caf::unit;
        } catch (const Error& e) {
          return to_caf(e);
        } catch (const std::exception& e) {
          return to_caf(Error(ErrorCode::kInternal, e.what()));
        }
      },
      [&state](const Message<wire::DoneRequest>& result) {
        return guarded(Kind::kDoneRequest, [&] {
          state.current().add(result);
          return state.current().counted();
        });
      },
      [&state](metrics_atom) {
        return guarded(Kind::kDoneRequest, [&] {
          const Evaluation::Metrics metrics = state.current().finish();
          state.evaluation.reset();
          return metrics;
        });
      },
      [&state](drop_atom) { state.evaluation.reset(); },
  };
}

}  // namespace

EvaluatorActor spawn_evaluator(caf::actor_system& system) {
  return spawn_with_thread(system, evaluator_behavior, 0);
}

}  // namespace embers
