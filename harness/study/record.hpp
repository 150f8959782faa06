// The record of one experiment, which is one line of a file.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backends/backend.hpp"
#include "core/lower.hpp"
#include "core/trace.hpp"
#include "harness/study/cell.hpp"
#include "harness/study/observation.hpp"
#include "schedule/bounds/bounds.hpp"

namespace um {

enum class outcome : std::uint8_t {
  ok,
  infeasible,          // the strategy cannot work within the budget: a result
  out_of_memory,       // an allocation on the device failed
  host_out_of_memory,  // an allocation on the host failed, or the kernel took the cell's process
  unsupported,         // the backend lacks something
  timeout,             // the deadline passed, or it did at a lower ratio of the same line
  crashed,             // the cell's process died
  hung,                // its process sleeps in the kernel and cannot be killed
  wrong_result,        // computed something else than `device` did
};
template <>
inline constexpr std::array enum_names<outcome>{
    "ok"sv,      "infeasible"sv, "out_of_memory"sv, "host_out_of_memory"sv, "unsupported"sv,
    "timeout"sv, "crashed"sv,    "hung"sv,          "wrong_result"sv};
// ok and infeasible: nothing failed.
constexpr bool is_result(outcome o) {
  return o == outcome::ok || o == outcome::infeasible;
}

struct memory_figures {
  std::optional<footprint_terms> footprint;
  std::optional<byte_count> budget, touched;
  std::optional<byte_count> device_arena, managed_arena, pinned_arena, peak_device;
};

struct engine_figure {
  std::string op, engine;
  nanoseconds time = 0;
  byte_count workspace_bytes = 0;
  std::optional<std::uint64_t> flops;  // nothing: unknown
  std::optional<byte_count> bytes;     // read and written, each operand byte once
  std::int64_t parts = 1;
};

struct timeline_span {
  lane where = lane::compute;
  std::string name;
  nanoseconds begin = 0, end = 0;
};
struct timeline_figures {
  std::uint32_t iteration = 0;  // counted from 0
  std::vector<timeline_span> spans;
  std::vector<resident_sample> resident;
};

struct record {
  std::string key;
  network_spec network;
  std::optional<byte_count> workspace_cap;  // on a GPU
  std::string strategy;
  knob_values strategy_knobs;
  std::optional<hint_strategy> rules;  // rules of a hint strategy, before its knobs
  family kind = family::explicit_;
  bool same_bits = false;       // as the baseline's result; false: equal to rounding
  std::optional<double> ratio;  // as asked for; else footprint / budget, once both are known
  run_mode mode = run_mode::simulated;
  std::string backend;
  std::optional<std::string> device;          // the machine file's or the GPU's name
  std::optional<std::string> figures;         // the machine file that planners went by
  std::optional<std::string> figures_digest;  // of its figures (figures_digest, json/json.hpp)
  std::vector<std::string> borrowed;          // figures that its machine file lacks and the h200's replaces
  std::uint32_t iterations = 0;
  outcome result = outcome::ok;
  std::optional<std::string> reason;
  std::vector<nanoseconds> samples;   // every iteration, the first one first
  std::optional<time_band> band;      // of a later iteration; simulated, just above ratio 1
  std::optional<steady_cycle> cycle;  // simulated, where iterations do not settle at one time
  std::optional<counters> first, last;
  std::optional<std::string> counters_reason;  // why some were not observed
  observation observed;
  memory_figures memory;
  std::optional<nanoseconds> planning;  // time to make the plan; nothing: simulated, or no plan
  std::optional<nanoseconds> compute;   // sum of the operators' times, everything resident
  std::optional<time_bounds> bounds;    // within the budget
  std::optional<plan_bound> bound;      // lower bound for plans of this kind; nothing: there is no plan
  std::vector<std::string> notes;       // what the planner had to say
  std::optional<std::uint64_t> digest;
  std::optional<double> loss;
  bool simulated = true;
  bool replayed = false;              // on a GPU, with operators that only touch memory: values mean nothing
  std::optional<launch_mode> launch;  // nothing: simulated, or nothing ran
  std::optional<bool> calibrated;
  bool kernels_at_peak = false;  // simulated without measured rates of operators; older files lack it
  std::optional<std::vector<engine_figure>> engines;
  std::optional<timeline_figures> timeline;
};

// Everything that the experiment says of itself; the outcome is still to come.
record blank_record(const cell& work);

// Median over all iterations but the first (the first if it is alone); nothing unless `ok`.
std::optional<double> steady_ns(const record& r);

// The quartiles of the same iterations, as NumPy interpolates them; nothing of fewer than two.
struct quartiles {
  double low = 0, high = 0;
};
std::optional<quartiles> steady_quartiles(const record& r);

// Cells that compute the same thing on the same machine share a group, whatever their strategy.
std::string group_of(const record& r);

}  // namespace um
