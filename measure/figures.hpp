// Computes a machine's figures from the measurements of a calibration; no GPU needed. core/machine.hpp says
// what each figure means and which measurement yields it.
#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/machine.hpp"
#include "core/quantiles.hpp"

namespace um::measure {

// `typical` is the median. The minimum would mislead: a host may alternate between two speeds for seconds,
// for instance with and without another process. An iteration of a network sees both speeds, the fastest
// samples of a short measurement only one.
struct spread {
  std::size_t samples = 0;
  double min = 0, typical = 0, max = 0;
  double lower = 0, upper = 0;  // quartiles
};
spread spread_of(std::vector<double> values);  // needs at least one value

// Measured values by name: nanoseconds of repetitions, or counts.
using readings = std::map<std::string, std::vector<double>, std::less<>>;

struct figures {
  std::map<std::string, spread> spread_of_figure;  // as in the machine file: "uvm.fault_ns"
  std::set<std::string> inferred;                  // figures that were not measured but derived from others
  std::vector<std::string> notes;                  // why figures are missing or were corrected
};
// A figure's value is computed from the medians of its readings, its spread from the first, second ...
// samples of these readings, which were taken close to one another. A figure is left out if a reading is
// missing or if it must be positive and is not; a negative time becomes zero. The parts of a fault's cost are
// all left out if one is missing. Each case is noted. `given`: fitted figures (core/figures.hpp), which are
// not measured.
figures figures_from(const readings& all, const uvm_costs& given);

struct calibration {
  figures results;
  std::map<std::string, spread> samples;  // spread of each of `raw_readings`
  readings raw_readings;
};

}  // namespace um::measure
