#include "storage/initializers/random_words.h"

#include "base/floats/instruction_sets.h"

namespace embers::storage {
namespace {

// Rounds outside, blocks inside: otherwise gcc unrolls the rounds of one block and makes no vectors.
EMBERS_INSTRUCTION_SETS
void draw_words(uint32_t* x0, uint32_t* x1, uint32_t* x2, uint32_t* x3, size_t blocks, PhiloxKey key,
                uint32_t* words) {
#pragma GCC unroll 1
  for (int round = 0; round < kPhiloxRounds; ++round, key = philox_next(key))
    for (size_t i = 0; i < blocks; ++i) philox_round(x0[i], x1[i], x2[i], x3[i], key);
  for (size_t i = 0; i < blocks; ++i) {
    words[4 * i] = x0[i];
    words[4 * i + 1] = x1[i];
    words[4 * i + 2] = x2[i];
    words[4 * i + 3] = x3[i];
  }
}

}  // namespace

void PhiloxBlocks::draw(size_t blocks, PhiloxKey key, uint32_t* words) {
  draw_words(word0.data(), word1.data(), word2.data(), word3.data(), blocks, key, words);
}

}  // namespace embers::storage
