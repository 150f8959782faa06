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
#include "core/units.hpp"
#include "harness/study/cell.hpp"
#include "schedule/bounds/bounds.hpp"

namespace um {

// The state of a GPU at one moment; members are empty if unknown.
struct gpu_state {
  std::optional<std::uint64_t> sm_clock_mhz, memory_clock_mhz, temperature_c, power_mw;
  std::optional<std::uint64_t> pcie_generation,
      pcie_width;                                        // current state of the link; idle links slow down
  std::optional<std::uint64_t> other_processes;          // other processes with a context on the GPU
  std::optional<std::vector<std::string>> throttled_by;  // reasons why clocks are reduced
  friend bool operator==(const gpu_state&, const gpu_state&) = default;
};

// Members are empty if not observed.
struct observation {
  std::optional<gpu_state> before, after;  // just before and just after the timed iterations
  // Averages per iteration, over the iterations that follow the timed ones.
  std::optional<nanoseconds> host_cpu;  // processor time of the cell's process, all threads, user and system
  std::optional<std::uint64_t> energy_uj;     // energy of the whole GPU
  std::optional<std::string> missing_reason;  // why some members are empty
};

enum class outcome : std::uint8_t {
  ok,
  infeasible,          // the strategy cannot work within the budget: a result
  out_of_memory,       // an allocation on the device failed
  host_out_of_memory,  // an allocation on the host failed, or the OOM killer killed the cell's process
  unsupported,         // the backend lacks a feature
  timeout,             // the deadline passed for this cell, or for one with the same line key and more memory
  crashed,             // the cell's process died
  hung,                // its process is in uninterruptible sleep and cannot be killed
  wrong_result,        // the results differ from those of `device`
};
template <>
inline constexpr std::array enum_names<outcome>{
    "ok"sv,      "infeasible"sv, "out_of_memory"sv, "host_out_of_memory"sv, "unsupported"sv,
    "timeout"sv, "crashed"sv,    "hung"sv,          "wrong_result"sv};
// Whether the outcome is a result (ok, infeasible) and not a failure.
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
  std::optional<byte_count> bytes;     // bytes read and written, each byte of an operand once
  std::int64_t parts = 1;              // parts of the batch that the engine computes one after another
};

struct timeline_span {
  lane where = lane::compute;  // the lane on which it ran
  std::string name;
  nanoseconds begin = 0, end = 0;
};
struct timeline_figures {
  std::uint32_t iteration = 0;  // counted from 0
  std::vector<timeline_span> spans;
  std::vector<memory_sample> resident;  // device bytes over time
};

struct record {
  std::string key;
  network_spec network;
  std::optional<byte_count> workspace_cap;  // on a GPU only
  std::string strategy;
  knob_values strategy_knobs;
  std::optional<hint_strategy> rules;  // rules of a hint strategy, before its knobs
  family strategy_family = family::explicit_;
  bool same_bits = false;       // its result must equal the baseline's bit by bit; if false, up to rounding
  std::optional<double> ratio;  // as requested; otherwise footprint / budget, once both are known
  run_mode mode = run_mode::simulated;
  std::string backend;
  std::optional<std::string> device;                  // the machine file's or the GPU's name
  std::optional<std::string> planner_machine;         // machine file whose figures planners used
  std::optional<std::string> planner_machine_digest;  // digest of the figures of that machine file
  std::vector<std::string> borrowed_figures;  // figures that its machine file lacks, taken from the h200
  std::uint32_t iterations = 0;
  outcome result = outcome::ok;
  std::optional<std::string> reason;
  std::vector<nanoseconds> samples;     // every iteration, the first one first
  std::optional<time_band> band;        // bounds of a later iteration; only if simulated just above ratio 1
  std::optional<steady_cycle> cycle;    // only if simulated iterations do not converge to one time
  std::optional<counters> first, last;  // of the first and the last iteration
  std::optional<std::string> counters_reason;  // why some counters were not observed
  observation gpu_and_host;
  memory_figures memory;
  std::optional<nanoseconds> planning_time;  // time to make the plan; nothing: simulated, or no plan
  std::optional<nanoseconds> compute_time;   // sum of the operators' times, everything resident
  std::optional<time_bounds> bounds;         // lower bounds for the budget
  std::optional<plan_bound> bound;           // lower bound for plans of this kind; nothing: there is no plan
  std::vector<std::string> notes;            // notes of the planner
  std::optional<std::uint64_t> digest;
  std::optional<double> loss;
  bool simulated = true;
  bool is_replay = false;  // on a GPU only, with operators that only access memory: values are meaningless
  std::optional<launch_mode> launch;  // nothing: simulated, or nothing ran
  std::optional<bool> calibrated;
  bool assumes_peak_kernels =
      false;  // simulated with operators at peak rates, since none were measured; absent in older files
  std::optional<std::vector<engine_figure>> engines;
  std::optional<timeline_figures> timeline;
};

// A record with all fields that the cell determines; the outcome is added later.
record make_record(const cell& work);

// Median of all iterations but the first (of the first, if it is the only one); nothing unless `ok`.
std::optional<double> steady_ns(const record& r);

// Quartiles of the iterations of steady_ns(), interpolated as by NumPy; nothing for fewer than two.
struct quartiles {
  double low = 0, high = 0;
};
std::optional<quartiles> steady_quartiles(const record& r);

// Checks of records of one file against each other. Strategies may differ only in time: their results must
// equal those of the strategy `device` bit by bit, unless the table of strategies says that they sum in
// another order. A file holds one version of the figures of each machine and of the rules of each strategy,
// which keys do not contain.

// Remembers the digest of the results of the strategy `device` for each group and iteration count.
class digest_checker {
 public:
  // Sets the outcome wrong_result, with the reason, if the record's digest differs from that of the strategy
  // `device`. Remembers the digest of a successful record of that strategy.
  void check(record& r);

 private:
  std::map<std::string, std::uint64_t> by_group_;
};

class figures_and_rules_checker {
 public:
  // Adds the settings of a record in the file.
  void remember(const record& r);
  // The first setting of this record that differs from the remembered ones, as text without the file's name;
  // nothing if none does. A record without figures agrees with all.
  std::optional<std::string> conflict(const record& r) const;

 private:
  std::map<std::string, std::string> figures_;  // by backend
  std::map<std::string, hint_strategy> rules_;  // by strategy
};

}  // namespace um
