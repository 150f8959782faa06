// Text for users: times, one run, the figures of a plan.
#pragma once

#include <string>

#include "harness/study/plan_file.hpp"
#include "harness/study/record.hpp"

namespace um {

// Three significant digits: "45.1 us", "0.342 ms", "12.3 ms", "1.53 s".
std::string time_text(double ns);

// "simulated on machine file h200, figures not calibrated", or "measured on NVIDIA H200".
std::string provenance(const record& r);

// "at 100 % of the peak in fp32 and bf16 ..." if no operator has a measured rate; "" if all have.
std::string unmeasured_kernels_warning(const machine& m);

// "fp32 without TF32; ..." if the machine is faster with TF32 and the user did not choose it; otherwise "".
std::string precision_text(const network_spec& of, const machine& target);

// "calibrated", or "not calibrated, 42 of its figures estimated".
std::string provenance(const machine& m);

// "ok, 0.342 ms an iteration"; "infeasible: ..."; one line without a line break.
std::string outcome_text(const record& r);

// Texts of several lines about a record, or about a plan that has not run.
std::string summary(const record& r);
std::string summary(const planned_cell& p);

}  // namespace um
