// When a session hears of a push: a simulated pusher between owners and a master that answer when told to.
#include <gtest/gtest.h>

#include "client/pipeline/push.h"
#include "tests/client/stage_testing.h"

namespace embers {
namespace {

using namespace testing_support;

using answer_atom = caf::atom_constant<caf::atom("answer")>;

// Whoever takes a request and answers it later.
template <class Request, class Reply>
caf::behavior answer_later(caf::event_based_actor* self, std::shared_ptr<size_t> requests) {
  const auto promise = std::make_shared<caf::typed_response_promise<Message<Reply>>>();
  return {[=](const Message<Request>&) -> caf::result<Message<Reply>> {
            ++*requests;
            return *promise = self->make_response_promise<Message<Reply>>();
          },
          [=](answer_atom) { promise->deliver(make_message<Reply>()); }};
}

using Heard = Arrivals<std::string>;

StageOwner::behavior_type hear(StageOwner::pointer, std::shared_ptr<Heard> heard) {
  return {[heard](pushed_atom) { heard->push_back("pushed"); },
          [heard](const WorkPtr&) { heard->push_back("done"); },
          [heard](const StageFailure& f) { heard->push_back(f.message); }};
}

class PushStage : public testing::Test {
 protected:
  PushStage() {
    caf::actor_system& system = system_;
    auto owners = std::make_shared<Owners>();
    for (int i = 0; i < 2; ++i) {
      owners_.push_back(system.spawn(answer_later<wire::PushRequest, wire::PushReply>, pushes_));
      owners->handles.push_back({caf::actor_cast<OptimizerActor>(owners_.back()), ShardActor()});
    }
    owners->map = even_owner_map(2, 16);
    owners->tables = {table("a", 1)};
    master_ = system.spawn(answer_later<wire::DoneRequest, wire::DoneReply>, dones_);
    session_ = system.spawn(hear, heard_);
    pusher_ =
        spawn_pusher(system_, owners, {owners->tables, {}}, caf::actor_cast<MasterActor>(master_), session_);
  }
  ~PushStage() override {
    for (const caf::actor& actor : {owners_[0], owners_[1], master_, caf::actor_cast<caf::actor>(session_),
                                    caf::actor_cast<caf::actor>(pusher_)})
      caf::anon_send_exit(actor, caf::exit_reason::kill);
  }
  Heard heard_after_sending(bool evaluate) {
    const WorkPtr work = std::make_shared<Work>();
    work->origin = origin(1);
    work->evaluate = evaluate;
    work->versions.resize(2);
    caf::anon_send(pusher_, work);
    system_.settle();
    return *heard_;
  }
  Heard heard_after_answer(const caf::actor& of) {
    caf::anon_send(of, answer_atom::value);
    system_.settle();
    return *heard_;
  }

  Simulation system_;
  const std::shared_ptr<size_t> pushes_ = std::make_shared<size_t>(), dones_ = std::make_shared<size_t>();
  const std::shared_ptr<Heard> heard_ = std::make_shared<Heard>();
  std::vector<caf::actor> owners_;
  caf::actor master_;
  StageOwner session_;
  StageActor pusher_;
};

TEST_F(PushStage, IsOverForTheSessionWhenAllOwnersHaveAnsweredAndTheWorkWhenTheMasterHas) {
  EXPECT_EQ(heard_after_sending(false), Heard());
  EXPECT_EQ(*pushes_, 2u);
  EXPECT_EQ(heard_after_answer(owners_[1]), Heard());
  EXPECT_EQ(*dones_, 0u);
  EXPECT_EQ(heard_after_answer(owners_[0]), Heard{"pushed"});
  EXPECT_EQ(*dones_, 1u);
  EXPECT_EQ(heard_after_answer(master_), (Heard{"pushed", "done"}));
}

TEST_F(PushStage, OfAWorkThatIsEvaluatedIsOverAtOnce) {
  EXPECT_EQ(heard_after_sending(true), Heard{"pushed"});
  EXPECT_EQ(*pushes_, 0u);
  EXPECT_EQ(*dones_, 1u);
  EXPECT_EQ(heard_after_answer(master_), (Heard{"pushed", "done"}));
}

}  // namespace
}  // namespace embers
