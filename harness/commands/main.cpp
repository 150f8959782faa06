#include <fcntl.h>
#include <fmt/format.h>
#include <stdio_ext.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <system_error>

#include "harness/commands/commands.hpp"
#include "harness/commands/scripts.hpp"
#include "harness/json/record_file.hpp"
#include "harness/process/flow.hpp"
#include "harness/process/isolation.hpp"
#include "harness/records/environment.hpp"
#include "harness/records/say.hpp"
#include "harness/records/suggest.hpp"

namespace um {
namespace {

constexpr int exit_failed = 1, exit_usage = 2;

// An option with one value, which is not empty.
template <class T>
CLI::Option& option(CLI::App& command, const char* name, T& value, const char* summary) {
  const auto refuse_empty = [](const std::string& text) {
    return text.empty() ? std::string("its value is empty") : std::string();
  };
  return *command.add_option(name, value, summary)->check(CLI::Validator(refuse_empty, ""));
}

void add_place(CLI::App& command, experiment_options& o) {
  option(command, "--backend", o.backend, "sim:NAME (a machine file) or cuda:N");
  option(command, "--machines", o.machines, "Folder with more machine files");
  option(command, "--like", o.like,
         "Machine whose figures plans for a GPU go by (one of its kind, else h200)");
  command.add_flag("--allow-native-oversubscription", o.allow_native,
                   "Allow mode native, in which driver defects can hang the GPU");
}

void add_network(CLI::App& command, experiment_options& o) {
  option(command, "--network", o.network, "Network (`umbench list networks`), or a graph file of one's own");
  option(command, "--batch", o.batch, "Images a batch (1)");
  option(command, "--insize", o.insize, "Height and width of an image; short for --set insize=N");
  option(command, "--set", o.network_knobs, "Knob of the network, name=value; may be repeated")
      .allow_extra_args(false);
  option(command, "--pass", o.pass, "train or inference (train)");
  command.add_flag("--sgd", o.sgd, "Update the parameters as well");
  option(command, "--fusion", o.fusion, "How far operators are joined: none, fused, lean or framework (fused)");
  option(command, "--precision", o.precision, "What products are computed in: fp32, tf32 or bf16 (fp32)");
  option(command, "--memory-order", o.memory_order, "nchw or nhwc (nchw for fp32, nhwc for tf32 and bf16)");
}

void add_strategy(CLI::App& command, experiment_options& o) {
  option(command, "--strategy", o.strategy,
         "Strategy; `umbench list strategies`, or a file of rules, FILE.json");
  option(command, "--without", o.without, "Rule of the strategy to switch off; may be repeated")
      .allow_extra_args(false);
  option(command, "--knob", o.strategy_knobs, "Knob of the strategy, name=value; may be repeated")
      .allow_extra_args(false);
}

void add_amount(CLI::App& command, experiment_options& o) {
  option(command, "--ratio", o.ratio, "Footprint / budget, 0.1 to 64");
  option(command, "--budget", o.budget, "Device memory that the run may use, such as 4GiB");
  option(command, "--mode", o.mode, "simulated (default on sim:), capped (default on cuda:) or native");
  option(command, "--workspace-cap", o.workspace_cap, "Most workspace for one operator, cuda:N only (2GiB)");
  add_place(command, o);
}

void add_experiment(CLI::App& command, experiment_options& o) {
  add_network(command, o);
  add_strategy(command, o);
  add_amount(command, o);
}

constexpr const char* times_only_text =
    "On cuda:N: do not go on after the timed iterations to measure energy and to count faults";

void add_run(CLI::App& app, run_options& o) {
  CLI::App& run = *app.add_subcommand("run", "Run one experiment in a process of its own");
  add_experiment(run, o.what);
  option(run, "--plan", o.plan, "Run this plan file instead of a strategy");
  option(run, "--iterations", o.what.iterations, "Iterations, each timed on its own (5)");
  option(run, "--deadline", o.what.deadline, "Seconds after which the run is killed (300)");
  run.add_flag("--timeline", o.what.timeline, "Keep spans and resident bytes of the last iteration");
  run.add_flag("--times-only", o.what.times_only, times_only_text);
  option(run, "--values", o.values,
         "Write parameters, inputs, gradients and outputs to this folder as NumPy files, cuda:N only");
  option(run, "--out", o.out, "Append the record to this JSON Lines file");
}

void add_plan(CLI::App& app, plan_options& o) {
  CLI::App& plan = *app.add_subcommand("plan", "Make a plan without running it");
  add_experiment(plan, o.what);
  option(plan, "-o,--out", o.out, "Write the plan to this file; - is standard output");
  option(plan, "--deadline", o.what.deadline, "Seconds of processor time after which it is given up (300)");
  option(plan, "--graph", o.graph_out, "Write the network's graph to this file; - is standard output");
}

void add_sweep(CLI::App& app, sweep_options& o) {
  CLI::App& sweep = *app.add_subcommand("sweep", "Run every cell of a sweep file");
  option(sweep, "SPEC", o.spec, "Sweep file, such as benchmarks/sweeps/small.json").required();
  option(sweep, "--out", o.out, "JSON Lines file (the sweep's name with .jsonl)");
  sweep.add_flag("--resume", o.resume, "Go on with the file: skip the cells that it holds");
  sweep.add_flag("--list", o.list, "Print the cells, run nothing");
  sweep.add_flag("--dry-run", o.dry_run,
                 "Print the cells with the memory and the time that the simulator expects, run nothing");
  option(sweep, "--like", o.like,
         "Machine whose figures plans and estimates for a GPU go by (one of its kind, else h200)");
  sweep.add_flag("--times-only", o.times_only, times_only_text);
  sweep.add_flag("--no-preflight", o.no_preflight,
                 "Begin on a GPU without estimating first what fits this host");
  sweep.add_flag("--no-skip", o.no_skip,
                 "Run cells although a lower ratio of the same line timed out or hung");
  option(sweep, "--jobs", o.jobs, "Simulated cells that run at a time (one a core)");
  option(sweep, "--shard", o.shard, "I/N: only the I-th of N parts of the cells");
  option(sweep, "--machines", o.machines, "Folder with more machine files");
  sweep.add_flag("--allow-native-oversubscription", o.allow_native,
                 "Allow mode native, in which driver defects can hang the GPU");
}

// What tune and ablate share.
void add_trials(CLI::App& command, experiment_options& o, std::string& jobs, bool& resume) {
  option(command, "--iterations", o.iterations, "Iterations of every trial (5)");
  option(command, "--deadline", o.deadline, "Seconds after which a trial is killed (300)");
  option(command, "--jobs", jobs, "Simulated trials that run at a time (one a core)");
  command.add_flag("--resume", resume, "Go on with the records of a run that was stopped");
}

void add_tune(CLI::App& app, tune_options& o) {
  CLI::App& tune = *app.add_subcommand("tune", "Search the best rules for hints and their numbers");
  add_experiment(tune, o.what);
  tune.get_option("--strategy")->description("Begin with this one (with every named strategy)");
  option(tune, "--trials", o.trials, "Most strategies to try in the simulator (150)");
  option(tune, "--best", o.best, "How many of them to time on a GPU (4)");
  add_trials(tune, o.what, o.jobs, o.resume);
  option(tune, "--out", o.out, "File for the rules; records go beside it as .jsonl (tuned.json)");
}

void add_ablate(CLI::App& app, ablate_options& o) {
  CLI::App& ablate =
      *app.add_subcommand("ablate", "Every hint alone, and every rule of a strategy left out of it");
  add_experiment(ablate, o.what);
  ablate.get_option("--strategy")->description("Leave rules out of this one (of the fastest)");
  add_trials(ablate, o.what, o.jobs, o.resume);
  option(ablate, "--out", o.out, "JSON Lines file for the records (ablation.jsonl)");
}

void add_env(CLI::App& app, env_options& o) {
  CLI::App& env = *app.add_subcommand("env", "What this machine and this build are");
  env.add_flag("--json", o.json, "As the environment line of a record file");
  option(env, "--machine", o.machine, "Also what the link allows, from this machine file");
  option(env, "--machines", o.machines, "Folder with more machine files");
}

void add_calibrate(CLI::App& app, calibrate_options& o) {
  CLI::App& calibrate = *app.add_subcommand(
      "calibrate", "Measure the figures of a machine file on a GPU, in less than a minute");
  option(calibrate, "--backend", o.backend, "cuda:N (cuda:0)");
  option(calibrate, "--out", o.out, "Machine file to write, such as my-gpu.json").required();
  option(calibrate, "--name", o.name, "Name of the machine (the file's name)");
  option(calibrate, "--like", o.like,
         "Machine whose figures stand, as estimates, for what cannot be measured (one of the GPU's kind)");
  option(calibrate, "--machines", o.machines, "Folder with more machine files");
  option(calibrate, "--samples", o.samples, "JSON file for every sample of every measurement");
}

void add_merge(CLI::App& app, merge_options& o) {
  CLI::App& merge = *app.add_subcommand("merge", "Join the record files of a sweep's shards");
  merge.add_option("PART", o.parts, "Record files, in the order of their shards")->required();
  option(merge, "--out", o.out, "JSON Lines file for all of them").required();
}

void add_pack(CLI::App& app, pack_options& o) {
  CLI::App& pack = *app.add_subcommand("pack", "Give the lifetimes of a file addresses");
  option(pack, "FILE", o.file, "Comma-separated values: id, bytes, begin, end, access times").required();
  option(pack, "--packer", o.packer, "searched, first_fit, best_fit or smartpool (each of them)");
  option(pack, "--limit", o.limit, "Size such as 4GiB; what does not keep to it is auto-swapped");
}

void add_validate(CLI::App& app, validate_options& o) {
  CLI::App& validate = *app.add_subcommand("validate", "Simulated beside measured and published figures");
  option(validate, "FILES", o.files, "Measured records (.jsonl), files of figures (.json)").required();
  option(validate, "--machine", o.machine, "Machine file that stands for the records' GPU (one of its kind)");
  option(validate, "--machines", o.machines, "Folder with more machine files");
}

struct command_line {
  list_options list;
  env_options env;
  calibrate_options calibrate;
  validate_options validate;
  int parent = 0, probe_device = 0;
  run_options run;
  plan_options plan;
  sweep_options sweep;
  tune_options tune;
  ablate_options ablate;
  merge_options merge;
  pack_options pack;
};

void describe(CLI::App& app, command_line& c) {
  app.require_subcommand(1);
  app.set_version_flag("--version", version_text());
  app.footer(
      "Exit codes: 0 all well, 1 a cell failed, regressed or could not be recorded, 2 bad usage or bad "
      "input,\n"
      "3 too little data, 128 + N stopped by signal N.");
  CLI::App& list = *app.add_subcommand("list", "Networks, strategies and machines, with their knobs");
  option(list, "WHAT", c.list.what, "networks, strategies, machines or figures");
  option(list, "--machines", c.list.machines, "Folder with more machine files");
  list.add_flag("--json", c.list.json, "Strategies for scripts");
  add_env(app, c.env);
  add_calibrate(app, c.calibrate);
  add_validate(app, c.validate);
  add_plan(app, c.plan);
  add_run(app, c.run);
  add_sweep(app, c.sweep);
  add_tune(app, c.tune);
  add_ablate(app, c.ablate);
  add_merge(app, c.merge);
  add_pack(app, c.pack);
  for (const script_command& script : script_commands()) app.add_subcommand(script.name, script.summary);
  app.add_subcommand(cell_command, "")->group("")->add_option("PARENT", c.parent)->required();
  CLI::App& probe = *app.add_subcommand(gpu_command, "")->group("");
  probe.add_option("PARENT", c.parent)->required();
  probe.add_option("DEVICE", c.probe_device)->required();
}

int dispatch(const CLI::App& app, const command_line& c) {
  if (app.got_subcommand("list")) return list_command(c.list);
  if (app.got_subcommand("env")) return env_command(c.env);
  if (app.got_subcommand("calibrate")) return calibrate_command(c.calibrate);
  if (app.got_subcommand("validate")) return validate_command(c.validate);
  if (app.got_subcommand("plan")) return plan_command(c.plan);
  if (app.got_subcommand("run")) return run_command(c.run);
  if (app.got_subcommand("sweep")) return sweep_command(c.sweep);
  if (app.got_subcommand("tune")) return tune_command(c.tune);
  if (app.got_subcommand("ablate")) return ablate_command(c.ablate);
  if (app.got_subcommand("merge")) return merge_command(c.merge);
  if (app.got_subcommand("pack")) return pack_command(c.pack);
  if (app.got_subcommand(gpu_command)) return probe_gpu_process(c.parent, c.probe_device);
  return run_cell_process(c.parent, &run_cell);
}

// Standard output whose reader left ends the command as it would end any other: without a word.
constexpr int exit_reader_left = 128 + SIGPIPE;

// What cannot be written; the exit code. Nothing of it is tried again.
int output_failed(int why) {
  __fpurge(stdout);
  errno = 0;
  if (why == 0 && write(STDOUT_FILENO, "", 0) < 0) why = errno;
  if (why == EPIPE) return exit_reader_left;
  say("umbench: cannot write standard output{}\n", why == 0 ? "" : fmt::format(": {}", std::strerror(why)));
  return exit_failed;
}

// A closed standard stream gets a descriptor on which nothing works, lest the next file that is opened become
// it.
void occupy_standard_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(stream, F_GETFD) >= 0) continue;
    const int wrong_way = stream == STDIN_FILENO ? O_WRONLY : O_RDONLY;
    if (open("/dev/null", wrong_way) != stream) std::_Exit(exit_failed);
  }
}

// Of what is too long to read, the beginning and the end.
std::string shortened(std::string text) {
  constexpr std::size_t most = 1800, end = 400;
  return text.size() <= most ? text : text.substr(0, most - end) + " ... " + text.substr(text.size() - end);
}

int fail(int code, std::string_view what) {
  say("umbench: {}\n", shortened(one_line(what)));
  return code;
}

// A misspelt command, which the parser would report as a missing one.
void refuse_unknown_command(const CLI::App& app, int argc, char** argv) {
  if (argc < 2 || argv[1][0] == '-') return;
  std::vector<std::string> known;
  for (const CLI::App* command : app.get_subcommands({})) {
    if (command->get_name() == argv[1]) return;
    if (!command->get_group().empty()) known.push_back(command->get_name());
  }
  throw input_error(unknown_name("command", argv[1], known));
}

constexpr const char* no_memory = "umbench: memory does not suffice for what is asked for\n";

// Destructors of libraries ask for memory as well, and cannot throw.
[[noreturn]] void end_without_memory() {
  try {
    if (const auto error = std::current_exception()) std::rethrow_exception(error);
  } catch (const std::bad_alloc&) {
    std::fputs(no_memory, stderr);
    std::_Exit(exit_usage);
  } catch (...) {
  }
  std::abort();
}

int parse_and_run(int argc, char** argv) try {
  CLI::App app("Performance of CUDA Unified Memory on deep learning", "umbench");
  command_line c;
  describe(app, c);
  try {
    refuse_unknown_command(app, argc, argv);
    if (const script_command* script = argc > 1 ? script_named(argv[1]) : nullptr) {
      run_script(*script, {argv + 2, argv + argc});
    }
    app.parse(argc, argv);
    return dispatch(app, c);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    return fail(exit_usage, fmt::format("{}; see umbench --help", error.what()));
  } catch (const input_error& error) {
    return fail(exit_usage, error.what());
  } catch (const std::system_error& error) {
    if (std::ferror(stdout) != 0) return output_failed(error.code().value());
    return fail(exit_failed, error.what());
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    return fail(exit_failed, error.what());
  }
} catch (const std::bad_alloc&) {  // words for it must need none
  std::fputs(no_memory, stderr);
  return exit_usage;
}

}  // namespace
}  // namespace um

int main(int argc, char** argv) {
  std::set_terminate(um::end_without_memory);
  um::occupy_standard_streams();
  const int code = um::parse_and_run(argc, argv);
  errno = 0;
  const bool written = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
  return written || code != 0 ? code : um::output_failed(errno);
}
