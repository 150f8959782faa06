// Machines by name, and the machine that is like a GPU.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/machine.hpp"

namespace um {

// Throws input_error listing the known ones.
const machine& machine_named(const std::vector<machine>& machines, std::string_view name);

// Stands in for a GPU of which there is no machine file, where the user names no other; never silently.
inline constexpr const char* standard_machine = "h200";

// The machine file that was measured on a GPU of that name, the last of them; else the one named like it,
// "h200" for "NVIDIA H200"; else one of its kind; nullptr where there is none. A GPU's own properties tell no
// rates of the link and the driver, so planners go by such figures.
const machine* machine_like(const std::vector<machine>& machines, std::string_view gpu_name);

}  // namespace um
