// Turns options into cells; shared by run, plan and sweep.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "harness/commands/commands.hpp"
#include "harness/process/child.hpp"
#include "harness/study/cell.hpp"
#include "harness/study/environment.hpp"

namespace um {

// Names of the network options that were given; graph files and plans do not allow them.
std::vector<std::string> names_of_given_network_options(const experiment_options& options);
// The experiment as given by the options. Throws input_error naming the option.
experiment parse_experiment(const experiment_options& options);
// The cell of the options. Its files are read within limits of memory and time.
cell requested_cell(const experiment_options& options);
// The files that options name: rules, a network.
std::vector<std::string> input_files_of(const experiment_options& options);

// The machine files of a folder and the built-in ones; with "" only the built-in ones.
std::vector<machine> load_machines_from(const std::string& folder);

// Adds the machine of a simulated backend. Throws input_error if it is unknown.
cell with_machine(cell work, const std::vector<machine>& machines);

// The environment of these cells. Looks for a GPU only if a cell runs on one; throws input_error if it is
// missing. Sets planner_machine of GPU cells: the machine `like` or, if that is "", the one of the GPU's
// kind. Reports on standard error which machine file is used instead if there is none.
environment environment_for(std::span<cell> cells, const std::vector<machine>& machines,
                            const std::string& like, signal_watch& signals);

// A row of text if fp32 without TF32 makes the network slower than it could be; else "", as for a network
// from a file.
std::string precision_row(const cell& work);

bool are_all_simulated(std::span<const cell> cells);

// Number of cells to run at a time; by default one per core, on a GPU one. Throws input_error.
std::size_t parse_jobs(const std::string& option, bool simulated);

}  // namespace um
