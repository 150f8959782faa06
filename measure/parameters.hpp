// Calibration: takes the microbenchmarks that yield the figures of a machine file.
#pragma once

#include <functional>
#include <string_view>

#include "measure/bench.hpp"
#include "measure/figures.hpp"

namespace um::measure {

// Measures all figures of a machine. `fitted` has the fitted figures, which no case measures
// (figures_from()). `progress` gets the name of each measurement. A measurement that fails is noted, and the
// others go on.
calibration calibrate(bench& on, const uvm_costs& fitted,
                      const std::function<void(std::string_view)>& progress);

}  // namespace um::measure
