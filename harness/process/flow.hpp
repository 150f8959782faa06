// The flow of one experiment, in the calling process: network, backend, profile, budget, plan,
// proof, addresses, execution, record. Refusals and failures are outcomes of the record.
#pragma once

#include <functional>

#include "harness/study/record.hpp"

namespace um {

// `tell` hears of the record as it stands before another pass counts what the
// driver does, so that a failure there does not lose the times. Throws only what no experiment should:
// defects of the program.
record run_cell(const cell& work, const std::function<void(const record&)>& tell = {});

// The record of a cell as `fill_in` leaves it; a refusal or failure that it throws becomes outcome and
// reason.
record with_outcome(const cell& work, const std::function<void(record&)>& fill_in);

// The plan alone, ready to be kept in a file. Throws infeasible, unsupported or out_of_memory.
planned plan_cell(const cell& work);

}  // namespace um
