// A sweep is a list of grids; each grid is a Cartesian product of lists of values.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "harness/study/cell.hpp"

namespace um {

struct grid {
  std::vector<network_spec> networks;  // a network from a file is used as it is and ignores the axes below
  std::vector<std::int64_t> batches{1};
  std::vector<std::int64_t> insizes;  // shorthand for the knob insize; empty: its default
  std::vector<pass> passes{pass::train};
  std::vector<bool> sgd{false};  // values of --sgd
  std::vector<std::optional<optimizer_kind>> optimizers{std::nullopt};
  std::vector<bool> masters{false};  // values of --masters
  std::vector<fusion> fusions{fusion::fused};
  std::vector<precision> precisions{precision::fp32};
  std::vector<memory_order> orders;  // empty: the default of each precision
  std::map<std::string, std::vector<std::int64_t>> network_knobs;
  std::vector<strategy_choice> strategies;
  // Apply to the strategies that have such a knob; at least one must.
  std::map<std::string, std::vector<std::int64_t>> strategy_knobs;
  std::vector<double> ratios;  // neither: the whole device
  std::vector<byte_count> budgets;
  std::vector<std::string> backends;
  std::vector<run_mode> modes;             // empty: the default of the backend
  std::vector<byte_count> workspace_caps;  // empty: the default
  std::uint32_t iterations = 5, deadline_s = 300;
  bool timeline = false;
};

struct sweep_spec {
  std::string name;
  std::vector<grid> grids;
};

inline constexpr std::size_t most_cells = 100'000;

// Returns the cells in the order in which they run: by backend, network with its knobs, precision and so on,
// strategy and its knobs, then rising ratios or falling budgets. `device` precedes the other strategies,
// because their results and times are compared with it. A cell that occurs twice runs once, with a timeline
// if either has one. Throws input_error, `source: grids[i]: ...`, for every error of complete_cell(), for too
// many cells, and for a cell that occurs twice with different settings.
std::vector<cell> expand(const sweep_spec& spec, const std::string& source, bool allow_native = false);

}  // namespace um
