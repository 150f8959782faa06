#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "core/pack.hpp"
#include "harness/commands/commands.hpp"
#include "harness/commands/scripts.hpp"
#include "harness/io/errors.hpp"
#include "harness/io/text.hpp"
#include "harness/process/gpu.hpp"
#include "harness/study/advice.hpp"
#include "harness/study/environment.hpp"
#include "harness/study/experiment.hpp"

namespace um {
namespace {

// Help text of an option's value: type, meaning and range, default.
struct value_help {
  std::string type;
  std::string summary;
  std::string standard = "";
};

constexpr const char* required = "required";

// The names of an enumeration, such as "fp32|tf32|bf16".
template <named_enum E>
std::string choices_text() {
  return fmt::format("{}", fmt::join(enum_names<E>, "|"));
}

// Adds an option with one value, which must not be empty.
CLI::Option& add_option(CLI::App& command, const char* name, auto& value, const value_help& help) {
  const auto refuse_empty = [](const std::string& text) {
    return text.empty() ? std::string("its value is empty") : std::string();
  };
  std::string text = help.summary;
  if (!help.standard.empty())
    text += help.standard == required ? "; required" : "; default: " + help.standard;
  return *command.add_option(name, value, text)
              ->check(CLI::Validator(refuse_empty, ""))
              ->type_name(help.type);
}

// Adds an option that may be given several times.
void add_repeated_option(CLI::App& command, const char* name, std::vector<std::string>& values,
                         const value_help& help) {
  add_option(command, name, values, help).allow_extra_args(false);
}

std::string range_text(std::uint64_t min_value, std::uint64_t max_value) {
  return fmt::format("{} to {}", min_value, max_value);
}

void replace_description(CLI::App& command, const char* name, const std::string& text) {
  command.get_option(name)->description(text);
}

void add_machines_option(CLI::App& command, std::string& folder) {
  add_option(command, "--machines", folder, {"FOLDER", "More machine files", "the built-in ones alone"});
}

void add_backend_options(CLI::App& command, experiment_options& o) {
  add_option(command, "--backend", o.backend, {"sim:NAME|cuda:N", "A machine file, or GPU N", required});
  add_machines_option(command, o.machines);
  add_option(command, "--like", o.machine_like,
             {"NAME", "Machine whose figures plans for a GPU go by",
              "one measured on such a GPU, else of its kind, else h200"});
  command.add_flag("--allow-native-oversubscription", o.allow_native,
                   "Allow mode native, in which driver defects can hang the GPU");
}

void add_network_options(CLI::App& command, experiment_options& o) {
  add_option(command, "--network", o.network,
             {"NAME|FILE", "One of `umbench list networks`, or a graph file of one's own", required});
  add_option(
      command, "--trace", o.trace,
      {"FILE", "A file of `umbench trace` in place of a network: becomes FILE.graph.json beside it", "none"});
  add_option(command, "--batch", o.batch, {"N", "Images a batch, at least 1", "1"});
  add_option(command, "--insize", o.insize,
             {"N", "Height and width of an image, at least 1; short for --set insize=N", "the network's"});
  add_repeated_option(command, "--set", o.network_knobs,
                      {"KNOB=N", "Knob of the network; may be repeated", "as listed"});
  add_option(command, "--pass", o.pass, {"train|inference", "What an iteration computes", "train"});
  command.add_flag("--sgd", o.sgd, "Update the parameters as well, each by an operator of its own");
  add_option(command, "--optimizer", o.optimizer,
             {"none|" + choices_text<optimizer_kind>(),
              "Update all parameters in one step; adds the optimizer's states", "none"});
  command.add_flag("--masters", o.masters,
                   "With --optimizer and bf16: keep weights in bf16 and their fp32 masters as states");
  add_option(command, "--fusion", o.fusion,
             {choices_text<fusion>(), "How far operators are joined", "fused"});
  add_option(command, "--precision", o.precision,
             {choices_text<precision>(), "What products are computed in", "fp32"});
  add_option(command, "--memory-order", o.memory_order,
             {choices_text<memory_order>(), "Of activations", "nchw for fp32, nhwc for tf32 and bf16"});
}

void add_strategy_options(CLI::App& command, experiment_options& o) {
  add_option(command, "--strategy", o.strategy,
             {"NAME|FILE", "One of `umbench list strategies`, or a file of rules, FILE.json", required});
  add_repeated_option(command, "--without", o.without,
                      {"RULE", "Rule of the strategy to switch off; may be repeated", "none"});
  add_repeated_option(command, "--knob", o.strategy_knobs,
                      {"KNOB=N", "Knob of the strategy; may be repeated", "as listed"});
  add_option(command, "--effort", o.effort,
             {choices_text<search_effort>(),
              "How much a searching strategy searches; short for --knob effort=0|1|2", "normal"});
}

void add_memory_options(CLI::App& command, experiment_options& o) {
  add_option(
      command, "--ratio", o.ratio,
      {"NUMBER", fmt::format("Footprint / budget, {} to {}", min_ratio, max_ratio), "the whole device"});
  add_option(command, "--budget", o.budget,
             {"SIZE", "Device memory that the run may use, such as 4GiB, 1 byte or more; not with --ratio",
              "the whole device"});
  add_option(command, "--mode", o.mode,
             {choices_text<run_mode>(), "Who keeps the budget: a simulated driver, the plan, a GPU's driver",
              "simulated on sim:, capped on cuda:"});
  add_option(command, "--workspace-cap", o.workspace_cap,
             {"SIZE", "Most workspace for one operator, 1 byte or more, cuda:N only", "2GiB"});
  add_backend_options(command, o);
}

void add_experiment_options(CLI::App& command, experiment_options& o) {
  add_network_options(command, o);
  add_strategy_options(command, o);
  add_memory_options(command, o);
}

constexpr std::uint64_t max_jobs = 1024;

void add_iterations_option(CLI::App& command, experiment_options& o, const char* meaning,
                           const char* standard = "5") {
  add_option(command, "--iterations", o.iterations,
             {"N", fmt::format("{}, {}", meaning, range_text(1, max_iterations)), standard});
}

void add_deadline_option(CLI::App& command, experiment_options& o, const char* meaning) {
  add_option(
      command, "--deadline", o.deadline,
      {"SECONDS",
       fmt::format("{}, {}; of processor time where simulated", meaning, range_text(1, max_deadline_s)),
       "300"});
}

void add_jobs_option(CLI::App& command, std::string& jobs, const char* meaning) {
  add_option(
      command, "--jobs", jobs,
      {"N", fmt::format("{} at a time, {}; on a GPU 1", meaning, range_text(1, max_jobs)), "one a core"});
}

constexpr const char* times_only_text =
    "On cuda:N: do not go on after the timed iterations to measure energy and to count faults";

void add_run_options(CLI::App& run, run_options& o) {
  add_experiment_options(run, o.experiment);
  add_option(
      run, "--plan", o.plan,
      {"FILE", "Run this plan file, which says network, strategy and memory", "a plan of the strategy's"});
  for (const char* name : {"--network", "--strategy"}) {
    replace_description(run, name, run.get_option(name)->get_description() + " without --plan");
  }
  add_iterations_option(run, o.experiment, "Iterations, each timed on its own");
  add_deadline_option(run, o.experiment, "Until the run is killed");
  run.add_flag("--timeline", o.experiment.timeline, "Keep spans and resident bytes of the last iteration");
  run.add_flag("--times-only", o.experiment.times_only, times_only_text);
  add_option(
      run, "--values", o.values_folder,
      {"FOLDER", "For parameters, inputs, gradients and outputs as NumPy files, cuda:N only", "not kept"});
  add_option(run, "--out", o.out, {"FILE", "Append the record to this JSON Lines file", "not kept"});
}

void add_plan_options(CLI::App& plan, plan_options& o) {
  add_experiment_options(plan, o.experiment);
  add_option(plan, "-o,--out", o.out, {"FILE", "For the plan; - is standard output", "not kept"});
  add_deadline_option(plan, o.experiment, "Until it is given up");
  add_option(plan, "--graph", o.graph_out,
             {"FILE", "For the network's graph; - is standard output", "not kept"});
  plan.add_flag("--table", o.table,
                "Print by module what is computed again, offloaded, cut and kept (graphs of umbench export)");
}

void add_sweep_options(CLI::App& sweep, sweep_options& o) {
  add_option(sweep, "SPEC", o.spec, {"FILE", "Sweep file, such as benchmarks/sweeps/small.json"}).required();
  add_option(sweep, "--out", o.out,
             {"FILE", "JSON Lines file for the records", "the sweep's name with .jsonl"});
  sweep.add_flag("--resume", o.resume, "Go on with the file: skip the cells that it holds");
  sweep.add_flag("--list", o.list, "Print the cells, run nothing");
  sweep.add_flag("--dry-run", o.dry_run,
                 "Print the cells with the memory and the time that the simulator expects, run nothing");
  add_option(sweep, "--like", o.like,
             {"NAME", "Machine whose figures plans and estimates for a GPU go by",
              "one measured on such a GPU, else of its kind, else h200"});
  sweep.add_flag("--times-only", o.times_only, times_only_text);
  sweep.add_flag("--no-preflight", o.no_preflight,
                 "Begin on a GPU without estimating first what fits this host");
  sweep.add_flag("--no-skip", o.no_skip,
                 "Run cells although a lower ratio of the same line timed out or hung");
  add_jobs_option(sweep, o.jobs, "Simulated cells that run");
  add_option(sweep, "--shard", o.shard, {"I/N", "The I-th of N parts of the cells, 1 to N", "all of them"});
  add_machines_option(sweep, o.machines);
  sweep.add_flag("--allow-native-oversubscription", o.allow_native,
                 "Allow mode native, in which driver defects can hang the GPU");
}

// Adds the options that tune and ablate share.
void add_trial_options(CLI::App& command, experiment_options& o, std::string& jobs, bool& resume) {
  add_iterations_option(command, o, "Iterations of every trial");
  add_deadline_option(command, o, "Until a trial is killed");
  add_jobs_option(command, jobs, "Simulated trials that run");
  command.add_flag("--resume", resume, "Go on with the records of a run that was stopped");
}

void add_tune_options(CLI::App& tune, tune_options& o) {
  add_experiment_options(tune, o.experiment);
  replace_description(tune, "--strategy", "Begin with this one; default: every named strategy");
  add_option(tune, "--trials", o.trials,
             {"N", "Most strategies to try in the simulator, 1 to 100000", "150"});
  add_option(tune, "--best", o.best, {"N", "How many of them to time on a GPU, 1 to 100000", "4"});
  add_trial_options(tune, o.experiment, o.jobs, o.resume);
  add_option(tune, "--out", o.out, {"FILE", "For the rules; records go beside it as .jsonl", "tuned.json"});
}

void add_ablate_options(CLI::App& ablate, ablate_options& o) {
  add_experiment_options(ablate, o.experiment);
  replace_description(ablate, "--strategy", "Leave rules out of this one; default: the fastest");
  add_trial_options(ablate, o.experiment, o.jobs, o.resume);
  add_option(ablate, "--out", o.out, {"FILE", "JSON Lines file for the records", "ablation.jsonl"});
}

void add_advise_options(CLI::App& advise, advise_options& o) {
  add_network_options(advise, o.experiment);
  add_memory_options(advise, o.experiment);
  replace_description(advise, "--backend",
                      "A machine file, or GPU N; default: cuda:0 if there is a GPU, else sim:h200");
  add_repeated_option(advise, "--strategy", o.strategies,
                      {"NAME", "Ask about this one; may be repeated", "some of every way"});
  add_option(advise, "--system", o.system,
             {choices_text<system_kind>(),
              "What the program is for: where managed memory can exceed the device's", "the one here"});
  add_iterations_option(advise, o.experiment, "Iterations of every way", "3 simulated, 5 on a GPU");
  add_deadline_option(advise, o.experiment, "Until a way is given up");
  add_jobs_option(advise, o.jobs, "Simulated ways that run");
  advise.add_flag("--json", o.json, "For scripts");
}

void add_env_options(CLI::App& env, env_options& o) {
  env.add_flag("--json", o.json, "As the environment line of a record file");
  add_option(env, "--machine", o.machine,
             {"NAME", "Also what the link allows, from this machine file", "not told"});
  add_machines_option(env, o.machines);
}

void add_calibrate_options(CLI::App& calibrate, calibrate_options& o) {
  add_option(calibrate, "--backend", o.backend, {"cuda:N", "The GPU", "cuda:0"});
  add_option(calibrate, "--out", o.out, {"FILE", "Machine file to write, such as my-gpu.json"}).required();
  add_option(calibrate, "--name", o.name, {"NAME", "Of the machine", "the file's name"});
  add_option(calibrate, "--like", o.like,
             {"NAME", "Machine whose figures stand, as estimates, for what cannot be measured",
              "the one of the GPU's kind"});
  add_machines_option(calibrate, o.machines);
  add_option(calibrate, "--samples", o.samples,
             {"FILE", "For every sample of every measurement, JSON", "not kept"});
  add_option(
      calibrate, "--from", o.from,
      {"FILE", "Samples that --samples kept: figures follow from them again, without a GPU", "measured now"});
}

void add_machine_options(CLI::App& machine, machine_options& o) {
  machine.require_subcommand(1);
  CLI::App& made = *machine.add_subcommand("new", "Write the file of a machine, from its data sheet");
  made.callback([&o] { o.verb = "new"; });
  add_option(made, "NAME", o.name, {"NAME", "Of the new machine"}).required();
  add_option(made, "--from", o.from,
             {"MACHINE", "Which lends the figures that are not set", "none: then all have to be set"});
  add_repeated_option(
      made, "--set", o.set,
      {"FIGURE=VALUE",
       "A figure of `umbench list figures`, such as device_bytes=24GiB, device_bytes_per_s=1008GB/s, "
       "fp32_flops_per_s=82.6TFLOPS, launch_ns=4us; a number alone is in the figure's unit; may be repeated",
       "none"});
  add_option(made, "--source", o.source,
             {"WORDS", "Where the figures that are set come from; kept in the file", "said to be unknown"});
  add_option(made, "--out", o.out, {"FILE", "Machine file to write", "NAME.json"});
  add_machines_option(made, o.machines);
  CLI::App& shown = *machine.add_subcommand("show", "Print the figures of a machine and their source");
  shown.callback([&o] { o.verb = "show"; });
  add_option(shown, "NAME", o.name, {"NAME", "One of `umbench list machines`"}).required();
  shown.add_flag("--json", o.json, "The file itself");
  add_machines_option(shown, o.machines);
  CLI::App& checked = *machine.add_subcommand("check", "Say what a machine file lacks and assumes");
  checked.callback([&o] { o.verb = "check"; });
  add_option(checked, "FILE", o.name, {"FILE", "Machine file"}).required();
}

void add_merge_options(CLI::App& merge, merge_options& o) {
  merge.add_option("PART", o.parts, "Record files, in the order of their shards")
      ->required()
      ->type_name("FILE");
  add_option(merge, "--out", o.out, {"FILE", "JSON Lines file for all of them"}).required();
}

void add_plan_torch_options(CLI::App& plan, plan_torch_options& o) {
  add_option(plan, "FILE", o.file,
             {"FILE", "The step's nodes, as JSON; the answer is JSON on standard output"})
      .required();
}

void add_pack_options(CLI::App& pack, pack_options& o) {
  add_option(pack, "FILE", o.file, {"FILE", "Comma-separated values: id, bytes, begin, end, access times"})
      .required();
  std::vector<std::string_view> packers;
  for (const packer& p : all_packers()) packers.push_back(p.name);
  add_option(pack, "--packer", o.packer,
             {fmt::format("{}", fmt::join(packers, "|")), "How they are placed", "each of them"});
  add_option(pack, "--limit", o.limit,
             {"SIZE", "Such as 4GiB, 1 byte or more; what does not keep to it is auto-swapped", "none"});
  pack.add_flag(
      "--addresses", o.addresses,
      "Print a line `id,address` for each lifetime instead, as --packer places it; default: searched");
}

void add_validate_options(CLI::App& validate, validate_options& o) {
  add_option(validate, "FILES", o.files, {"FILE", "Measured records (.jsonl), files of figures (.json)"})
      .required();
  add_option(validate, "--machine", o.machine,
             {"NAME", "Machine file that stands for the records' GPU", "the one of its kind"});
  add_machines_option(validate, o.machines);
}

void add_list_options(CLI::App& list, list_options& o) {
  add_option(
      list, "WHAT", o.what,
      {"networks|strategies|machines|figures|operators", "What to list", "networks, strategies, machines"});
  add_machines_option(list, o.machines);
  list.add_flag("--all", o.all, "Strategies one by one, with their knobs");
  list.add_flag("--json", o.json, "Strategies for scripts");
}

void replace_trace_by_graph(experiment_options& o) {
  if (o.trace.empty()) return;
  if (!o.network.empty()) throw input_error("--network and --trace are given; keep one");
  o.network = graph_of_trace(o.trace);
}

// Adds a command, which runs once the whole command line has been parsed.
template <class Options>
void add_command(CLI::App& app, int& exit_code, const char* name, const char* summary,
                 void (*add_options)(CLI::App&, Options&), int (*run)(const Options&)) {
  CLI::App& command = *app.add_subcommand(name, summary);
  const auto options = std::make_shared<Options>();
  add_options(command, *options);
  command.callback([&exit_code, options, run] {
    if constexpr (requires { options->experiment.trace; }) replace_trace_by_graph(options->experiment);
    exit_code = run(*options);
  });
}

void add_commands(CLI::App& app, int& exit_code) {
  app.require_subcommand(1);
  app.set_version_flag(
      "--version", fmt::format("umbench {}, built by {}, backends: sim{}", version_text(), compiler_text(),
                               built_with_cuda() ? ", cuda" : " (built without cuda)"));
  app.footer(
      "Exit codes: 0 all well, 1 a cell failed, regressed or could not be recorded, 2 bad usage or bad "
      "input,\n"
      "3 too little data, 4 the one cell of `run` does not fit, 128 + N stopped by signal N.");
  const auto add = [&](const char* name, const char* summary, auto add_options, auto run) {
    add_command(app, exit_code, name, summary, add_options, run);
  };
  add("list", "Networks, strategies and machines, with their knobs", add_list_options, list_command);
  add("advise", "Which way of using memory to take, and what each would cost", add_advise_options,
      advise_command);
  add("env", "What this machine and this build are", add_env_options, env_command);
  add("calibrate", "Measure the figures of a machine file on a GPU, in less than a minute",
      add_calibrate_options, calibrate_command);
  add("validate", "Simulated beside measured and published figures", add_validate_options, validate_command);
  add("plan", "Make a plan without running it", add_plan_options, plan_command);
  add("run", "Run one experiment in a process of its own", add_run_options, run_command);
  add("sweep", "Run every cell of a sweep file", add_sweep_options, sweep_command);
  add("tune", "Search the best rules for hints and their numbers", add_tune_options, tune_command);
  add("ablate", "Every hint alone, and every rule of a strategy left out of it", add_ablate_options,
      ablate_command);
  add("machine", "Make, show and check machine files", add_machine_options, machine_command);
  add("merge", "Join the record files of a sweep's shards", add_merge_options, merge_command);
  add("pack", "Give the lifetimes of a file addresses", add_pack_options, pack_command);
  add("plan-torch", "Choose what a PyTorch step saves; asked by umbench.torch.fit", add_plan_torch_options,
      plan_torch_command);
  for (const script_command& script : script_commands()) app.add_subcommand(script.name, script.summary);
}

// Throws for an unknown command or subcommand, which the parser would report as a missing one.
void refuse_unknown_command(const CLI::App& app, int argc, const char* const* argv, int at = 1) {
  if (argc <= at || argv[at][0] == '-' || app.get_subcommands({}).empty()) return;
  std::vector<std::string> known;
  for (const CLI::App* command : app.get_subcommands({})) {
    if (command->get_name() == argv[at]) return refuse_unknown_command(*command, argc, argv, at + 1);
    if (!command->get_group().empty()) known.push_back(command->get_name());
  }
  throw input_error(unknown_name("command", argv[at], known));
}

// The command that was given, or its subcommand.
const CLI::App& innermost_command(const CLI::App& command) {
  const auto asked = command.get_subcommands();
  return asked.empty() ? command : innermost_command(*asked.front());
}

// "--batchsize: unknown option; did you mean --batch?"; "" if every option is known.
std::string unknown_option(const CLI::App& command, int argc, const char* const* argv) {
  std::vector<std::string> known;
  for (const CLI::Option* o : command.get_options()) {
    for (const std::string& name : o->get_lnames()) known.push_back("--" + name);
  }
  for (int i = 2; i < argc; ++i) {
    const std::string_view word = std::string_view(argv[i]).substr(0, std::string_view(argv[i]).find('='));
    if (!word.starts_with("--") || std::ranges::find(known, word) != known.end()) continue;
    const std::string near = nearest_name(word, known);
    return fmt::format("{}: unknown option{}", one_line(word),
                       near.empty() ? "" : fmt::format("; did you mean {}?", near));
  }
  return "";
}

std::string parse_error_text(const CLI::ParseError& error, const CLI::App& app, int argc,
                             const char* const* argv) {
  std::string text = error.what();
  const bool of_names = dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr ||
                        dynamic_cast<const CLI::RequiredError*>(&error) != nullptr;
  const CLI::App& command = innermost_command(app);
  if (argc > 1 && of_names) {
    const std::string unknown = unknown_option(command, argc, argv);
    if (!unknown.empty()) text = unknown;
  }
  const std::size_t repeated = text.find(": At Most 1 required");
  if (repeated != std::string::npos) text = text.substr(0, repeated) + " is given more than once; keep one";
  std::string names;
  for (const CLI::App* c = &command; c->get_parent() != nullptr; c = c->get_parent())
    names = c->get_name() + " " + names;
  return fmt::format("{}; see umbench {}--help", text, names);
}

}  // namespace

int run_command_line(int argc, const char* const* argv) {
  CLI::App app("Performance of CUDA Unified Memory on deep learning", "umbench");
  int exit_code = 0;
  add_commands(app, exit_code);
  refuse_unknown_command(app, argc, argv);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& asked) {  // --help, --version
    app.exit(asked);
  } catch (const CLI::ParseError& error) {
    throw input_error(parse_error_text(error, app, argc, argv));
  }
  return exit_code;
}

}  // namespace um
