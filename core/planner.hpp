// A planner is a function from a problem to a plan; a strategy names one and lists its knobs.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "core/machine.hpp"
#include "core/memory_plan.hpp"
#include "core/names.hpp"
#include "core/pack.hpp"

namespace um {

// The cost of one operator as measured or estimated with everything resident.
struct op_cost {
  nanoseconds time = 0;
  byte_count workspace_bytes = 0;  // a later part of a filter gradient also needs the size of the gradient
  std::string engine;              // which implementation was chosen, for the record
  std::int64_t batch_parts = 1;  // number of parts of the batch that the engine computes one after the other
};
using profile = std::vector<op_cost>;  // one per operator

// Cost of a part of an operator; the backend memoises it.
using slice_costs = std::function<op_cost(const compute&)>;

// Who evicts managed memory to stay within the budget.
//
// none: nobody, everything fits. plan: the plan, at operator boundaries (mode `capped`). driver: the driver,
// on demand (modes `native` and `simulated`).
enum class pressure : std::uint8_t { none, plan, driver };

using knob_values = std::map<std::string, std::int64_t>;

struct problem {
  const graph& network;
  const profile& operator_costs;  // one per operator
  const machine& target;
  byte_count budget = std::numeric_limits<byte_count>::max();
  pressure evicted_by = pressure::none;  // the plan, the driver or nobody
  knob_values knobs;                     // every knob of the strategy, defaults filled in
  slice_costs cost_of_slice = {};        // if not set: cost_of() estimates
  // A plan that takes so long is of no use: the planner may give up, as if there were none.
  nanoseconds time_to_beat = std::numeric_limits<nanoseconds>::max();
};

// Cost of computing an operator or a part of it. Without `slices` a part takes one launch and its share, by
// volume, of the remaining time, with the smaller of the whole operator's workspace and the compute's limit.
// A compute with `cheap_recompute` takes the share of its bytes and no workspace.
op_cost cost_of(const graph& g, const profile& costs, const machine& on, const slice_costs& slices,
                const compute& c);
op_cost cost_of(const problem& p, const compute& c);

// Thrown if the strategy cannot solve a problem; what() says why, with figures.
struct infeasible : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// One operator's operands exceed the budget: no plan fits that has them all on the device.
struct operands_too_large : infeasible {
  using infeasible::infeasible;
};

struct knob {
  std::string name, summary;
  std::int64_t default_value = 0, min_value = 0, max_value = 0;
};

using planner = std::function<memory_plan(const problem&)>;

// How a strategy keeps data that does not fit the device.
//
// device: nothing leaves the device. explicit_: in pinned host memory, moved by copies of the plan. managed:
// in managed memory, moved by the driver, with or without hints.
enum class family : std::uint8_t { device, explicit_, managed };
template <>
inline constexpr std::array enum_names<family>{"device"sv, "explicit"sv, "managed"sv};

// Techniques, in ascending order of how much they change a program.
enum class memory_technique : std::uint8_t {
  in_core,
  batch_parts,
  recomputation,
  managed,
  managed_hints,
  host_access,
  swapping,
  managed_plan,
  search
};
template <>
inline constexpr std::array enum_names<memory_technique>{
    "in-core"sv,        "parts of the batch"sv,        "recomputation"sv,
    "managed memory"sv, "managed memory with hints"sv, "host memory over the link"sv,
    "swapping"sv,       "managed memory, planned"sv,   "all of them, searched"sv};

// A row of the table of strategies.
struct strategy {
  std::string name, summary;
  planner plan = {};  // the function that makes its plan
  packer packing_algorithm = packers::searched;
  std::vector<knob> knobs = {};
  bool is_bit_exact = true;  // results equal those of `device` to the bit; false: up to rounding
  family kind = family::explicit_;
  bool keeps_budget = true;  // throws infeasible if it cannot; false: lowering may refuse its plan
  std::string source = {};   // the paper that it follows; "": none
  std::optional<memory_technique> technique = {};  // nothing: the default of its family
  bool is_advised = false;                         // `umbench advise` tries it by default
};

memory_technique technique_of(const strategy& s);

// nullptr if there is no such row.
const strategy* find_strategy(std::span<const strategy> table, std::string_view name);

// Makes the strategy's plan. Explicit planners keep an optimizer's states on the device. If nothing fits
// then, the states stay in pinned memory and the step accesses them over the link: the planner gets a budget
// larger by their size. Throws infeasible.
memory_plan plan_for(const strategy& s, const problem& p);

// Adds the defaults of missing knobs. Throws std::invalid_argument naming an unknown knob or a value out of
// range.
knob_values complete_knobs(const strategy& s, const knob_values& given);

}  // namespace um
