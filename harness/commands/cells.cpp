#include "harness/commands/cells.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <thread>

#include "harness/commands/limits.hpp"
#include "harness/io/errors.hpp"
#include "harness/io/numbers.hpp"
#include "harness/io/say.hpp"
#include "harness/io/text.hpp"
#include "harness/json/input_files.hpp"
#include "harness/process/collect.hpp"
#include "harness/process/isolation.hpp"
#include "harness/study/experiment.hpp"
#include "harness/study/summary.hpp"

namespace um {
namespace {

constexpr std::int64_t max_batch = std::numeric_limits<std::int64_t>::max();

knob_values parse_knobs(const char* option, const std::vector<std::string>& assignments) {
  knob_values knobs;
  for (const std::string& text : assignments) {
    const auto [name, value] = parse_assignment(option, text);
    if (!knobs.emplace(name, value).second) {
      throw input_error(fmt::format("{}: {} is given twice; keep one", option, name));
    }
  }
  return knobs;
}

void require_option_value(const char* option, const std::string& value, const char* remedy) {
  if (value.empty()) throw input_error(fmt::format("{} is missing; {}", option, remedy));
}

// Reads a network from a graph file. Such a file determines batch, pass and so on, so options must not set
// them.
network_spec network_from_file_only(const experiment_options& o) {
  if (const auto given = names_of_given_network_options(o); !given.empty()) {
    throw input_error(fmt::format("{}: {} is a network as it is; leave {} out, or export it otherwise",
                                  given.front(), o.network, given.front()));
  }
  return network_from_file(o.network);
}

template <class E, class To>
void set_if_given(To& to, const char* option, const std::string& text) {
  if (!text.empty()) to = parse_choice<E>(option, text);
}

network_spec network_of(const experiment_options& o) {
  require_option_value("--network", o.network, "see `umbench list networks`");
  if (is_network_file(o.network)) return network_from_file_only(o);
  network_spec n;
  n.name = o.network;
  if (!o.batch.empty()) n.batch = parse_whole_number("--batch", o.batch, 1, max_batch);
  set_if_given<pass>(n.mode, "--pass", o.pass);
  n.appends_sgd = o.sgd;
  set_if_given<optimizer_kind>(n.optimizer, "--optimizer", o.optimizer == "none" ? "" : o.optimizer);
  n.keeps_masters = o.masters;
  set_if_given<fusion>(n.fusion_mode, "--fusion", o.fusion);
  set_if_given<precision>(n.arithmetic, "--precision", o.precision);
  set_if_given<memory_order>(n.order, "--memory-order", o.memory_order);
  n.knobs = parse_knobs("--set", o.network_knobs);
  if (!o.insize.empty() && n.knobs.contains("insize")) {
    throw input_error("--insize and --set insize are the same knob; keep one");
  }
  if (!o.insize.empty()) n.knobs["insize"] = parse_whole_number("--insize", o.insize, 1, max_batch);
  return n;
}

const machine& planner_machine_for(const std::string& gpu, const std::vector<machine>& machines,
                                   const std::string& like) {
  if (!like.empty()) return find_machine(machines, like);
  const machine* akin = find_machine_like(machines, gpu);
  return akin != nullptr ? *akin : find_machine(machines, standard_machine);
}

void report_lack_of_machine_file(const std::string& gpu, const std::vector<machine>& machines,
                                 const std::string& like) {
  if (!like.empty() || find_machine_like(machines, gpu) != nullptr) return;
  print_text(
      "umbench: there is no machine file of {}: plans go by the figures of {}; name another by --like, or "
      "make its own by `umbench calibrate` and give its folder by --machines\n",
      gpu, standard_machine);
}

}  // namespace

std::vector<std::string> names_of_given_network_options(const experiment_options& o) {
  std::vector<std::string> given;
  for (const auto& [option, is_given] : {std::pair{"--batch", !o.batch.empty()},
                                         {"--pass", !o.pass.empty()},
                                         {"--sgd", o.sgd},
                                         {"--optimizer", !o.optimizer.empty()},
                                         {"--masters", o.masters},
                                         {"--fusion", !o.fusion.empty()},
                                         {"--precision", !o.precision.empty()},
                                         {"--memory-order", !o.memory_order.empty()},
                                         {"--set", !o.network_knobs.empty()},
                                         {"--insize", !o.insize.empty()}}) {
    if (is_given) given.emplace_back(option);
  }
  return given;
}

experiment parse_experiment(const experiment_options& o) {
  experiment e;
  e.network = network_of(o);
  require_option_value("--strategy", o.strategy, "see `umbench list strategies`");
  require_option_value("--backend", o.backend, "give sim:NAME (see `umbench list machines`) or cuda:N");
  e.strategy = o.strategy;
  if (is_rules_file(o.strategy)) {
    e.rules = without_rules(rules_from_file(o.strategy), o.without);
    e.strategy = e.rules->name;
  } else {
    for (const std::string& rule : o.without) e.strategy += ",without=" + rule;
  }
  if (!o.machine_like.empty() && parse_backend(o.backend).is_simulated) {
    throw input_error(
        fmt::format("--like: {} is a machine itself, with figures of its own; drop it", one_line(o.backend)));
  }
  e.strategy_knobs = parse_knobs("--knob", o.strategy_knobs);
  if (!o.effort.empty()) {
    if (e.strategy_knobs.contains("effort"))
      throw input_error("--effort and --knob effort are the same knob; keep one");
    e.strategy_knobs["effort"] = static_cast<std::int64_t>(parse_choice<search_effort>("--effort", o.effort));
  }
  if (!o.ratio.empty()) e.ratio = parse_real_number("--ratio", o.ratio, min_ratio, max_ratio);
  if (!o.budget.empty()) e.budget = parse_size("--budget", o.budget);
  e.backend = o.backend;
  set_if_given<run_mode>(e.mode, "--mode", o.mode);
  if (!o.workspace_cap.empty()) e.workspace_cap = parse_size("--workspace-cap", o.workspace_cap);
  const auto count = [](const char* option, const std::string& text, std::uint32_t standard,
                        std::uint32_t most) {
    return text.empty() ? standard : static_cast<std::uint32_t>(parse_whole_number(option, text, 1, most));
  };
  e.iterations = count("--iterations", o.iterations, e.iterations, max_iterations);
  e.deadline_s = count("--deadline", o.deadline, e.deadline_s, max_deadline_s);
  e.timeline = o.timeline;
  e.allow_native = o.allow_native;
  return e;
}

cell requested_cell(const experiment_options& o) {
  const process_limits within(is_rules_file(o.strategy) ? o.strategy : "what is asked for",
                              process_limits::max_reading_time);
  return complete_cell(parse_experiment(o));
}

std::vector<std::string> input_files_of(const experiment_options& o) {
  std::vector<std::string> files;
  if (is_rules_file(o.strategy)) files.push_back(o.strategy);
  if (is_network_file(o.network)) files.push_back(o.network);
  return files;
}

std::vector<machine> load_machines_from(const std::string& folder) {
  const process_limits within(folder, process_limits::max_reading_time);
  return load_machines(folder.empty() ? std::nullopt : std::optional<std::filesystem::path>(folder));
}

cell with_machine(cell work, const std::vector<machine>& machines) {
  if (work.backend.is_simulated) work.planner_machine = find_machine(machines, work.backend.machine);
  return work;
}

environment environment_for(std::span<cell> cells, const std::vector<machine>& machines,
                            const std::string& like, signal_watch& signals) {
  std::map<int, gpu_facts> gpus;
  for (cell& c : cells) {
    if (c.backend.is_simulated) continue;
    const int device = c.backend.device;
    if (!gpus.contains(device)) {
      gpus.emplace(device, ask_for_gpu(signals, device));
      report_lack_of_machine_file(gpus.at(device).name, machines, like);
    }
    c.planner_machine = planner_machine_for(gpus.at(device).name, machines, like);
  }
  return collect_environment(gpus.empty() ? std::nullopt : std::optional(gpus.begin()->second));
}

std::string precision_row(const cell& work) {
  const bool of_a_file =
      work.network.family == nullptr;  // a network from a file, whose precision the file states
  const std::string text =
      of_a_file || !work.planner_machine ? "" : precision_text(work.network.spec, *work.planner_machine);
  return text.empty() ? "" : fmt::format("  {:<11}{}\n", "precision", text);
}

bool are_all_simulated(std::span<const cell> cells) {
  return std::ranges::all_of(cells, [](const cell& c) { return c.backend.is_simulated; });
}

std::size_t parse_jobs(const std::string& option, bool simulated) {
  constexpr std::int64_t max_jobs = 1024;
  if (option.empty()) return simulated ? std::max(1U, std::thread::hardware_concurrency()) : 1;
  const auto jobs = static_cast<std::size_t>(parse_whole_number("--jobs", option, 1, max_jobs));
  if (jobs > 1 && !simulated) {
    throw input_error(
        fmt::format("--jobs {}: cells on a GPU run one at a time, or they would disturb each other's times; "
                    "drop --jobs",
                    jobs));
  }
  return jobs;
}

}  // namespace um
