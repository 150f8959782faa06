// Whatever is decided, the plan that comes of it is right.
#include "schedule/decisions.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/verify.hpp"
#include "tests/refusal.hpp"
#include "tests/schedule/random_decisions.hpp"

namespace {

using namespace um;
using namespace um::testing;

class every_network : public ::testing::TestWithParam<std::string> {
 protected:
  graph g = small_graph(GetParam());
};

TEST_P(every_network, makes_right_plans_of_any_decisions) {
  std::mt19937 dice(1);
  int again = 0, swapped = 0;
  for (const loop_nest& l : loops_for(g)) {
    const use_table uses = make_use_table(g, make_order(g, l));
    const std::vector<gap> gaps = find_gaps(g, uses);
    for (const unsigned rarity : {2U, 4U, 16U, 64U}) {
      const std::vector<decision> decisions = random_decisions(gaps, dice, rarity);
      const memory_plan plan = make_plan(g, uses, gaps, decisions);
      ASSERT_EQ(defect_of(g, plan), std::nullopt) << l.micro_batches << " micro-batches, one in " << rarity;
      const auto computes = std::ranges::count_if(
          plan.actions, [](const action& a) { return std::holds_alternative<compute>(a); });
      again += computes > static_cast<std::ptrdiff_t>(uses.order.size()) ? 1 : 0;
      swapped += std::ranges::find(plan.residences, residence::staged) != plan.residences.end() ? 1 : 0;
    }
  }
  EXPECT_GT(swapped, 0);
  const bool can =
      std::ranges::any_of(find_gaps(g, make_use_table(g, graph_order(g))), &gap::is_recomputable);
  EXPECT_TRUE(again > 0 || !can);
}

// What dice or masks come from is computed once; what is made from it can be had again while it is around.
TEST_P(every_network, computes_again_from_what_itself_cannot_be_had_again) {
  std::mt19937 dice(2);
  int from_those = 0;
  for (op_id once = 0; once < g.ops.size() / 2; ++once) {
    graph h = g;
    h.ops[once].is_repeatable = false;
    const use_table uses = make_use_table(h, graph_order(h));
    const std::vector<gap> gaps = find_gaps(h, uses);
    std::vector<decision> all(gaps.size());
    for (std::size_t x = 0; x < gaps.size(); ++x) {
      if (!gaps[x].is_recomputable) continue;
      all[x] = {gap_choice::recompute, gaps[x].last_use, gaps[x].next_use};
      const op& by = h.ops[uses.order[static_cast<std::size_t>(gaps[x].producer)].op];
      EXPECT_TRUE(by.is_repeatable) << by.name;
      from_those += std::ranges::find_first_of(by.in, h.ops[once].out) != by.in.end() ? 1 : 0;
    }
    for (const auto& decisions : {all, random_decisions(gaps, dice, 2), random_decisions(gaps, dice, 4)}) {
      const memory_plan plan = make_plan(h, uses, gaps, decisions);
      ASSERT_EQ(defect_of(h, plan), std::nullopt) << h.ops[once].name;
      EXPECT_EQ(std::ranges::count(plan.actions, action{compute{once, {}}}), 1) << h.ops[once].name;
    }
  }
  const bool can =
      std::ranges::any_of(find_gaps(g, make_use_table(g, graph_order(g))), &gap::is_recomputable);
  EXPECT_TRUE(from_those > 0 || !can);
}

TEST_P(every_network, keeps_everything_where_nothing_else_is_decided) {
  const use_table uses = make_use_table(g, graph_order(g));
  const std::vector<gap> gaps = find_gaps(g, uses);
  const memory_plan plan = make_plan(g, uses, gaps, std::vector<decision>(gaps.size()));
  EXPECT_EQ(plan.actions.size(), g.ops.size());
  EXPECT_TRUE(std::ranges::all_of(plan.residences, [](residence r) { return r == residence::device; }));
}

INSTANTIATE_TEST_SUITE_P(catalogue, every_network, ::testing::ValuesIn(small_network_labels()),
                         [](const auto& row) { return row.param; });

// What both passes need and can be had again is.
std::vector<decision> all_across_passes(const graph& g, const use_table& uses, const std::vector<gap>& gaps) {
  std::vector<decision> decisions(gaps.size());
  for (std::size_t i = 0; i < gaps.size(); ++i) {
    if (gaps[i].is_recomputable && spans_both_passes(g, uses, gaps[i]))
      decisions[i] = {gap_choice::recompute, 0, gaps[i].next_use};
  }
  return decisions;
}

// Computing a long chain again takes each operator once, and what it needed goes again.
TEST(decisions, a_chain_is_computed_once_for_one_reader) {
  const graph g = small("vgg11", "vgg11", 4, {.fusion_mode = fusion::none}).g;
  const use_table uses = make_use_table(g, graph_order(g));
  const std::vector<gap> gaps = find_gaps(g, uses);
  const std::vector<decision> decisions = all_across_passes(g, uses, gaps);
  const std::vector<event> events = build_events(g, uses, gaps, decisions);
  for (position at = 0; at < uses.end(); ++at) {
    const auto times = std::ranges::count_if(events, [&](const event& e) {
      return e.kind == event_kind::compute && static_cast<position>(e.subject) == at;
    });
    EXPECT_LE(times, uses.end() - at) << "once itself, and at most once for each later operator";
  }
  EXPECT_EQ(defect_of(g, make_plan(g, uses, gaps, decisions)), std::nullopt);
}

// Statistics of a batch are found once: what they normalise is had again with them.
TEST(decisions, a_normalisation_is_computed_again_with_its_statistics) {
  const graph g = small("resnet", "resnet20_cifar", 16, {.fusion_mode = fusion::fused}).g;
  const use_table uses = make_use_table(g, graph_order(g));
  const std::vector<gap> gaps = find_gaps(g, uses);
  const std::vector<decision> decisions = all_across_passes(g, uses, gaps);
  const memory_plan plan = make_plan(g, uses, gaps, decisions);
  ASSERT_EQ(defect_of(g, plan), std::nullopt);
  std::vector<int> whole(g.ops.size(), 0), with_statistics(g.ops.size(), 0);
  for (const action& a : plan.actions) {
    if (const auto* c = std::get_if<compute>(&a)) ++(c->cheap_recompute ? with_statistics : whole)[c->op];
  }
  for (op_id o = 0; o < g.ops.size(); ++o) {
    if (!has_kind<batch_norm>(g.ops[o])) continue;
    EXPECT_EQ(whole[o], 1) << g.ops[o].name;
    EXPECT_GE(with_statistics[o], 1) << g.ops[o].name;
  }
}

TEST(decisions, what_cannot_be_computed_again_is_refused) {
  const graph g = small("vgg11", "vgg11", 4).g;
  const use_table uses = make_use_table(g, graph_order(g));
  const std::vector<gap> gaps = find_gaps(g, uses);
  std::vector<decision> decisions(gaps.size());
  const auto weight = std::ranges::find_if(gaps, [](const gap& x) { return !x.is_recomputable; });
  ASSERT_NE(weight, gaps.end());
  decisions[static_cast<std::size_t>(weight - gaps.begin())].choice = gap_choice::recompute;
  EXPECT_THROW(make_plan(g, uses, gaps, decisions), std::invalid_argument);
}

TEST(orders, micro_batches_name_what_needs_the_whole_batch) {
  const graph g = small("resnet", "resnet20_cifar", 16, {.fusion_mode = fusion::fused}).g;
  expect_words(refusal<infeasible>([&] { make_order(g, {4, {}, {}}); }), {"batch_norm"});
}

TEST(orders, every_operator_is_computed_for_every_image_once) {
  const graph g = small("alexnet", "alexnet", 8, {.sgd = true}).g;
  const auto late_ops = ops_with_large_parameter_gradients(g);
  for (const loop_nest& l : {loop_nest{4, {}, late_ops}, loop_nest{1, {{2, 4, 8}}, late_ops}}) {
    std::vector<std::uint32_t> parts(g.ops.size(), 0);
    for (const compute& c : make_order(g, l)) ++parts[c.op];
    for (op_id o = 0; o < g.ops.size(); ++o) {
      const bool late =
          std::ranges::find(l.deferred, o) != l.deferred.end() || has_kind<sgd_update>(g.ops[o]);
      const std::uint32_t outside = l.inner_loops.empty() ? 4 : 1;
      EXPECT_EQ(parts[o], late ? 1U : o >= 2 && o < 4 && outside == 1 ? 8U : outside) << g.ops[o].name;
    }
  }
}

TEST(orders, a_gradient_larger_than_all_others_may_be_deferred_alone) {
  const graph g = small("alexnet", "alexnet", 8, {}).g;
  const std::vector<loop_nest> all = whole_operator_nests(g);
  ASSERT_EQ(all.size(), 2);
  EXPECT_GT(all[0].deferred.size(), 1);
  ASSERT_EQ(all[1].deferred.size(), 1);
  EXPECT_EQ(make_order(g, all[1]).back().op, all[1].deferred[0]);
}

// x -> y part by part, s sums over y, z reads y in parts and s whole; w is a whole operator on z, v is cut.
graph with_sums() {
  graph g;
  g.name = "sums";
  const auto add_tensor = [&](const char* name, std::int64_t images, role use) {
    g.tensors.push_back({.name = name, .shape = {images, 64, 8, 8}, .role = use});
    return static_cast<tensor_id>(g.tensors.size() - 1);
  };
  const tensor_id x = add_tensor("x", 8, role::input), y = add_tensor("y", 8, role::activation),
                  s = add_tensor("s", 1, role::activation), z = add_tensor("z", 8, role::activation),
                  w = add_tensor("w", 8, role::activation), v = add_tensor("v", 8, role::output);
  using enum batch_cut;
  const auto add_op = [&](const char* name, std::vector<tensor_id> in, std::vector<tensor_id> out,
                          std::vector<batch_cut> cut_in, std::vector<batch_cut> cut_out) {
    opaque how;
    how.in = std::move(cut_in);
    how.out = std::move(cut_out);
    how.flops = 1'000'000;
    how.bytes = 1'000'000;
    op o;
    o.name = name;
    o.attributes = std::move(how);
    o.in = std::move(in);
    o.out = std::move(out);
    g.ops.push_back(std::move(o));
  };
  add_op("make_y", {x}, {y}, {part}, {part});
  add_op("sum_y", {y}, {s}, {part}, {sum});
  add_op("make_z", {y, s}, {z}, {part, whole}, {part});
  add_op("make_w", {z}, {w}, {}, {});
  add_op("make_v", {w, s}, {v}, {part, whole}, {part});
  return g;
}

TEST(orders, what_reads_a_sum_waits_for_all_parts_of_it) {
  const graph g = with_sums();
  const auto all = static_cast<op_id>(g.ops.size());
  std::string order;
  for (const compute& c : make_order(g, {1, {{0, all, 2}}, {}})) order += std::to_string(c.op);
  EXPECT_EQ(order, "010122344");
  graph cut = g;
  cut.ops.erase(cut.ops.begin() + 3, cut.ops.end());
  std::string micro;
  for (const compute& c : make_order(cut, {2, {}, {}})) micro += std::to_string(c.op);
  EXPECT_EQ(micro, "010122");
  EXPECT_THROW(make_order(g, {2, {}, {}}), infeasible) << "make_w needs the whole batch and make_v is cut";
  EXPECT_EQ(defect_of(g, make_plan(g, make_order(g, {1, {{0, all, 4}}, {}}), residence::device)),
            std::nullopt);
}

}  // namespace
