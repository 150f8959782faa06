#include "harness/validate/validation.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "harness/io/errors.hpp"
#include "harness/json/input_files.hpp"
#include "harness/json/json.hpp"
#include "harness/process/flow.hpp"
#include "simulator/patterns.hpp"

namespace um {
namespace {

std::vector<machine> machines() {
  return load_machines(std::nullopt);
}

// Capped at ratio 1.5 on an H200.
cell alexnet_under(const std::string& strategy, std::uint32_t iterations) {
  experiment e;
  e.network = {.name = "alexnet", .batch = 16};
  e.strategy = strategy;
  e.ratio = 1.5;
  e.backend = "sim:h200";
  e.mode = run_mode::capped;
  e.iterations = iterations;
  cell work = complete_cell(e);
  work.planner_machine = find_machine(machines(), "h200");
  return work;
}

std::string figure(const std::string& what, const std::string& unit = "GB/s") {
  return R"({"schema":1,"figures":[{"name":"n","source":"s","least":2,"most":3,"unit":")" + unit +
         R"(","input":false,"machine":"h200",)" + what + "}]}";
}

TEST(validation, a_deviation_counts_from_the_nearer_end) {
  comparison c{"g", "n", 10, 20, 15, "ns", false, {}, {}};
  EXPECT_EQ(deviation_of(c), 0);
  c.predicted = 22;
  EXPECT_NEAR(deviation_of(c), 0.1, 1e-9);
  c.predicted = 9;
  EXPECT_NEAR(deviation_of(c), -0.1, 1e-9);
}

TEST(validation, a_pattern_is_simulated_on_the_named_machine) {
  const auto all = published_figures_from_json(figure(R"("pattern":"stream_read")"), "f.json");
  ASSERT_EQ(all.size(), 1U);
  const comparison c = compare_figure(all[0], machines());
  EXPECT_NEAR(c.predicted,
              rate_of(find_pattern("stream_read")->simulate(find_machine(machines(), "h200"))) / 1e9, 1e-9);
}

TEST(validation, a_cell_is_one_strategy_over_another) {
  const std::string text =
      figure(R"("network":"alexnet","batch":16,"pass":"train","fusion":"none","knobs":{},"ratio":2,)"
             R"("strategy":"managed","over":"compute")",
             "times");
  const comparison c = compare_figure(published_figures_from_json(text, "f.json").at(0), machines());
  EXPECT_GT(c.predicted, 2);
}

TEST(validation, a_cell_alone_is_its_time) {
  const std::string text = figure(
      R"("network":"alexnet","batch":16,"pass":"train","fusion":"framework","knobs":{},"strategy":"compute")",
      "ms");
  const known_figure f = published_figures_from_json(text, "f.json").at(0);
  const comparison c = compare_figure(f, machines());
  EXPECT_GT(c.predicted, 0.5);
  EXPECT_LT(c.predicted, 50);
  EXPECT_THROW(published_figures_from_json(figure(R"("pattern":"stream_read")", "ms"), "f"), input_error);
}

TEST(validation, a_pattern_may_have_a_ratio_and_what_explains_it) {
  const std::string text = figure(R"("why":"known","pattern":"waves_under_pressure","ratio":1.5)");
  const known_figure f = published_figures_from_json(text, "f.json").at(0);
  const comparison c = compare_figure(f, machines());
  EXPECT_EQ(c.explanation, "known");
  EXPECT_GT(c.predicted, 0);
  const std::string none = figure(R"("pattern":"stream_read","ratio":1.5)");
  EXPECT_THROW(compare_figure(published_figures_from_json(none, "f").at(0), machines()), input_error);
}

TEST(validation, a_cell_without_a_plan_is_not_run_and_near_nothing) {
  const std::string text =
      figure(R"("network":"alexnet","batch":16,"pass":"train","fusion":"none","knobs":{},"ratio":2,)"
             R"("strategy":"managed","over":"device")",
             "times");
  const comparison c = compare_figure(published_figures_from_json(text, "f.json").at(0), machines());
  EXPECT_NE(c.missing_reason, "");
  EXPECT_TRUE(std::isinf(deviation_factor(c)));
  EXPECT_TRUE(std::isinf(deviation_of(c)));
  const comparison other{"h200", "faster", 1, 1, 1, "times", false, {}, {}};
  EXPECT_EQ(check_order({c, other}).wrong_pairs.size(), 1U);
}

// Over the order of accesses, the figures within their widths, and the ratios that a source allows.
TEST(validation, managed_memory_just_above_ratio_1_has_a_band) {
  const auto compared = [](const std::string& ratio) {
    const std::string text = figure(
        R"("network":"alexnet","batch":16,"pass":"train","fusion":"none","knobs":{},"strategy":"managed","over":"compute",)" +
            ratio,
        "times");
    return compare_figure(published_figures_from_json(text, "f.json").at(0), machines());
  };
  EXPECT_FALSE(compared(R"("ratio":2)").band);
  const comparison at = compared(R"("ratio":1.25)"), from = compared(R"("ratio":1.25,"ratios":[1.05,1.5])");
  ASSERT_TRUE(at.band && from.band);
  EXPECT_LE(at.band->low, at.predicted);
  EXPECT_GE(at.band->high, at.predicted);
  EXPECT_LT(at.band->low, at.band->high);
  EXPECT_LE(from.band->low, at.band->low);
  EXPECT_GT(from.band->high, at.band->high);
}

TEST(validation, a_pattern_just_above_ratio_1_has_a_band_from_the_kindest_order_to_the_unkindest) {
  const std::string text = figure(R"("pattern":"random_under_pressure","ratio":1.1)");
  const comparison c = compare_figure(published_figures_from_json(text, "f.json").at(0), machines());
  ASSERT_TRUE(c.band);
  EXPECT_GT(c.band->high / c.band->low, 2);
}

TEST(validation, a_band_holds_what_has_a_value_in_common_with_it) {
  comparison c{"g", "n", 10, 20, 15, "times", false, {}, {}};
  EXPECT_FALSE(is_within_band(c)) << "there is none";
  c.band = figure_band{20, 30};
  EXPECT_TRUE(is_within_band(c));
  c.band = figure_band{21, 30};
  EXPECT_FALSE(is_within_band(c));
  c.band = figure_band{1, 9};
  EXPECT_FALSE(is_within_band(c));
}

TEST(validation, how_far_off_is_a_factor_either_way) {
  comparison c{"g", "n", 10, 20, 15, "ns", false, {}, {}};
  EXPECT_EQ(deviation_factor(c), 1);
  c.predicted = 5;
  EXPECT_EQ(deviation_factor(c), 2);
  c.predicted = 60;
  EXPECT_EQ(deviation_factor(c), 3);
}

TEST(validation, what_is_not_there_is_named) {
  EXPECT_THROW(
      compare_figure(published_figures_from_json(figure(R"("pattern":"steam_read")"), "f").at(0), machines()),
      input_error);
  EXPECT_THROW(published_figures_from_json(R"({"schema":1,"figures":[{"name":"n"}]})", "f"), input_error);
  std::string backwards = figure(R"("pattern":"discard")");
  backwards.replace(backwards.find("\"most\":3"), 8, "\"most\":1");
  EXPECT_THROW(published_figures_from_json(backwards, "f"), input_error);
}

TEST(validation, patterns_have_names_of_their_own_and_take_time) {
  const machine on = find_machine(machines(), "h200");
  for (const pattern& p : patterns()) {
    EXPECT_EQ(find_pattern(p.name), &p) << p.name;
    EXPECT_GT(p.simulate(on).traffic.time, 0) << p.name;
  }
  EXPECT_EQ(find_pattern("none"), nullptr);
}

// A simulated record passed off as a measured one must come back as itself.
TEST(validation, a_record_is_planned_again_and_compared) {
  const cell work = alexnet_under("managed", 3);
  record r = run_cell(work);
  ASSERT_EQ(r.result, outcome::ok);
  EXPECT_FALSE(compare_cell({r}, *work.planner_machine)) << "simulated";
  r.simulated = false;
  const auto estimated = compare_cell({r}, *work.planner_machine);  // no operator times
  ASSERT_TRUE(estimated);
  EXPECT_EQ(estimated->later_iterations.predicted, estimated->later_iterations.known_min);
  const graph g = build_network(r.network);
  r.engines.emplace();
  const machine other = find_machine(machines(), "p100-pcie3-16g");
  for (const op& o : g.ops) r.engines->push_back({o.name, "e", *r.compute_time / 40, 0, {}, {}, 1});
  const std::optional<cell_comparison> both = compare_cell({r}, *work.planner_machine);
  ASSERT_TRUE(both);
  EXPECT_EQ(both->first_iteration.known_min, static_cast<double>(r.samples[0]));
  // The operators are others now, what the driver takes is not.
  EXPECT_NEAR(both->first_iteration.predicted, both->first_iteration.known_min,
              static_cast<double>(*r.compute_time));
  EXPECT_GT(compare_cell({r}, other)->later_iterations.predicted, both->later_iterations.predicted);
  // Slices count as the operator.
  engine_figure& whole = r.engines->front();
  engine_figure second = whole;
  second.op += " [batch 1/2]";
  second.time /= 3;
  whole.op += " [batch 0/2]";
  whole.time -= second.time;
  r.engines->push_back(second);
  EXPECT_EQ(compare_cell({r}, *work.planner_machine)->later_iterations.predicted,
            both->later_iterations.predicted);
  EXPECT_FALSE(both->has_other_addresses);
  r.memory.managed_arena = *r.memory.managed_arena + managed_block;
  EXPECT_TRUE(compare_cell({r}, *work.planner_machine)->has_other_addresses);
  r.memory.budget = 4 * managed_block;
  const std::optional<cell_comparison> without = compare_cell({r}, *work.planner_machine);
  ASSERT_TRUE(without);
  EXPECT_NE(without->first_iteration.missing_reason, "");
  EXPECT_NE(without->later_iterations.missing_reason, "");
}

TEST(validation, a_record_from_before_a_knob_was_added_has_its_standard) {
  const cell work = alexnet_under("tvdnn", 2);
  record r = run_cell(work);
  ASSERT_EQ(r.result, outcome::ok);
  r.simulated = false;
  r.engines.emplace();
  for (const op& o : build_network(r.network).ops)
    r.engines->push_back({o.name, "e", *r.compute_time / 40, 0, {}, {}, 1});
  const std::optional<cell_comparison> known = compare_cell({r}, *work.planner_machine);
  ASSERT_TRUE(known && known->later_iterations.missing_reason.empty());
  r.strategy_knobs.erase("sections");
  EXPECT_EQ(compare_cell({r}, *work.planner_machine)->later_iterations.predicted,
            known->later_iterations.predicted);
  r.strategy_knobs["forgotten"] = 1;
  EXPECT_NE(compare_cell({r}, *work.planner_machine)->later_iterations.missing_reason.find("forgotten"),
            std::string::npos);
}

// What disturbs a run only adds to it.
TEST(validation, several_runs_of_a_cell_count_by_their_lower_deciles) {
  record r;
  r.simulated = false;
  r.result = outcome::ok;
  r.network = {.name = "alexnet", .batch = 16};
  r.strategy = "device";
  r.memory.budget = GiB;
  r.mode = run_mode::capped;
  r.iterations = 4;
  r.engines.emplace();
  r.samples = {50, 11, 19, 12};
  record again = r, failed = r;
  again.samples = {40, 10, 30, 31};
  failed.result = outcome::crashed;
  failed.samples = {1, 1, 1, 1};
  record once = r, bare = r;
  once.samples = {60};
  once.iterations = 1;
  bare.engines.reset();
  bare.samples = {45, 13};
  const auto found = compare_cell({failed, bare, once, r, again}, find_machine(machines(), "h200"));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->first_iteration.known_min, 40);
  EXPECT_EQ(found->later_iterations.known_min, 10);
  EXPECT_EQ(found->later_median, 13);
  const auto single = compare_cell({once}, find_machine(machines(), "h200"));
  ASSERT_TRUE(single);
  EXPECT_EQ(single->later_iterations.known_min, 60);
}

TEST(validation, the_machines_that_are_studied_are_built_in) {
  const std::vector<machine> all = machines();
  for (const char* name :
       {"p100-pcie3-16g", "v100-pcie3-16g", "v100-pcie3-32g", "v100-nvlink-power9", "titan-v",
        "gtx1080ti-11g", "a100-pcie4-40g", "h100-pcie5-80g", "h100-sxm-80g", "h200", "gh200"}) {
    const machine& m = find_machine(all, name);
    EXPECT_FALSE(m.source.empty()) << name;
    EXPECT_TRUE(all_measured(m) || !m.estimated.empty()) << name << " says what nobody measured";
    EXPECT_EQ(m.uvm.access_counter_threshold > 0, m.name == "gh200" || m.name == "v100-nvlink-power9")
        << name;
  }
}

TEST(validation, one_estimated_figure_makes_a_record_uncalibrated) {
  experiment e;
  e.network = {.name = "alexnet", .batch = 2};
  e.strategy = "device";
  e.backend = "sim:h200";
  cell work = complete_cell(e);
  work.planner_machine = find_machine(machines(), "h200");
  work.planner_machine->calibrated = true;
  work.planner_machine->estimated = {"uvm.evict_ns"};
  EXPECT_EQ(run_cell(work).calibrated, false);
  work.planner_machine->estimated.clear();
  EXPECT_EQ(run_cell(work).calibrated, true);
}

TEST(validation, the_order_of_strategies_counts_where_they_differ_clearly) {
  std::vector<comparison> all{{"g", "a", 100, 100, 50, "ns"},
                              {"g", "b", 104, 104, 40, "ns"},
                              {"g", "c", 200, 200, 45, "ns"},
                              {"h", "d", 500, 500, 1, "ns"}};
  const order_check found = check_order(all);
  EXPECT_EQ(found.pair_count, 2U) << "c above a and b";
  ASSERT_EQ(found.wrong_pairs.size(), 1U);
  EXPECT_EQ(found.wrong_pairs[0], "g: a before c");
}

}  // namespace
}  // namespace um
