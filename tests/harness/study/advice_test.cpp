#include "harness/study/advice.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "harness/study/experiment.hpp"
#include "harness/study/modules.hpp"
#include "tests/harness/samples.hpp"

namespace um {
namespace {

tried_strategy strategy_taking(const char* strategy, nanoseconds time) {
  experiment e = sample_experiment();
  e.strategy = strategy;
  tried_strategy t{technique_of(strategy_named(strategy)->row), make_record(complete_cell(e))};
  t.result.samples = {time, time};
  if (time == 0) t.result.result = outcome::infeasible;
  return t;
}

memory_advice advice_of(std::vector<tried_strategy> tried) {
  record in_core = strategy_taking("device", 1000).result;
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
  EXPECT_EQ(recommended_strategy(advice_of({strategy_taking("managed", 5000), strategy_taking("best", 1100)}))
                ->result.strategy,
            "best");
  EXPECT_EQ(recommended_strategy(advice_of({strategy_taking("best", 1000), strategy_taking("managed", 1019)}))
                ->result.strategy,
            "managed");
  EXPECT_EQ(recommended_strategy(advice_of({strategy_taking("best", 1000), strategy_taking("managed", 1021)}))
                ->result.strategy,
            "best");
  EXPECT_EQ(recommended_strategy(advice_of({strategy_taking("best", 0), strategy_taking("managed", 9000)}))
                ->result.strategy,
            "managed");
  EXPECT_EQ(recommended_strategy(advice_of({strategy_taking("best", 0)})), nullptr);
}

TEST(Advice, WithoutRoomForInCoreItsOperatorsStandForIt) {
  record in_core = strategy_taking("device", 0).result;
  in_core.compute_time = 500;
  const memory_advice a = make_advice({strategy_taking("managed", 1500)}, in_core, {});
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

graph chain_of(const std::vector<std::string>& names) {
  graph g;
  for (const std::string& name : names) {
    const auto t = static_cast<tensor_id>(g.tensors.size());
    g.tensors.push_back({.name = name, .shape = {1, 1, 1, 1 << 18}, .role = role::activation});
    g.ops.push_back({name, relu{}, {}, {t}, true, std::nullopt});
  }
  return g;
}

action computed(op_id o, box part = {}) {
  return compute{.op = o, .part = part};
}

memory_plan make_plan(const graph& g, std::vector<action> actions) {
  return {.residences = std::vector<residence>(g.tensors.size(), residence::device),
          .actions = std::move(actions)};
}

TEST(Modules, EachActivationIsInOneColumn) {
  const graph g = chain_of({"a:mm", "b:relu", "c:mm", "d:add", "e:add"});
  memory_plan plan =
      make_plan(g, {computed(0), computed(1), computed(2), computed(3, batch_part(4, 0, 2)), computed(4),
                    discard{0, {}}, evict{1, {}}, prefetch{1, {}}, computed(0), computed(3)});
  plan.residences[4] = residence::host;
  const auto rows = modules_of(g, plan);
  ASSERT_EQ(rows.size(), 5U);
  const byte_count size = 1 << 20;
  EXPECT_EQ(rows[0].recomputed_bytes, size);
  EXPECT_EQ(rows[1].offloaded_bytes, size);
  EXPECT_EQ(rows[2].kept_bytes, size);
  EXPECT_EQ(rows[3].split_bytes, size);
  EXPECT_EQ(rows[4].offloaded_bytes, size);
  for (const module_row& row : rows)
    EXPECT_EQ(row.recomputed_bytes + row.offloaded_bytes + row.split_bytes + row.kept_bytes, size)
        << row.module;
}

TEST(Modules, LayersThatAreTreatedAlikeShareALine) {
  const graph g = chain_of({"h.0.mlp:mm", "h.1.mlp:mm", "h.2.mlp:mm", "h.4.mlp:mm", "sum"});
  const std::string text =
      module_table(modules_of(g, make_plan(g, {computed(0), computed(1), computed(2), computed(3),
                                               computed(4), discard{1, {}}, computed(1)})));
  EXPECT_EQ(text,
            "module          compute again         offload             cut            keep\n"
            "h.[0,2,4].mlp                                                        3.00 MiB\n"
            "h.1.mlp              1.00 MiB\n"
            "(the model)                                                          1.00 MiB\n");
}

TEST(Modules, NamesWithoutModulesHaveNoTable) {
  const graph g = chain_of({"conv1.y"});
  EXPECT_EQ(module_table(modules_of(g, make_plan(g, {computed(0)}))), "");
}

}  // namespace
}  // namespace um
