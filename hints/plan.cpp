// Turns rules into a memory plan: makes the draft, keeps it within the budget, times its evictions and
// searches over its numbers.
#include <algorithm>
#include <memory>
#include <optional>
#include <string>

#include "core/lower.hpp"
#include "hints/draft.hpp"
#include "hints/eviction_timing.hpp"
#include "hints/hints.hpp"
#include "hints/make_room.hpp"
#include "hints/slices.hpp"
#include "schedule/hill_climber.hpp"

namespace um {
namespace {

constexpr packer placed_by = packers::searched;
// A changed setting must reach this share of the previous time: smaller gains are within the error of
// simulated times.
constexpr nanoseconds worth_permille = 995;

// The numbers that a search changes. Start values and candidates are policy, not properties of a machine.
struct search_setting {
  byte_count part_bytes = 64 * MiB;
  std::int64_t cut_percent = 25;     // percent of the budget that one operator's activations may take
  std::int64_t reserve_percent = 0;  // percent of the budget reserved for early prefetches
  bool keeps_on_device =
      true;  // whether residence `device` in rules is obeyed; otherwise those tensors are managed
  eviction_timing timing = eviction_timing::in_turn;
  friend bool operator==(const search_setting&, const search_setting&) = default;
};

template <class Rule>
const Rule* find_rule(const hint_strategy& s, const auto& matches) {
  for (const hint_rule& r : s.rules) {
    const auto* x = std::get_if<Rule>(&r.policy);
    if (x != nullptr && matches(*x)) return x;
  }
  return nullptr;
}
template <class Rule>
const Rule* find_rule(const hint_strategy& s) {
  return find_rule<Rule>(s, [](const Rule&) { return true; });
}

const evict_rule* eviction_under_pressure(const hint_strategy& s) {
  return find_rule<evict_rule>(s, [](const evict_rule& r) { return r.when == evict_when::pressure; });
}
bool fetches_as_room_allows(const hint_strategy& s) {
  return find_rule<prefetch_rule>(
             s, [](const prefetch_rule& r) { return r.unit == look_ahead_unit::room; }) != nullptr;
}
bool evicts_by_twins(const hint_strategy& s) {
  return find_rule<evict_rule>(s, [](const evict_rule& r) { return r.means == evict_means::twin; }) !=
         nullptr;
}

bool places_on_device(const hint_rule& r) {
  const auto* x = std::get_if<residence_rule>(&r.policy);
  return x != nullptr && x->where == residence::device;
}

byte_count share_of_percent(byte_count whole, std::int64_t percent) {
  return whole / 100 * static_cast<byte_count>(percent);
}

// Eviction options for a draft with these residences.
eviction_options make_eviction_options(const hint_strategy& s, const problem& p, const search_setting& with,
                                       const std::vector<residence>& home) {
  eviction_options rules;
  const evict_rule* const evicts = eviction_under_pressure(s);
  rules.prefetch_inputs = fetches_as_room_allows(s);
  if (evicts != nullptr) {
    rules.order = evicts->order;
    rules.min_gap = evicts->gap;
    rules.part_bytes = with.part_bytes;
    rules.reserve_bytes = share_of_percent(p.budget, with.reserve_percent);
  }
  const tensor_matcher matcher(p.network);
  for (const hint_rule& r : s.rules) {
    const auto* e = std::get_if<evict_rule>(&r.policy);
    const auto* d = std::get_if<discard_rule>(&r.policy);
    rules.populate_outputs = rules.populate_outputs || (d != nullptr && d->repopulates &&
                                                        (rules.prefetch_inputs || evicts_by_twins(s)));
    for (tensor_id t = 0; t < home.size(); ++t) {
      const bool chosen = matcher.matches(r.tensors, t);
      if (d != nullptr) {
        rules.is_discarded.resize(home.size(), false);
        rules.is_discarded[t] = rules.is_discarded[t] || chosen;
      } else if (e != nullptr && e == evicts) {
        rules.is_evictable.resize(home.size(), false);
        rules.is_evictable[t] = chosen && (e->means != evict_means::twin || home[t] == residence::twinned);
      }
    }
  }
  return rules;
}

byte_count bytes_of(const placement& at) {
  return at.addresses.device_bytes + at.addresses.managed_bytes;
}

// A draft plan and the addresses of its tensors.
struct placed_draft {
  placed_draft(const problem& p, memory_plan made)
      : plan(std::move(made)), addresses(placement_of_draft(p, plan, placed_by)) {}
  memory_plan plan;
  placement addresses;
};

class hint_planner {
  using point = rated<search_setting, nanoseconds>;

 public:
  hint_planner(const hint_strategy& s, const problem& p)
      : strategy_(s),
        problem_(p),
        pressure_rule_(eviction_under_pressure(s)),
        evicts_by_twin_(evicts_by_twins(s)),
        places_on_device_(std::ranges::any_of(s.rules, places_on_device)) {
    const memory_plan managed = um::make_plan(p.network, graph_order(p.network), residence::managed);
    fits_budget_ = bytes_of(placement(p, managed, placed_by)) <= p.budget;
  }

  memory_plan plan() {
    const search_setting first = choose_first_setting();
    const search_rule* search = find_rule<search_rule>(strategy_);
    if (fits_budget_ || problem_.target.link_to_device_bytes_per_s == 0) return make_plan(first);
    if (search != nullptr) return search_around(first, search->trials);
    if (!retimes_evictions()) return make_plan(first);
    try_setting_and_variants(first);
    return take_best_plan();
  }

 private:
  // Chooses the first setting. The device arena is reserved for the whole run; a strategy that evicts can do
  // without it.
  search_setting choose_first_setting() {
    search_setting first;
    if (pressure_rule_ == nullptr || !places_on_device_) return first;
    const placement& at = find_or_make_draft(first).addresses;
    first.keeps_on_device = fits_budget_
                                ? bytes_of(at) <= problem_.budget
                                : at.addresses.device_bytes <= problem_.budget / 2 && can_make_plan(first);
    return first;
  }
  bool can_make_plan(const search_setting& with) {
    try {
      make_plan(with);
      return true;
    } catch (const infeasible&) {
      return false;
    }
  }

  // Most settings share their draft.
  const placed_draft& find_or_make_draft(const search_setting& with) {
    for (const known_draft& k : drafts_) {
      if (k.cut_percent == with.cut_percent && k.on_device == with.keeps_on_device) return *k.draft;
    }
    memory_plan plan = make_draft_for(with);
    const auto same =
        std::ranges::find_if(drafts_, [&](const known_draft& k) { return k.draft->plan == plan; });
    auto draft =
        same == drafts_.end() ? std::make_shared<placed_draft>(problem_, std::move(plan)) : same->draft;
    return *drafts_.emplace_back(known_draft{with.cut_percent, with.keeps_on_device, std::move(draft)}).draft;
  }

  // Makes the draft for a setting. If everything fits, no tensor leaves or needs a twin.
  memory_plan make_draft_for(const search_setting& with) const {
    std::vector<compute> order = graph_order(problem_.network);
    if (find_rule<cut_rule>(strategy_) != nullptr && !fits_budget_) {
      order = make_sliced_order(problem_.network, share_of_percent(problem_.budget, with.cut_percent));
    }
    hint_strategy rules = strategy_;
    if (!with.keeps_on_device) std::erase_if(rules.rules, places_on_device);
    memory_plan plan = make_draft(rules, problem_, order);
    if (fits_budget_) std::ranges::replace(plan.residences, residence::twinned, residence::managed);
    return plan;
  }

  // Makes the plan for a setting. A strategy that evicts or keeps twins keeps the budget itself, even if the
  // driver could.
  memory_plan make_plan(const search_setting& with) {
    const placed_draft& draft = find_or_make_draft(with);
    const bool evicts = !fits_budget_ && (pressure_rule_ != nullptr || evicts_by_twin_);
    if (!evicts && problem_.evicted_by != evictor::plan) return draft.plan;
    const memory_plan& plan = find_or_make_evictions(draft, with);
    return fits_budget_ || !retimes_evictions()
               ? plan
               : retime_evictions(problem_, plan, draft.addresses, with.timing);
  }
  // The draft with evictions. Settings that differ in timing share them.
  const memory_plan& find_or_make_evictions(const placed_draft& draft, const search_setting& with) {
    for (const known_evictions& k : evictions_) {
      if (k.draft == &draft && k.part_bytes == with.part_bytes && k.reserve_percent == with.reserve_percent)
        return k.plan;
    }
    const eviction_options rules =
        fits_budget_ ? eviction_options{}
                     : make_eviction_options(strategy_, problem_, with, draft.plan.residences);
    return evictions_
        .emplace_back(known_evictions{&draft, with.part_bytes, with.reserve_percent,
                                      make_room(problem_, draft.plan, draft.addresses, rules)})
        .plan;
  }
  bool retimes_evictions() const {
    return pressure_rule_ != nullptr && pressure_rule_->order != evict_order::driver;
  }

  // --- the search ---

  // Changes one number at a time while the time improves. Which cuts are needed depends on the tensors that
  // rules place on the device. So the search climbs once from a setting that obeys these rules and once from
  // one that does not, the better start first.
  memory_plan search_around(const search_setting& first, std::int64_t trials) {
    hill_climber<search_setting, nanoseconds> search(
        {[this](const search_setting& at) { return neighbours_of(at); },
         [this](std::span<const search_setting> all, const std::string&) {
           std::vector<std::optional<nanoseconds>> times;
           for (const search_setting& s : all) times.push_back(try_setting(s));
           return std::optional(times);
         },
         [](const point& from, const point& to) {
           return !from.cost || is_improvement(*from.cost, *to.cost);
         }},
        static_cast<std::size_t>(trials));
    std::vector<search_setting> starts{first};
    if (places_on_device_) starts.push_back(with_device_homes_toggled(first));
    search.rate_all(starts, "");
    if (places_on_device_ && best_setting_ != first) std::ranges::reverse(starts);
    for (const search_setting& start : starts) search.climb(start);
    return take_best_plan();
  }
  memory_plan take_best_plan() {
    if (!best_) throw infeasible(infeasible_reason_);
    return std::move(*best_);
  }

  // Tries one other timing, one other part size and, with a cut rule, two other cut percentages, each from
  // the best setting so far; used without a search rule.
  void try_setting_and_variants(const search_setting& first) {
    try_setting(first);
    const auto also = [&](auto search_setting::* member, auto value) {
      search_setting changed = best_ ? best_setting_ : first;
      changed.*member = value;
      try_setting(changed);
    };
    also(&search_setting::timing, with_other_timing(first).timing);
    also(&search_setting::part_bytes, 16 * MiB);
    if (find_rule<cut_rule>(strategy_) == nullptr) return;
    for (const std::int64_t percent : {35, 70}) also(&search_setting::cut_percent, percent);
  }

  // Plans with a setting. Returns the time of an iteration; nothing if there is no plan. Keeps the best plan.
  std::optional<nanoseconds> try_setting(const search_setting& with) {
    try {
      const placed_draft& draft = find_or_make_draft(with);
      const auto same = std::ranges::find_if(tried_, [&](const tried_setting& t) {
        return t.draft == &draft && differs_in_draft_alone(t.with, with);
      });
      if (same != tried_.end()) return same->time;
      memory_plan plan = make_plan(with);
      const nanoseconds time = expected_iteration_time(problem_, lower(problem_, plan, draft.addresses));
      tried_.push_back({&draft, with, time});
      if (best_ && !is_improvement(best_time_, time)) return time;
      best_ = std::move(plan);
      best_setting_ = with;
      return best_time_ = time;
    } catch (const infeasible& refused) {
      infeasible_reason_ = refused.what();
      return std::nullopt;
    }
  }

  // Whether settings differ in no more than what their drafts depend on.
  static bool differs_in_draft_alone(const search_setting& a, search_setting b) {
    b.cut_percent = a.cut_percent;
    b.keeps_on_device = a.keeps_on_device;
    return a == b;
  }
  static search_setting with_other_timing(search_setting s) {
    const bool early = s.timing == eviction_timing::early;
    s.timing = early ? eviction_timing::in_turn : eviction_timing::early;
    return s;
  }
  static search_setting with_device_homes_toggled(search_setting s) {
    s.keeps_on_device = !s.keeps_on_device;
    return s;
  }
  static bool is_improvement(nanoseconds from, nanoseconds to) { return to <= from / 1000 * worth_permille; }

  // The neighbours of a setting. Each forms a group of its own, so that the search moves to the first
  // improvement.
  std::vector<neighbour_group<search_setting>> neighbours_of(const search_setting& at) const {
    std::vector<neighbour_group<search_setting>> all;
    const auto add = [&](auto search_setting::* member, auto value) {
      search_setting changed = at;
      changed.*member = value;
      all.push_back({"", {changed}});
    };
    for (const std::int64_t percent : {15, 35, 50, 70, 100, 11}) add(&search_setting::cut_percent, percent);
    // More slices make planning longer, so they are tried only if fewer were not enough.
    if (at.cut_percent <= 15) {
      for (const std::int64_t percent : {9, 7, 5}) add(&search_setting::cut_percent, percent);
    }
    for (const std::int64_t percent : {2, 5, 10, 20}) add(&search_setting::reserve_percent, percent);
    for (const byte_count bytes : {32 * MiB, 128 * MiB, 256 * MiB}) add(&search_setting::part_bytes, bytes);
    if (places_on_device_) add(&search_setting::keeps_on_device, !at.keeps_on_device);
    if (retimes_evictions()) all.push_back({"", {with_other_timing(at)}});
    return all;
  }

  const hint_strategy& strategy_;
  const problem& problem_;
  const evict_rule* pressure_rule_;  // rule that evicts under pressure, or null
  bool evicts_by_twin_;              // whether some rule evicts by twins
  bool places_on_device_;            // whether some rule places tensors on the device
  bool fits_budget_ = false;
  // Results of the search so far.
  std::optional<memory_plan> best_;
  search_setting best_setting_;
  nanoseconds best_time_ = 0;
  std::string infeasible_reason_;
  struct known_draft {
    std::int64_t cut_percent = 0;
    bool on_device = false;
    std::shared_ptr<const placed_draft> draft;
  };
  std::vector<known_draft> drafts_;
  struct known_evictions {
    const placed_draft* draft = nullptr;
    byte_count part_bytes = 0;
    std::int64_t reserve_percent = 0;
    memory_plan plan;
  };
  std::vector<known_evictions> evictions_;
  struct tried_setting {
    const placed_draft* draft = nullptr;
    search_setting with;
    nanoseconds time = 0;
  };
  std::vector<tried_setting> tried_;
};

}  // namespace

memory_plan plan_hints(const hint_strategy& s, const problem& p) {
  const hint_strategy set = with_knobs(s, p.knobs);
  return hint_planner(set, p).plan();
}

}  // namespace um
