// `exact NODES FIRST LAST`: best,bits=1 beside the gap program's optimum, on random networks FIRST to LAST,
// one line of JSON each (results/study/exact_simulated.json). Needs HiGHS.
#include "tests/planners/exact.hpp"

#include <fmt/format.h>

#include <cstdio>

#include "harness/json/input_files.hpp"
#include "tests/planners/random_networks.hpp"

int main(int count, char** words) {
  using namespace um;
  using namespace um::testing;
  if (count != 4) {
    fmt::print(stderr, "usage: exact NODES FIRST LAST\n");
    return 2;
  }
  const std::int64_t nodes = std::atoll(words[1]);
  const auto first = static_cast<std::uint32_t>(std::atoi(words[2])),
             last = static_cast<std::uint32_t>(std::atoi(words[3]));
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
  for (std::uint32_t seed = first; seed <= last; ++seed)
    tell(random_network(seed, 40), seed % 2 == 0 ? h200 : p100, seed % 3 == 0 ? 1.5 : 1.25);
}
