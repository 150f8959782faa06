// The order in which slices are computed.
#include "hints/sequence.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "tests/planners/small_networks.hpp"

namespace {

using namespace um;
using namespace um::testing;

const graph network = small("", "vgg11", 32, {.joined = fusion::fused}).g;

bool adds_up(const graph& g, const compute& c) {
  for (const um::access& a : accesses_of(g, g.ops[c.what], {axis::batch, 1, 2})) {
    if (a.mode == access_mode::accumulate) return true;
  }
  return false;
}

TEST(sequence, computes_every_part_of_every_operator_once) {
  for (const byte_count most : {2 * MiB, 32 * MiB, 256 * MiB}) {
    std::map<op_id, std::map<std::uint32_t, int>> parts;
    std::map<op_id, std::uint32_t> of;
    for (const compute& c : in_slices(network, most)) {
      ++parts[c.what][c.part.part];
      of[c.what] = c.part.of;
    }
    ASSERT_EQ(parts.size(), network.ops.size());
    for (const auto& [o, times] : parts) {
      EXPECT_EQ(times.size(), of[o]) << network.ops[o].name;
      for (const auto& [part, count] : times) EXPECT_EQ(count, 1) << network.ops[o].name << " part " << part;
    }
  }
}

TEST(sequence, cuts_the_more_the_less_an_operator_may_take) {
  const auto slices = [](byte_count most) { return in_slices(network, most).size(); };
  EXPECT_EQ(slices(2 * GiB), network.ops.size());
  EXPECT_GT(slices(256 * MiB), network.ops.size());
  EXPECT_GT(slices(64 * MiB), slices(256 * MiB));
}

TEST(sequence, cuts_into_no_more_slices_than_there_are_images) {
  std::uint32_t most = 1;
  for (const compute& c : in_slices(network, 1)) most = std::max(most, c.part.of);
  EXPECT_EQ(most, 32U);
}

// What the forward pass makes first the backward pass then needs last: it has the most time to be away.
TEST(sequence, the_forward_pass_ends_with_the_slice_with_which_the_backward_pass_begins) {
  const std::vector<compute> order = in_slices(network, 128 * MiB);
  std::map<op_id, std::vector<std::uint32_t>> slices;
  for (const compute& c : order) {
    if (c.part.of > 1) slices[c.what].push_back(c.part.part);
  }
  ASSERT_FALSE(slices.empty());
  EXPECT_EQ(slices.begin()->first, 0U) << "the first operator is the largest";
  EXPECT_GT(slices.at(0).front(), slices.at(0).back());
  bool some = false;
  for (const auto& [o, parts] : slices) {
    if (!adds_up(network, {o, {}})) continue;
    some = true;
    EXPECT_TRUE(std::is_sorted(parts.begin(), parts.end())) << network.ops[o].name << " adds up in order";
  }
  EXPECT_TRUE(some);
}

}  // namespace
