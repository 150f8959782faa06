#include "harness/study/record.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "harness/json/input_files.hpp"
#include "harness/process/flow.hpp"
#include "harness/study/summary.hpp"
#include "tests/harness/samples.hpp"

namespace um {
namespace {

record cell_record(const std::string& strategy, double ratio, std::vector<nanoseconds> samples,
                   const network_spec& network = {.name = "conv", .batch = 2}) {
  experiment e;
  e.network = network;
  e.strategy = strategy;
  e.ratio = ratio;
  e.backend = "sim:h200";
  record r = make_record(complete_cell(e));
  r.device = "h200";
  r.calibrated = false;
  r.samples = std::move(samples);
  return r;
}

record infeasible_record(const std::string& strategy, double ratio) {
  record r = cell_record(strategy, ratio, {});
  r.result = outcome::infeasible;
  r.reason = "made up";
  return r;
}

TEST(Steady, LeavesTheFirstIterationOut) {
  EXPECT_EQ(steady_ns(cell_record("device", 1, {900, 100, 300, 200})), 200);
  EXPECT_EQ(steady_ns(cell_record("device", 1, {900, 100, 200})), 150);
  EXPECT_EQ(steady_ns(cell_record("device", 1, {900})), 900);
  EXPECT_EQ(steady_ns(cell_record("device", 1, {})), std::nullopt);
  const auto spread = steady_quartiles(cell_record("device", 1, {900, 100, 300, 200, 400}));
  EXPECT_EQ(spread.value().low, 175);
  EXPECT_EQ(spread.value().high, 325);
  EXPECT_EQ(steady_quartiles(cell_record("device", 1, {900, 100})), std::nullopt);
  EXPECT_EQ(steady_ns(infeasible_record("device", 2)), std::nullopt);
}

TEST(Text, TheFootprintIsPrintedTermByTerm) {
  record r = cell_record("device", 1, {1});
  r.memory.footprint =
      footprint_terms{1 * KiB, 2 * KiB, 3 * KiB, 4 * KiB, 5 * KiB, 6 * KiB, 7 * KiB, 28 * KiB};
  const std::string text = summary(r);
  for (const char* term : {"footprint  28.0 KiB, 1.333 of", "weights                   1.00 KiB",
                           "gradients of weights      2.00 KiB", "activations               3.00 KiB",
                           "gradients of activations  4.00 KiB", "inputs and labels         5.00 KiB",
                           "workspace                 6.00 KiB", "fragmentation             7.00 KiB"}) {
    EXPECT_NE(text.find(term), std::string::npos) << term << "\n" << text;
  }
  EXPECT_EQ(text.find("launched"), std::string::npos);
  r.launch = launch_mode::cuda_graph;
  EXPECT_NE(summary(r).find("launched   as one CUDA graph"), std::string::npos);
}

TEST(Text, TimesHaveThreeDigits) {
  EXPECT_EQ(time_text(45'123), "45.1 us");
  EXPECT_EQ(time_text(342'000), "0.342 ms");
  EXPECT_EQ(time_text(1'234'000), "1.23 ms");
  EXPECT_EQ(time_text(123'400'000), "123 ms");
  EXPECT_EQ(time_text(1.5e9), "1.50 s");
}

TEST(Text, AMachineFileSaysWhatNobodyMeasured) {
  machine m;
  EXPECT_EQ(provenance(m), "not calibrated, kernels at 100 % of the peak");
  m.operators = {{"linear", "bf16", 0, 80}};
  EXPECT_EQ(provenance(m), "not calibrated");
  m.calibrated = true;
  EXPECT_EQ(provenance(m), "calibrated");
  m.estimated = {"uvm.evict_ns"};
  EXPECT_EQ(provenance(m), "not calibrated, 1 of its figures estimated");
}

TEST(Text, MeasuredAndSimulatedAreToldApart) {
  record r = cell_record("device", 1, {1});
  EXPECT_EQ(provenance(r), "simulated on machine file h200, figures not calibrated");
  r.calibrated = true;
  EXPECT_EQ(provenance(r), "simulated on machine file h200, figures calibrated");
  r.assumes_peak_kernels = true;
  EXPECT_EQ(provenance(r),
            "simulated on machine file h200, figures calibrated, kernels at 100 % of the peak");
  r.simulated = false;
  r.backend = "cuda:0";
  r.device = "NVIDIA H200";
  EXPECT_EQ(provenance(r), "measured on NVIDIA H200");
}

TEST(Digests, AnotherResultThanDeviceHadIsWrong) {
  digest_checker book;
  record device = cell_record("device", 0.5, {1}), same = cell_record("managed", 1.5, {1}), other = same;
  device.digest = same.digest = 1;
  other.digest = 2;
  book.check(device);
  book.check(same);
  book.check(other);
  EXPECT_EQ(same.result, outcome::ok);
  EXPECT_EQ(other.result, outcome::wrong_result);
  EXPECT_NE(other.reason->find("0000000000000002"), std::string::npos);
}

TEST(Digests, OnlyTheSameWorkIsCompared) {
  digest_checker book;
  record device = cell_record("device", 0.5, {1}), other = cell_record("managed", 1.5, {1});
  device.digest = 1;
  other.digest = 2;
  other.network.batch = 4;
  book.check(device);
  book.check(other);
  EXPECT_EQ(other.result, outcome::ok);
  other.network.batch = 2;
  for (const auto change : {+[](network_spec& n) { n.fusion_mode = fusion::lean; },
                            +[](network_spec& n) { n.arithmetic = precision::tf32; },
                            +[](network_spec& n) { n.order = memory_order::nhwc; }}) {
    record changed = other;
    change(changed.network);
    book.check(changed);
    EXPECT_EQ(changed.result, outcome::ok) << storage_text(changed.network);
  }
  other.iterations = 3;
  book.check(other);
  EXPECT_EQ(other.result, outcome::ok);
}

TEST(PlanSummary, CountsEveryResidenceAndEveryAction) {
  planned_cell p;
  p.file.network = sample_cell().network;
  for (std::size_t i = 0; i < all_values<residence>().size(); ++i) {
    p.file.plan.residences.insert(p.file.plan.residences.end(), i + 1, all_values<residence>()[i]);
  }
  p.file.plan.actions = {advise{},  prefetch{}, prefetch{}, evict{},
                         discard{}, compute{},  compute{},  compute{}};
  const std::string text = summary(p);
  EXPECT_NE(text.find("tensors    1 device, 2 staged, 3 managed, 4 twinned, 5 host\n"), std::string::npos)
      << text;
  EXPECT_NE(text.find("actions    1 advise, 2 prefetch, 1 evict, 1 discard, 3 compute\n"), std::string::npos)
      << text;
}

// From rules to print, for every residence that rules can name.
TEST(PlanSummary, TellsWhereRulesPutTensors) {
  for (const residence where : {residence::device, residence::managed, residence::host}) {
    experiment e = sample_experiment();
    e.rules.emplace();
    e.rules->name = e.strategy = "parameters_elsewhere";
    e.rules->rules = {{"parameters", {.roles = {role::parameter}}, residence_rule{where}}};
    cell work = complete_cell(e);
    work.planner_machine = find_machine(load_machines(std::nullopt), "h200");
    const planned_cell p = plan_cell(work);
    const auto n = std::ranges::count(p.file.plan.residences, where);
    EXPECT_GT(n, 0);
    EXPECT_NE(summary(p).find(fmt::format("{} {}", n, to_text(where))), std::string::npos) << summary(p);
  }
}

}  // namespace
}  // namespace um
