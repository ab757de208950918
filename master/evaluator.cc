#include "master/evaluator.h"

#include <algorithm>
#include <optional>

#include "actors/errors.h"

namespace embers {
namespace {

constexpr uint64_t kRecordsUnderWay = uint64_t{4} << 20;  // 16 bytes each: 64 MiB
constexpr uint64_t kMinibatchesUnderWay = 65536;          // some hundred bytes each, however small

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
  return system.spawn<caf::detached>(evaluator_behavior, 0);
}

uint64_t evaluation_window(uint64_t batch_size, uint64_t workers) {
  const uint64_t fit = std::min(kRecordsUnderWay / std::max<uint64_t>(batch_size, 1), kMinibatchesUnderWay);
  return std::max(fit, 2 * std::max<uint64_t>(workers, 1));
}

}  // namespace embers
