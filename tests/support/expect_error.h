#pragma once

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>

#include "base/errors.h"

namespace embers::testing_support {

// Expects action() to throw an Error with this code whose text contains each of `parts`.
template <class Action>
void expect_error(ErrorCode code, std::initializer_list<std::string> parts, const Action& action) {
  try {
    action();
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(name(error.code()), name(code)) << error.what();
    for (const std::string& part : parts)
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos)
          << "no '" << part << "' in: " << error.what();
  }
}

}  // namespace embers::testing_support
