#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>

#include "harness/commands/cells.hpp"
#include "harness/commands/tuning.hpp"
#include "harness/io/errors.hpp"
#include "harness/io/files.hpp"
#include "harness/io/numbers.hpp"
#include "harness/io/say.hpp"
#include "harness/io/text.hpp"
#include "harness/json/input_files.hpp"
#include "harness/json/json.hpp"
#include "harness/study/experiment.hpp"
#include "harness/study/summary.hpp"
#include "hints/hints.hpp"

namespace um {
namespace {

constexpr std::int64_t max_trials = 100'000, standard_trials = 150, standard_best = 4;

std::size_t parse_count(const char* option, const std::string& text, std::int64_t standard) {
  return static_cast<std::size_t>(text.empty() ? standard : parse_whole_number(option, text, 1, max_trials));
}

std::string tune_output_file(const tune_options& o) {
  const std::string out = o.out.empty() ? "tuned.json" : o.out;
  if (!out.ends_with(".json")) {
    throw input_error(fmt::format("--out {}: --strategy takes rules from files named *.json; end it in .json",
                                  one_line(out)));
  }
  return out;
}

// The cell whose time the search minimises.
cell tune_target(const tune_options& o, const std::vector<machine>& machines) {
  experiment_options what = o.experiment;
  if (what.strategy.empty()) {
    for (const auto& [option, given] :
         {std::pair{"--knob", !what.strategy_knobs.empty()}, {"--without", !what.without.empty()}}) {
      if (given) throw input_error(fmt::format("{} needs --strategy: all of them are tried", option));
    }
    what.strategy = "managed";
  }
  return with_machine(requested_cell(what), machines);
}

std::vector<hint_strategy> tune_starts(const tune_options& o, const cell& target) {
  if (o.experiment.strategy.empty()) return {hint_table().begin(), hint_table().end()};
  const auto& rules = target.strategy->rules;
  if (!rules) {
    throw input_error(fmt::format("strategy {} is not made of rules, so there is nothing to search",
                                  target.settings.strategy));
  }
  return {with_knobs(*rules, target.settings.strategy_knobs)};
}

class tuning_run {
 public:
  tuning_run(const tune_options& o, const cell& target)
      : target_(target),
        searched_(target),
        starts_(tune_starts(o, target)),
        trials_(parse_count("--trials", o.trials, standard_trials)),
        measured_ones_(parse_count("--best", o.best, standard_best)) {}

  // Returns false if the search was stopped. The target's machine must be set before.
  bool search(trials& runs) {
    searched_ = as_simulated_on(target_, target_.planner_machine.value());
    std::size_t done = 0;
    std::optional<double> fastest;
    const auto began = std::chrono::steady_clock::now();
    const strategy_timer time =
        [&](std::span<const hint_strategy> all,
            const std::string& why) -> std::optional<std::vector<std::optional<double>>> {
      std::vector<cell> what;
      for (const hint_strategy& s : all) what.push_back(make_trial(searched_, s));
      const auto records = runs.run(
          what, fmt::format("{} of at most {} tried{}, next {}", done, trials_,
                            progress_text(fastest, done, std::chrono::steady_clock::now() - began), why));
      if (!records) return std::nullopt;
      done += all.size();
      std::vector<std::optional<double>> times;
      for (const record& r : *records) {
        times.push_back(steady_ns(r));
        if (times.back() && (!fastest || *times.back() < *fastest)) fastest = times.back();
      }
      return times;
    };
    search_result found = search_strategies(starts_, trials_, time);
    tried_ = std::move(found.timed_strategies);
    const auto begins = [&](const timed_strategy& t) {
      return t.cost && std::ranges::find(starts_, t.point) != starts_.end();
    };
    const auto start = std::ranges::find_if(tried_, begins);
    if (start != tried_.end()) start_ = *start;
    return !found.was_stopped && time_best(runs);
  }

  bool found_one() const { return best_.has_value(); }
  hint_strategy best() const { return as_written_to_file(best_->point); }
  std::string report() const {
    return fmt::format("{}: {}\n", setting_text(target_), provenance(best_record_)) + measured_text() +
           row("best", fmt::format("{} an iteration, the best of {} strategies", time_text(*best_->cost),
                                   tried_.size())) +
           (start_ ? row("began at", gain_text()) : "") + row("managed", comparison_text(managed_)) +
           row("device", comparison_text(device_)) + row("rules", rules_text());
  }
  std::string no_result_text() const {
    return fmt::format("{}: none of {} strategies works there; managed: {}", setting_text(target_),
                       tried_.size(), outcome_text(managed_));
  }

 private:
  // The strategy as its file will have it, so that `--strategy FILE` gives the same key.
  hint_strategy as_written_to_file(hint_strategy s) const {
    s.name = "tuned";
    s.summary = "found by umbench tune for " + setting_text(target_);
    return s;
  }
  cell make_trial(const cell& where, const hint_strategy& s) const {
    const bool is_of_catalogue = std::ranges::find(hint_table(), s) != hint_table().end();
    return with_strategy(where, is_of_catalogue ? strategy_named(s.name)
                                                : strategy_from_rules(with_digest(as_written_to_file(s))));
  }

  // Times the best strategies and the baselines on the target.
  bool time_best(trials& runs) {
    std::vector<timed_strategy> few = tried_;
    std::erase_if(few, [](const timed_strategy& t) { return !t.cost; });
    const bool simulated = target_.backend.is_simulated;
    few.resize(std::min(few.size(), simulated ? 1 : measured_ones_));
    const auto same = [&](const timed_strategy& t) { return t.point == start_->point; };
    if (start_ && std::ranges::none_of(few, same)) few.push_back(*start_);
    std::vector<cell> what{with_strategy(target_, strategy_named(baseline_strategy)),
                           with_strategy(target_, strategy_named("managed"))};
    for (const timed_strategy& t : few) what.push_back(make_trial(target_, t.point));
    const auto records = runs.run(what, simulated ? "what the best is held against" : "the best on the GPU");
    if (!records) return false;
    device_ = records->at(0);
    managed_ = records->at(1);
    for (std::size_t i = 0; i < few.size(); ++i) {
      const record& r = records->at(i + 2);
      const auto time = steady_ns(r);
      if (start_ && same(few[i])) start_record_ = r;
      if (!simulated) measured_.push_back({few[i], r});
      if (!time || (best_ && *time >= *best_->cost)) continue;
      best_ = timed_strategy{few[i].point, time};
      best_record_ = r;
    }
    return true;
  }

  // Progress, and the time that the whole search takes if it uses all of its trials.
  std::string progress_text(std::optional<double> fastest, std::size_t done,
                            std::chrono::steady_clock::duration elapsed) const {
    if (done == 0) return "";
    const auto left = std::chrono::duration_cast<std::chrono::seconds>(elapsed) *
                      static_cast<std::int64_t>(trials_ - std::min(trials_, done)) /
                      static_cast<std::int64_t>(done);
    return fmt::format(", the best {}, at most about {:02}:{:02} left",
                       fastest ? time_text(*fastest) : "none yet", left.count() / 60, left.count() % 60);
  }
  // The gain over the fastest starting strategy.
  std::string gain_text() const {
    const auto time = steady_ns(start_record_);
    const std::string name = start_record_.strategy;
    if (!time) return fmt::format("{}: {}", name, outcome_text(start_record_));
    const double gain = 100 * (1 - *best_->cost / *time);
    return fmt::format("{}, {}: the search gained {}", name, time_text(*time),
                       gain < 0.05 ? "nothing" : fmt::format("{:.1f} %", gain));
  }

  static std::string row(std::string_view label, const std::string& text) {
    return fmt::format("  {:<11}{}\n", label, text);
  }
  std::string measured_text() const {
    std::string text;
    for (const auto& [trial, r] : measured_) {
      text += row("", fmt::format("{}: simulated on {} {}, measured {}", r.strategy,
                                  searched_.settings.backend, time_text(*trial.cost), outcome_text(r)));
    }
    return text;
  }
  std::string comparison_text(const record& r) const {
    if (const auto time = steady_ns(r)) {
      return fmt::format("{}, {:.2f} times as long", time_text(*time), *time / *best_->cost);
    }
    if (!best_record_.compute_time) return outcome_text(r);
    const auto operators_alone_ns = static_cast<double>(*best_record_.compute_time);
    return fmt::format("{}; operators alone take {}, the best {:.2f} times that", to_text(r.result),
                       time_text(operators_alone_ns), *best_->cost / operators_alone_ns);
  }
  std::string rules_text() const {
    std::string text;
    for (const hint_rule& r : best_->point.rules) {
      text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", r.name, rule_verb(r.policy));
    }
    return text.empty() ? "none" : text;
  }

  const cell& target_;
  cell searched_;
  std::vector<hint_strategy> starts_;
  std::size_t trials_, measured_ones_;
  std::vector<timed_strategy> tried_;
  std::vector<std::pair<timed_strategy, record>> measured_;
  std::optional<timed_strategy> best_, start_;
  record start_record_, best_record_, device_, managed_;
};

}  // namespace

int tune_command(const tune_options& options) {
  const std::string out = tune_output_file(options);
  const std::string kept = std::filesystem::path(out).replace_extension(".jsonl").string();
  check_output_file("--out", out, input_files_of(options.experiment));
  const auto machines = load_machines_from(options.experiment.machines);
  cell target = tune_target(options, machines);
  tuning_run work(options, target);
  const std::size_t jobs = parse_jobs(options.jobs, true);
  signal_watch signals;
  const environment here =
      environment_for(std::span(&target, 1), machines, options.experiment.machine_like, signals);
  record_file file(kept, options.resume ? open_mode::resume : open_mode::create);
  trials runs(file, here, signals, jobs);
  if (!work.search(runs)) {
    const int stop = signals.stop_signal().value_or(0);
    print_text("umbench: stopped by {}; what was tried is in {}; go on with the same command and --resume\n",
               signal_name(stop), kept);
    return 128 + stop;
  }
  if (!work.found_one()) {
    print_text("umbench: {}\n", work.no_result_text());
    runs.print_failures();
    return 1;
  }
  write_file(out, to_json(work.best()));
  fmt::print("{}the rules are in {}, the records in {}; use them with --strategy {}\n", work.report(), out,
             kept, out);
  std::fflush(stdout);
  return runs.print_failures() ? 1 : 0;
}

}  // namespace um
