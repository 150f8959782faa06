#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <limits>

#include "harness/commands/cells.hpp"
#include "harness/io/errors.hpp"
#include "harness/io/numbers.hpp"
#include "harness/io/progress.hpp"
#include "harness/io/say.hpp"
#include "harness/json/json.hpp"
#include "harness/process/flow.hpp"
#include "harness/process/isolation.hpp"
#include "harness/study/advice.hpp"
#include "harness/study/experiment.hpp"
#include "harness/study/machines.hpp"
#include "harness/study/modules.hpp"
#include "harness/study/summary.hpp"

namespace um {
namespace {

// Simulated iterations after the second are identical.
constexpr std::uint32_t simulated_iterations = 3;

// The GPU of this machine, if there is one; otherwise the default simulated machine.
std::string default_backend(signal_watch& signals) {
  try {
    ask_for_gpu(signals, 0);
    return "cuda:0";
  } catch (const input_error&) {
    const std::string stand_in = std::string("sim:") + standard_machine;
    print_text("umbench: no GPU to ask here, so {} stands for it; name another by --backend\n", stand_in);
    return stand_in;
  }
}

cell setting_to_advise(const advise_options& o, const std::vector<machine>& machines, signal_watch& signals) {
  experiment_options what = o.experiment;
  what.strategy = baseline_strategy;
  if (what.backend.empty()) {
    what.backend = std::string("sim:") + standard_machine;
    requested_cell(what);  // throws for invalid options before a GPU is looked for
    what.backend = default_backend(signals);
  }
  cell work = with_machine(requested_cell(what), machines);
  if (work.backend.is_simulated && what.iterations.empty()) work.settings.iterations = simulated_iterations;
  work.skips_observation = !work.backend.is_simulated;
  return work;
}

// The requested strategies, or those tried by default.
std::vector<tried_strategy> candidates_to_try(std::vector<std::string> names) {
  if (names.empty()) {
    const auto advised = advised_strategies();
    names.assign(advised.begin(), advised.end());
  }
  std::vector<tried_strategy> all;
  for (std::string& name : names) {
    all.push_back({technique_of(strategy_named(name)->row), {}});
    all.back().result.strategy = std::move(name);
  }
  return all;
}

cell with_strategy_name(const cell& setting, const std::string& strategy) {
  cell c = with_strategy(setting, strategy_named(strategy));
  c.skips_observation = setting.skips_observation;
  return c;
}

cell without_memory_limit(cell c) {
  c.settings.ratio.reset();
  c.settings.budget.reset();
  return c;
}

// Whether the baseline needs more memory than the setting leaves.
bool exceeds_device(const cell& setting, const record& in_core) {
  if (setting.settings.ratio) return *setting.settings.ratio > 1;
  const auto& footprint = in_core.memory.footprint;
  const auto budget = setting.settings.budget ? setting.settings.budget : in_core.memory.budget;
  return footprint && budget && footprint->total > *budget;
}

// The record of a strategy that is not run, since it needs more managed memory than the device has and the
// system does not support that.
record record_of_excluded(const cell& c, const record& in_core, const managed_support& managed) {
  record r = make_record(c);
  r.result = outcome::unsupported;
  r.reason = "managed memory: " + managed.reason;
  r.device = in_core.device;
  return r;
}

// Makes a callback that adds to `lines` how many cells have ended and which is the fastest so far.
std::function<void(const record&)> make_progress_callback(progress& lines, std::size_t cells) {
  return [&lines, cells, done = std::size_t{0}, fastest = std::string(),
          fastest_time = std::numeric_limits<double>::infinity()](const record& r) mutable {
    ++done;
    const std::optional<double> time = r.result == outcome::ok ? steady_ns(r) : std::nullopt;
    if (time && *time < fastest_time) {
      fastest_time = *time;
      fastest = fmt::format(", {} is the fastest with {}", r.strategy, time_text(fastest_time));
    }
    lines.note(fmt::format("{} of {} done{}", done, cells, fastest));
  };
}

std::string describe_setting(const cell& setting, const record& in_core,
                             const std::vector<tried_strategy>& tried) {
  const network_spec& n = setting.network.spec;
  const auto known = std::ranges::find_if(
      tried, [](const tried_strategy& t) { return t.result.memory.footprint.has_value(); });
  std::string words =
      fmt::format("{} of batch {}, {}, {}", n.name, n.batch, to_text(n.mode), storage_text(n));
  if (known == tried.end()) return words + fmt::format(" on {}.", in_core.backend);
  const memory_figures& m = known->result.memory;
  return words + fmt::format(" takes {} with everything resident; {} may be used (ratio {:.2f}).",
                             to_text(m.footprint->total), to_text(m.budget.value()),
                             known->result.ratio.value());
}

// A table of what the plan of the recommended strategy does with each module. "" if the network's names
// contain no modules, the driver moves all memory, or the backend is a GPU.
std::string modules_text(const cell& setting, const memory_advice& given) {
  const tried_strategy* named = recommended_strategy(given);
  const bool is_of_file = setting.network.family == nullptr;
  if (named == nullptr || !setting.backend.is_simulated || !is_of_file) return "";
  const cell work = with_strategy_name(setting, named->result.strategy);
  const progress_thread line("planning again to tell modules");
  const planned_cell made = plan_cell(work);
  const auto rows = modules_of(*made.file.network.network, made.file.plan);
  const bool decides =
      family_of(work) != family::managed || std::ranges::any_of(rows, [](const module_row& r) {
        return r.recomputed_bytes + r.offloaded_bytes + r.split_bytes > 0;
      });
  return rows.empty() || !decides ? ""
                                  : fmt::format("\nWhat {} does with activations:\n{}",
                                                named->result.strategy, module_table(rows));
}

}  // namespace

int advise_command(const advise_options& options) {
  const auto machines = load_machines_from(options.experiment.machines);
  signal_watch signals;
  cell setting = setting_to_advise(options, machines, signals);
  const environment here =
      environment_for(std::span(&setting, 1), machines, options.experiment.machine_like, signals);
  const system_kind system = options.system.empty() ? system_of_kernel(here.host.kernel.value_or(""))
                                                    : parse_choice<system_kind>("--system", options.system);
  const managed_support managed =
      here.gpu ? managed_support_of(system, *here.gpu) : managed_support_of(system, *setting.planner_machine);
  const std::size_t jobs = parse_jobs(options.jobs, setting.backend.is_simulated);
  const auto stopped = [&] { return 128 + signals.stop_signal().value_or(0); };

  progress lines("trying strategies");
  const auto tell = [&] { lines.tick(); };
  const auto in_core = run_and_collect(std::vector{without_memory_limit(setting)}, jobs, signals, tell);
  if (!in_core) return stopped();
  const record& resident = in_core->front();
  const bool no_managed = !managed.can_oversubscribe && exceeds_device(setting, resident);
  std::vector<tried_strategy> tried = candidates_to_try(options.strategies);
  std::vector<cell> cells;
  std::vector<std::size_t> of;
  for (std::size_t i = 0; i < tried.size(); ++i) {
    cell c = with_strategy_name(setting, tried[i].result.strategy);
    if (no_managed && family_of(c) == family::managed) {
      tried[i].result = record_of_excluded(c, resident, managed);
    } else {
      cells.push_back(std::move(c));
      of.push_back(i);
    }
  }
  const auto records =
      run_and_collect(cells, jobs, signals, tell, make_progress_callback(lines, cells.size()));
  if (!records) return stopped();
  for (std::size_t i = 0; i < of.size(); ++i) tried[of[i]].result = (*records)[i];

  const memory_advice given = make_advice(std::move(tried), resident, managed);
  fmt::print("{}", options.json ? to_json(given) + "\n"
                                : advice_text(given, describe_setting(setting, resident, given.tried)) +
                                      precision_row(setting) + modules_text(setting, given));
  return recommended_strategy(given) != nullptr ? 0 : 1;
}

}  // namespace um
