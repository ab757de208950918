#pragma once

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

namespace embers {

// While it lives, arithmetic of this thread takes numbers below 1.2e-38 (denormals) for 0, on processors of
// x86. Averages that decay come to such numbers and stay there, and many processors then take ten to a
// hundred times as long for each.
class FlushDenormals {
 public:
#if defined(__SSE__)
  FlushDenormals() : before_(_mm_getcsr()) { _mm_setcsr(before_ | kResultsToZero | kInputsAreZero); }
  ~FlushDenormals() { _mm_setcsr(before_); }
#else
  FlushDenormals() {}  // not trivial, so that nobody is warned of an unused variable
#endif
  FlushDenormals(const FlushDenormals&) = delete;
  FlushDenormals& operator=(const FlushDenormals&) = delete;

 private:
#if defined(__SSE__)
  static constexpr unsigned kResultsToZero = 0x8000, kInputsAreZero = 0x0040;
  const unsigned before_;
#endif
};

}  // namespace embers
