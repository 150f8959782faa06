// Operators that stand for work of a program on the CPU between its kernels, as traces record it. They access
// managed memory as the CPU does, and can only be simulated.
#pragma once

#include <string_view>
#include <variant>

#include "core/operators.hpp"

namespace um {

inline constexpr std::string_view cpu_label = "cpu";

// Whether `o` is an opaque operator with the label "cpu".
inline bool runs_on_cpu(const op& o) {
  const auto* const a = std::get_if<opaque>(&o.attributes.value);
  return a != nullptr && a->label == cpu_label;
}

}  // namespace um
