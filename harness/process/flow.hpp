// The flow of one experiment, in the calling process: network, backend, profile, budget, plan,
// proof, addresses, execution, record. Refusals and failures are outcomes of the record.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "harness/study/record.hpp"

namespace um {

// Runs a cell. `tell` receives the record before another pass counts the driver's work, so that a failure
// there does not lose the times. Throws only for defects of the program.
record run_cell(const cell& work, const std::function<void(const record&)>& tell = {});

// The record of a cell, filled by `fill_in`; a refusal or failure that it throws becomes outcome and reason.
record with_outcome(const cell& work, const std::function<void(record&)>& fill_in);

// Why a GPU's cell does not fit whatever workspaces its engines need, so that they need not be searched;
// nothing if it may fit or if that depends on the engines.
std::optional<std::string> misfit_without_workspaces(const cell& work, const machine& figures);

// The plan of a cell, ready to be written to a file. Throws infeasible, unsupported or out_of_memory.
planned_cell plan_cell(const cell& work);

}  // namespace um
