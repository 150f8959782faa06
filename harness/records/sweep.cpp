#include "harness/records/sweep.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <tuple>

#include "harness/records/strategies.hpp"
#include "harness/records/suggest.hpp"

namespace um {
namespace {

using knob_map = std::map<std::string, std::int64_t>;

// Every choice of one value per knob; one empty choice if there are no knobs.
std::vector<knob_map> choices(const std::map<std::string, std::vector<std::int64_t>>& knobs) {
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
       {g.networks.size(), g.batches.size(), g.passes.size(), g.sgd.size(), g.strategies.size(),
        g.ratios.size(), g.budgets.size(), g.backends.size(), g.modes.size(), g.workspace_caps.size(),
        g.fusions.size(), g.precisions.size(), g.orders.size()}) {
    times(n);
  }
  for (const auto& [name, values] : g.network_knobs) times(values.size());
  for (const auto& [name, values] : g.strategy_knobs) times(values.size());
  if (cells > most_cells) {
    throw input_error(fmt::format("more than {} cells; split the sweep", most_cells));
  }
}

// Every network of `all` with every value of one more axis; the last axis varies fastest.
template <class T, class Member>
void vary(std::vector<network_spec>& all, Member network_spec::* axis, const std::vector<T>& values) {
  std::vector<network_spec> longer;
  for (const network_spec& before : all) {
    for (const T& value : values) {
      longer.push_back(before);
      longer.back().*axis = value;
    }
  }
  all = std::move(longer);
}

std::vector<network_spec> networks_of(const grid& g) {
  std::vector<network_spec> all(1);
  vary(all, &network_spec::name, g.networks);
  vary(all, &network_spec::knobs, choices(g.network_knobs));
  vary(all, &network_spec::batch, g.batches);
  vary(all, &network_spec::mode, g.passes);
  vary(all, &network_spec::sgd, g.sgd);
  vary(all, &network_spec::joined, g.fusions);
  vary(all, &network_spec::arithmetic, g.precisions);
  if (!g.orders.empty()) vary(all, &network_spec::order, g.orders);
  for (network_spec& spec : all) spec = completed(std::move(spec));
  return all;
}

struct named_strategy {
  std::string name;
  std::optional<hint_strategy> rules;  // of one from a file
  knob_map knobs;
};

std::vector<knob> knobs_of(const named_strategy& s) {
  return s.rules ? um::knobs_of(*s.rules) : strategy_named(s.name).knobs;
}

bool has_knob(const named_strategy& s, const std::string& name) {
  const std::vector<knob> all = knobs_of(s);
  return std::any_of(all.begin(), all.end(), [&](const knob& k) { return k.name == name; });
}

// Files of rules lie beside the sweep's file, or where their paths say.
named_strategy named(const std::string& text, const std::filesystem::path& folder) {
  if (!is_rules_file(text)) return {text, std::nullopt, {}};
  hint_strategy rules = rules_from_file((folder / text).string());
  std::string name = rules.name;
  return {std::move(name), std::move(rules), {}};
}

void check_knobs_known(const grid& g, const std::vector<named_strategy>& strategies) {
  for (const auto& [name, values] : g.strategy_knobs) {
    std::vector<std::string> known;
    for (const named_strategy& s : strategies) {
      for (const knob& k : knobs_of(s)) known.push_back(k.name);
    }
    std::sort(known.begin(), known.end());
    known.erase(std::unique(known.begin(), known.end()), known.end());
    if (!std::binary_search(known.begin(), known.end(), name)) {
      throw input_error(unknown_name("strategy knob", name, known));
    }
  }
}

std::vector<named_strategy> strategies_of(const grid& g, const std::filesystem::path& folder) {
  std::vector<named_strategy> given;
  for (const std::string& text : g.strategies) given.push_back(named(text, folder));
  check_knobs_known(g, given);
  std::stable_partition(given.begin(), given.end(),
                        [](const named_strategy& s) { return s.name == "device"; });
  std::vector<named_strategy> all;
  for (const named_strategy& s : given) {
    auto knobs = g.strategy_knobs;
    std::erase_if(knobs, [&](const auto& k) { return !has_knob(s, k.first); });
    for (knob_map& choice : choices(knobs)) all.push_back({s.name, s.rules, std::move(choice)});
  }
  return all;
}

struct amount {
  std::optional<double> ratio;
  std::optional<byte_count> budget;
};

std::vector<amount> amounts_of(const grid& g) {
  if (!g.ratios.empty() && !g.budgets.empty()) throw input_error("both ratio and budget are given; keep one");
  std::vector<amount> all;
  for (const double r : g.ratios) all.push_back({r, std::nullopt});
  for (const byte_count b : g.budgets) all.push_back({std::nullopt, b});
  std::sort(all.begin(), all.end(), [](const amount& a, const amount& b) {
    return std::pair(a.ratio, b.budget) < std::pair(b.ratio, a.budget);
  });
  if (all.empty()) all.emplace_back();
  return all;
}

std::vector<std::optional<run_mode>> modes_of(const grid& g) {
  if (g.modes.empty()) return {std::nullopt};
  return {g.modes.begin(), g.modes.end()};
}

std::vector<std::optional<byte_count>> workspace_caps_of(const grid& g) {
  if (g.workspace_caps.empty()) return {std::nullopt};
  return {g.workspace_caps.begin(), g.workspace_caps.end()};
}

std::vector<experiment> expand(const grid& g, const std::filesystem::path& folder, bool allow_native) {
  check_size(g);
  const auto nets = networks_of(g);
  const auto strategies = strategies_of(g, folder);
  const auto amounts = amounts_of(g);
  std::vector<experiment> cells;
  for (const std::string& backend : g.backends) {
    for (const network_spec& network : nets) {
      for (const auto& mode : modes_of(g)) {
        for (const auto& cap : workspace_caps_of(g)) {
          for (const named_strategy& s : strategies) {
            for (const amount& a : amounts) {
              cells.push_back({network, s.name, s.knobs, a.ratio, a.budget, backend, mode, cap, g.iterations,
                               g.deadline_s, g.timeline, allow_native, s.rules});
            }
          }
        }
      }
    }
  }
  return cells;
}

// Adds a completed cell unless it is there; `seen` maps keys to indices of `all`.
void add_cell(std::vector<experiment>& all, std::map<std::string, std::size_t>& seen, experiment e) {
  const std::string key = key_of(e);
  const auto [at, is_new] = seen.emplace(key, all.size());
  if (is_new) {
    all.push_back(std::move(e));
    return;
  }
  experiment& before = all[at->second];
  before.timeline = e.timeline = before.timeline || e.timeline;
  if (!(before == e)) {
    throw input_error(
        fmt::format("cell {} is asked for twice with different iterations or deadlines; keep one", key));
  }
}

}  // namespace

std::vector<experiment> expand(const sweep_spec& spec, const std::string& source, bool allow_native) {
  std::vector<experiment> all;
  std::map<std::string, std::size_t> seen;
  for (std::size_t i = 0; i < spec.grids.size(); ++i) {
    try {
      for (experiment& e : expand(spec.grids[i], std::filesystem::path(source).parent_path(), allow_native)) {
        add_cell(all, seen, completed_on_known_network(std::move(e)));
      }
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
