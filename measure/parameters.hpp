// Calibration: takes the microbenchmarks that yield the figures of a machine file.
#pragma once

#include <functional>
#include <string_view>

#include "measure/bench.hpp"
#include "measure/figures.hpp"

namespace um::measure {

// `given`: as in figures_from(). `progress` receives the name of each measurement. Failures are noted.
calibration calibrate(bench& on, const uvm_costs& given,
                      const std::function<void(std::string_view)>& progress);

}  // namespace um::measure
