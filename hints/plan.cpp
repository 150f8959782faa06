// From rules to a memory plan: the draft that they say, kept within the budget, timed, and searched over.
#include <algorithm>
#include <array>
#include <limits>
#include <optional>

#include "core/lower.hpp"
#include "hints/draft.hpp"
#include "hints/hints.hpp"
#include "hints/room.hpp"
#include "hints/sequence.hpp"
#include "hints/timing.hpp"

namespace um {
namespace {

constexpr packer placed_by = packers::searched;
// Of the time before, for a number to be changed: less is within what such times are off by.
constexpr nanoseconds worth_permille = 995;

// The numbers that a search changes. Where it begins and what it tries is policy, not what some machine takes.
struct setting {
  byte_count part_bytes = 64 * MiB;
  std::int64_t cut_percent = 25;     // of the budget that one operator's activations may take
  std::int64_t reserve_percent = 0;  // of the budget left free for what comes early
  bool on_device = true;             // tensors with residence device lie there, else they are managed
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
const prefetch_rule* fetch_as_room_allows(const hint_strategy& s) {
  return find_rule<prefetch_rule>(s, [](const prefetch_rule& r) { return r.unit == look_ahead::room; });
}
bool uses_twins(const hint_strategy& s) {
  return find_rule<evict_rule>(s, [](const evict_rule& r) { return r.by == evict_means::twin; }) != nullptr;
}

bool places_on_device(const hint_rule& r) {
  const auto* x = std::get_if<residence_rule>(&r.what);
  return x != nullptr && x->where == residence::device;
}

byte_count percent_of(byte_count whole, std::int64_t percent) {
  return whole / 100 * static_cast<byte_count>(percent);
}

bool everything_fits(const problem& p) {
  problem unlimited = p;
  unlimited.budget = std::numeric_limits<byte_count>::max();
  unlimited.under = pressure::driver;
  const execution_plan whole =
      lower(unlimited, plan_of(p.network, in_order(p.network), residence::managed), placed_by);
  return whole.device_arena_bytes + whole.managed_arena_bytes <= p.budget;
}

class planning {
 public:
  planning(const hint_strategy& s, const problem& p)
      : s_(s),
        p_(p),
        fits_(everything_fits(p)),
        evicts_(eviction_under_pressure(s)),
        by_room_(fetch_as_room_allows(s)) {}

  memory_plan plan() const {
    const setting first = first_setting();
    const search_rule* search = find_rule<search_rule>(s_);
    if (fits_) return plan_with(first);
    if (search == nullptr || p_.on.link_to_device_bytes_per_s == 0) return with_least_reserve(first);
    return best_around(first, search->trials);
  }

 private:
  // What lies in the device arena holds its room for the whole run. A strategy that evicts can do without.
  setting first_setting() const {
    setting first;
    if (evicts_ == nullptr || std::ranges::none_of(s_.rules, places_on_device)) return first;
    try {
      const memory_plan plan = fits_ ? draft_with(first) : plan_with(first);
      const bool small = lower(p_, plan, placed_by).device_arena_bytes <= p_.budget / 2;
      first.on_device = fits_ ? keeps_budget(plan) : small;
    } catch (const infeasible&) {
      first.on_device = false;
    }
    return first;
  }

  // Nothing leaves where everything fits: no tensor needs a twin.
  memory_plan draft_with(const setting& with) const {
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

  memory_plan plan_with(const setting& with) const {
    memory_plan plan = draft_with(with);
    const bool keeps_itself = !fits_ && (evicts_ != nullptr || uses_twins(s_));
    if (!keeps_itself && p_.under != pressure::plan) return plan;
    plan = make_room(p_, plan, placed_by, fits_ ? room_rules{} : rules_of_room(with, plan));
    const bool static_order = evicts_ != nullptr && evicts_->order != evict_order::driver;
    if (fits_ || !static_order) return plan;
    memory_plan timed = with_evictions_timed(p_, plan, placed_by);
    return keeps_budget(timed) ? timed : plan;
  }

  // Where addresses change hands lowering may count a block more than the walk that makes room.
  memory_plan with_least_reserve(setting with) const {
    memory_plan plan = plan_with(with);
    if (evicts_ == nullptr) return plan;
    for (const std::int64_t percent : {1, 2, 5, 10}) {
      if (keeps_budget(plan)) break;
      with.reserve_percent = percent;
      plan = plan_with(with);
    }
    return plan;
  }

  // Timing counts what a tensor gives up as free also where others have taken it over, which may be too much.
  bool keeps_budget(const memory_plan& plan) const {
    problem enforced = p_;
    enforced.under = pressure::plan;
    try {
      lower(enforced, plan, placed_by);
      return true;
    } catch (const infeasible&) {
      return false;
    }
  }

  room_rules rules_of_room(const setting& with, const memory_plan& plan) const {
    room_rules rules;
    rules.fetch = by_room_ != nullptr;
    if (evicts_ != nullptr) {
      rules.order = evicts_->order;
      rules.gap = evicts_->gap;
      rules.part_bytes = with.part_bytes;
      rules.reserve_bytes = percent_of(p_.budget, with.reserve_percent);
    }
    add_choices(rules, plan);
    return rules;
  }

  void add_choices(room_rules& rules, const memory_plan& plan) const {
    const tensor_chooser choose(p_.network);
    for (const hint_rule& r : s_.rules) {
      const auto* e = std::get_if<evict_rule>(&r.what);
      const auto* d = std::get_if<discard_rule>(&r.what);
      rules.populate =
          rules.populate || (d != nullptr && d->prefetch && (by_room_ != nullptr || uses_twins(s_)));
      for (tensor_id t = 0; t < plan.home.size(); ++t) {
        const bool chosen = choose.is_for(r.which, t);
        if (d != nullptr) {
          rules.discards.resize(plan.home.size(), false);
          rules.discards[t] = rules.discards[t] || chosen;
        } else if (e != nullptr && e == evicts_) {
          rules.leaves.resize(plan.home.size(), false);
          rules.leaves[t] = chosen && (e->by != evict_means::twin || plan.home[t] == residence::twinned);
        }
      }
    }
  }

  // --- the search ---

  struct outcome {
    memory_plan plan;
    nanoseconds time = std::numeric_limits<nanoseconds>::max();
  };

  std::optional<outcome> try_out(const setting& with, std::string& why) const {
    try {
      outcome tried{plan_with(with), 0};
      tried.time = expected_time(p_, tried.plan, placed_by);
      return tried;
    } catch (const infeasible& refused) {
      why = refused.what();
      return std::nullopt;
    }
  }

  // One number after the other, as long as something gets better.
  memory_plan best_around(const setting& first, std::int64_t trials) const {
    std::string why;
    std::optional<outcome> best;
    setting at = first;
    std::vector<setting> tried;
    const auto consider = [&](const setting& s) {
      if (trials <= 0 || std::ranges::any_of(tried, [&](const setting& t) { return same(s, t); })) return;
      --trials;
      tried.push_back(s);
      std::optional<outcome> now = try_out(s, why);
      if (!now || (best && now->time > best->time / 1000 * worth_permille)) return;
      best = std::move(now);
      at = s;
    };
    consider(first);
    for (nanoseconds before = 0; trials > 0 && before != time_of(best);) {
      before = time_of(best);
      for (const std::int64_t percent : {15, 35, 50, 70, 100, 11})
        consider(changed(at, &setting::cut_percent, percent));
      // The more slices, the longer the planning: only where few were not enough.
      if (at.cut_percent <= 15) {
        for (const std::int64_t percent : {9, 7, 5}) consider(changed(at, &setting::cut_percent, percent));
      }
      for (const std::int64_t percent : {2, 5, 10, 20})
        consider(changed(at, &setting::reserve_percent, percent));
      for (const byte_count bytes : {32 * MiB, 128 * MiB, 256 * MiB})
        consider(changed(at, &setting::part_bytes, bytes));
      if (std::ranges::any_of(s_.rules, places_on_device))
        consider(changed(at, &setting::on_device, !at.on_device));
    }
    if (!best) throw infeasible(why);
    return std::move(best->plan);
  }

  static nanoseconds time_of(const std::optional<outcome>& o) { return o ? o->time : -1; }
  static bool same(const setting& a, const setting& b) {
    return a.part_bytes == b.part_bytes && a.cut_percent == b.cut_percent &&
           a.reserve_percent == b.reserve_percent && a.on_device == b.on_device;
  }
  template <class T>
  static setting changed(setting s, T setting::* member, T value) {
    s.*member = value;
    return s;
  }

  const hint_strategy& s_;
  const problem& p_;
  bool fits_;
  const evict_rule* evicts_;
  const prefetch_rule* by_room_;
};

}  // namespace

memory_plan plan_hints(const hint_strategy& s, const problem& p) {
  const hint_strategy set = with_knobs(s, p.knobs);
  return planning(set, p).plan();
}

}  // namespace um
