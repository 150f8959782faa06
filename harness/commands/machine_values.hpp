// Figures of a machine as text: "24GiB", "1008GB/s", "82.6TFLOPS", "4us".
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/figures.hpp"

namespace um {

struct figure_setting {
  const figure* of = nullptr;
  std::int64_t value = 0;
};

// Parses options --set FIGURE=VALUE. A value without a unit is in the figure's own unit. Throws input_error
// for an unknown or repeated figure, or a value out of range.
std::vector<figure_setting> figure_settings(const std::vector<std::string>& options);

// "24.0 GiB", "1008 GB/s", "82.6 TFLOPS", "4000 ns", "3 %".
std::string figure_text(const figure& of, std::int64_t value);

// A machine that nobody measured: figures of `base` with `set` in place. What base measured over its link
// (both ways at once, kernels' accesses) follows the link in proportion where it is not set; `followed` gets
// the names of these. Every figure is marked as estimated.
machine derived_machine(machine base, const std::vector<figure_setting>& set,
                        std::vector<std::string>& followed);

}  // namespace um
