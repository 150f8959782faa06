#include "harness/study/advice.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "harness/study/strategies.hpp"
#include "tests/harness/samples.hpp"

namespace um {
namespace {

tried_way way_taking(const char* strategy, nanoseconds time) {
  experiment e = sample_experiment();
  e.strategy = strategy;
  tried_way t{technique_of(strategy_named(strategy)->row), blank_record(completed(e))};
  t.r.samples = {time, time};
  if (time == 0) t.r.result = outcome::infeasible;
  return t;
}

advice_given advice_of(std::vector<tried_way> tried) {
  record in_core = way_taking("device", 1000).r;
  return advice_from(std::move(tried), in_core, {});
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
  EXPECT_EQ(recommended_by(advice_of({way_taking("managed", 5000), way_taking("best", 1100)}))->r.strategy,
            "best");
  EXPECT_EQ(recommended_by(advice_of({way_taking("best", 1000), way_taking("managed", 1019)}))->r.strategy,
            "managed");
  EXPECT_EQ(recommended_by(advice_of({way_taking("best", 1000), way_taking("managed", 1021)}))->r.strategy,
            "best");
  EXPECT_EQ(recommended_by(advice_of({way_taking("best", 0), way_taking("managed", 9000)}))->r.strategy,
            "managed");
  EXPECT_EQ(recommended_by(advice_of({way_taking("best", 0)})), nullptr);
}

TEST(Advice, WithoutRoomForInCoreItsOperatorsStandForIt) {
  record in_core = way_taking("device", 0).r;
  in_core.compute = 500;
  const advice_given a = advice_from({way_taking("managed", 1500)}, in_core, {});
  EXPECT_EQ(a.in_core_ns, 500);
  EXPECT_FALSE(a.in_core_ran);
  EXPECT_NE(text_of(a, "").find("3.00x"), std::string::npos) << text_of(a, "");
}

TEST(Advice, KnowsWhereManagedMemoryIsAnotherThing) {
  EXPECT_EQ(system_of("5.15.167.4-microsoft-standard-WSL2"), system_kind::wsl2);
  EXPECT_EQ(system_of("6.1.0-37-amd64"), system_kind::linux_native);

  gpu_facts gpu;
  gpu.name = "a GPU";
  EXPECT_FALSE(managed_support_of(system_kind::linux_native, gpu).oversubscribes);
  EXPECT_NE(managed_support_of(system_kind::linux_native, gpu).why.find("a GPU"), std::string::npos);
  gpu.concurrent_managed_access = true;
  EXPECT_TRUE(managed_support_of(system_kind::linux_native, gpu).oversubscribes);
  EXPECT_FALSE(managed_support_of(system_kind::wsl2, gpu).oversubscribes);
  EXPECT_FALSE(managed_support_of(system_kind::linux_native, gpu).coherent);
  gpu.facts.known["addressing"] = "hmm";
  EXPECT_FALSE(managed_support_of(system_kind::linux_native, gpu).coherent);
  gpu.facts.known["addressing"] = "ats";
  EXPECT_TRUE(managed_support_of(system_kind::linux_native, gpu).coherent);

  machine on;
  EXPECT_FALSE(managed_support_of(system_kind::linux_native, on).coherent);
  on.uvm.access_counter_threshold = 256;
  EXPECT_TRUE(managed_support_of(system_kind::linux_native, on).coherent);
}

}  // namespace
}  // namespace um
