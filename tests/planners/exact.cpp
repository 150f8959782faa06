// `exact [NODES [FIRST LAST]]`: best,bits=1 beside the gap program's optimum, on random networks FIRST to
// LAST and, without these, on 30 of them, AlexNet and VGG-16, one line of JSON each
// (results/study/exact_simulated.json). Needs HiGHS.
#include "tests/planners/exact.hpp"

#include <fmt/format.h>

#include <cstdio>

#include "harness/json/machines.hpp"
#include "tests/planners/random_networks.hpp"
#include "tests/planners/small_networks.hpp"

int main(int count, char** words) {
  using namespace um;
  using namespace um::testing;
  const std::int64_t nodes = count > 1 ? std::atoll(words[1]) : 200;
  const auto tell = [&](const graph& g, const machine& on, double ratio) {
    const exact_pair x = compare_with_optimum(g, on, ratio, nodes);
    const auto ms = [](nanoseconds t) {
      return t == no_bound ? std::string("null") : fmt::format("{:.4f}", static_cast<double>(t) / 1e6);
    };
    fmt::print(
        R"({{"network": "{}", "machine": "{}", "operators": {}, "ratio": {}, "computing_ms": {}, "bound_ms": {}, )"
        R"("proved_ms": {}, "optimum_ms": {}, "optimum_simulated_ms": {}, "best_ms": {}, "infeasible": {}, "nodes": {}, "simulated": true}})"
        "\n",
        g.name, on.name, g.ops.size(), ratio, ms(x.computing), ms(x.bound), ms(x.proved), ms(x.optimum),
        ms(x.simulated), ms(x.best), x.infeasible, x.nodes);
    std::fflush(stdout);
  };
  const auto machines = load_machines(std::nullopt);
  const machine h200 = find_machine(machines, "h200"), p100 = find_machine(machines, "p100-pcie3-16g");
  const bool some = count > 3;
  const auto seed_in = [&](int word) { return static_cast<std::uint32_t>(std::atoi(words[word])); };
  const std::uint32_t first = some ? seed_in(2) : 1, last = some ? seed_in(3) : 30;
  for (std::uint32_t seed = first; seed <= last; ++seed)
    tell(random_network(seed, 40), seed % 2 == 0 ? h200 : p100, seed % 3 == 0 ? 1.5 : 1.25);
  if (some) return 0;
  for (const double ratio : {1.25, 1.5}) {
    tell(build_network(small_spec("alexnet", 512, {.fusion_mode = fusion::fused})), h200, ratio);
    tell(build_network(small_spec("vgg16", 256, {.fusion_mode = fusion::fused})), h200, ratio);
    tell(build_network(
             small_spec("vgg16", 256, {.fusion_mode = fusion::fused, .arithmetic = precision::bf16})),
         h200, ratio);
  }
}
