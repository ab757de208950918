#pragma once

#include "actors/message_types.h"
#include "master/evaluation.h"

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(embers::Evaluation::Metrics)

namespace embers {

using begin_evaluation_atom = caf::atom_constant<caf::atom("beginEval")>;
using metrics_atom = caf::atom_constant<caf::atom("metrics")>;
using drop_atom = caf::atom_constant<caf::atom("drop")>;

// Counts what workers evaluated, on a thread of its own: it sorts, and waits for files. One evaluation after
// the other:
//
//   begin ──► DoneRequest …, each answered with Evaluation::counted() ──► metrics ──► begin …
//
// begin takes the file for predictions, or ""; metrics completes it. drop ends an evaluation early and
// removes its files; it is answered when that is done.
using EvaluatorActor =
    caf::typed_actor<caf::reacts_to<begin_evaluation_atom, std::string>,
                     caf::replies_to<Message<wire::DoneRequest>>::with<uint64_t>,
                     caf::replies_to<metrics_atom>::with<Evaluation::Metrics>, caf::reacts_to<drop_atom>>;

EvaluatorActor spawn_evaluator(caf::actor_system& system);

}  // namespace embers
