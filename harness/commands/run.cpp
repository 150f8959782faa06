#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "harness/commands/cells.hpp"
#include "harness/commands/limits.hpp"
#include "harness/io/errors.hpp"
#include "harness/io/files.hpp"
#include "harness/io/progress.hpp"
#include "harness/io/say.hpp"
#include "harness/io/text.hpp"
#include "harness/json/input_files.hpp"
#include "harness/json/json.hpp"
#include "harness/json/record_file.hpp"
#include "harness/process/isolation.hpp"
#include "harness/process/sweep_runner.hpp"
#include "harness/study/experiment.hpp"
#include "harness/study/record.hpp"
#include "harness/study/summary.hpp"

namespace um {
namespace {

// Throws for an unknown knob if the strategy is in a table. Plans of other strategies may name any knob.
void check_knobs(const plan_file& plan, const std::string& source) {
  const strategy* row = find_strategy(strategies(), plan.strategy);
  if (row == nullptr) return;
  try {
    complete_knobs(*row, plan.strategy_knobs);
  } catch (const std::invalid_argument& error) {
    throw input_error(fmt::format("{}: strategy_knobs: {}", source, error.what()));
  }
}

// The plan file determines what to run. Options determine only where and how often.
cell cell_from_plan(const run_options& options) {
  const experiment_options& o = options.experiment;
  std::vector<std::string> given = names_of_given_network_options(o);
  for (const auto& [option, is_given] : {std::pair{"--network", !o.network.empty()},
                                         {"--strategy", !o.strategy.empty()},
                                         {"--knob", !o.strategy_knobs.empty()},
                                         {"--effort", !o.effort.empty()},
                                         {"--without", !o.without.empty()},
                                         {"--ratio", !o.ratio.empty()},
                                         {"--budget", !o.budget.empty()},
                                         {"--mode", !o.mode.empty()}}) {
    if (is_given) given.emplace_back(option);
  }
  if (!given.empty()) {
    throw input_error(fmt::format("{} is given, but --plan says it already; drop it", given.front()));
  }
  plan_file plan = plan_from_json(read_file(options.plan), options.plan);
  check_knobs(plan, options.plan);
  experiment_options rest = o;
  rest.network = plan.network.spec.name;
  rest.strategy = plan.strategy;
  experiment e = parse_experiment(rest);
  e.network = plan.network.spec;
  e.strategy = fmt::format("plan:{}#{}", plan.strategy, digest_of_plan(plan));
  e.strategy_knobs = plan.strategy_knobs;
  e.ratio = plan.ratio;
  if (!e.ratio) e.budget = plan.budget;
  e.mode = plan.mode;
  const std::string mode(to_text(plan.mode));
  try {
    return complete_cell(std::move(e), std::move(plan));
  } catch (const input_error& error) {
    throw input_error(fmt::format("{}: the plan was made for mode {}, which cannot run here: {}",
                                  options.plan, mode, error.what()));
  }
}

cell cell_for(const run_options& options, const std::vector<machine>& machines) {
  if (options.plan.empty()) return with_machine(requested_cell(options.experiment), machines);
  const process_limits within(options.plan, process_limits::max_reading_time);
  return with_machine(cell_from_plan(options), machines);
}

// Creates the folder if it does not exist.
std::string folder_for_values(const std::string& folder, const cell& work) {
  if (folder.empty()) return folder;
  if (work.backend.is_simulated) {
    throw input_error(fmt::format("--values: nothing is computed on {}, so there are no values; use cuda:N",
                                  work.settings.backend));
  }
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (!error && !std::filesystem::is_directory(folder))
    error = std::make_error_code(std::errc::not_a_directory);
  if (!error && ::access(folder.c_str(), W_OK | X_OK) != 0) error = {errno, std::generic_category()};
  if (error) {
    throw input_error(fmt::format("--values: {}: cannot write there: {}; choose another folder",
                                  one_line(folder), error.message()));
  }
  return folder;
}

void append_record(record& r, const cell& work, const environment& here, const std::string& out) {
  record_file file(out, open_mode::add);
  check_figures_and_rules(std::span(&work, 1), file);
  digest_checker digests;
  for (record before : file.earlier()) digests.check(before);
  digests.check(r);
  append_environment_if_new(file, here);
  file.append(r);
}

}  // namespace

int run_command(const run_options& options) {
  const auto machines = load_machines_from(options.experiment.machines);
  cell work = cell_for(options, machines);
  work.values_folder = folder_for_values(options.values_folder, work);
  work.skips_observation = options.experiment.times_only;
  if (work.skips_observation && work.backend.is_simulated) {
    throw input_error(
        fmt::format("--times-only: nothing but times is measured on {}; drop it", work.settings.backend));
  }
  signal_watch signals;
  const environment here =
      environment_for(std::span(&work, 1), machines, options.experiment.machine_like, signals);
  // Others may add to the file while this cell runs.
  if (!options.out.empty())
    check_figures_and_rules(std::span(&work, 1), record_file(options.out, open_mode::add));

  child_pool pool(signals);
  start_cell(pool, 0, work);
  progress lines("planning and running");
  const auto report = pool.wait([&] { lines.tick(); });
  if (!report) {
    const int stop = signals.stop_signal().value_or(0);
    print_text("umbench: stopped by {}; nothing was recorded\n", signal_name(stop));
    return 128 + stop;
  }
  record r = record_of(work, *report);
  if (!options.out.empty()) append_record(r, work, here, options.out);
  fmt::print("{}{}", summary(r), precision_row(work));
  if (r.result == outcome::ok) return 0;
  print_text("umbench: {}: {}\n", r.key, outcome_text(r));
  constexpr int failed = 1, does_not_fit = 4;  // exit code 3 is that of umbench compare with too little data
  return r.result == outcome::infeasible ? does_not_fit : failed;
}

}  // namespace um
