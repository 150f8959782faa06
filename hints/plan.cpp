// From rules to a memory plan: the draft that they say, kept within the budget, timed, and searched over.
#include <algorithm>
#include <memory>
#include <optional>
#include <string>

#include "core/lower.hpp"
#include "hints/draft.hpp"
#include "hints/hints.hpp"
#include "hints/room.hpp"
#include "hints/sequence.hpp"
#include "hints/timing.hpp"
#include "schedule/climber.hpp"

namespace um {
namespace {

constexpr packer placed_by = packers::searched;
// Of the time before, for a number to be changed: less is within what such times are off by.
constexpr nanoseconds worth_permille = 995;

// The numbers that a search changes. Where it begins and what it tries is policy, not what some machine
// takes.
struct setting {
  byte_count part_bytes = 64 * MiB;
  std::int64_t cut_percent = 25;     // of the budget that one operator's activations may take
  std::int64_t reserve_percent = 0;  // of the budget left free for what comes early
  bool on_device = true;             // tensors with residence device lie there, else they are managed
  departure_time departs = departure_time::in_turn;
  friend bool operator==(const setting&, const setting&) = default;
};

template <class Rule>
const Rule* find_rule(const hint_strategy& s, const auto& counts) {
  for (const hint_rule& r : s.rules) {
    const auto* x = std::get_if<Rule>(&r.what);
    if (x != nullptr && counts(*x)) return x;
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
  return find_rule<prefetch_rule>(s, [](const prefetch_rule& r) { return r.unit == look_ahead::room; }) !=
         nullptr;
}
bool evicts_by_twins(const hint_strategy& s) {
  return find_rule<evict_rule>(s, [](const evict_rule& r) { return r.by == evict_means::twin; }) != nullptr;
}

bool places_on_device(const hint_rule& r) {
  const auto* x = std::get_if<residence_rule>(&r.what);
  return x != nullptr && x->where == residence::device;
}

byte_count percent_of(byte_count whole, std::int64_t percent) {
  return whole / 100 * static_cast<byte_count>(percent);
}

// Of a draft with these homes.
room_rules rules_of_room(const hint_strategy& s, const problem& p, const setting& with,
                         const std::vector<residence>& home) {
  room_rules rules;
  const evict_rule* const evicts = eviction_under_pressure(s);
  rules.fetch = fetches_as_room_allows(s);
  if (evicts != nullptr) {
    rules.order = evicts->order;
    rules.gap = evicts->gap;
    rules.part_bytes = with.part_bytes;
    rules.reserve_bytes = percent_of(p.budget, with.reserve_percent);
  }
  const tensor_chooser choose(p.network);
  for (const hint_rule& r : s.rules) {
    const auto* e = std::get_if<evict_rule>(&r.what);
    const auto* d = std::get_if<discard_rule>(&r.what);
    rules.populate = rules.populate || (d != nullptr && d->prefetch && (rules.fetch || evicts_by_twins(s)));
    for (tensor_id t = 0; t < home.size(); ++t) {
      const bool chosen = choose.is_for(r.which, t);
      if (d != nullptr) {
        rules.discards.resize(home.size(), false);
        rules.discards[t] = rules.discards[t] || chosen;
      } else if (e != nullptr && e == evicts) {
        rules.leaves.resize(home.size(), false);
        rules.leaves[t] = chosen && (e->by != evict_means::twin || home[t] == residence::twinned);
      }
    }
  }
  return rules;
}

byte_count bytes_of(const placement& at) {
  return at.addresses.device_bytes + at.addresses.managed_bytes;
}

// What rules say before anybody looks at the budget, and where it lies.
struct placed_draft {
  placed_draft(const problem& p, memory_plan made)
      : plan(std::move(made)), at(placement_of_draft(p, plan, placed_by)) {}
  memory_plan plan;
  placement at;
};

class planning {
  using point = rated<setting, nanoseconds>;

 public:
  planning(const hint_strategy& s, const problem& p)
      : s_(s),
        p_(p),
        evicts_(eviction_under_pressure(s)),
        twins_(evicts_by_twins(s)),
        places_(std::ranges::any_of(s.rules, places_on_device)) {
    const memory_plan managed = plan_of(p.network, in_order(p.network), residence::managed);
    fits_ = bytes_of(placement(p, managed, placed_by)) <= p.budget;
  }

  memory_plan plan() {
    const setting first = first_setting();
    const search_rule* search = find_rule<search_rule>(s_);
    if (fits_ || p_.on.link_to_device_bytes_per_s == 0) return plan_with(first);
    if (search != nullptr) return best_around(first, search->trials);
    if (!is_timed()) return plan_with(first);
    time_few(first);
    return take_best();
  }

 private:
  // What lies in the device arena holds its room for the whole run. A strategy that evicts can do without.
  setting first_setting() {
    setting first;
    if (evicts_ == nullptr || !places_) return first;
    const placement& at = draft_with(first).at;
    first.on_device =
        fits_ ? bytes_of(at) <= p_.budget : at.addresses.device_bytes <= p_.budget / 2 && exists(first);
    return first;
  }
  bool exists(const setting& with) {
    try {
      plan_with(with);
      return true;
    } catch (const infeasible&) {
      return false;
    }
  }

  // Drafts are kept: most settings share theirs.
  const placed_draft& draft_with(const setting& with) {
    for (const known_draft& k : drafts_) {
      if (k.cut_percent == with.cut_percent && k.on_device == with.on_device) return *k.draft;
    }
    memory_plan plan = new_draft(with);
    const auto same =
        std::ranges::find_if(drafts_, [&](const known_draft& k) { return k.draft->plan == plan; });
    auto draft = same == drafts_.end() ? std::make_shared<placed_draft>(p_, std::move(plan)) : same->draft;
    return *drafts_.emplace_back(known_draft{with.cut_percent, with.on_device, std::move(draft)}).draft;
  }

  // Nothing leaves where everything fits: no tensor needs a twin.
  memory_plan new_draft(const setting& with) const {
    std::vector<compute> order = in_order(p_.network);
    if (find_rule<cut_rule>(s_) != nullptr && !fits_) {
      order = in_slices(p_.network, percent_of(p_.budget, with.cut_percent));
    }
    hint_strategy rules = s_;
    if (!with.on_device) std::erase_if(rules.rules, places_on_device);
    memory_plan plan = draft_of(rules, p_, order);
    if (fits_) std::ranges::replace(plan.home, residence::twinned, residence::managed);
    return plan;
  }

  // Whoever evicts, or keeps twins, keeps the budget also where the driver would.
  memory_plan plan_with(const setting& with) {
    const placed_draft& draft = draft_with(with);
    const bool evicts = !fits_ && (evicts_ != nullptr || twins_);
    if (!evicts && p_.under != pressure::plan) return draft.plan;
    const room_rules rules = fits_ ? room_rules{} : rules_of_room(s_, p_, with, draft.plan.home);
    memory_plan plan = make_room(p_, draft.plan, draft.at, rules);
    return fits_ || !is_timed() ? plan : with_evictions_timed(p_, plan, draft.at, with.departs);
  }
  bool is_timed() const { return evicts_ != nullptr && evicts_->order != evict_order::driver; }

  // --- the search ---

  // Changes one number at a time, as long as the time gets better. The cuts that are needed depend on the
  // tensors that rules place on the device. So it climbs once from a setting that obeys these rules and once
  // from one that does not, the better start first.
  memory_plan best_around(const setting& first, std::int64_t trials) {
    climber<setting, nanoseconds> search(
        {[this](const setting& at) { return around(at); },
         [this](std::span<const setting> all, const std::string&) {
           std::vector<std::optional<nanoseconds>> times;
           for (const setting& s : all) times.push_back(time_with(s));
           return std::optional(times);
         },
         [](const point& from, const point& to) { return !from.cost || is_worth(*from.cost, *to.cost); }},
        static_cast<std::size_t>(trials));
    std::vector<setting> starts{first};
    if (places_) starts.push_back(toggled(first));
    search.try_all(starts, "");
    if (places_ && best_with_ != first) std::ranges::reverse(starts);
    for (const setting& start : starts) search.climb(start);
    return take_best();
  }
  memory_plan take_best() {
    if (!best_) throw infeasible(why_not_);
    return std::move(*best_);
  }

  // Replaces the search: tries a few values of the numbers that matter most, each in the best setting so far.
  void time_few(const setting& first) {
    time_with(first);
    const auto also = [&](auto setting::* member, auto value) {
      setting changed = best_ ? best_with_ : first;
      changed.*member = value;
      time_with(changed);
    };
    also(&setting::departs, departing_otherwise(first).departs);
    also(&setting::part_bytes, 16 * MiB);
    if (find_rule<cut_rule>(s_) == nullptr) return;
    for (const std::int64_t percent : {35, 70}) also(&setting::cut_percent, percent);
  }

  // What an iteration takes; nothing where there is no plan. The best plan is kept.
  std::optional<nanoseconds> time_with(const setting& with) {
    try {
      memory_plan plan = plan_with(with);
      const nanoseconds time = expected_time(p_, lower(p_, plan, draft_with(with).at));
      if (best_ && !is_worth(least_, time)) return time;
      best_ = std::move(plan);
      best_with_ = with;
      return least_ = time;
    } catch (const infeasible& refused) {
      why_not_ = refused.what();
      return std::nullopt;
    }
  }

  static setting departing_otherwise(setting s) {
    const bool early = s.departs == departure_time::early;
    s.departs = early ? departure_time::in_turn : departure_time::early;
    return s;
  }
  static setting toggled(setting s) {
    s.on_device = !s.on_device;
    return s;
  }
  static bool is_worth(nanoseconds from, nanoseconds to) { return to <= from / 1000 * worth_permille; }

  // Each by itself: whatever is better is taken at once.
  std::vector<neighbours<setting>> around(const setting& at) const {
    std::vector<neighbours<setting>> all;
    const auto add = [&](auto setting::* member, auto value) {
      setting changed = at;
      changed.*member = value;
      all.push_back({"", {changed}});
    };
    for (const std::int64_t percent : {15, 35, 50, 70, 100, 11}) add(&setting::cut_percent, percent);
    // The more slices, the longer the planning: only where few were not enough.
    if (at.cut_percent <= 15) {
      for (const std::int64_t percent : {9, 7, 5}) add(&setting::cut_percent, percent);
    }
    for (const std::int64_t percent : {2, 5, 10, 20}) add(&setting::reserve_percent, percent);
    for (const byte_count bytes : {32 * MiB, 128 * MiB, 256 * MiB}) add(&setting::part_bytes, bytes);
    if (places_) add(&setting::on_device, !at.on_device);
    if (is_timed()) all.push_back({"", {departing_otherwise(at)}});
    return all;
  }

  const hint_strategy& s_;
  const problem& p_;
  const evict_rule* evicts_;  // under pressure
  bool twins_;                // some evictions go by twins
  bool places_;               // some tensors on the device
  bool fits_ = false;
  // Of the search, so far.
  std::optional<memory_plan> best_;
  setting best_with_;
  nanoseconds least_ = 0;
  std::string why_not_;
  struct known_draft {
    std::int64_t cut_percent = 0;
    bool on_device = false;
    std::shared_ptr<const placed_draft> draft;
  };
  std::vector<known_draft> drafts_;
};

}  // namespace

memory_plan plan_hints(const hint_strategy& s, const problem& p) {
  const hint_strategy set = with_knobs(s, p.knobs);
  return planning(set, p).plan();
}

}  // namespace um
