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

// The cost of one operator, measured or estimated with everything resident.
struct op_cost {
  nanoseconds time = 0;
  byte_count workspace_bytes =
      0;               // without the gradient's size, which later parts of a filter gradient also need
  std::string engine;  // name of the implementation that was chosen
  std::int64_t engine_parts = 1;  // parts of its batch that the engine computes one after another; 1: at once
};
using profile = std::vector<op_cost>;  // one per operator

// Cost of a part of an operator. The backend caches it.
using slice_costs = std::function<op_cost(const compute&)>;

// A compute that costs the same as `c`. Parts with equally many images cost the same, except that the first
// part writes results to which others add.
compute representative_part(const graph& g, compute c);

// Who evicts managed memory to stay within the budget.
//
// none: nobody, everything fits. plan: the plan, at operator boundaries (mode `capped`). driver: the driver,
// on demand (modes `native` and `simulated`).
enum class evictor : std::uint8_t { none, plan, driver };

using knob_values = std::map<std::string, std::int64_t>;

struct problem {
  const graph& network;
  const profile& operator_costs;  // one per operator
  const machine& target;
  byte_count budget = std::numeric_limits<byte_count>::max();
  evictor evicted_by = evictor::none;  // the plan, the driver or none
  knob_values knobs;                   // every knob of the strategy, defaults filled in
  slice_costs cost_of_slice = {};      // if not set: cost_of() estimates
  // Plans that take this long or longer are not wanted: a planner may throw instead of returning one.
  nanoseconds time_to_beat = std::numeric_limits<nanoseconds>::max();
  bool measures_slices = false;  // cost_of_slice measures each new part, which takes 0.1 s or more
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

// Thrown if one operator's operands exceed the budget, so no plan fits that has them all on the device.
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
  bool keeps_budget =
      true;  // throws infeasible if it cannot keep the budget; false: lowering may refuse its plan
  std::string source = {};                         // the paper that it implements; "": none
  std::optional<memory_technique> technique = {};  // nothing: the default technique of its family
  bool is_advised = false;                         // `umbench advise` tries it by default
};

memory_technique technique_of(const strategy& s);

// The strategy of that name; nullptr if there is none.
const strategy* find_strategy(std::span<const strategy> table, std::string_view name);

// Makes the strategy's plan. Explicit planners keep an optimizer's states on the device. If nothing fits
// then, the states stay in pinned memory and the step accesses them over the link: the planner gets a budget
// larger by their size. Throws infeasible.
memory_plan plan_for(const strategy& s, const problem& p);

// The given knobs with the defaults of missing ones. Throws std::invalid_argument, naming an unknown knob or
// a value out of range.
knob_values complete_knobs(const strategy& s, const knob_values& given);

}  // namespace um
