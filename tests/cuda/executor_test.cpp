// The executor: every residence computes the same bits, movements happen, waits hold, the trace
// tells what was done.
#include <algorithm>
#include <iostream>

#include "networks/catalogue.hpp"
#include "tests/cuda/gpu.hpp"

namespace um::gpu_tests {
namespace {

graph small_network(bool sgd = false) {
  return build({"vgg11", 4, pass::train, sgd, {{"insize", 32}}});
}

// Every staged tensor is fetched right before and stored right after each operator.
memory_plan staged_throughout(const graph& g) {
  memory_plan plan;
  plan.home.assign(g.tensors.size(), residence::staged);
  for (op_id o = 0; o < g.ops.size(); ++o) {
    const op& what = g.ops[o];
    for (const tensor_id t : what.in) plan.actions.emplace_back(prefetch{t, {}});
    plan.actions.emplace_back(compute{o, {}});
    std::vector<tensor_id> touched = what.in;
    for (const tensor_id t : what.out) {
      if (std::find(touched.begin(), touched.end(), t) == touched.end()) touched.push_back(t);
    }
    for (const tensor_id t : touched) plan.actions.emplace_back(evict{t, {}});
  }
  return plan;
}

// As above with managed memory; tensors below a block cannot be moved alone and stay.
memory_plan managed_to_and_fro(const graph& g) {
  memory_plan plan = staged_throughout(g);
  plan.home.assign(g.tensors.size(), residence::managed);
  return plan;
}

class executors : public on_gpu {
 protected:
  execution execute(const graph& g, const memory_plan& plan, const execution_request& how) {
    const execution_plan steps = lowered(g, workspaces_of(gpu(), g), plan);
    return executor(gpu(), g, steps).run(how);
  }
};

TEST_F(executors, network_agrees_with_double_precision) {
  const graph g = small_network();
  for (const auto& [name, error] : errors_against_reference(g, run(gpu(), g, everything_on_device(g)))) {
    std::cout << "  " << name << ": " << error << '\n';
    // Rounding may tip a few ReLUs, so gradients are allowed more than single operators are.
    EXPECT_LT(error, 1e-3) << name;
    EXPECT_FALSE(std::isnan(error)) << name;
  }
}

TEST_F(executors, every_residence_gives_the_same_bits) {
  const graph g = small_network();
  const auto expected = run(gpu(), g, everything_on_device(g));
  EXPECT_EQ(expected, run(gpu(), g, everything(g, residence::managed)));
  EXPECT_EQ(expected, run(gpu(), g, everything(g, residence::host)));
  EXPECT_EQ(expected, run(gpu(), g, staged_throughout(g)));
  EXPECT_EQ(expected, run(gpu(), g, managed_to_and_fro(g)));
}

TEST_F(executors, iterations_continue_from_each_other) {
  const graph g = small_network(true);
  const execution_request three{3, false, true}, one{1, false, true};
  const execution device = execute(g, everything_on_device(g), three);
  ASSERT_EQ(device.iterations.size(), 3U);
  EXPECT_NE(device.digest, execute(g, everything_on_device(g), one).digest) << "the update had no effect";
  EXPECT_EQ(device.digest, execute(g, staged_throughout(g), three).digest);
  EXPECT_EQ(device.digest, execute(g, managed_to_and_fro(g), three).digest);
  EXPECT_TRUE(device.loss.has_value());
}

TEST_F(executors, trace_counts_copies_and_orders_spans) {
  const graph g = small_network();
  const memory_plan plan = staged_throughout(g);
  const execution_plan steps = lowered(g, workspaces_of(gpu(), g), plan);
  const execution done = executor(gpu(), g, steps).run({2, true, false});
  byte_count in = 0, out = 0;
  for (const step& s : steps.steps) {
    for (const movement& m : s.moves) {
      if (!s.needed) continue;
      (std::holds_alternative<prefetch>(s.what) ? in : out) += m.device.bytes;
    }
  }
  EXPECT_GT(in, 0U);
  for (const trace& t : done.iterations) {
    EXPECT_EQ(t.moved.copy_to_device_bytes, in);
    EXPECT_EQ(t.moved.copy_to_host_bytes, out);
    EXPECT_EQ(t.moved.faults, 0U);
    ASSERT_EQ(t.spans.size(), steps.steps.size());
    EXPECT_EQ(t.resident.size(), steps.steps.size());
    for (const span& s : t.spans) {
      EXPECT_LE(s.begin, s.end);
      EXPECT_LE(s.end, t.duration);
      for (const std::int32_t other : steps.steps[s.step].after) {
        if (other == no_step) continue;
        // Event times are exact to about a microsecond.
        EXPECT_LE(t.spans[static_cast<std::size_t>(other)].end, s.end + 1000);
      }
    }
  }
}

TEST_F(executors, counts_no_prefetch_that_it_did_not_observe) {
  const graph g = small_network();
  const execution staged = execute(g, staged_throughout(g), {});
  EXPECT_EQ(staged.iterations.at(0).moved.prefetch_to_device_bytes, 0U);
  const execution managed = execute(g, managed_to_and_fro(g), {});
  EXPECT_FALSE(managed.iterations.at(0).moved.prefetch_to_device_bytes.has_value());
  EXPECT_FALSE(managed.iterations.at(0).moved.faults.has_value());
  EXPECT_GT(managed.iterations.at(0).moved.plan_evict_bytes.value_or(0), 0U);
}

TEST_F(executors, leaves_oversubscription_to_the_driver_only_if_allowed) {
  const graph g = small_network();
  const profile costs = workspaces_of(gpu(), g);
  const machine on;
  const byte_count need = lowered(g, costs, everything(g, residence::managed)).managed_arena_bytes;
  const execution_plan steps =
      lower({g, costs, on, need / 2, pressure::driver, {}}, everything(g, residence::managed));
  EXPECT_THROW(executor(gpu(), g, steps), unsupported);
}

TEST_F(executors, refuses_workspaces_of_another_machine) {
  const graph g = small_network();
  profile costs = workspaces_of(gpu(), g);
  for (op_cost& c : costs) c.workspace_bytes = 0;
  const execution_plan steps = lowered(g, costs, everything_on_device(g));
  EXPECT_THROW(executor(gpu(), g, steps), std::invalid_argument);
}

}  // namespace
}  // namespace um::gpu_tests
