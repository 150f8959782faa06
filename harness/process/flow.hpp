// The flow of one experiment, in the calling process: network, backend, profile, budget, plan, verification,
// addresses, execution, record. Exceptions become outcomes of the record.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "harness/study/record.hpp"

namespace um {

// Runs a cell. `report_before_counting` receives the record before another pass counts the driver's work, so
// that a failure of that pass does not lose the times. Throws only for defects of the program.
record run_cell(const cell& work, const std::function<void(const record&)>& report_before_counting = {});

// The record of a cell, filled by `fill_in`. An exception of it becomes outcome and reason.
record with_outcome(const cell& work, const std::function<void(record&)>& fill_in);

// The reason why a GPU's cell cannot fit even without workspaces, so that engines need not be searched;
// nothing if it may fit or if that depends on the engines.
std::optional<std::string> misfit_without_workspaces(const cell& work, const machine& figures);

// The plan of a cell, ready to be written to a file. Throws infeasible, unsupported or out_of_memory.
planned_cell plan_cell(const cell& work);

}  // namespace um
