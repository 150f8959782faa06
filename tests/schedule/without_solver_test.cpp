// A build without HiGHS says so: schedule/milp/highs_absent.cpp in place of highs.cpp.
#include <gtest/gtest.h>

#include <string>

#include "core/errors.hpp"
#include "schedule/milp/mixed_program.hpp"
#include "tests/refusal.hpp"

namespace um {
namespace {

TEST(without_solver, exact_programs_are_unsupported_and_say_how_to_get_it) {
  EXPECT_FALSE(has_mixed_solver());
  expect_words(refusal<unsupported>([] { minimize(mixed_program{}, {}); }), {"pip install highsbox"});
}

}  // namespace
}  // namespace um
