// Finds machines by name, or for a GPU.
#pragma once

#include <string_view>
#include <vector>

#include "core/machine.hpp"

namespace um {

// Finds a machine by its name. Throws input_error that lists the known ones.
const machine& find_machine(const std::vector<machine>& machines, std::string_view name);

// The machine whose figures are used for a GPU without a machine file, unless the user names another. Its use
// is always reported.
inline constexpr const char* standard_machine = "h200";

// The machine file for a GPU: the last one measured on a GPU of that name; else the one with the same name,
// as "h200" for "NVIDIA H200"; else one of the same family; else nullptr. Planners use its figures, since a
// GPU's own properties do not include rates of the link and the driver.
const machine* find_machine_like(const std::vector<machine>& machines, std::string_view gpu_name);

}  // namespace um
