#pragma once

// For functions that do nothing but prefetch: the compiler takes those it does not inline at once for
// functions without effect, and leaves their calls out.
#define EMBERS_PREFETCHES [[gnu::always_inline]] inline
