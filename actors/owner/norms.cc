#include "actors/owner/norms.h"

#include "schema/messages/codec.h"

namespace embers {

Message<wire::NormsReply> make_norms_reply(const storage::SquareSums& sums) {
  return make_message<wire::NormsReply>([&](wire::NormsReply::Builder b) {
    auto list = b.initSums(sums.size());
    unsigned i = 0;
    for (const auto& [variable, sum] : sums) {
      const auto words = sum.words();
      list[i].setTable(variable.table);
      list[i].setParameter(variable.parameter);
      list[i++].setWords(as_data(std::span<const uint64_t>(words)));
    }
  });
}

storage::SquareSums read(wire::NormsReply::Reader reply) {
  storage::SquareSums sums;
  for (const auto sum : reply.getSums())
    sums[{sum.getTable(), sum.getParameter()}].add(ExactSum::from_words(read_words(sum.getWords())));
  return sums;
}

void write_norms(wire::CommitRequest::Builder out, const storage::SquaredNorms& norms) {
  auto list = out.initNorms(norms.size());
  unsigned i = 0;
  for (const auto& [variable, squared] : norms) {
    list[i].setTable(variable.table);
    list[i].setParameter(variable.parameter);
    list[i++].setSquared(squared);
  }
}

storage::SquaredNorms read_norms(wire::CommitRequest::Reader commit) {
  storage::SquaredNorms norms;
  for (const auto norm : commit.getNorms()) norms[{norm.getTable(), norm.getParameter()}] = norm.getSquared();
  return norms;
}

}  // namespace embers
