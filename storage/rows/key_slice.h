#pragma once

#include <vector>

#include "schema/ids.h"

namespace embers::storage {

// Keys [begin, begin + n) of a list, as a list of its own. `ends` is room for the view to point to; it must
// live, and stay unchanged, as long as the view.
KeysView key_slice(KeysView keys, size_t begin, size_t n, std::vector<uint32_t>& ends);

}  // namespace embers::storage
