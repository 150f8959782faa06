#include "simulator/granules.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

namespace um {
namespace {

// Services until a block is whole, k granules arriving at a time in that order.
int services(std::vector<unsigned> order, std::size_t k) {
  granule_set resident = 0;
  int n = 0;
  while (resident != all_granules) {
    granule_set asked = 0;
    for (const unsigned g : order) {
      const granule_set one = granule_set{1} << g;
      if ((resident & one) == 0 && count(asked) < k) asked |= one;
    }
    resident |= with_prefetched_granules(resident, asked);
    ++n;
  }
  return n;
}

std::vector<unsigned> ascending() {
  std::vector<unsigned> all(granules_per_block);
  std::iota(all.begin(), all.end(), 0U);
  return all;
}

TEST(granules, a_cold_block_touched_in_order_takes_six_services) {
  std::vector<unsigned> order = ascending();
  EXPECT_EQ(services(order, 1), 6);
  std::ranges::reverse(order);
  EXPECT_EQ(services(order, 1), 6);
}

TEST(granules, more_granules_a_batch_need_fewer_services) {
  const std::vector<std::pair<std::size_t, int>> known{{2, 5}, {3, 4}, {4, 4}, {8, 3}, {16, 2}, {17, 1}};
  for (const auto& [k, n] : known) EXPECT_EQ(services(ascending(), k), n) << k;
}

TEST(granules, random_order_takes_about_fourteen_services) {
  std::mt19937 random(7);
  std::vector<unsigned> order = ascending();
  int sum = 0;
  for (int i = 0; i < 2000; ++i) {
    std::shuffle(order.begin(), order.end(), random);
    const int n = services(order, 1);
    EXPECT_GE(n, 6);
    EXPECT_LE(n, 17);
    sum += n;
  }
  EXPECT_NEAR(sum / 2000.0, 13.7, 0.2);
}

TEST(granules, half_a_tree_is_not_enough) {
  EXPECT_EQ(with_prefetched_granules(0b01, 0b100), 0b100U);
  EXPECT_EQ(with_prefetched_granules(0b01, 0b010), 0b011U);
  EXPECT_EQ(with_prefetched_granules(0b0011, 0b0100), 0b1111U);
  EXPECT_EQ(with_prefetched_granules(0x0000FFFF, 1U << 31), 0xFFFFFFFFU);
  EXPECT_EQ(with_prefetched_granules(0x00007FFF, 1U << 31), 1U << 31);
}

TEST(granules, sets) {
  EXPECT_EQ(runs_in(0), 0U);
  EXPECT_EQ(runs_in(0b1011'0001), 3U);
  EXPECT_EQ(runs_in(all_granules), 1U);
  EXPECT_EQ(first_granules_of(0b1011'0000, 2), 0b0011'0000U);
  EXPECT_EQ(first_granules_of(0b1, 5), 0b1U);
  EXPECT_EQ(granules_between(0, 32), all_granules);
  EXPECT_EQ(granules_between(3, 5), 0b11000U);
  EXPECT_EQ(granules_between(5, 5), 0U);
}

}  // namespace
}  // namespace um
