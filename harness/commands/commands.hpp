// The commands of `umbench`, without the parsing of the command line. Each returns the exit code: 0 for
// success, 1 if a cell failed, 128 + the signal's number if interrupted. They throw input_error (exit code 2)
// and append_error (1).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "core/names.hpp"

namespace um {

// How much a searching strategy searches: values of its knob `effort`.
enum class search_effort : std::uint8_t { low, normal, high };
template <>
inline constexpr std::array enum_names<search_effort>{"low"sv, "normal"sv, "high"sv};

// Options as the user wrote them; "" means not given.
struct experiment_options {
  std::string network, batch, insize, pass, fusion, precision, memory_order, strategy, ratio, budget, backend,
      mode, workspace_cap, iterations, deadline, effort, optimizer;
  std::vector<std::string> network_knobs, strategy_knobs;  // name=value
  std::vector<std::string> without;                        // rules to switch off
  bool sgd = false, masters = false, timeline = false, allow_native = false, times_only = false;
  std::string machines, machine_like;
  std::string trace;  // file of `umbench trace`, which becomes the network
};

struct run_options {
  experiment_options experiment;
  std::string plan, out, values_folder;
};
struct plan_options {
  experiment_options experiment;
  std::string out, graph_out;
  bool table = false;
};
struct sweep_options {
  std::string spec, out, jobs, shard, machines, like;
  bool resume = false, list = false, dry_run = false, no_skip = false, no_preflight = false;
  bool allow_native = false, times_only = false;
};

struct merge_options {
  std::vector<std::string> parts;
  std::string out;
};

struct list_options {
  std::string what, machines;  // what to list; "": everything
  bool json = false, all = false;
};

struct pack_options {
  std::string file, packer, limit;  // packer "": all packers
  bool addresses = false;           // print the address of each lifetime alone
};

struct machine_options {
  std::string verb;  // "new", "show", "check"
  std::string name;  // name of the machine; a file for check
  std::string from;  // machine that lends the figures that are not set; "": none
  std::string source, out, machines;
  std::vector<std::string> set;  // FIGURE=VALUE
  bool json = false;
};

struct plan_torch_options {
  std::string file;
};

struct env_options {
  std::string machine, machines;
  bool json = false;
};
struct calibrate_options {
  std::string backend, out, name, like, machines;
  std::string samples;  // file to write the samples to
  std::string from;     // file of earlier samples; "": measure now
};

struct tune_options {
  experiment_options experiment;  // strategy "": start with all strategies of rules
  std::string out, trials, best, jobs;
  bool resume = false;
};
struct ablate_options {
  experiment_options experiment;  // strategy "": ablate the fastest
  std::string out, jobs;
  bool resume = false;
};

struct advise_options {
  experiment_options
      experiment;  // without a strategy; backend "": the GPU here, or the standard simulated machine
  std::vector<std::string> strategies;  // empty: the default ones of every technique
  std::string system, jobs;
  bool json = false;
};

struct validate_options {
  std::vector<std::string> files;  // records (.jsonl) and figures (.json)
  std::string machine, machines;
};

int list_command(const list_options& options);
int env_command(const env_options& options);
int plan_command(const plan_options& options);
int run_command(const run_options& options);
int sweep_command(const sweep_options& options);
int calibrate_command(const calibrate_options& options);
// Prints simulated figures next to measured and published ones.
int validate_command(const validate_options& options);
// Searches rules and their numbers. Writes the best strategy to a file, and all records.
int tune_command(const tune_options& options);
// Runs every named hint strategy, and the best one without each of its rules.
int ablate_command(const ablate_options& options);
// Recommends a memory technique and prints the cost of each. Returns 1 if none works.
int advise_command(const advise_options& options);
// Plans for umbench.torch.fit which tensors a PyTorch step saves for its backward pass.
int plan_torch_command(const plan_torch_options& options);
// Makes, shows and checks machine files.
int machine_command(const machine_options& options);
int merge_command(const merge_options& options);
// Packs the lifetimes of a file. Returns 1 if no requested packer stays within the limit.
int pack_command(const pack_options& options);

// Runs the given command and returns its exit code; 0 after --help and --version. Throws input_error, and
// what the command throws. The parser is large: only options.cpp includes it.
int run_command_line(int argc, const char* const* argv);

}  // namespace um
