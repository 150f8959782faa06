// One experiment: a network, a strategy, a backend and the memory that the run may use.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/planner.hpp"
#include "harness/study/plan_file.hpp"
#include "hints/rules.hpp"
#include "networks/catalogue.hpp"

namespace um {

// "sim:NAME" or "number of the GPU, unless simulated:N".
struct backend_name {
  bool is_simulated = true;
  std::string machine;  // name of the machine file, if simulated
  int device = 0;       // cuda
};
backend_name parse_backend(const std::string& text);

inline constexpr double min_ratio = 0.1, max_ratio = 64;
inline constexpr std::uint32_t max_iterations = 100'000, max_deadline_s = 86'400;

struct experiment {
  network_spec network;
  std::string strategy;
  knob_values strategy_knobs;
  std::optional<double> ratio;       // footprint / budget
  std::optional<byte_count> budget;  // without ratio and budget: the whole device
  std::string backend;
  std::optional<run_mode> mode;             // nothing: `simulated` on sim:NAME, `capped` on cuda:N
  std::optional<byte_count> workspace_cap;  // maximum per operator; nothing: the default, none on sim:NAME
  std::uint32_t iterations = 5;
  std::uint32_t deadline_s = 300;
  bool timeline = false;
  bool allow_native = false;
  std::optional<hint_strategy> rules = {};  // rules of a strategy that came from a file
  friend bool operator==(const experiment&, const experiment&) = default;
};

// "bf16", or "bf16,nchw" if the memory order is not the default of that precision.
std::string storage_text(const network_spec& n);
// The update of parameters: "", "+sgd", "+optimizer=adamw", "+optimizer=adamw,masters".
std::string optimizer_text(const network_spec& n);

// Properties of a mode; the table is in experiment.cpp.
struct mode_row {
  evictor evicted_by;                // who keeps memory within the budget: the plan or the driver
  bool runs_simulated, runs_on_gpu;  // the backends on which it runs
  bool needs_permission;             // runs only with --allow-native-oversubscription
};
const mode_row& facts_of_mode(run_mode mode);

// All strategies by name: the tables of planners/ and hints/ together.
const std::vector<strategy>& strategies();

// The strategy with which the times and results of all others are compared.
inline constexpr std::string_view baseline_strategy = "device";

// A strategy found in a table or made from rules.
struct chosen_strategy {
  strategy row;
  std::optional<hint_strategy> rules;  // nothing: the strategy has no rules
  bool has_own_rules = false;          // the rules are the user's and not in a table
};
using strategy_choice = std::shared_ptr<const chosen_strategy>;
strategy_choice strategy_from_rules(hint_strategy own_rules);

// Finds a strategy by its name, or by "NAME,without=RULE[,without=RULE...]", which switches off rules of a
// hint strategy. Throws input_error listing the known names.
strategy_choice strategy_named(std::string_view name);

// Switches off the listed rules. Throws input_error listing the strategy's rules.
hint_strategy without_rules(hint_strategy s, const std::vector<std::string>& rules);

}  // namespace um
