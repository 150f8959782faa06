#include <fmt/format.h>

#include <cstdio>
#include <utility>

#include "harness/commands/ablation.hpp"
#include "harness/commands/cells.hpp"
#include "harness/commands/tuning.hpp"
#include "harness/io/errors.hpp"
#include "harness/io/say.hpp"
#include "harness/json/input_files.hpp"
#include "harness/study/experiment.hpp"
#include "hints/hints.hpp"

namespace um {
namespace {

cell setting_to_ablate(const ablate_options& o, const std::vector<machine>& machines) {
  experiment_options what = o.experiment;
  if (what.strategy.empty()) what.strategy = "managed";
  return with_machine(requested_cell(what), machines);
}

// The set of rules to test, if the user names one.
std::optional<hint_strategy> requested_rules(const ablate_options& o, const cell& c) {
  if (o.experiment.strategy.empty()) return std::nullopt;
  const auto& rules = c.strategy->rules;
  if (!rules || rules->rules.empty()) {
    throw input_error(
        fmt::format("strategy {} has no rules that could be left out; see `umbench list strategies`",
                    c.settings.strategy));
  }
  hint_strategy set = with_knobs(*rules, c.settings.strategy_knobs);
  return set == *rules ? set : with_digest(std::move(set));
}

const hint_strategy* fastest_rules(const std::vector<record>& records) {
  const record* best = nullptr;
  for (const record& r : records) {
    if (steady_ns(r) && !r.rules.value().rules.empty() && (!best || *steady_ns(r) < *steady_ns(*best)))
      best = &r;
  }
  return best ? &*best->rules : nullptr;
}

}  // namespace

int ablate_command(const ablate_options& options) {
  const auto machines = load_machines_from(options.experiment.machines);
  cell setting = setting_to_ablate(options, machines);
  std::optional<hint_strategy> set = requested_rules(options, setting);
  const std::size_t jobs = parse_jobs(options.jobs, true);
  signal_watch signals;
  const environment here =
      environment_for(std::span(&setting, 1), machines, options.experiment.machine_like, signals);
  const std::string out = options.out.empty() ? "ablation.jsonl" : options.out;
  record_file file(out, options.resume ? open_mode::resume : open_mode::create);
  trials runs(file, here, signals, jobs);
  const auto stopped = [&] {
    const int stop = signals.stop_signal().value_or(0);
    print_text("umbench: stopped by {}; go on with the same command and --resume\n", signal_name(stop));
    return 128 + stop;
  };

  std::vector<cell> what;
  for (const hint_strategy& s : hint_table()) what.push_back(with_strategy(setting, strategy_named(s.name)));
  const auto named = runs.run(std::exchange(what, {}), "every named strategy");
  if (!named) return stopped();
  if (!set) {
    const hint_strategy* best = fastest_rules(*named);
    if (best == nullptr && runs.print_failures()) return 1;
    if (best == nullptr) throw input_error("no hint works within that budget; give a larger one");
    set = *best;
  }
  const ablation_plan plan = plan_ablation(*set);
  for (const hint_strategy& s : strategies_of(plan))
    what.push_back(with_strategy(setting, strategy_from_rules(s)));
  const auto records = runs.run(what, "the rules of " + set->name);
  if (!records) return stopped();
  fmt::print("{}: {}", setting_text(setting), ablation_text(*named, plan, *records));
  fmt::print("records are in {}\n", out);
  std::fflush(stdout);
  return runs.print_failures() ? 1 : 0;
}

}  // namespace um
