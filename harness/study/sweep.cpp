#include "harness/study/sweep.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "harness/io/errors.hpp"
#include "harness/io/text.hpp"

namespace um {
namespace {

using knob_map = std::map<std::string, std::int64_t>;

// All combinations of one value per knob; one empty combination without knobs.
std::vector<knob_map> knob_combinations(const std::map<std::string, std::vector<std::int64_t>>& knobs) {
  std::vector<knob_map> all{{}};
  for (const auto& [name, values] : knobs) {
    std::vector<knob_map> longer;
    for (const knob_map& before : all) {
      for (const std::int64_t value : values) {
        longer.push_back(before);
        longer.back()[name] = value;
      }
    }
    all = std::move(longer);
  }
  return all;
}

// Throws if the product of all list lengths, an upper bound of the cells, is too large.
void check_size(const grid& g) {
  std::uint64_t cells = 1;
  const auto times = [&](std::size_t n) {
    cells = std::min<std::uint64_t>(
        checked_multiply(cells, std::max<std::size_t>(n, 1)).value_or(most_cells + 1), most_cells + 1);
  };
  for (const std::size_t n :
       {g.networks.size(), g.batches.size(), g.insizes.size(), g.passes.size(), g.sgd.size(),
        g.optimizers.size(), g.masters.size(), g.strategies.size(), g.ratios.size(), g.budgets.size(),
        g.backends.size(), g.modes.size(), g.workspace_caps.size(), g.fusions.size(), g.precisions.size(),
        g.orders.size()}) {
    times(n);
  }
  for (const auto& [name, values] : g.network_knobs) times(values.size());
  for (const auto& [name, values] : g.strategy_knobs) times(values.size());
  if (cells > most_cells) {
    throw input_error(fmt::format("more than {} cells; split the sweep", most_cells));
  }
}

// Combines all networks with every value of one more axis; the last axis varies fastest.
template <class T, class Member>
void vary_axis(std::vector<network_spec>& all, Member network_spec::* axis, const std::vector<T>& values) {
  std::vector<network_spec> longer;
  for (const network_spec& before : all) {
    for (const T& value : values) {
      longer.push_back(before);
      longer.back().*axis = value;
    }
  }
  all = std::move(longer);
}

// Every network knob with its values, including the shorthand `insizes`.
std::map<std::string, std::vector<std::int64_t>> network_knobs_of(const grid& g) {
  auto knobs = g.network_knobs;
  if (!g.insizes.empty() && !knobs.emplace("insize", g.insizes).second) {
    throw input_error("insize stands as a field and in network_knobs; keep one");
  }
  return knobs;
}

// A network of the catalogue with every choice of the axes.
std::vector<network_spec> variants_of(const network_spec& n, const grid& g) {
  std::vector<network_spec> all{n};
  vary_axis(all, &network_spec::knobs, knob_combinations(network_knobs_of(g)));
  vary_axis(all, &network_spec::batch, g.batches);
  vary_axis(all, &network_spec::mode, g.passes);
  vary_axis(all, &network_spec::appends_sgd, g.sgd);
  vary_axis(all, &network_spec::optimizer, g.optimizers);
  vary_axis(all, &network_spec::keeps_masters, g.masters);
  vary_axis(all, &network_spec::fusion_mode, g.fusions);
  vary_axis(all, &network_spec::arithmetic, g.precisions);
  if (!g.orders.empty()) vary_axis(all, &network_spec::order, g.orders);
  return all;
}

std::vector<built_network> networks_of(const grid& g) {
  std::vector<built_network> networks;
  for (const network_spec& n : g.networks) {
    const std::vector<network_spec> all = n.imported_graph ? std::vector{n} : variants_of(n, g);
    for (const network_spec& spec : all) networks.push_back(complete_and_build(spec));
  }
  return networks;
}

struct strategy_with_knobs {
  strategy_choice how;
  knob_map knobs;
};

void check_knobs_known(const grid& g) {
  for (const auto& [name, values] : g.strategy_knobs) {
    std::vector<std::string> known;
    for (const strategy_choice& s : g.strategies) {
      for (const knob& k : s->row.knobs) known.push_back(k.name);
    }
    std::sort(known.begin(), known.end());
    known.erase(std::unique(known.begin(), known.end()), known.end());
    if (!std::binary_search(known.begin(), known.end(), name)) {
      throw input_error(unknown_name("strategy knob", name, known));
    }
  }
}

bool has_knob(const strategy& s, const std::string& name) {
  return std::ranges::find(s.knobs, name, &knob::name) != s.knobs.end();
}

std::vector<strategy_with_knobs> strategies_of(const grid& g) {
  check_knobs_known(g);
  std::vector<strategy_choice> given = g.strategies;
  std::ranges::stable_partition(given,
                                [](const strategy_choice& s) { return s->row.name == baseline_strategy; });
  std::vector<strategy_with_knobs> all;
  for (const strategy_choice& s : given) {
    auto knobs = g.strategy_knobs;
    std::erase_if(knobs, [&](const auto& k) { return !has_knob(s->row, k.first); });
    for (knob_map& choice : knob_combinations(knobs)) all.push_back({s, std::move(choice)});
  }
  return all;
}

struct memory_amount {
  std::optional<double> ratio;
  std::optional<byte_count> budget;
};

std::vector<memory_amount> amounts_of(const grid& g) {
  if (!g.ratios.empty() && !g.budgets.empty()) throw input_error("both ratio and budget are given; keep one");
  std::vector<memory_amount> all;
  for (const double r : g.ratios) all.push_back({r, std::nullopt});
  for (const byte_count b : g.budgets) all.push_back({std::nullopt, b});
  std::sort(all.begin(), all.end(), [](const memory_amount& a, const memory_amount& b) {
    return std::pair(a.ratio, b.budget) < std::pair(b.ratio, a.budget);
  });
  if (all.empty()) all.emplace_back();
  return all;
}

// The values of an axis, or one empty value if it has none.
template <class T>
std::vector<std::optional<T>> optional_values(const std::vector<T>& values) {
  if (values.empty()) return {std::nullopt};
  return {values.begin(), values.end()};
}

std::vector<cell> expand(const grid& g, bool allow_native) {
  check_size(g);
  const auto nets = networks_of(g);
  const auto strategies = strategies_of(g);
  const auto amounts = amounts_of(g);
  std::vector<cell> cells;
  for (const std::string& backend : g.backends) {
    for (const built_network& network : nets) {
      for (const auto& mode : optional_values(g.modes)) {
        for (const auto& cap : optional_values(g.workspace_caps)) {
          for (const strategy_with_knobs& s : strategies) {
            for (const memory_amount& a : amounts) {
              cells.push_back(
                  complete_cell({network.spec, s.how->row.name, s.knobs, a.ratio, a.budget, backend, mode,
                                 cap, g.iterations, g.deadline_s, g.timeline, allow_native,
                                 s.how->has_own_rules ? s.how->rules : std::nullopt},
                                network, s.how));
            }
          }
        }
      }
    }
  }
  return cells;
}

// Adds a completed cell unless it exists; `seen` maps keys to indices of `all`.
void add_cell(std::vector<cell>& all, std::map<std::string, std::size_t>& seen, cell c) {
  const auto [at, is_new] = seen.emplace(c.key, all.size());
  if (is_new) {
    all.push_back(std::move(c));
    return;
  }
  experiment& before = all[at->second].settings;
  before.timeline = c.settings.timeline = before.timeline || c.settings.timeline;
  if (!(before == c.settings)) {
    throw input_error(
        fmt::format("cell {} is asked for twice with different iterations or deadlines; keep one", c.key));
  }
}

}  // namespace

std::vector<cell> expand(const sweep_spec& spec, const std::string& source, bool allow_native) {
  std::vector<cell> all;
  std::map<std::string, std::size_t> seen;
  for (std::size_t i = 0; i < spec.grids.size(); ++i) {
    try {
      for (cell& c : expand(spec.grids[i], allow_native)) add_cell(all, seen, std::move(c));
      if (all.size() > most_cells) {
        throw input_error(fmt::format("more than {} cells; split the sweep", most_cells));
      }
    } catch (const input_error& error) {
      throw input_error(fmt::format("{}: grids[{}]: {}", source, i, error.what()));
    }
  }
  return all;
}

}  // namespace um
