#include "core/verify.hpp"

#include <gtest/gtest.h>

#include "tests/core/chain.hpp"
#include "tests/refusal.hpp"

namespace {

using namespace um;
using namespace um::testing;

// Of a batch of four.
box half(std::uint32_t part) {
  return batch_part(4, part, 2);
}

// Two layers: actions 0 relu0, 1 relu1, 2 back1, 3 back0.
struct verify : ::testing::Test {
  graph g = chain(2);
  tensor_id y0 = named(g, "y0"), y1 = named(g, "y1"), x = named(g, "x");

  memory_plan staged(tensor_id t) {
    memory_plan plan = in_order(g, residence::device);
    plan.residences[t] = residence::staged;
    return plan;
  }
  static void insert(memory_plan& plan, std::size_t at, action a) {
    plan.actions.insert(plan.actions.begin() + static_cast<std::ptrdiff_t>(at), std::move(a));
  }
  void expect_wrong(const memory_plan& plan, const std::string& part) {
    expect_words(defect_of(g, plan).value_or(""), {part});
  }
};

TEST_F(verify, accepts_the_graph_in_order_under_every_plain_residence) {
  for (const residence home : {residence::device, residence::managed, residence::host}) {
    EXPECT_EQ(defect_of(g, in_order(g, home)), std::nullopt);
  }
}

TEST_F(verify, accepts_an_eviction_and_a_return) {
  memory_plan plan = staged(y0);
  insert(plan, 2, evict{y0, {}});
  insert(plan, 4, prefetch{y0, {}});
  EXPECT_EQ(defect_of(g, plan), std::nullopt);
}

// Actions that are put into a plan in which all but one tensor have one residence, one after the other.
TEST_F(verify, refuses_moves_that_cannot_be) {
  struct refused {
    residence all;
    std::optional<tensor_id> staged;
    std::vector<std::pair<std::size_t, action>> put;
    const char* defect;
  };
  const std::vector<refused> rows{
      {residence::device, y0, {{2, evict{y0, {}}}}, "compute back0: tensor y0 is not resident"},
      {residence::managed, {}, {{2, discard{y0, {}}}}, "tensor y0 holds no value"},
      {residence::device, x, {{0, prefetch{x, {}}}, {1, prefetch{x, {}}}}, "it is resident already"},
      {residence::device, y0, {{2, evict{y0, {}}}, {3, evict{y0, {}}}}, "it is not resident"},
      {residence::device, y1, {{0, prefetch{y1, {}}}}, "its home holds no value"},
      {residence::device, {}, {{1, evict{y0, {}}}}, "cannot be evicted"},
      {residence::device, {}, {{1, prefetch{y0, {}}}}, "cannot be prefetched"},
      {residence::device, {}, {{1, advise{y0, advice::read_mostly}}}, "cannot be advised"},
      {residence::managed, {}, {{4, discard{x, {}}}}, "tensor x does not hold its final value"}};
  for (const refused& r : rows) {
    memory_plan plan = in_order(g, r.all);
    if (r.staged) plan.residences[*r.staged] = residence::staged;
    for (const auto& [at, what] : r.put) insert(plan, at, what);
    expect_wrong(plan, r.defect);
  }
}

TEST_F(verify, refuses_operators_that_are_missing_or_out_of_order) {
  const memory_plan all = in_order(g, residence::device);
  memory_plan missing = all, early = all, of_last_iteration = all;
  missing.actions.pop_back();
  expect_wrong(missing, "operator back0 is not computed");
  std::swap(early.actions[0], early.actions[1]);
  expect_wrong(early, "compute relu1: tensor y0 holds no value");
  // Only the second iteration could find bytes in y1 before this one has written it.
  std::swap(of_last_iteration.actions[1], of_last_iteration.actions[2]);
  expect_wrong(of_last_iteration, "compute back1: tensor y1 holds no value");
}

TEST_F(verify, a_twinned_tensor_is_there_for_kernels_only_when_fetched) {
  memory_plan plan = in_order(g, residence::managed);
  plan.residences[y0] = residence::twinned;
  EXPECT_EQ(defect_of(g, plan), std::nullopt);
  insert(plan, 0, prefetch{y0, {}});  // room alone
  insert(plan, 3, evict{y0, {}});
  expect_wrong(plan, "compute back0: tensor y0 is not resident");
  insert(plan, 5, prefetch{y0, {}});
  EXPECT_EQ(defect_of(g, plan), std::nullopt);
  plan.residences[x] = residence::twinned;
  expect_wrong(plan, "compute relu0: tensor x is not resident");
  insert(plan, 0, prefetch{x, {}});
  EXPECT_EQ(defect_of(g, plan), std::nullopt) << "it has stayed valid at home";
}

TEST_F(verify, a_recompute_restores_a_discarded_value) {
  memory_plan plan = in_order(g, residence::device);
  insert(plan, 2, discard{y0, {}});
  insert(plan, 4, compute{0, {}});
  EXPECT_EQ(defect_of(g, plan), std::nullopt);
}

TEST_F(verify, slices_must_all_run) {
  memory_plan plan = in_order(g, residence::device);
  plan.actions[0] = compute{0, half(0)};
  expect_wrong(plan, "tensor y0 [batch 2:4] holds no value");
  insert(plan, 1, compute{0, half(1)});
  EXPECT_EQ(defect_of(g, plan), std::nullopt);
}

TEST_F(verify, a_tile_needs_only_its_own_part) {
  memory_plan plan = staged(y0);
  plan.actions = {compute{0, {}},       compute{1, {}},        evict{y0, {}},
                  compute{2, {}},       prefetch{y0, half(0)}, compute{3, half(0)},
                  discard{y0, half(0)}, prefetch{y0, half(1)}, compute{3, half(1)}};
  EXPECT_EQ(defect_of(g, plan), std::nullopt);
  std::swap(plan.actions[7], plan.actions[8]);
  expect_wrong(plan, "tensor y0 [batch 2:4] is not resident");
}

TEST_F(verify, a_tensor_may_be_cut_in_several_ways) {
  memory_plan plan = in_order(g, residence::device);
  plan.actions[0] = compute{0, half(0)};
  insert(plan, 1, compute{0, {{2, 4}, {}, {0, 3}, {}}});
  insert(plan, 2, compute{0, {{2, 4}, {}, {3, 32}, {}}});
  EXPECT_EQ(defect_of(g, plan), std::nullopt);
  plan.actions[2] = compute{0, {{2, 4}, {}, {4, 32}, {}}};
  expect_wrong(plan, "tensor y0 [batch 2:4, row 3:4] holds no value");
}

TEST_F(verify, refuses_ids_and_parts_that_do_not_exist) {
  memory_plan plan = in_order(g, residence::device);
  plan.actions[0] = compute{99, {}};
  expect_wrong(plan, "no such tensor or operator");
  plan.actions[0] = compute{0, {{4, 5}, {}, {}, {}}};
  expect_wrong(plan, "there is no range 4:5 along batch");
  plan.actions[0] = prefetch{0, {{}, {2, 1}, {}, {}}};
  expect_wrong(plan, "tensor x: there is no range 2:1 along channel");
  plan.actions[0] = prefetch{0, {{}, {}, {}, {0, 1}}};
  expect_wrong(plan, "a tensor has no range along reduction");
  plan.residences.pop_back();
  expect_wrong(plan, "residences");
}

// w and dw of a fully connected layer whose gradient is summed over two slices of the batch.
struct summed : ::testing::Test {
  graph g;
  summed() {
    g.tensors = {{"x", {4, 8, 1, 1}, dtype::f32, role::input},
                 {"dy", {4, 2, 1, 1}, dtype::f32, role::input},
                 {"dw", {2, 8, 1, 1}, dtype::f32, role::parameter_gradient}};
    g.ops = {{"filter", linear_backward_filter{}, {0, 1}, {2}, true, {}}};
  }
};

TEST_F(summed, gradients_accumulate_in_part_order) {
  memory_plan plan;
  plan.residences.assign(3, residence::device);
  plan.actions = {compute{0, half(0)}, compute{0, half(1)}};
  EXPECT_EQ(defect_of(g, plan), std::nullopt);
  std::swap(plan.actions[0], plan.actions[1]);
  expect_words(defect_of(g, plan).value_or(""), {"does not hold the sum of parts before this one"});
}

TEST_F(summed, a_sum_is_complete_when_its_parts_tile_it) {
  memory_plan plan;
  plan.residences.assign(3, residence::device);
  const auto part = [](std::int64_t begin, std::int64_t end) {
    return compute{0, {{begin, end}, {}, {}, {}}};
  };
  plan.actions = {part(0, 1), part(3, 4), part(1, 3)};  // uneven, in any order behind the first
  EXPECT_EQ(defect_of(g, plan), std::nullopt);
  plan.actions.pop_back();
  EXPECT_TRUE(defect_of(g, plan).has_value());
  plan.actions = {part(0, 2), part(1, 4)};
  expect_words(defect_of(g, plan).value_or(""), {"holds the sum of parts that meet this one"});
  // Again from the start, in other parts.
  plan.actions = {part(0, 2), part(0, 3), part(3, 4)};
  EXPECT_EQ(defect_of(g, plan), std::nullopt);
}

TEST_F(summed, an_unfinished_sum_may_be_moved_but_not_read) {
  memory_plan plan;
  plan.residences = {residence::device, residence::device, residence::staged};
  plan.actions = {compute{0, half(0)}, evict{2, {}}, prefetch{2, {}}, compute{0, half(1)}, evict{2, {}}};
  EXPECT_EQ(defect_of(g, plan), std::nullopt);
  plan.actions.pop_back();
  EXPECT_TRUE(defect_of(g, plan).has_value()) << "the gradient must be at home at the end";
}

TEST(verify_update, a_forward_pass_after_the_update_reads_a_stale_weight) {
  graph g;
  g.tensors = {{"x", {4, 8, 1, 1}, dtype::f32, role::input},
               {"w", {2, 8, 1, 1}, dtype::f32, role::parameter},
               {"dw", {2, 8, 1, 1}, dtype::f32, role::parameter_gradient},
               {"dy", {4, 2, 1, 1}, dtype::f32, role::input},
               {"y", {4, 2, 1, 1}, dtype::f32, role::output}};
  g.ops = {{"forward", linear{}, {0, 1}, {4}, true, {}},
           {"filter", linear_backward_filter{}, {0, 3}, {2}, true, {}},
           {"update", sgd_update{}, {1, 2}, {1}, false, {}}};
  memory_plan plan;
  plan.residences.assign(g.tensors.size(), residence::device);
  plan.actions = {compute{0, {}}, compute{1, {}}, compute{2, {}}};
  EXPECT_EQ(defect_of(g, plan), std::nullopt);
  plan.actions.emplace_back(compute{0, {}});
  expect_words(defect_of(g, plan).value_or(""), {"tensor w holds a stale"});
}

}  // namespace
