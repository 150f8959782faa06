// How far simulated figures are from measured and from published ones.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/machine.hpp"
#include "harness/study/record.hpp"

namespace um {

// A figure that somebody measured or published, and what is simulated for it: a pattern, or a cell whose
// steady iteration is compared with that of another strategy, or as it is.
struct known_figure {
  std::string name, source;
  double least = 0, most = 0;
  std::string unit;    // "ns", "GB/s", "times" or, of a cell alone, "ms"
  bool input = false;  // the machine file's figures were worked out from it
  std::string machine;
  std::string why;                     // what explains a miss; "": nothing is known
  std::optional<std::string> pattern;  // name in simulator/patterns.hpp; nothing: a cell
  built_network network;
  std::optional<double> ratio;  // also of a pattern that has one
  std::vector<double> ratios;  // the least and the most that it may have been, where that is all that is said
  std::string strategy, over;  // "compute": the operators' time with everything resident; over "": nothing
};

// What is simulated from the kindest to the unkindest of what is not known: the order of accesses, and the
// figures of the machine file within their bounds.
struct figure_band {
  double low = 0, high = 0;
};
struct comparison {
  std::string group, name;
  double least = 0, most = 0, predicted = 0;
  std::string unit;
  bool input = false;
  std::string source = {}, why = {};
  std::string not_run = {};              // why nothing is predicted; "": something is
  std::optional<figure_band> band = {};  // of managed memory just above ratio 1
};
struct cell_comparison {
  comparison first, later;
  double later_median = 0;       // measured
  bool other_addresses = false;  // today's arenas differ from the record's: what was measured is another plan
};
// Relative distance of the prediction from what is known: 0 inside the range, infinite where there is none.
double deviation_of(const comparison& c);
// Whether what is known and the band have a value in common.
bool is_within_band(const comparison& c);
// How many times too large or too small: 1 inside the range, infinite where nothing is predicted.
double factor_off(const comparison& c);

// Throws input_error where the figure asks for something that is not there. A cell without a plan is not run.
comparison compare_figure(const known_figure& f, const std::vector<machine>& machines);

// First and later iterations of a measured cell, in as many runs as there are of it, against the same plan on
// that machine, its operators as long as they were measured in the first run that has them, else as
// estimated. What a time is while nothing disturbs it, as in a calibration: the lower decile of the first
// iterations of all runs, and of the later ones; of fewer than ten the least. Runs that are not measured or
// not ok do not count; nothing for a cell of no others, or whose strategy is not known. One without a plan is
// not run.
std::optional<cell_comparison> compare_cell(const std::vector<record>& runs, const machine& on);

// Pairs of strategies of one cell whose steady times differ by more than 5 %: how many there are,
// and which of them the prediction has the wrong way round, or one of them did not run.
struct order_check {
  std::size_t pairs = 0;
  std::vector<std::string> wrong;
};
order_check check_order(const std::vector<comparison>& steady);

}  // namespace um
