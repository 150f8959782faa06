// Compares simulated figures with measured and published ones.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/machine.hpp"
#include "harness/study/record.hpp"

namespace um {

// A measured or published figure, and the simulation to compare: a pattern, or the steady iteration of a
// cell, alone or relative to another strategy.
struct known_figure {
  std::string name, source;
  double min_value = 0, max_value = 0;
  std::string unit;                   // "ns", "GB/s", "times" or, of a cell alone, "ms"
  bool is_calibration_input = false;  // the machine file's figures were derived from it, so it tests nothing
  std::string machine;
  std::string miss_reason;             // what explains a miss; "": nothing is known
  std::optional<std::string> pattern;  // name in simulator/patterns.hpp; nothing: a cell
  built_network network;
  std::optional<double> ratio;  // set for cells, and for patterns that have a ratio
  std::vector<double> ratios;   // range of the ratio, if the source states only that
  std::string strategy,
      baseline;  // "compute": the operators' time with everything resident; over "": nothing
};

// Range of the simulated value over uncertain inputs: the order of accesses, and the figures of the machine
// file within their bounds.
struct figure_band {
  double low = 0, high = 0;
};
struct comparison {
  std::string group, name;                    // machine and source, or setting; figure, or strategy
  double least = 0, most = 0, predicted = 0;  // known range; simulated value
  std::string unit;
  bool is_calibration_input = false;  // the machine file was worked out from this figure
  std::string source = {}, why = {};
  std::string missing_reason = {};       // why nothing is predicted; "": something is
  std::optional<figure_band> band = {};  // for managed memory just above ratio 1
};
struct cell_comparison {
  comparison first_iteration, later_iterations;
  double later_median = 0;       // measured
  bool other_addresses = false;  // the arenas differ from the record's, so another plan was measured
};
// Relative distance of the prediction from the known range: 0 inside it, infinite without a prediction.
double deviation_of(const comparison& c);
// Whether the band overlaps the known range.
bool is_within_band(const comparison& c);
// Factor by which the prediction is too large or too small: 1 inside the range, infinite without a
// prediction.
double deviation_factor(const comparison& c);

// Throws input_error where the figure asks for something that is not there. A cell without a plan is not run.
comparison compare_figure(const known_figure& f, const std::vector<machine>& machines);

// First and later iterations of a measured cell, in as many runs as there are of it, against the same plan on
// that machine, its operators as long as they were measured in the first run that has them, else as
// estimated. What a time is while nothing disturbs it, as in a calibration: the lower decile of the first
// iterations of all runs, and of the later ones; of fewer than ten the least. Runs that are not measured or
// not ok do not count; nothing for a cell of no others, or whose strategy is not known. One without a plan is
// not run.
std::optional<cell_comparison> compare_cell(const std::vector<record>& runs, const machine& target);

// Pairs of strategies of one cell whose steady times differ by more than 5 %: how many there are,
// and which of them the prediction has the wrong way round, or one of them did not run.
struct order_check {
  std::size_t pair_count = 0;
  std::vector<std::string> wrong_pairs;
};
order_check check_order(const std::vector<comparison>& steady);

}  // namespace um
