// A search over hint strategies: which rules, and with which numbers. It uses only the time of each trial, so
// that equal times lead to the same strategy.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/units.hpp"
#include "harness/json/record_file.hpp"
#include "harness/process/child.hpp"
#include "harness/study/cell.hpp"
#include "harness/study/environment.hpp"
#include "hints/rules.hpp"
#include "schedule/hill_climber.hpp"

namespace um {

using timed_strategy = rated<hint_strategy, double>;  // nanoseconds

// Strategies one step away from `s`: without one rule, with one rule's numbers or tensors changed, with one
// rule more, each kind by itself ("without a rule", "other numbers of rule fetch"). All of them pass
// defect_of(), none has the rules of `s`.
using alternatives = neighbour_group<hint_strategy>;
std::vector<alternatives> neighbours_of_strategy(const hint_strategy& s);

// Times strategies; the text describes them for users. Returns nothing to stop the search.
using strategy_timer = std::function<std::optional<std::vector<std::optional<double>>>(
    std::span<const hint_strategy>, const std::string& why)>;

struct search_result {
  std::vector<timed_strategy> timed_strategies;  // fastest first; equal ones in the order of trial
  bool was_stopped = false;
};

// Times `starts`, then climbs from the fastest ones to better alternatives, until none is better or
// `max_trials` strategies have been timed. Removes a rule whose absence costs nothing.
search_result search_strategies(std::span<const hint_strategy> starts, std::size_t max_trials,
                                const strategy_timer& time);

// The key without the strategy: "vgg16/b256/train/fused/fp32/x2.00/simulated/sim:h200".
std::string setting_text(const cell& setting);

class trials {
 public:
  // Cells that the file already contains are not run again.
  trials(record_file& file, environment here, signal_watch& signals, std::size_t jobs);

  // The records of these strategies, in order; nothing if a stop signal came. GPU cells run one at a time.
  // `why` is the heading of the progress on standard error. Throws append_error.
  std::optional<std::vector<record>> run(const std::vector<cell>& requested, const std::string& why);

  // Prints on standard error how many records so far are failures such as crashes. Returns whether there
  // are any.
  bool print_failures() const;

 private:
  record_file& file_;
  environment here_;
  signal_watch& signals_;
  std::size_t jobs_;
  std::map<std::string, record> records_by_key_;
};

}  // namespace um
