// What follows from the measurements of a calibration: arithmetic alone, no GPU. core/machine.hpp says
// at each figure what it means and which measurement yields it.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

namespace um::measure {

double median_of(std::vector<double> all);  // of at least one

struct spread {
  std::size_t samples = 0;
  double least = 0, median = 0, most = 0;
};
spread spread_of(std::vector<double> values);  // of at least one

// What was measured, by name: nanoseconds of repetitions, or counts.
using readings = std::map<std::string, std::vector<double>, std::less<>>;

struct figures {
  std::map<std::string, spread> by_name;  // as in the machine file: "uvm.fault_ns"
  std::vector<std::string> notes;         // why others are missing, or were mended
};
// A figure's value follows from the medians of the readings; its spread from the first, second ...
// sample of each. A figure whose readings are missing, or which would have to be positive and is not,
// is left out; a time below zero becomes zero. The parts of a fault's cost are all left out if one of
// them is below zero or missing. All of this is noted.
figures figures_from(const readings& all);

struct calibration {
  figures found;
  std::map<std::string, spread> samples;  // of the readings
};

}  // namespace um::measure
