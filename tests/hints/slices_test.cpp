// The order in which slices are computed.
#include "hints/slices.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "core/verify.hpp"
#include "tests/planners/small_networks.hpp"

namespace {

using namespace um;
using namespace um::testing;

const graph network = small("", "vgg11", 32, {.fusion_mode = fusion::fused}).g;

bool adds_up(const graph& g, const compute& c) {
  for (const um::access& a : accesses_of(g, g.ops[c.op], batch_part(32, 1, 2))) {
    if (a.mode == access_mode::accumulate) return true;
  }
  return false;
}

TEST(sequence, computes_every_part_of_every_operator_once) {
  for (const byte_count most : {2 * MiB, 32 * MiB, 256 * MiB}) {
    std::map<op_id, std::vector<interval>> parts;
    for (const compute& c : make_sliced_order(network, most)) {
      parts[c.op].push_back(with_explicit_ranges(network, network.ops[c.op], c.part).batch);
    }
    ASSERT_EQ(parts.size(), network.ops.size());
    for (auto& [o, ranges] : parts) {
      std::ranges::sort(ranges);
      std::int64_t next = 0;
      for (const interval& r : ranges) {
        EXPECT_EQ(r.begin, next) << network.ops[o].name;
        next = r.end;
      }
      EXPECT_EQ(next, iteration_domain(network, network.ops[o]).batch.end) << network.ops[o].name;
    }
  }
}

TEST(sequence, cuts_the_more_the_less_an_operator_may_take) {
  const auto slices = [](byte_count most) { return make_sliced_order(network, most).size(); };
  EXPECT_EQ(slices(2 * GiB), network.ops.size());
  EXPECT_GT(slices(256 * MiB), network.ops.size());
  EXPECT_GT(slices(64 * MiB), slices(256 * MiB));
}

TEST(sequence, cuts_into_no_more_slices_than_there_are_images) {
  std::map<op_id, int> slices;
  int most = 0;
  for (const compute& c : make_sliced_order(network, 1)) most = std::max(most, ++slices[c.op]);
  EXPECT_EQ(most, 32);
}

// What the forward pass makes first the backward pass then needs last: it has the most time to be away.
TEST(sequence, the_forward_pass_ends_with_the_slice_with_which_the_backward_pass_begins) {
  const std::vector<compute> order = make_sliced_order(network, 128 * MiB);
  std::map<op_id, std::vector<std::int64_t>> slices;
  for (const compute& c : order) {
    if (!is_whole(c.part)) slices[c.op].push_back(c.part.batch.begin);
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

// Of two operators that can be cut, the second reads all of what the first writes part by part.
TEST(sequence, a_reader_of_all_parts_waits_for_the_last) {
  graph g;
  g.tensors = {{"x", {4, 1024, 32, 32}, dtype::f32, role::input},
               {"y", {4, 1024, 32, 32}},
               {"z", {4, 1024, 32, 32}, dtype::f32, role::output}};
  const opaque in_parts{.label = "f", .in = {batch_cut::part}, .out = {batch_cut::part}},
      reads_all{.label = "g", .in = {batch_cut::whole}, .out = {batch_cut::part}};
  g.ops = {{"f", in_parts, {0}, {1}, true, {}}, {"g", reads_all, {1}, {2}, true, {}}};
  const std::vector<compute> order = make_sliced_order(g, MiB);
  EXPECT_GT(order.size(), g.ops.size());
  EXPECT_EQ(defect_of(g, make_plan(g, order, residence::device)), std::nullopt);
}

}  // namespace
