#include "harness/commands/tuning.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>

#include "harness/io/say.hpp"
#include "harness/process/sweep_runner.hpp"
#include "harness/study/summary.hpp"
#include "hints/hints.hpp"

namespace um {
namespace {

using enum role;

constexpr std::size_t max_starts = 3;
// A change that does not make the strategy simpler must reduce the time to this share.
constexpr double required_time_share = 0.999;

// --- alternatives to a rule ---

std::vector<hint_policy> alternatives_for(const prefetch_rule& r) {
  std::vector<hint_policy> all;
  const auto add = [&](look_ahead_unit unit, std::int64_t ahead) {
    prefetch_rule x = r;
    x.unit = unit;
    x.ahead = ahead;
    all.emplace_back(x);
  };
  add(look_ahead_unit::room, 0);
  for (const std::int64_t operators : {0, 1, 2, 4, 8, 16, 32}) add(look_ahead_unit::operators, operators);
  for (const byte_count bytes : {64 * MiB, 256 * MiB, 1 * GiB, 4 * GiB}) {
    add(look_ahead_unit::bytes, static_cast<std::int64_t>(bytes));
  }
  for (const operand_side side : {operand_side::inputs, operand_side::outputs, operand_side::both}) {
    prefetch_rule x = r;
    x.side = side;
    all.emplace_back(x);
  }
  for (const fetch_source from : {fetch_source::network, fetch_source::recorded}) {
    prefetch_rule x = r;
    x.source = from;
    all.emplace_back(x);
  }
  return all;
}

std::vector<hint_policy> alternatives_for(const evict_rule& r) {
  std::vector<hint_policy> all;
  for (const evict_means by : {evict_means::prefetch_to_host, evict_means::twin}) {
    for (const evict_order order : {evict_order::driver, evict_order::furthest_use}) {
      all.emplace_back(evict_rule{evict_when::pressure, order, 0, by});
    }
    for (const std::int64_t gap : {2, 4, 8, 16, 32}) {
      all.emplace_back(evict_rule{evict_when::pressure, evict_order::not_soon, gap, by});
      all.emplace_back(evict_rule{evict_when::after_use, r.order, gap, by});
    }
  }
  return all;
}

std::vector<hint_policy> alternatives_for(const discard_rule& r) {
  return {discard_rule{!r.repopulates}};
}
std::vector<hint_policy> alternatives_for(const search_rule&) {
  return {search_rule{12}, search_rule{24}, search_rule{48}, search_rule{96}};
}
std::vector<hint_policy> alternatives_for(const residence_rule&) {
  return {residence_rule{residence::managed}, residence_rule{residence::device},
          residence_rule{residence::host}};
}
std::vector<hint_policy> alternatives_for(const advice_rule&) {
  return {advice_rule{advice::read_mostly}, advice_rule{advice::preferred_device},
          advice_rule{advice::preferred_host}, advice_rule{advice::accessed_by_device}};
}
std::vector<hint_policy> alternatives_for(const cut_rule&) {
  return {};
}

bool uses_tensor_choice(const hint_policy& policy) {
  return !std::holds_alternative<cut_rule>(policy) && !std::holds_alternative<search_rule>(policy);
}

const std::vector<tensor_choice>& tensor_choices() {
  static const std::vector<tensor_choice> all{
      {},
      {{activation}, tensor_use::any},
      {{activation, activation_gradient}, tensor_use::any},
      {{activation, activation_gradient, parameter_gradient}, tensor_use::any},
      {{activation, input}, tensor_use::needed_again},
      {{}, tensor_use::needed_again},
      {{}, tensor_use::read_only},
      {{parameter}, tensor_use::any},
      {{parameter, parameter_gradient}, tensor_use::any},
      {{input}, tensor_use::any}};
  return all;
}

// --- rules to add ---

std::string unused_rule_name(const hint_strategy& s, const std::string& wanted) {
  std::string name = wanted;
  const auto taken = [&] {
    return std::ranges::any_of(s.rules, [&](const hint_rule& r) { return r.name == name; });
  };
  for (int n = 2; taken(); ++n) name = fmt::format("{}_{}", wanted, n);
  return name;
}

bool does_the_same(const hint_rule& a, const hint_rule& b) {
  return a.tensors == b.tensors && a.policy == b.policy;
}
bool has_equivalent_rule(const std::vector<hint_rule>& rules, const hint_rule& r) {
  return std::ranges::any_of(rules, [&](const hint_rule& x) { return does_the_same(x, r); });
}

// All rules of all catalogue strategies, and residences outside managed memory.
const std::vector<hint_rule>& known_rules() {
  static const std::vector<hint_rule> all = [] {
    std::vector<hint_rule> rules{
        {"weights_on_device", {{parameter}, {}}, residence_rule{residence::device}},
        {"gradients_on_device", {{parameter_gradient}, {}}, residence_rule{residence::device}},
        {"inputs_on_host", {{input}, {}}, residence_rule{residence::host}}};
    for (const hint_strategy& s : hint_table()) {
      for (hint_rule r : s.rules) {
        if (has_equivalent_rule(rules, r)) continue;
        if (s.rules.size() == 1) r.name = s.name;
        rules.push_back(std::move(r));
      }
    }
    return rules;
  }();
  return all;
}

// --- changes of one rule ---

void add_if_valid(std::vector<hint_strategy>& all, const hint_strategy& from, hint_strategy s) {
  if (from.rules == s.rules || defect_of(s)) return;
  if (std::ranges::any_of(all, [&](const hint_strategy& x) { return x.rules == s.rules; })) return;
  all.push_back(std::move(s));
}

alternatives strategies_without_one_rule(const hint_strategy& s) {
  alternatives found{"without one rule", {}};
  for (std::size_t i = 0; i < s.rules.size(); ++i) {
    hint_strategy less = s;
    less.rules.erase(less.rules.begin() + static_cast<std::ptrdiff_t>(i));
    add_if_valid(found.points, s, std::move(less));
  }
  return found;
}

alternatives strategies_with_other_numbers(const hint_strategy& s, std::size_t rule) {
  alternatives found{"other numbers of rule " + s.rules[rule].name, {}};
  std::visit(
      [&](const auto& r) {
        for (hint_policy& x : alternatives_for(r)) {
          hint_strategy changed = s;
          changed.rules[rule].policy = std::move(x);
          add_if_valid(found.points, s, std::move(changed));
        }
      },
      s.rules[rule].policy);
  return found;
}

alternatives strategies_with_other_tensors(const hint_strategy& s, std::size_t rule) {
  alternatives found{"other tensors of rule " + s.rules[rule].name, {}};
  if (!uses_tensor_choice(s.rules[rule].policy)) return found;
  for (const tensor_choice& which : tensor_choices()) {
    hint_strategy changed = s;
    changed.rules[rule].tensors = which;
    add_if_valid(found.points, s, std::move(changed));
  }
  return found;
}

alternatives strategies_with_one_more_rule(const hint_strategy& s) {
  alternatives found{"with one rule more", {}};
  for (hint_rule r : known_rules()) {
    if (has_equivalent_rule(s.rules, r)) continue;
    hint_strategy more = s;
    r.name = unused_rule_name(s, r.name);
    more.rules.push_back(std::move(r));
    add_if_valid(found.points, s, std::move(more));
  }
  return found;
}

// --- the search ---

double time_or_infinity(const timed_strategy& t) {
  return t.cost.value_or(std::numeric_limits<double>::infinity());
}

std::vector<timed_strategy> fastest_first(std::vector<timed_strategy> all) {
  std::ranges::stable_sort(all, {}, time_or_infinity);
  return all;
}

struct have_equal_rules {
  bool operator()(const hint_strategy& a, const hint_strategy& b) const { return a.rules == b.rules; }
};

// Whether `to` is better than `from`. A simpler strategy need not be faster.
bool is_improvement(const timed_strategy& from, const timed_strategy& to) {
  const bool is_simpler = to.point.rules.size() < from.point.rules.size();
  return time_or_infinity(to) <=
         (is_simpler ? time_or_infinity(from) : time_or_infinity(from) * required_time_share);
}

}  // namespace

std::vector<alternatives> neighbours_of_strategy(const hint_strategy& s) {
  std::vector<alternatives> all{strategies_without_one_rule(s)};
  for (std::size_t i = 0; i < s.rules.size(); ++i) {
    all.push_back(strategies_with_other_numbers(s, i));
    all.push_back(strategies_with_other_tensors(s, i));
  }
  all.push_back(strategies_with_one_more_rule(s));
  return all;
}

search_result search_strategies(std::span<const hint_strategy> starts, std::size_t max_trials,
                                const strategy_timer& time) {
  hill_climber<hint_strategy, double, have_equal_rules> search({neighbours_of_strategy, time, is_improvement},
                                                               max_trials);
  if (search.rate_all(starts, "the strategies to begin with")) {
    std::vector<timed_strategy> all = fastest_first(search.rated_points());
    std::erase_if(all, [](const timed_strategy& t) { return !t.cost; });
    for (std::size_t i = 0; i < std::min(max_starts, all.size()) && search.may_continue(); ++i) {
      search.climb(all[i].point);
    }
  }
  return {fastest_first(search.rated_points()), search.stopped()};
}

std::string setting_text(const cell& setting) {
  const std::string name = std::string(baseline_strategy) + "/";
  std::string key = with_strategy(setting, strategy_named(baseline_strategy)).key;
  return key.erase(key.rfind(name), name.size());
}

trials::trials(record_file& file, environment here, signal_watch& signals, std::size_t jobs)
    : file_(file), here_(std::move(here)), signals_(signals), jobs_(jobs) {}

std::optional<std::vector<record>> trials::run(const std::vector<cell>& requested, const std::string& why) {
  std::vector<cell> cells;
  std::set<std::string> asked;
  for (const cell& c : requested) {
    if (!records_by_key_.contains(c.key) && asked.insert(c.key).second) cells.push_back(c);
  }
  if (!cells.empty()) {
    print_text("{}\n", why);
    const bool simulated = std::ranges::all_of(cells, [](const cell& c) { return c.backend.is_simulated; });
    sweep_result done = run_sweep(cells, {simulated ? jobs_ : 1, true}, file_, here_, signals_, stderr);
    if (done.stop_signal) return std::nullopt;
    if (done.hung_cell)
      throw append_error(fmt::format("{} hangs in the kernel; reboot the machine", *done.hung_cell));
    for (record& r : done.records) records_by_key_.insert_or_assign(r.key, std::move(r));
  }
  std::vector<record> all;
  for (const cell& c : requested) all.push_back(records_by_key_.at(c.key));
  return all;
}

bool trials::print_failures() const {
  // Contradictory rules give an invalid plan, which is not run and does not count as a failure.
  const auto failed = [](const auto& r) {
    const bool never_ran = r.second.result == outcome::wrong_result && r.second.samples.empty();
    return !is_result(r.second.result) && r.second.result != outcome::unsupported && !never_ran;
  };
  const auto all = std::ranges::count_if(records_by_key_, failed);
  if (all == 0) return false;
  const auto& first = *std::ranges::find_if(records_by_key_, failed);
  print_text("umbench: {} of {} trials failed, such as {}: {}; their records in {} say why\n", all,
             records_by_key_.size(), first.first, outcome_text(first.second), file_.path().string());
  return true;
}

}  // namespace um
