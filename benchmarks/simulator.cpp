// Speed of the simulator: by the size of the arena, and for whole cells.
//   um_simulator_benchmark --benchmark_counters_tabular=true
#include <benchmark/benchmark.h>

#include "backends/simulator_backend.hpp"
#include "core/lower.hpp"
#include "harness/json/input_files.hpp"
#include "hints/hints.hpp"
#include "networks/catalogue.hpp"
#include "simulator/managed_memory.hpp"

namespace um {
namespace {

machine h200() {
  return find_machine(load_machines(std::nullopt), "h200");
}

// A sweep over twice what the device holds: every block is serviced and displaces another.
void sweep_under_pressure(benchmark::State& state) {
  const auto bytes = static_cast<byte_count>(state.range(0)) * GiB;
  managed_memory memory(bytes, bytes / managed_block / 2, h200());
  memory.place_on_host({0, bytes});
  for (auto _ : state) benchmark::DoNotOptimize(memory.touch({0, bytes}, access_mode::read));
  state.SetComplexityN(state.range(0));
  state.counters["blocks/s"] = benchmark::Counter(static_cast<double>(bytes / managed_block),
                                                  benchmark::Counter::kIsIterationInvariantRate);
}
BENCHMARK(sweep_under_pressure)->RangeMultiplier(4)->Range(1, 1024)->Complexity(benchmark::oN);

void sweep_that_hits(benchmark::State& state) {
  const auto bytes = static_cast<byte_count>(state.range(0)) * GiB;
  managed_memory memory(bytes, bytes / managed_block, h200());
  memory.touch({0, bytes}, access_mode::write);
  for (auto _ : state) benchmark::DoNotOptimize(memory.touch({0, bytes}, access_mode::read));
  state.SetComplexityN(state.range(0));
}
BENCHMARK(sweep_that_hits)->RangeMultiplier(4)->Range(1, 1024)->Complexity(benchmark::oN);

void prefetch_under_pressure(benchmark::State& state) {
  const auto bytes = static_cast<byte_count>(state.range(0)) * GiB;
  managed_memory memory(bytes, bytes / managed_block / 2, h200());
  memory.place_on_host({0, bytes});
  for (auto _ : state) benchmark::DoNotOptimize(memory.prefetch_to_device({0, bytes}));
  state.SetComplexityN(state.range(0));
}
BENCHMARK(prefetch_under_pressure)->RangeMultiplier(4)->Range(1, 1024)->Complexity(benchmark::oN);

// Building, planning, lowering and five iterations.
void vgg16_batch_256_at_ratio_2(benchmark::State& state, const char* strategy) {
  const planner plan = find_strategy(hint_strategies(), strategy)->plan;
  for (auto _ : state) {
    const graph g = build_network({.name = "vgg16", .batch = 256});
    const auto simulator = open_simulator(h200());
    const machine on = simulator->describe();
    const profile costs = simulator->measure_operators(g);
    const problem p{g, costs, on, footprint_of(g, costs).total / 2, pressure::driver, {{"ahead", 2}}};
    benchmark::DoNotOptimize(simulator->execute(g, lower(p, plan(p)), {.iterations = 5}));
  }
}
BENCHMARK_CAPTURE(vgg16_batch_256_at_ratio_2, managed, "managed")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(vgg16_batch_256_at_ratio_2, managed_prefetch, "managed_prefetch")
    ->Unit(benchmark::kMillisecond);

// VGG-16 with every operator cut into 16 along the batch: planners that cut lower such plans many times.
struct sliced_vgg16 {
  graph network = build_network({.name = "vgg16", .batch = 256});
  machine on = h200();
  profile costs = open_simulator(on)->measure_operators(network);
  memory_plan plan;

  sliced_vgg16() {
    constexpr std::uint32_t parts = 16;
    plan.residences.assign(network.tensors.size(), residence::device);
    for (op_id o = 0; o < network.ops.size(); ++o) {
      const std::int64_t batch = iteration_domain(network, network.ops[o]).batch.end;
      for (std::uint32_t k = 0; k < parts; ++k)
        plan.actions.emplace_back(compute{o, batch_part(batch, k, parts)});
    }
  }
  problem to_lower() const {
    return {network, costs, on, std::numeric_limits<byte_count>::max(), pressure::none, {}};
  }
};

void lower_vgg16_in_16_slices(benchmark::State& state) {
  const sliced_vgg16 sliced;
  for (auto _ : state) benchmark::DoNotOptimize(lower(sliced.to_lower(), sliced.plan));
  state.counters["computes"] = static_cast<double>(sliced.plan.actions.size());
}
BENCHMARK(lower_vgg16_in_16_slices)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace um

BENCHMARK_MAIN();
