// Memory management must not change results: loss and all gradients are the same bits under every
// strategy of the tables, with room to spare and without, on small networks whose activations are most of
// what they need; where slices sum in another order, the same to rounding.
#include <algorithm>
#include <iostream>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "hints/hints.hpp"
#include "networks/catalogue.hpp"
#include "planners/planners.hpp"
#include "simulator/roofline.hpp"
#include "tests/cuda/elements.hpp"
#include "tests/cuda/gpu.hpp"
#include "tests/machines.hpp"

namespace um::gpu_tests {
namespace {

constexpr std::uint32_t iterations = 2;  // the second starts from what the first one left

// But what asks an optional solver, and takes its time (papers_test has it).
std::vector<strategy> all_strategies() {
  std::vector<strategy> all(planners().begin(), planners().end());
  std::erase_if(all, [](const strategy& s) { return s.name == "tvdnn_ilp"; });
  all.insert(all.end(), hint_strategies().begin(), hint_strategies().end());
  return all;
}

struct under_strategy {
  network_spec network;
  strategy by;
};

std::string name_of(const network_spec& spec) {
  return spec.name + "_" + std::string(to_text(spec.fusion_mode)) + "_" +
         std::string(to_text(spec.arithmetic));
}
void PrintTo(const under_strategy& it, std::ostream* out) {  // for GoogleTest
  *out << name_of(it.network) << " under " << it.by.name;
}

memory_plan plan_by(problem p, const strategy& s) {
  p.knobs = complete_knobs(s, {});
  if (p.knobs.contains("trials")) p.knobs["trials"] = 2;
  return s.plan(p);
}

class strategies_under_pressure : public on_gpu, public ::testing::WithParamInterface<network_spec> {};

class strategies : public on_gpu, public ::testing::WithParamInterface<under_strategy> {
 protected:
  execution execute(const problem& p, const memory_plan& plan) {
    const execution_plan steps = lower(p, plan);
    return executor(gpu(), p.network, steps)
        .run({.iterations = iterations, .computes_digest = true, .poisons_released_memory = true});
  }
  // By plain device memory; run once for each network.
  const execution& expected(const problem& roomy) {
    static std::map<std::string, execution> known;
    const auto [at, is_new] = known.try_emplace(name_of(GetParam().network));
    if (is_new) at->second = execute(roomy, plan_by(roomy, *find_strategy(planners(), "device")));
    return at->second;
  }
  // The same slices of the same operators by the same engines, everything on the device.
  execution execute_resident(const problem& p, const memory_plan& like) {
    memory_plan resident = everything_on_device(p.network);
    std::erase_if(resident.actions, [](const action&) { return true; });
    for (const action& a : like.actions) {
      if (std::holds_alternative<compute>(a)) resident.actions.push_back(a);
    }
    return execute(p, resident);
  }
};

// Returns costs with the machine's estimated times and the workspaces of this GPU's engines.
profile costs_of(session& gpu, const graph& g, const machine& m) {
  profile costs = estimate(g, m);
  const profile here = workspaces_of(gpu, g);
  for (op_id o = 0; o < g.ops.size(); ++o) costs[o].workspace_bytes = here[o].workspace_bytes;
  return costs;
}

TEST_P(strategies, give_the_same_bits) {
  const auto& [network, s] = GetParam();
  const graph g = build_network(network);
  const machine on = testing::fast_test_machine();
  const profile costs = costs_of(gpu(), g, on);
  const problem roomy{g, costs, on, std::numeric_limits<byte_count>::max(), evictor::none, {}};
  const byte_count footprint = footprint_of(g, costs).total;
  ASSERT_TRUE(expected(roomy).digest && expected(roomy).loss);
  EXPECT_GT(*expected(roomy).loss, 0);
  const auto expect_same = [&](const problem& p, const std::string& label) {
    const memory_plan plan = plan_by(p, s);
    const execution done = execute(p, plan);
    const execution same = s.is_bit_exact ? expected(roomy) : execute_resident(roomy, plan);
    EXPECT_EQ(done.digest, same.digest) << label;
    EXPECT_EQ(done.loss, same.loss) << label;
  };
  try {
    expect_same(roomy, "with room");
  } catch (const unsupported& reason) {  // it needs a library which is not there
    GTEST_SKIP() << reason.what();
  }
  for (const byte_count percent : {110U, 150U}) {
    try {
      expect_same({g, costs, on, footprint * 100 / percent, evictor::plan, {}},
                  std::to_string(percent) + " %");
    } catch (const infeasible& reason) {
      std::cout << "  at " << percent << " %: " << reason.what() << '\n';
    }
  }
}

// Or the tests above would mean little.
TEST_P(strategies_under_pressure, are_many) {
  const graph g = build_network(GetParam());
  const machine on = testing::fast_test_machine();
  const profile costs = costs_of(gpu(), g, on);
  int tight = 0;
  for (const strategy& s : all_strategies()) {
    const byte_count budget = footprint_of(g, costs).total * 100 / 110;
    try {
      plan_by({g, costs, on, budget, evictor::plan, {}}, s);
      ++tight;
    } catch (const infeasible&) {
    } catch (const unsupported&) {
    }
  }
  EXPECT_GE(tight, 10);
}

// Gradients are summed in another order than without parts, but always in the same one.
using micro_batches_on_gpu = on_gpu;

TEST_F(micro_batches_on_gpu, agree_with_device_and_with_themselves) {
  const graph g =
      build_network({.name = "vgg11", .batch = 16, .fusion_mode = fusion::fused, .knobs = {{"insize", 64}}});
  const profile costs = workspaces_of(gpu(), g);
  machine on;
  const problem p{g, costs, on, std::numeric_limits<byte_count>::max(), evictor::none, {{"k", 4}}};
  const memory_plan plan = plan_micro_batches(p);
  const auto is_part = [](const action& a) { return !is_whole(std::get<compute>(a).part); };
  ASSERT_GT(std::ranges::count_if(plan.actions, is_part), 0);
  const bytes_by_tensor whole = run(gpu(), g, everything_on_device(g)), parts = run(gpu(), g, plan);
  EXPECT_EQ(parts, run(gpu(), g, plan));
  for (const auto& [id, bytes] : whole) {
    const tensor& t = g.tensors[id];
    if (t.type != dtype::f32) continue;
    EXPECT_LT(relative_error(from_memory(t, parts.at(id)), from_memory(t, bytes)), 1e-3) << t.name;
  }
}

const std::vector<network_spec>& networks() {
  static const std::vector<network_spec> all{
      {.name = "vgg11_cifar", .batch = 256, .fusion_mode = fusion::none},
      {.name = "vgg11_cifar", .batch = 256, .arithmetic = precision::bf16},
      {.name = "resnet18_cifar", .batch = 64, .fusion_mode = fusion::lean, .arithmetic = precision::tf32}};
  return all;
}
std::vector<under_strategy> cases() {
  std::vector<under_strategy> all;
  for (const network_spec& network : networks()) {
    for (const strategy& by : all_strategies()) all.push_back({network, by});
  }
  return all;
}
INSTANTIATE_TEST_SUITE_P(networks, strategies, ::testing::ValuesIn(cases()),
                         [](const auto& of) { return name_of(of.param.network) + "_" + of.param.by.name; });
INSTANTIATE_TEST_SUITE_P(networks, strategies_under_pressure, ::testing::ValuesIn(networks()),
                         [](const auto& of) { return name_of(of.param); });

}  // namespace
}  // namespace um::gpu_tests
