// A build without HiGHS says so: schedule/milp/highs_absent.cpp in place of highs.cpp.
#include <gtest/gtest.h>

#include <string>

#include "core/errors.hpp"
#include "schedule/milp/mixed_program.hpp"

namespace um {
namespace {

TEST(without_solver, exact_programs_are_unsupported_and_say_how_to_get_it) {
  EXPECT_FALSE(has_mixed_solver());
  try {
    minimize(mixed_program{}, {});
    FAIL();
  } catch (const unsupported& refused) {
    EXPECT_NE(std::string(refused.what()).find("pip install highsbox"), std::string::npos);
  }
}

}  // namespace
}  // namespace um
