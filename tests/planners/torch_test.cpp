#include <gtest/gtest.h>

#include <limits>
#include <numeric>

#include "planners/torch_checkpoints.hpp"
#include "planners/torch_kernels.hpp"
#include "planners/torch_target.hpp"

namespace um {
namespace {

constexpr std::int64_t kib = 1024, unlimited = std::numeric_limits<std::int64_t>::max();

torch_node node(torch_kind kind, std::vector<torch_id> inputs, std::int64_t bytes, bool forward,
                std::int64_t ns = 0) {
  torch_node n;
  n.kind = kind;
  n.inputs = std::move(inputs);
  n.bytes = bytes;
  n.elements = bytes;
  n.ns = ns;
  n.can_run_forward = forward;
  return n;
}

// x -> a -> r -> b, all of the same size but for x: a and b are products, r is element by element. Backward:
// b's gradient needs r, r's needs r, a's needs x.
torch_step chain() {
  torch_step s;
  s.min_kernel_ns = 0;
  s.nodes = {node(torch_kind::input, {}, kib, false),                  // 0: x
             node(torch_kind::kernel, {0}, 4 * kib, true, 1000),       // 1: a
             node(torch_kind::pointwise, {1}, 4 * kib, true),          // 2: r
             node(torch_kind::kernel, {2}, 4 * kib, true, 1000),       // 3: b
             node(torch_kind::input, {}, 4 * kib, false),              // 4: gradient of b
             node(torch_kind::kernel, {4, 2}, 4 * kib, false, 1000),   // 5: gradient of r
             node(torch_kind::pointwise, {5, 2}, 4 * kib, false),      // 6: gradient of a
             node(torch_kind::kernel, {6, 0}, 4 * kib, false, 1000)};  // 7: gradient of the weights
  s.nodes[0].is_resident = true;
  s.nodes[3].is_forward_result = s.nodes[7].is_backward_result = true;
  return s;
}

std::vector<torch_fate> only(const torch_step& s, std::vector<torch_id> saved) {
  std::vector<torch_fate> fates(s.nodes.size());
  for (const torch_id v : saved) fates[v] = torch_fate::saved;
  return fates;
}

// Saves these, and moves `out` to the host.
std::vector<torch_fate> with_offloaded(const torch_step& s, torch_id out,
                                       const std::vector<torch_id>& saved) {
  std::vector<torch_fate> fates = only(s, saved);
  fates[out] = torch_fate::offloaded;
  return fates;
}

torch_estimate estimate(const torch_step& s, const std::vector<torch_fate>& fates) {
  return torch_model(s, unlimited).evaluate(fates);
}

TEST(torch_plans, what_is_saved_stays_and_the_rest_is_computed_again) {
  const torch_step s = chain();
  torch_model model(s, unlimited);
  const auto saved = model.evaluate(only(s, {2}));
  EXPECT_EQ(saved.saved_bytes, 4 * kib);
  EXPECT_EQ(model.plan().saved, (std::vector<torch_id>{2}));
  EXPECT_TRUE(model.plan().recomputed.empty());
  const auto recomputed = model.evaluate(only(s, {}));
  EXPECT_EQ(recomputed.saved_bytes, 0);
  EXPECT_EQ(model.plan().recomputed, (std::vector<torch_id>{1, 2}));
  EXPECT_GE(recomputed.ns, saved.ns + 1000);  // the product runs twice
}

TEST(torch_plans, a_step_takes_no_less_than_the_cpu_takes_to_launch_it) {
  torch_step s = chain();
  s.link_bytes_per_ns = 1e6;
  s.kernel_launch_cpu_ns = 10'000;
  EXPECT_EQ(estimate(s, only(s, {2})).ns, 60'000);  // a, r, b and three gradients
  s.copy_launch_cpu_ns = 70'000;
  EXPECT_EQ(estimate(s, with_offloaded(s, 2, {})).ns, 60'000 + 2 * 70'000);
}

TEST(torch_plans, a_fused_kernel_is_as_slow_as_its_slowest_node) {
  torch_step s = chain();
  const auto usual = estimate(s, only(s, {2})).ns;
  s.nodes[2].bandwidth_share = 0.5;  // reads a, writes r
  EXPECT_EQ(estimate(s, only(s, {2})).ns - usual, 8 * kib);
}

// The step of `chain`: r is computed again for the gradient of b's weights, beside the gradient of a, which
// waits for a product. Both read a.
TEST(torch_plans, what_is_computed_again_shares_a_kernel_with_a_gradient_that_needs_it_not) {
  torch_step s = chain();
  s.nodes[6].inputs = {5, 1};
  const std::vector<torch_fate> fates = only(s, {1});
  const auto joined = estimate(s, fates);
  s.nodes[2].elements += 1;
  const auto apart = estimate(s, fates);
  EXPECT_EQ(apart.ns - joined.ns, 0);
  s.nodes[5].inputs = {4};
  s.nodes.insert(s.nodes.begin() + 6, node(torch_kind::kernel, {4, 2}, kib, false, 1000));
  s.nodes[7].inputs = {5, 1};
  s.nodes[8].inputs = {7, 0};
  s.nodes[6].is_backward_result = true;
  const auto still_apart = estimate(s, fates);
  s.nodes[2].elements -= 1;
  EXPECT_EQ(still_apart.ns - estimate(s, fates).ns, 4 * kib);  // a is read once
}

// a and c read x and share a kernel, which needs b: b runs before its place behind a.
TEST(torch_plans, a_library_call_that_an_earlier_kernel_needs_runs_early) {
  torch_step s;
  s.nodes = {node(torch_kind::input, {}, kib, false),              // 0
             node(torch_kind::kernel, {0}, 4 * kib, true),         // 1: x
             node(torch_kind::pointwise, {1}, 4 * kib, true),      // 2: a
             node(torch_kind::kernel, {1}, 4 * kib, true),         // 3: b
             node(torch_kind::pointwise, {1, 3}, 4 * kib, true)};  // 4: c
  s.nodes[2].is_forward_result = s.nodes[4].is_forward_result = true;
  const torch_dataflow dataflow(s);
  torch_orders orders(dataflow);
  orders.set_fates(std::vector<torch_fate>(s.nodes.size()));
  torch_kernels kernels(orders);
  kernels.fuse(orders.forward, false);
  ASSERT_EQ(kernels.count(), 3U);
  EXPECT_FALSE(kernels.kernel(0).runs_early);
  EXPECT_EQ(kernels.kernel(1).members, (std::vector<torch_id>{3}));
  EXPECT_TRUE(kernels.kernel(1).runs_early);
  EXPECT_FALSE(kernels.kernel(2).runs_early);
}

// Gradients of two branches are added up for a sum over a batch and for what reads that sum.
TEST(torch_plans, a_gradient_that_takes_less_than_its_sources_is_stored) {
  torch_step s;
  s.nodes = {node(torch_kind::input, {}, kib, false),
             node(torch_kind::kernel, {0}, 4 * kib, false),
             node(torch_kind::kernel, {0}, 4 * kib, false),
             node(torch_kind::pointwise, {1, 2}, 4 * kib, false),   // 3: their sum
             node(torch_kind::far_reduction, {3}, kib, false),      // 4
             node(torch_kind::kernel, {4}, kib, false),             // 5
             node(torch_kind::pointwise, {3, 5}, 4 * kib, false)};  // 6
  s.nodes[4].elements = 4 * kib;
  s.nodes[6].is_backward_result = true;
  torch_model storing(s, unlimited);
  const std::vector<torch_fate> fates(s.nodes.size());
  const auto stored = storing.evaluate(fates);
  EXPECT_EQ(storing.plan().stored, (std::vector<torch_id>{3}));
  s.stores_gradients = false;
  torch_model model(s, unlimited);
  const auto in_each_reader = model.evaluate(fates);
  EXPECT_TRUE(model.plan().stored.empty());
  EXPECT_LT(stored.peak, in_each_reader.peak);
  EXPECT_LE(stored.ns, in_each_reader.ns);
}

// Forward: a, then r over a. Backward begins with b, its gradient and r; the gradient of r comes beside them,
// and the gradient of a takes its place.
TEST(torch_plans, the_peak_is_what_lives_at_once) {
  const torch_step s = chain();
  const auto e = estimate(s, only(s, {2}));
  EXPECT_EQ(e.forward_peak, 8 * kib);
  EXPECT_EQ(e.peak, 16 * kib);
}

// r takes the place of a, unless it reads a elsewhere than where it writes.
TEST(torch_plans, nothing_is_written_over_what_is_read_elsewhere) {
  torch_step s = chain();
  s.nodes[1].bytes = s.nodes[2].bytes = 8 * kib;
  EXPECT_EQ(estimate(s, only(s, {2})).forward_peak, 12 * kib);
  s.nodes[2].shifted_inputs = {1};
  EXPECT_EQ(estimate(s, only(s, {2})).forward_peak, 16 * kib);
}

// The gradient of a takes the place of r, unless r came back from the host.
TEST(torch_plans, nothing_is_written_over_a_copy) {
  torch_step s = chain();
  s.link_bytes_per_ns = 1e6;
  s.nodes[2].bytes = s.nodes[6].bytes = 8 * kib;
  s.nodes[5].bytes = 2 * kib;
  EXPECT_EQ(estimate(s, only(s, {2})).peak, 18 * kib);              // b, its gradient, r, and r's gradient
  EXPECT_EQ(estimate(s, with_offloaded(s, 2, {})).peak, 22 * kib);  // b, r, and the gradients of r and a
}

// The gradient of r is computed with two tensors of 4 KiB beside it.
TEST(torch_plans, no_plan_is_below_the_largest_library_call) {
  torch_step s = chain();
  s.base_bytes = 100 * kib;
  EXPECT_EQ(torch_peak_lower_bound(s), 112 * kib);
  s.nodes[3].workspace = 10 * kib;
  EXPECT_EQ(torch_peak_lower_bound(s), 118 * kib);
  s.nodes[7].bytes = 40 * kib;  // what it returns, alone and beside what it reads
  EXPECT_EQ(torch_peak_lower_bound(s), 144 * kib);
  s.nodes[6].is_backward_result = s.nodes[5].is_backward_result = true;
  EXPECT_EQ(torch_peak_lower_bound(s), 148 * kib);
}

TEST(torch_plans, what_is_inside_a_kernel_takes_no_memory) {
  torch_step s = chain();
  s.nodes.insert(s.nodes.begin() + 3, node(torch_kind::pointwise, {2}, 4 * kib, true));  // before b
  s.nodes[4].inputs = {3};
  for (std::size_t v = 6; v < s.nodes.size(); ++v) {
    for (torch_id& u : s.nodes[v].inputs) u += u >= 3 ? 1 : 0;
  }
  s.nodes[6].inputs = {5, 3};
  s.nodes[7].inputs = {6, 3};
  EXPECT_EQ(estimate(s, only(s, {3})).forward_peak, 8 * kib);
  s.fuses_kernels = false;
  EXPECT_EQ(estimate(s, only(s, {3})).forward_peak, 8 * kib);
  s.nodes[7].inputs = {6, 2};  // now r has to be in memory as well
  EXPECT_EQ(estimate(s, only(s, {2, 3})).forward_peak, 12 * kib);
}

// b reads the maxima of windows of r.
TEST(torch_plans, what_windows_read_is_in_memory_unless_it_is_read_as_cheaply_from_elsewhere) {
  torch_step s = chain();
  s.nodes[3].kind = torch_kind::reduction;
  s.nodes[3].elements = kib;
  s.nodes[5].inputs = {4, 3};
  s.nodes[6].inputs = {5, 3};
  const auto forward = [&](std::vector<torch_id> inputs, bool windows) {
    s.nodes[2].inputs = std::move(inputs);
    s.nodes[3].shifted_inputs = windows ? std::vector<torch_id>{2} : std::vector<torch_id>{};
    return estimate(s, only(s, {3})).ns;
  };
  EXPECT_EQ(forward({1, 0}, true), forward({1, 0}, false) + 8 * kib);  // r is written and read
  EXPECT_EQ(forward({1}, true), forward({1}, false));
}

// x -> n -> w, in wider elements: both sums of w read n, and w takes no memory.
TEST(torch_plans, what_widens_takes_no_memory) {
  torch_step s;
  s.min_kernel_ns = 0;
  for (int i = 0; i < 4; ++i) {
    s.nodes.push_back(node(torch_kind::input, {}, kib, false));
    s.nodes[i].is_resident = true;
  }
  const std::vector<torch_node> rest{node(torch_kind::kernel, {0}, 4 * kib, true, 1000),               // 4: x
                                     node(torch_kind::input, {}, 4 * kib, false),                      // 5
                                     node(torch_kind::pointwise, {0, 1, 2, 3, 4, 5}, 4 * kib, false),  // 6: n
                                     node(torch_kind::pointwise, {6}, 8 * kib, false),                 // 7: w
                                     node(torch_kind::far_reduction, {7}, kib, false),                 // 8
                                     node(torch_kind::far_reduction, {7}, kib, false),                 // 9
                                     node(torch_kind::pointwise, {7, 8, 9}, 4 * kib, false),           // 10
                                     node(torch_kind::kernel, {10}, kib, false, 1000)};                // 11
  s.nodes.insert(s.nodes.end(), rest.begin(), rest.end());
  for (torch_id v = 6; v <= 10; ++v) s.nodes[v].elements = 4 * kib;
  s.nodes[4].is_forward_result = s.nodes[11].is_backward_result = true;
  const auto before = estimate(s, only(s, {4}));
  s.nodes[7].is_widening = true;
  const auto widened = estimate(s, only(s, {4}));
  EXPECT_LT(widened.peak, before.peak);
  EXPECT_LT(widened.ns, before.ns);
}

// a, then b over a.
TEST(torch_plans, a_kernel_may_write_over_its_first_input) {
  torch_step s;
  s.nodes = {node(torch_kind::kernel, {}, 4 * kib, true), node(torch_kind::kernel, {0}, 4 * kib, true)};
  s.nodes[1].is_forward_result = true;
  EXPECT_EQ(estimate(s, only(s, {})).peak, 8 * kib);
  s.nodes[1].writes_over_first_input = true;
  EXPECT_EQ(estimate(s, only(s, {})).peak, 4 * kib);
  s.nodes[0].is_forward_result = true;
  EXPECT_EQ(estimate(s, only(s, {})).peak, 8 * kib);
}

TEST(torch_plans, results_that_cannot_be_repeated_are_saved) {
  torch_step s = chain();
  s.nodes[2].is_repeatable = false;
  torch_model model(s, unlimited);
  model.evaluate(only(s, {}));
  EXPECT_EQ(model.plan().saved, (std::vector<torch_id>{2}));
}

// r's copy takes 1000 ns, as long as b does: the forward graph waits for nothing, the backward graph's first
// kernel, which reads r, waits for all of the copy back.
TEST(torch_plans, an_offloaded_tensor_is_gone_when_its_copy_is_done) {
  torch_step s = chain();
  s.bytes_per_ns = 1e6;
  s.link_bytes_per_ns = 4.096;
  torch_model model(s, unlimited);
  const auto kept = model.evaluate(only(s, {2}));
  const auto fates = with_offloaded(s, 2, {});
  const auto out = model.evaluate(fates);
  EXPECT_EQ(out.saved_bytes, 0);
  EXPECT_EQ(out.ns, kept.ns + 1000);
  ASSERT_EQ(model.plan().offloaded.size(), 1U);
  EXPECT_EQ(model.plan().offloaded[0].tensor, 2U);
  EXPECT_EQ(model.plan().offloaded[0].freed_after, 3U);
  EXPECT_EQ(model.plan().offloaded[0].copied_back_before, 5U);
  s.link_bytes_per_ns = 2.048;  // 1000 ns behind b
  torch_model slow(s, unlimited);
  EXPECT_EQ(slow.evaluate(fates).ns, kept.ns + 3000);
  EXPECT_EQ(slow.plan().offloaded[0].freed_after, no_node);
}

TEST(torch_plans, copies_with_time_left_begin_earlier_and_are_waited_for_later) {
  torch_step s = chain();
  s.bytes_per_ns = 1e6;
  s.link_bytes_per_ns = 8.192;
  torch_model model(s, unlimited);
  const auto fates = with_offloaded(s, 2, {});
  const auto just = model.evaluate(fates);
  EXPECT_EQ(model.plan().offloaded[0].freed_after, 3U);
  EXPECT_EQ(model.plan().offloaded[0].copied_back_before, 5U);
  model.set_copy_safety_factor(4);
  const auto early = model.evaluate(fates);
  EXPECT_EQ(early.ns, just.ns);
  EXPECT_EQ(model.plan().offloaded[0].freed_after, no_node);
  EXPECT_GE(early.peak, just.peak);
}

// Blocks of a wide product and a narrow one, and their gradients, which need both.
torch_step blocks(torch_id count) {
  torch_step s;
  s.min_kernel_ns = 0;
  s.nodes = {node(torch_kind::input, {}, kib, false)};
  s.nodes[0].is_resident = true;
  for (torch_id v = 0; v < 2 * count; ++v)
    s.nodes.push_back(node(torch_kind::kernel, {v}, (v % 2 ? 1 : 8) * kib, true, 1000));
  s.nodes.push_back(node(torch_kind::input, {}, kib, false));  // the gradient of the result
  for (torch_id v = 2 * count; v > 0; --v)
    s.nodes.push_back(node(torch_kind::kernel, {static_cast<torch_id>(s.nodes.size()) - 1, v - 1},
                           s.nodes[v - 1].bytes, false, 1000));
  s.nodes[2 * count].is_forward_result = s.nodes.back().is_backward_result = true;
  return s;
}

// Nothing but the first product's result is saved; it is on its way to the host while two more run.
TEST(torch_plans, what_goes_to_the_host_is_waited_for_where_its_memory_is_needed) {
  torch_step s = blocks(3);
  s.link_bytes_per_ns = 2.048;
  const auto fates = with_offloaded(s, 1, {});
  torch_model roomy(s, unlimited), tight(s, 12 * kib);
  EXPECT_EQ(roomy.evaluate(fates).forward_peak, 17 * kib);
  EXPECT_EQ(roomy.plan().offloaded[0].freed_after, 5U);
  EXPECT_EQ(tight.evaluate(fates).forward_peak, 9 * kib);
  EXPECT_EQ(tight.plan().offloaded[0].freed_after, 2U);
}

TEST(torch_plans, what_comes_back_begins_later_where_it_has_no_room) {
  torch_step s = blocks(3);
  s.link_bytes_per_ns = 8.192;
  const auto fates = with_offloaded(s, 1, {2, 3, 4, 5});
  torch_model roomy(s, unlimited), tight(s, 30 * kib);
  for (torch_model* model : {&roomy, &tight}) model->set_copy_safety_factor(4);
  const torch_estimate early = roomy.evaluate(fates), late = tight.evaluate(fates);
  EXPECT_EQ(roomy.plan().offloaded[0].copied_back_before, 8U);
  EXPECT_EQ(tight.plan().offloaded[0].copied_back_before, 9U);
  EXPECT_EQ(early.peak - late.peak, 8 * kib);
  EXPECT_EQ(early.ns, late.ns);
}

// Under the same aim, a choice is known that differs in what the backward graph does not read.
TEST(torch_plans, a_choice_that_comes_to_the_same_is_not_walked_again) {
  torch_step s = blocks(3);
  s.link_bytes_per_ns = 8.192;
  torch_model model(s, unlimited);
  const torch_estimate first = model.evaluate(only(s, {1, 2, 3, 4, 5}));
  const std::int64_t work = model.work();
  EXPECT_EQ(model.evaluate(only(s, {1, 2, 3, 4, 5, 6})).ns,
            first.ns);  // 6 is the result, which nothing reads
  EXPECT_LT(model.work() - work, work);
  model.evaluate(only(s, {1}));
  EXPECT_EQ(model.evaluate(only(s, {1, 2, 3, 4, 5})).peak, first.peak);
  EXPECT_EQ(model.plan().saved, (std::vector<torch_id>{1, 2, 3, 4, 5}));
  EXPECT_EQ(model.plan().recomputed, std::vector<torch_id>{});
  const auto fates = with_offloaded(s, 1, {2, 3, 4, 5});
  for (const double times : {1.0, 4.0, 1.0}) {
    torch_model fresh(s, unlimited);
    for (torch_model* each : {&model, &fresh}) each->set_copy_safety_factor(times);
    EXPECT_EQ(model.evaluate(fates).peak, fresh.evaluate(fates).peak);
    EXPECT_EQ(model.plan().offloaded[0].copied_back_before, fresh.plan().offloaded[0].copied_back_before);
  }
}

TEST(torch_plans, parts_end_where_little_crosses) {
  const torch_step s = blocks(24);
  torch_model model(s, unlimited);
  std::vector<std::vector<torch_id>> sets = torch_checkpoints(torch_dataflow(s));
  const auto two_parts = sets[0];
  EXPECT_EQ(s.nodes[two_parts[0]].bytes, kib);
  EXPECT_EQ(two_parts[1], two_parts[0] + 1);  // all of the second part
  EXPECT_LT(std::abs(static_cast<int>(two_parts[0]) - 24), 12);
  std::int64_t least = unlimited;
  for (const auto& saved : sets) least = std::min(least, model.evaluate(only(s, saved)).peak);
  EXPECT_LT(least, model.evaluate(only(s, {})).peak / 2);
}

TEST(torch_plans, a_valley_has_sides) {
  const auto at = [](const std::vector<std::int64_t>& heights) {
    std::vector<std::size_t> all(heights.size());
    std::iota(all.begin(), all.end(), 0);
    return find_valleys(heights, all);
  };
  using places = std::vector<std::size_t>;
  EXPECT_EQ(at({10, 5, 10, 4, 9}), (places{1, 3}));
  EXPECT_EQ(at({5, 10, 4, 9}), (places{2}));
  EXPECT_EQ(at({10, 9, 10, 5}), (places{}));
}

// Eight layers: within less memory the search computes more again, and never exceeds a budget that it can
// keep.
TEST(torch_plans, the_search_keeps_to_the_budget) {
  torch_step s;
  s.nodes.push_back(node(torch_kind::input, {}, kib, false));
  s.nodes[0].is_resident = true;
  constexpr torch_id layers = 8;
  for (torch_id i = 0; i < layers; ++i) {
    s.nodes.push_back(node(torch_kind::kernel, {2 * i}, 64 * kib, true, 100'000));
    s.nodes.push_back(node(torch_kind::pointwise, {2 * i + 1}, 64 * kib, true));
  }
  s.nodes[2 * layers].is_forward_result = true;
  s.nodes.push_back(node(torch_kind::input, {}, 64 * kib, false));
  for (torch_id i = layers; i-- > 0;) {
    const auto above = static_cast<torch_id>(s.nodes.size() - 1);
    s.nodes.push_back(node(torch_kind::pointwise, {above, 2 * i + 1}, 64 * kib, false));
    s.nodes.push_back(node(torch_kind::kernel, {above + 1, 2 * i}, 64 * kib, false, 200'000));
  }
  s.nodes.back().is_backward_result = true;
  torch_model model(s, unlimited);
  const auto all = model.evaluate(std::vector<torch_fate>(s.nodes.size(), torch_fate::saved));
  std::int64_t before = 0;
  for (const std::int64_t budget : {all.peak, all.peak * 3 / 4, all.peak * 6 / 10}) {
    const torch_plan made = plan_torch(s, budget, {}, 300'000);
    EXPECT_LE(made.estimate.peak, budget);
    EXPECT_GE(made.estimate.ns, before);
    before = made.estimate.ns;
  }
  EXPECT_GT(before, all.ns);
}

// Some budgets of small steps: no choice of saved tensors is faster than the plan.
TEST(torch_plans, the_search_finds_the_best_of_all_choices) {
  for (const torch_id count : {2U, 3U, 4U}) {
    torch_step s = blocks(count);
    for (torch_id v = 1; v <= 2 * count; ++v)
      s.nodes[v].ns = 1000 + 700 * static_cast<std::int64_t>(v * v % 5);
    torch_model model(s, unlimited);
    std::vector<torch_estimate> all;
    for (unsigned set = 0; set < 1U << (2 * count); ++set) {
      std::vector<torch_id> saved;
      for (torch_id v = 1; v <= 2 * count; ++v) {
        if (set >> (v - 1) & 1U) saved.push_back(v);
      }
      all.push_back(model.evaluate(only(s, saved)));
    }
    for (const std::size_t some : {all.size() / 5, all.size() / 3, all.size() / 2}) {
      const std::int64_t budget = all[some].peak;
      std::int64_t least = unlimited;
      for (const torch_estimate& e : all) {
        if (e.peak <= budget) least = std::min(least, e.ns);
      }
      const torch_plan made = plan_torch(s, budget, {}, 100'000);
      EXPECT_LE(made.estimate.peak, budget);
      EXPECT_EQ(made.estimate.ns, least) << count << " blocks within " << budget;
    }
  }
}

// More work is allowed than a small step needs: the search ends when nothing gets better any more.
TEST(torch_plans, the_search_ends_where_more_of_it_saves_nothing) {
  const torch_step s = blocks(4);
  torch_model model(s, unlimited);
  const auto all = model.evaluate(std::vector<torch_fate>(s.nodes.size(), torch_fate::saved));
  const torch_plan some = plan_torch(s, all.peak, {}, 2'000'000),
                   more = plan_torch(s, all.peak, {}, 20'000'000);
  EXPECT_LE(more.estimate.ns, some.estimate.ns);
  EXPECT_LT(more.evaluations, 4 * some.evaluations);
}

}  // namespace
}  // namespace um
