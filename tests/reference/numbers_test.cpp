// What the reference is fed, and what it refuses.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "networks/builder.hpp"
#include "tests/reference/reference.hpp"

namespace um::reference {
namespace {

graph small_network() {
  builder b("small", pass::train);
  const tensor_id x = b.input("data", {50, 3, 4, 4});
  return b.training(b.linear("fc", b.convolution("conv", x, {2, 3, 1, 1}), 7), fusion::none, false);
}

TEST(Numbers, AreGivenToWhatIsGivenAlone) {
  const graph g = small_network();
  const auto given = numbers_for(g, 1);
  for (tensor_id id = 0; id < g.tensors.size(); ++id) {
    EXPECT_EQ(given.contains(id), persists(g.tensors[id].role)) << g.tensors[id].name;
  }
}

TEST(Numbers, DependOnSeedAndTensorAlone) {
  const graph g = small_network();
  EXPECT_EQ(numbers_for(g, 1), numbers_for(g, 1));
  EXPECT_NE(numbers_for(g, 1), numbers_for(g, 2));
  EXPECT_NE(numbers_for(g, 1).at(0)[0], numbers_for(g, 1).at(0)[1]);
}

TEST(Numbers, AreHeldByFloatsExactly) {
  for (const auto& [id, numbers] : numbers_for(small_network(), 3)) {
    for (const double number : numbers) EXPECT_EQ(static_cast<double>(static_cast<float>(number)), number);
  }
}

TEST(Numbers, StayInTheirRanges) {
  const graph g = small_network();
  for (const auto& [id, numbers] : numbers_for(g, 4)) {
    const tensor& t = g.tensors[id];
    const auto [least, most] = std::ranges::minmax(numbers);
    if (t.name == "labels") {
      EXPECT_EQ(least, 0);
      EXPECT_EQ(most, 6);
      EXPECT_TRUE(std::ranges::all_of(numbers, [](double v) { return v == std::floor(v); }));
      continue;
    }
    const double limit = t.name == "data"     ? 1
                         : t.name == "conv.w" ? std::sqrt(6.0 / 27)
                         : t.name == "fc.w"   ? std::sqrt(6.0 / 32)
                                              : 0.1;
    EXPECT_GT(least, -limit) << t.name;
    EXPECT_LT(most, limit) << t.name;
    if (numbers.size() > 50) {
      EXPECT_LT(least, -limit / 2) << t.name;
      EXPECT_GT(most, limit / 2) << t.name;
    }
  }
}

TEST(Execute, RefusesMissingAndMisfittingValues) {
  const graph g = small_network();
  auto given = numbers_for(g, 1);
  given.at(0).pop_back();
  EXPECT_THROW(execute(g, given), std::invalid_argument);
  given.erase(0);
  EXPECT_THROW(execute(g, given), std::invalid_argument);
}

TEST(Execute, RefusesAGraphThatIsNotWellFormed) {
  graph g = small_network();
  const auto given = numbers_for(g, 1);
  std::swap(g.ops[0], g.ops[1]);
  EXPECT_THROW(execute(g, given), std::invalid_argument);
}

}  // namespace
}  // namespace um::reference
