// What follows from the measurements of a calibration: arithmetic alone, no GPU. core/machine.hpp says
// at each figure what it means and which measurement yields it.
#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/machine.hpp"
#include "core/median.hpp"

namespace um::measure {

// The lower decile, of at least one: what a time is while nothing disturbs it. Disturbances (in a virtual
// machine those of its host) only ever add, last for seconds, and may take most of a minute.
double typical_of(std::vector<double> all);

struct spread {
  std::size_t samples = 0;
  double least = 0, typical = 0, most = 0;
  double lower = 0, upper = 0;  // quartiles
};
spread spread_of(std::vector<double> values);  // of at least one

// What was measured, by name: nanoseconds of repetitions, or counts.
using readings = std::map<std::string, std::vector<double>, std::less<>>;

struct figures {
  std::map<std::string, spread> by_name;  // as in the machine file: "uvm.fault_ns"
  std::set<std::string> inferred;         // those of them that follow from others by reasoning alone
  std::vector<std::string> notes;         // why others are missing, or were mended
};
// A figure's value follows from what is typical of its readings; its spread from the first, second ...
// sample of each, which were taken close to one another. A figure whose readings are missing, or which
// would have to be positive and is not, is left out; a time below zero becomes zero. The parts of a
// fault's cost are all left out if one of them is missing. All of this is noted.
// `given`: what is fitted (core/figures.hpp), which no measurement here tells.
figures figures_from(const readings& all, const uvm_costs& given);

struct calibration {
  figures found;
  std::map<std::string, spread> samples;  // the spread of each of the readings `raw`
  readings raw;
};

}  // namespace um::measure
