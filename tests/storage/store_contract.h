#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>

#include "storage/rows/store.h"

namespace embers::storage {

// What every Store must do, whatever lies beneath. A backend runs the suite by instantiating it once:
//   INSTANTIATE_TEST_SUITE_P(Memory, StoreContract,
//                            testing::Values(StoreFactory{"memory", [] { return make_memory_store(); }}));
struct StoreFactory {
  std::string name;
  std::function<std::unique_ptr<Store>()> make;  // an empty store
  friend std::ostream& operator<<(std::ostream& out, const StoreFactory& factory) {
    return out << factory.name;
  }
};

class StoreContract : public testing::TestWithParam<StoreFactory> {
 protected:
  std::unique_ptr<Store> store_ = GetParam().make();
};

}  // namespace embers::storage
