#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <limits>

#include "harness/commands/cells.hpp"
#include "harness/io/errors.hpp"
#include "harness/io/numbers.hpp"
#include "harness/io/progress.hpp"
#include "harness/io/say.hpp"
#include "harness/io/text.hpp"
#include "harness/json/json.hpp"
#include "harness/process/flow.hpp"
#include "harness/process/isolation.hpp"
#include "harness/study/advice.hpp"
#include "harness/study/machines.hpp"
#include "harness/study/modules.hpp"
#include "harness/study/strategies.hpp"
#include "harness/study/summary.hpp"

namespace um {
namespace {

// Simulated iterations after the second are alike.
constexpr std::uint32_t simulated_iterations = 3;

// The GPU, if there is one; else the machine that stands for any.
std::string backend_here(signal_watch& signals) {
  try {
    ask_for_gpu(signals, 0);
    return "cuda:0";
  } catch (const input_error&) {
    const std::string stand_in = std::string("sim:") + standard_machine;
    say("umbench: no GPU to ask here, so {} stands for it; name another by --backend\n", stand_in);
    return stand_in;
  }
}

system_kind system_asked_for(const std::string& name, const environment& here) {
  if (name.empty()) return system_of(here.host.kernel.value_or(""));
  const std::vector<std::string> known{"linux", "wsl2", "windows"};
  const auto at = std::find(known.begin(), known.end(), name);
  if (at == known.end()) throw input_error("--system: " + unknown_name("value", name, known));
  return static_cast<system_kind>(at - known.begin());
}

cell setting_of(const advise_options& o, const std::vector<machine>& machines, signal_watch& signals) {
  experiment_options what = o.what;
  what.strategy = baseline_strategy;
  if (what.backend.empty()) {
    what.backend = std::string("sim:") + standard_machine;
    cell_asked_for(what);  // refuses what is wrong before a GPU is looked for
    what.backend = backend_here(signals);
  }
  cell work = on_machine(cell_asked_for(what), machines);
  if (work.where.simulated && what.iterations.empty()) work.what.iterations = simulated_iterations;
  work.times_only = !work.where.simulated;
  return work;
}

// The strategies that were asked about, else those that are tried unasked.
std::vector<tried_way> ways_to_try(std::vector<std::string> names) {
  if (names.empty()) {
    const auto advised = advised_strategies();
    names.assign(advised.begin(), advised.end());
  }
  std::vector<tried_way> all;
  for (std::string& name : names) {
    all.push_back({technique_of(strategy_named(name)->row), {}});
    all.back().r.strategy = std::move(name);
  }
  return all;
}

cell with_name(const cell& setting, const std::string& strategy) {
  cell c = with_strategy(setting, strategy_named(strategy));
  c.times_only = setting.times_only;
  return c;
}

cell with_whole_device(cell c) {
  c.what.ratio.reset();
  c.what.budget.reset();
  return c;
}

// Whether the setting leaves less memory than everything resident takes.
bool leaves_too_little(const cell& setting, const record& in_core) {
  if (setting.what.ratio) return *setting.what.ratio > 1;
  const auto& footprint = in_core.memory.footprint;
  const auto budget = setting.what.budget ? setting.what.budget : in_core.memory.budget;
  return footprint && budget && footprint->total > *budget;
}

// Gives the record of a strategy that cannot work here, without running it; nothing for others.
record ruled_out(const cell& c, const record& in_core, const managed_support& managed) {
  record r = blank_record(c);
  r.result = outcome::unsupported;
  r.reason = "managed memory: " + managed.why;
  r.device = in_core.device;
  return r;
}

// Lets `lines` tell how many of the cells have ended and which is the fastest so far.
std::function<void(const record&)> note_ended(progress& lines, std::size_t cells) {
  return [&lines, cells, done = std::size_t{0}, fastest = std::string(),
          least = std::numeric_limits<double>::infinity()](const record& r) mutable {
    ++done;
    const std::optional<double> time = r.result == outcome::ok ? steady_ns(r) : std::nullopt;
    if (time && *time < least) {
      least = *time;
      fastest = fmt::format(", {} is the fastest with {}", r.strategy, time_text(least));
    }
    lines.note(fmt::format("{} of {} done{}", done, cells, fastest));
  };
}

std::string setting_words(const cell& setting, const record& in_core, const std::vector<tried_way>& tried) {
  const network_spec& n = setting.network.spec;
  const auto known =
      std::ranges::find_if(tried, [](const tried_way& t) { return t.r.memory.footprint.has_value(); });
  std::string words =
      fmt::format("{} of batch {}, {}, {}", n.name, n.batch, to_text(n.mode), storage_text(n));
  if (known == tried.end()) return words + fmt::format(" on {}.", in_core.backend);
  const memory_figures& m = known->r.memory;
  return words + fmt::format(" takes {} with everything resident; {} may be used (ratio {:.2f}).",
                             to_text(m.footprint->total), to_text(m.budget.value()), known->r.ratio.value());
}

// What the plan of the strategy named does, by module. "" of a network whose names tell none, of a strategy
// that leaves moving data to the driver, and where a GPU was asked.
std::string modules_text(const cell& setting, const advice_given& given) {
  const tried_way* named = recommended_by(given);
  const bool is_of_file = setting.network.family == nullptr;
  if (named == nullptr || !setting.where.simulated || !is_of_file) return "";
  const cell work = with_name(setting, named->r.strategy);
  if (family_of(work) != family::explicit_) return "";
  const std::jthread line = ticking("planning again to tell modules");
  const planned made = plan_cell(work);
  const std::string table = text_of(modules_of(*made.file.network.built, made.file.plan));
  return table.empty() ? "" : fmt::format("\nWhat {} does with activations:\n{}", named->r.strategy, table);
}

}  // namespace

int advise_command(const advise_options& options) {
  const auto machines = machines_in(options.what.machines);
  signal_watch signals;
  cell setting = setting_of(options, machines, signals);
  const environment here = environment_for(std::span(&setting, 1), machines, options.what.like, signals);
  const system_kind system = system_asked_for(options.system, here);
  const managed_support managed =
      here.gpu ? managed_support_of(system, *here.gpu) : managed_support_of(system, *setting.on);
  const std::size_t jobs = jobs_of(options.jobs, setting.where.simulated);
  const auto stopped = [&] { return 128 + signals.stop_signal().value_or(0); };

  progress lines("trying strategies");
  const auto tell = [&] { lines.tick(); };
  const auto in_core = records_of(std::vector{with_whole_device(setting)}, jobs, signals, tell);
  if (!in_core) return stopped();
  const record& resident = in_core->front();
  const bool no_managed = !managed.oversubscribes && leaves_too_little(setting, resident);
  std::vector<tried_way> tried = ways_to_try(options.strategies);
  std::vector<cell> cells;
  std::vector<std::size_t> of;
  for (std::size_t i = 0; i < tried.size(); ++i) {
    cell c = with_name(setting, tried[i].r.strategy);
    if (no_managed && family_of(c) == family::managed) {
      tried[i].r = ruled_out(c, resident, managed);
    } else {
      cells.push_back(std::move(c));
      of.push_back(i);
    }
  }
  const auto records = records_of(cells, jobs, signals, tell, note_ended(lines, cells.size()));
  if (!records) return stopped();
  for (std::size_t i = 0; i < of.size(); ++i) tried[of[i]].r = (*records)[i];

  const advice_given given = advice_from(std::move(tried), resident, managed);
  fmt::print("{}", options.json ? to_json(given) + "\n"
                                : text_of(given, setting_words(setting, resident, given.tried)) +
                                      setting_rows(setting) + modules_text(setting, given));
  return recommended_by(given) != nullptr ? 0 : 1;
}

}  // namespace um
