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
  byte_count workspace_bytes = 0;  // a later part of a filter gradient needs the gradient's size in addition
  std::string engine;              // which implementation was chosen, for the record
  std::int64_t parts = 1;          // parts of the batch, computed one after the other by that engine
};
using profile = std::vector<op_cost>;  // one per operator

// The cost of a part of an operator; memoised by the backend.
using slice_costs = std::function<op_cost(const compute&)>;

// Memory pressure: who evicts managed memory to stay within the budget.
//   none    nobody: everything fits
//   plan    the plan, at operator boundaries (mode `capped`)
//   driver  the driver, on demand (modes `native` and `simulated`)
enum class pressure : std::uint8_t { none, plan, driver };

using knob_values = std::map<std::string, std::int64_t>;

struct problem {
  const graph& network;
  const profile& costs;
  const machine& on;
  byte_count budget = std::numeric_limits<byte_count>::max();
  pressure under = pressure::none;  // who evicts managed memory
  knob_values knobs;                // every knob of the strategy, defaults filled in
  slice_costs cost_of_slice = {};   // not set: as cost_of() says
};

// The cost of computing an operator, or a part of it. Without `slices` a part takes one launch and its share
// of the rest of the whole operator's time by volume, and the whole one's workspace or what it may have of
// it; a cheap recomputation takes its share by bytes, and no workspace.
op_cost cost_of(const graph& g, const profile& costs, const machine& on, const slice_costs& slices,
                const compute& c);
op_cost cost_of(const problem& p, const compute& c);

// The strategy cannot solve this problem; what() says why, with figures.
struct infeasible : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct knob {
  std::string name, summary;
  std::int64_t default_value = 0, least = 0, most = 0;
};

using planner = std::function<memory_plan(const problem&)>;

// How a strategy keeps data that the device has no room for.
//   device     nothing ever leaves the device
//   explicit_  in pinned host memory, moved by copies that the plan makes
//   managed    in managed memory, moved by the driver, with or without hints
enum class family : std::uint8_t { device, explicit_, managed };
template <>
inline constexpr std::array enum_names<family>{"device"sv, "explicit"sv, "managed"sv};

// How much a strategy changes a program, in ascending order.
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
  planner plan = {};
  packer placed_by = packers::searched;
  std::vector<knob> knobs = {};
  bool same_bits = true;  // results equal those of `device` to the bit; false: up to rounding
  family kind = family::explicit_;
  bool keeps_budget = true;  // throws infeasible where it cannot; false: lowering refuses its plan
  std::string source = {};   // the paper that it follows; "": none
  std::optional<memory_technique> technique = {};  // nothing: the usual one of its family
  bool advised = false;                            // `umbench advise` tries it unasked
};

memory_technique technique_of(const strategy& s);

// nullptr if there is no such row.
const strategy* find(std::span<const strategy> table, std::string_view name);

// The strategy's plan. Explicit planners keep an optimizer's states on the device. Where nothing fits so, the
// states stay in pinned memory and the step reaches them over the link: a plan for as much more room as they
// take, without them. Throws infeasible.
memory_plan plan_for(const strategy& s, const problem& p);

// Defaults filled in. Throws std::invalid_argument naming an unknown knob or a value out of range.
knob_values complete(const strategy& s, const knob_values& given);

}  // namespace um
