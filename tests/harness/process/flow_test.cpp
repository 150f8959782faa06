#include "harness/process/flow.hpp"

#include <gtest/gtest.h>

#include <new>
#include <stdexcept>

#include "core/errors.hpp"
#include "tests/harness/samples.hpp"

namespace um {
namespace {

template <class Failure>
record failing_by(const Failure& failure) {
  const cell work = sample_cell();
  return with_outcome(work, [&](record& r) {
    r.device = "h200";
    throw failure;
  });
}

TEST(Outcome, IsNamedByWhatFailed) {
  EXPECT_EQ(failing_by(infeasible("made up")).result, outcome::infeasible);
  EXPECT_EQ(failing_by(out_of_memory("made up")).result, outcome::out_of_memory);
  EXPECT_EQ(failing_by(std::bad_alloc()).result, outcome::host_out_of_memory);
  EXPECT_EQ(failing_by(unsupported("made up")).result, outcome::unsupported);
  EXPECT_EQ(failing_by(std::invalid_argument("made up")).result, outcome::unsupported);
  EXPECT_EQ(failing_by(std::overflow_error("made up")).result, outcome::unsupported);
}

TEST(Outcome, HasAReasonOfOneLineAndKeepsWhatWasKnown) {
  const record r = failing_by(out_of_memory("4.00 GiB wanted\n1.00 GiB free"));
  EXPECT_EQ(r.reason, "4.00 GiB wanted 1.00 GiB free");
  EXPECT_EQ(r.device, "h200");
  EXPECT_TRUE(r.samples.empty());
}

TEST(Outcome, DefectsOfTheProgramAreNone) {
  EXPECT_THROW(failing_by(std::logic_error("made up")), std::logic_error);
}

}  // namespace
}  // namespace um
