// Speed of a forecast: searches make thousands of them.
#include "schedule/forecast.hpp"

#include <benchmark/benchmark.h>

#include <limits>

#include "harness/json/input_files.hpp"
#include "networks/catalogue.hpp"
#include "schedule/orders.hpp"
#include "simulator/roofline.hpp"

namespace um {
namespace {

// One set of decisions, every fourth activation swapped and every fourth computed again: from decisions to
// time and peak.
void forecast(benchmark::State& state, const network_spec& spec) {
  const graph g = build_network(spec);
  const machine on = find_machine(load_machines(std::nullopt), "h200");
  const profile costs = estimate(g, on);
  const problem p{g, costs, on, std::numeric_limits<byte_count>::max(), pressure::none, {}};
  const use_table uses = make_use_table(g, graph_order(g));
  const std::vector<gap> gaps = find_gaps(g, uses);
  std::vector<decision> decisions(gaps.size());
  for (std::size_t i = 0; i < gaps.size(); i += 4) {
    decisions[i] = {gap_choice::swap, gaps[i].last_use, gaps[i].next_use - 1};
    if (i + 2 < gaps.size() && gaps[i + 2].is_recomputable)
      decisions[i + 2] = {gap_choice::recompute, 0, gaps[i + 2].next_use};
  }
  forecaster costs_of(p, uses);
  for (auto _ : state) {
    benchmark::DoNotOptimize(costs_of.forecast(build_events(g, uses, gaps, decisions),
                                               find_staged_tensors(uses, gaps, decisions)));
  }
}
BENCHMARK_CAPTURE(forecast, vgg16, network_spec{.name = "vgg16", .batch = 256})
    ->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(forecast, resnet152, network_spec{.name = "resnet152", .batch = 128})
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace um
