// Compares simulated figures with medians of measured later iterations, and with published figures.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/machine.hpp"
#include "harness/study/record.hpp"

namespace um {

// A figure that is measured (the median of later iterations) or published, and the simulation that is
// compared with it: a pattern, or the steady iteration of a cell, alone or relative to another strategy.
struct known_figure {
  std::string name, source;
  double min_value = 0, max_value = 0;
  std::string unit;  // "ns", "GB/s", "times" or, of a cell alone, "ms"
  bool is_calibration_input =
      false;  // figures of the machine file were derived from it, so it does not test them
  std::string machine;
  std::string miss_reason;             // explanation of a miss; "": not known
  std::optional<std::string> pattern;  // name in simulator/patterns.hpp; nothing: a cell
  built_network network;
  std::optional<double> ratio;  // set for cells, and for patterns that have a ratio
  std::vector<double> ratios;   // range of the ratio, if the source states only that
  std::string strategy;
  // Strategy whose time divides the cell's; "": none; "compute": the operators' time with all data resident.
  std::string baseline;
};

// Range of the simulated value over uncertain inputs: the order of accesses, and the figures of the machine
// file within their bounds.
struct figure_band {
  double low = 0, high = 0;
};
struct comparison {
  std::string group, name;  // machine and source, and figure; or setting and strategy
  double known_min = 0, known_max = 0, predicted = 0;  // known range; simulated value
  std::string unit;
  bool is_calibration_input = false;  // as in known_figure
  std::string source = {}, explanation = {};
  std::string missing_reason = {};       // reason why there is no prediction; "" if there is one
  std::optional<figure_band> band = {};  // for managed memory just above ratio 1
};
struct cell_comparison {
  comparison first_iteration, later_iterations;
  double later_median = 0;           // median of the measured later iterations
  bool has_other_addresses = false;  // the arenas differ from the record's, so the measured plan was another
};
// Relative deviation of the prediction from the known range, negative below it: 0 inside it, infinite without
// a prediction.
double deviation_of(const comparison& c);
// Whether the band overlaps the known range.
bool is_within_band(const comparison& c);
// Factor by which the prediction is too large or too small: 1 inside the range, infinite without a
// prediction.
double deviation_factor(const comparison& c);

// Compares a figure. Throws input_error if it names an unknown machine, strategy or network. A cell without a
// plan has a missing_reason.
comparison compare_figure(const known_figure& f, const std::vector<machine>& machines);

// Compares the first and the later iterations of all runs of a measured cell with a simulation of the same
// plan on that machine. Operators have the times that were measured in the first run that has them, else
// estimates. A measured time is one without disturbances, as in a calibration: the lower decile of all runs
// or, of fewer than ten iterations, the minimum. Runs that are not measured or not ok do not count. Returns
// nothing if no run counts or the strategy is unknown. A cell without a plan has a missing_reason.
std::optional<cell_comparison> compare_cell(const std::vector<record>& runs, const machine& target);

// Pairs of strategies of one cell whose steady times differ by more than 5 %: their number, and those whose
// order the prediction reverses or of which one has no prediction.
struct order_check {
  std::size_t pair_count = 0;
  std::vector<std::string> wrong_pairs;
};
order_check check_order(const std::vector<comparison>& steady);

}  // namespace um
