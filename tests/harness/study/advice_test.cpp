#include "harness/study/advice.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "harness/study/experiment.hpp"
#include "tests/harness/samples.hpp"

namespace um {
namespace {

tried_strategy way_taking(const char* strategy, nanoseconds time) {
  experiment e = sample_experiment();
  e.strategy = strategy;
  tried_strategy t{technique_of(strategy_named(strategy)->row), make_record(complete_cell(e))};
  t.result.samples = {time, time};
  if (time == 0) t.result.result = outcome::infeasible;
  return t;
}

memory_advice advice_of(std::vector<tried_strategy> tried) {
  record in_core = way_taking("device", 1000).result;
  return make_advice(std::move(tried), in_core, {});
}

TEST(Advice, TriesEveryWayUnaskedThoseThatAskLeastFirst) {
  const std::vector<std::string_view> names = advised_strategies();
  std::vector<memory_technique> ways;
  for (const std::string_view name : names) ways.push_back(technique_of(strategy_named(name)->row));
  EXPECT_TRUE(std::ranges::is_sorted(ways));
  EXPECT_EQ(std::set(ways.begin(), ways.end()).size(), all_values<memory_technique>().size());
  EXPECT_EQ(std::set(names.begin(), names.end()).size(), names.size());
  EXPECT_EQ(technique_of(strategy_named("capuchin")->row), memory_technique::swapping);
  EXPECT_EQ(technique_of(strategy_named("deepum")->row), memory_technique::managed_hints);
  for (const memory_technique way : ways) EXPECT_FALSE(program_changes_for(way).empty());
}

TEST(Advice, NamesTheFastestOrWhatAsksLessAtTheSamePrice) {
  EXPECT_EQ(recommended_strategy(advice_of({way_taking("managed", 5000), way_taking("best", 1100)}))
                ->result.strategy,
            "best");
  EXPECT_EQ(recommended_strategy(advice_of({way_taking("best", 1000), way_taking("managed", 1019)}))
                ->result.strategy,
            "managed");
  EXPECT_EQ(recommended_strategy(advice_of({way_taking("best", 1000), way_taking("managed", 1021)}))
                ->result.strategy,
            "best");
  EXPECT_EQ(
      recommended_strategy(advice_of({way_taking("best", 0), way_taking("managed", 9000)}))->result.strategy,
      "managed");
  EXPECT_EQ(recommended_strategy(advice_of({way_taking("best", 0)})), nullptr);
}

TEST(Advice, WithoutRoomForInCoreItsOperatorsStandForIt) {
  record in_core = way_taking("device", 0).result;
  in_core.compute_time = 500;
  const memory_advice a = make_advice({way_taking("managed", 1500)}, in_core, {});
  EXPECT_EQ(a.in_core_ns, 500);
  EXPECT_FALSE(a.has_in_core_run);
  EXPECT_NE(advice_text(a, "").find("3.00x"), std::string::npos) << advice_text(a, "");
}

TEST(Advice, KnowsWhereManagedMemoryIsAnotherThing) {
  EXPECT_EQ(system_of_kernel("5.15.167.4-microsoft-standard-WSL2"), system_kind::wsl2);
  EXPECT_EQ(system_of_kernel("6.1.0-37-amd64"), system_kind::linux_native);

  gpu_facts gpu;
  gpu.name = "a GPU";
  EXPECT_FALSE(managed_support_of(system_kind::linux_native, gpu).can_oversubscribe);
  EXPECT_NE(managed_support_of(system_kind::linux_native, gpu).reason.find("a GPU"), std::string::npos);
  gpu.concurrent_managed_access = true;
  EXPECT_TRUE(managed_support_of(system_kind::linux_native, gpu).can_oversubscribe);
  EXPECT_FALSE(managed_support_of(system_kind::wsl2, gpu).can_oversubscribe);
  EXPECT_FALSE(managed_support_of(system_kind::linux_native, gpu).is_coherent);
  gpu.facts.known["addressing"] = "hmm";
  EXPECT_FALSE(managed_support_of(system_kind::linux_native, gpu).is_coherent);
  gpu.facts.known["addressing"] = "ats";
  EXPECT_TRUE(managed_support_of(system_kind::linux_native, gpu).is_coherent);

  machine on;
  EXPECT_FALSE(managed_support_of(system_kind::linux_native, on).is_coherent);
  on.uvm.access_counter_threshold = 256;
  EXPECT_TRUE(managed_support_of(system_kind::linux_native, on).is_coherent);
}

}  // namespace
}  // namespace um
