// From options to cells: what run, plan and sweep share.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "harness/commands/commands.hpp"
#include "harness/process/child.hpp"
#include "harness/records/environment.hpp"
#include "harness/records/experiment.hpp"

namespace um {

// Not completed yet. Throws input_error naming the option.
experiment experiment_of(const experiment_options& options);

// "" names no folder.
std::vector<machine> machines_in(const std::string& folder);

// With the machine of a simulated backend. Throws input_error for an unknown one.
cell cell_of(experiment completed, const std::vector<machine>& machines);

// The environment of these cells. Asks for a GPU only if one of them wants one; throws input_error
// if it is not there.
environment environment_for(std::span<const cell> cells, signal_watch& signals);

bool all_simulated(std::span<const cell> cells);

// Writes a whole file, or throws input_error. "-" is standard output.
void write_file(const std::string& path, const std::string& text);

}  // namespace um
