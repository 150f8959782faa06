// From options to cells: what run, plan and sweep share.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "harness/commands/commands.hpp"
#include "harness/process/child.hpp"
#include "harness/study/cell.hpp"
#include "harness/study/environment.hpp"

namespace um {

// As the user gave it. Throws input_error naming the option.
experiment experiment_of(const experiment_options& options);
// The same, complete; files that it names are read within limits.
cell cell_asked_for(const experiment_options& options);
// Those files: of rules, of a network.
std::vector<std::string> files_of(const experiment_options& options);

// "" names no folder.
std::vector<machine> machines_in(const std::string& folder);

// With the machine of a simulated backend. Throws input_error for an unknown one.
cell on_machine(cell work, const std::vector<machine>& machines);

// The environment of these cells. Asks for a GPU only if one of them wants one; throws input_error if it is
// not there. Those for a GPU learn whose figures planners go by: of machine `like`, or, where that is "", of
// the GPU's kind. Where there is no such file it says on standard error whose stand in.
environment environment_for(std::span<cell> cells, const std::vector<machine>& machines,
                            const std::string& like, signal_watch& signals);

// Parts of the setting that decide times and are easily overlooked, as rows of text; "" if there are none.
std::string setting_rows(const cell& work);

bool all_simulated(std::span<const cell> cells);

// Cells that run at a time; if not given, one a core, of a GPU's one. Throws input_error.
std::size_t jobs_of(const std::string& option, bool simulated);

}  // namespace um
