// Operators that stand for what a program does on the CPU between its kernels (traces have them): they touch
// managed memory as the CPU does. They can be simulated only.
#pragma once

#include <string_view>
#include <variant>

#include "core/operators.hpp"

namespace um {

inline constexpr std::string_view cpu_label = "cpu";

// An opaque operator of that label.
inline bool runs_on_cpu(const op& o) {
  const auto* const a = std::get_if<opaque>(&o.what);
  return a != nullptr && a->label == cpu_label;
}

}  // namespace um
