#include "harness/study/summary.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "harness/json/input_files.hpp"
#include "harness/process/flow.hpp"
#include "tests/harness/samples.hpp"

namespace um {
namespace {

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
