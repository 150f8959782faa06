// Machine files: built into the program, or from a folder that the user names.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/machine.hpp"
#include "harness/study/machines.hpp"

namespace um {

struct machine_text {
  std::string file_name, text;
};
// Written at build time from results/machines/*.json.
std::vector<machine_text> embedded_machines();

// All machines by name; a file of `extra` replaces a built-in one of the same name. Throws
// input_error for a file that is malformed or a folder that cannot be read.
std::vector<machine> load_machines(const std::optional<std::filesystem::path>& extra);

}  // namespace um
