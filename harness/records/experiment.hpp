// One experiment: a network, a strategy, a backend and how much memory the run may use.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/planner.hpp"
#include "harness/json/machines.hpp"
#include "harness/records/plan_file.hpp"
#include "hints/rules.hpp"
#include "networks/catalogue.hpp"

namespace um {

// "sim:NAME" or "cuda:N".
struct backend_name {
  bool simulated = true;
  std::string machine;  // simulated: a machine file's name
  int device = 0;       // cuda
};
backend_name parse_backend(const std::string& text);

inline constexpr double least_ratio = 0.1, most_ratio = 64;
inline constexpr std::uint32_t most_iterations = 100'000, most_deadline_s = 86'400;

struct experiment {
  network_spec network;
  std::string strategy;
  knob_values strategy_knobs;
  std::optional<double> ratio;       // footprint / budget
  std::optional<byte_count> budget;  // neither: the whole device
  std::string backend;
  std::optional<run_mode> mode;             // nothing: simulated on sim:NAME, capped on cuda:N
  std::optional<byte_count> workspace_cap;  // most for one operator; nothing: the standard, none on sim:NAME
  std::uint32_t iterations = 5;
  std::uint32_t deadline_s = 300;
  bool timeline = false;
  bool allow_native = false;
  std::optional<hint_strategy> rules = {};  // of a strategy that came from a file
  friend bool operator==(const experiment&, const experiment&);
};

// Fills in the defaults of knobs and mode. Throws input_error for an unknown name or knob, a value
// out of range, a mode that the backend does not have, both a ratio and a budget. A strategy named
// `plan:...` has no knobs to check: its plan comes from a file.
experiment completed(experiment e);

// The same for an experiment whose network is completed already: spares building it anew.
experiment completed_on_known_network(experiment e);

// The row or the rules that the experiment names. Throws input_error.
strategy strategy_of(const experiment& e);

// Completes the network's knobs and memory order and builds it once, so that a size no network can have is
// refused before anything runs.
network_spec completed(network_spec spec);

// "bf16", or "bf16,nchw" where the memory order is not the standard one of that precision.
std::string storage_text(const network_spec& n);

// Identifies a completed experiment in a file: every field that changes what is measured. Knobs
// appear where they differ from their defaults.
std::string key_of(const experiment& e);

// The key without the ratio or budget: experiments of one line differ in nothing else.
std::string line_of(experiment e);
// Whether `a` asks for less memory than `b` of the same line: a higher ratio, a smaller budget.
bool is_tighter(const experiment& a, const experiment& b);

pressure pressure_of(run_mode mode);

// Everything a cell's process needs to know, so that it reads no file.
struct cell {
  experiment what;
  std::optional<machine> on;  // simulated backends
  std::optional<plan_file> plan;
  bool times_only = false;  // leave out what runs beside the timed iterations to observe and to count
  std::string values = {};  // folder for the tensors that survive (execution_request::values); "": none
};

}  // namespace um
