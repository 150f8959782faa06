#include "harness/process/flow.hpp"

#include <gtest/gtest.h>

#include <new>
#include <stdexcept>

#include "core/errors.hpp"
#include "harness/json/input_files.hpp"
#include "planners/planners.hpp"
#include "tests/harness/samples.hpp"

namespace um {
namespace {

record record_of_failure(const auto& failure) {
  const cell work = sample_cell();
  return with_outcome(work, [&](record& r) {
    r.device = "h200";
    throw failure;
  });
}

TEST(Outcome, IsNamedByWhatFailed) {
  EXPECT_EQ(record_of_failure(infeasible("made up")).result, outcome::infeasible);
  EXPECT_EQ(record_of_failure(out_of_memory("made up")).result, outcome::out_of_memory);
  EXPECT_EQ(record_of_failure(std::bad_alloc()).result, outcome::host_out_of_memory);
  EXPECT_EQ(record_of_failure(unsupported("made up")).result, outcome::unsupported);
  EXPECT_EQ(record_of_failure(std::invalid_argument("made up")).result, outcome::unsupported);
  EXPECT_EQ(record_of_failure(std::overflow_error("made up")).result, outcome::unsupported);
}

TEST(Outcome, HasAReasonOfOneLineAndKeepsWhatWasKnown) {
  const record r = record_of_failure(out_of_memory("4.00 GiB wanted\n1.00 GiB free"));
  EXPECT_EQ(r.reason, "4.00 GiB wanted 1.00 GiB free");
  EXPECT_EQ(r.device, "h200");
  EXPECT_TRUE(r.samples.empty());
}

TEST(Outcome, DefectsOfTheProgramAreNone) {
  EXPECT_THROW(record_of_failure(std::logic_error("made up")), std::logic_error);
}

record record_planned_by(planner plan) {
  chosen_strategy mine = *strategy_named("device");
  mine.row.plan = std::move(plan);
  cell work = with_strategy(sample_cell(), std::make_shared<const chosen_strategy>(std::move(mine)));
  work.planner_machine = find_machine(load_machines(std::nullopt), "h200");
  return run_cell(work);
}

// What the backend cannot do is unsupported; what a plan does wrong is not.
TEST(Outcome, FaultyPlansAreWrong) {
  const record nothing = record_planned_by([](const problem& p) {
    return memory_plan{std::vector(p.network.tensors.size(), residence::device), {}};
  });
  EXPECT_EQ(nothing.result, outcome::wrong_result);
  EXPECT_NE(nothing.reason.value().find("made a wrong plan"), std::string::npos);
  const record defect =
      record_planned_by([](const problem&) -> memory_plan { throw std::invalid_argument("made up"); });
  EXPECT_EQ(defect.result, outcome::wrong_result);
  const record twinned = record_planned_by([](const problem& p) {
    memory_plan plan = plan_resident(p);
    plan.residences.front() = residence::twinned;
    return plan;
  });
  EXPECT_EQ(twinned.result, outcome::wrong_result) << twinned.reason.value_or("");
}

std::optional<std::string> misfit_of(const char* strategy, std::optional<double> ratio,
                                     std::optional<byte_count> budget = {}) {
  experiment e = sample_experiment();
  e.backend = "cuda:0";
  e.strategy = strategy;
  e.ratio = ratio;
  e.budget = budget;
  return misfit_without_workspaces(complete_cell(e), find_machine(load_machines(std::nullopt), "h200"));
}

// AlexNet's first fully connected layer has weights of 144 MiB.
TEST(Misfit, IsToldBeforeEnginesAreSearched) {
  for (const char* strategy : {"managed", "managed_prefetch", "managed_advise"}) {
    EXPECT_NE(misfit_of(strategy, {}, 128 * MiB).value_or("").find("at once, the budget leaves 128 MiB"),
              std::string::npos)
        << strategy;
    EXPECT_EQ(misfit_of(strategy, {}, 512 * MiB), std::nullopt) << strategy;
    EXPECT_EQ(misfit_of(strategy, 1.25), std::nullopt) << strategy;
  }
  EXPECT_NE(misfit_of("device", 1.25), std::nullopt);
  EXPECT_NE(misfit_of("device", {}, 128 * MiB), std::nullopt);
}

TEST(Misfit, IsNotToldWhereEnginesDecide) {
  EXPECT_EQ(misfit_of("device", 0.9), std::nullopt) << "workspaces are part of the footprint";
  for (const char* strategy : {"swap_all", "best", "ooc_cudnn", "best_managed"})
    EXPECT_EQ(misfit_of(strategy, {}, MiB), std::nullopt) << strategy;
}

}  // namespace
}  // namespace um
