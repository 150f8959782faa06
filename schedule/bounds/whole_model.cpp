#include "schedule/bounds/whole_model.hpp"

#include <algorithm>
#include <ranges>
#include <utility>

#include "schedule/forecast.hpp"
#include "schedule/uses.hpp"

namespace um::whole {
namespace {

class model_builder {
 public:
  model_builder(const problem& p, const std::vector<compute>& order, allowed_moves allowed)
      : problem_(p),
        g_(p.network),
        allowed_(allowed),
        uses_(make_use_table(p.network, order)),
        gaps_(find_gaps(g_, uses_)) {
    model_.position_count = order.size();
    for (const compute& c : order) {
      model_.compute_time.push_back(static_cast<double>(p.operator_costs[c.op].time));
      model_.recompute_time.push_back(static_cast<double>(recompute_time(p, c.op)));
      model_.unit_ns += model_.compute_time.back();
    }
    for (std::vector<double>* times : {&model_.compute_time, &model_.recompute_time}) {
      for (double& t : *times) t /= model_.unit_ns;
    }
    model_.fixed_share.assign(2 * model_.position_count, 0);
    add_operands();
    add_values();
    find_unavoidable_absences();
    add_required_positions();
    constexpr double rounding = 1e-9;
    model_.is_feasible = model_.fixed_share.empty() || std::ranges::max(model_.fixed_share) <= 1 + rounding;
    std::vector<double> all = model_.fixed_share;
    for (const value& v : model_.values) {
      for (const absence& s : v.absences) {
        for (std::size_t i = s.begin; i < s.end; ++i) all[i] += v.budget_share;
      }
    }
    model_.fits_entirely = all.empty() || std::ranges::max(all) <= 1 + rounding;
  }
  model take() { return std::move(model_); }

 private:
  double budget_share(part_id part) const {
    return static_cast<double>(uses_.parts[part].bytes) / static_cast<double>(problem_.budget);
  }
  bool is_small(part_id part) const { return budget_share(part) < 1.0 / 2000; }
  role role_of(part_id part) const { return g_.tensors[uses_.parts[part].tensor].role; }

  // Bytes that an output shares with the input that it may replace in place.
  double in_place_bytes(position at) const {
    const op& o = g_.ops[uses_.order[static_cast<std::size_t>(at)].op];
    if (!o.alias) return 0;
    const part_id from = uses_.first_part[o.in[o.alias->input]],
                  to = uses_.first_part[o.out[o.alias->output]];
    const bool later = std::ranges::any_of(gaps_, [&](const gap& e) {
      return e.part == from && e.last_use == at && !(e.is_recomputable && allowed_.recomputes);
    });
    const bool next =
        std::ranges::any_of(uses_.uses_of_part[from], [&](const use& u) { return u.at == at + 1; });
    if (from == to || later || next || is_small(from)) return 0;
    return std::min(budget_share(from), budget_share(to));
  }

  void add_operands() {
    for (position at = 0; at < uses_.end(); ++at) {
      double sum = -in_place_bytes(at);
      for (const touched_part& x : uses_.touched_parts[static_cast<std::size_t>(at)])
        sum += is_small(x.part) ? 0 : budget_share(x.part);
      for (const int half : {0, 1}) model_.fixed_share[static_cast<std::size_t>(2 * at + half)] += sum;
    }
  }

  void add_values() {
    const auto rate = [](std::uint64_t r) { return r == 0 ? 0.0 : 1e9 / static_cast<double>(r); };
    for (auto at = gaps_.begin(); at != gaps_.end();) {
      const auto same = [&](const gap& e) { return e.part == at->part && e.producer == at->producer; };
      const auto end = std::find_if_not(at, gaps_.end(), same);
      if (!is_small(at->part)) {
        value v;
        const auto bytes = static_cast<double>(uses_.parts[at->part].bytes);
        v.budget_share = budget_share(at->part);
        v.copy_out_time = bytes * rate(problem_.target.link_to_host_bytes_per_s) / model_.unit_ns;
        v.copy_in_time = bytes * rate(problem_.target.link_to_device_bytes_per_s) / model_.unit_ns;
        v.first_leave_interval = static_cast<std::size_t>(2 * (at->producer + 1));
        v.producer = static_cast<std::size_t>(std::max(at->producer, 0));
        v.leaves_without_copy = at->producer < 0;
        v.starts_on_host = at->last_use < 0;
        v.ends_on_host = std::prev(end)->next_use >= uses_.end();
        for (auto e = at; e != end; ++e) {
          v.absences.push_back(
              {static_cast<std::size_t>(2 * (e->last_use + 1)), static_cast<std::size_t>(2 * e->next_use),
               allowed_.recomputes && e->is_recomputable && e->last_use >= 0 && e->next_use < uses_.end()});
        }
        add_value(std::move(v));
      }
      at = end;
    }
  }

  // Adds a value, or its share to the fixed shares where it can neither leave nor be recomputed.
  void add_value(value v) {
    const bool some = std::ranges::any_of(v.absences, &absence::is_recomputable);
    for (absence& s : v.absences) {
      if (allowed_.swaps || s.is_recomputable) continue;
      for (std::size_t i = s.begin; i < s.end; ++i) model_.fixed_share[i] += v.budget_share;
      s.end = s.begin;
    }
    if (allowed_.swaps || some) model_.values.push_back(std::move(v));
  }

  // Finds the instants at which a value must be off the device, since it does not fit beside the operands.
  // Plans move values whole.
  void find_unavoidable_absences() {
    constexpr double rounding = 1e-9;
    for (value& v : model_.values) {
      for (absence& s : v.absences) {
        for (std::size_t i = s.begin; i < s.end; ++i) {
          if (model_.fixed_share[i] + v.budget_share <= 1 + rounding) continue;
          if (!s.must_leave()) s.first_without_room = i;
          s.room_again = i + 1;
        }
      }
    }
  }

  // Finds the recomputations that each recomputation requires: those of inputs that are dead by then. Other
  // inputs are ignored, since it is not known here when they are on the device.
  void add_required_positions() {
    model_.required_positions.resize(model_.position_count);
    model_.recomputable_value_count.assign(model_.position_count, 0);
    std::vector<bool> has_gaps(uses_.parts.size(), false);
    for (const gap& e : gaps_) has_gaps[e.part] = true;
    for (const value& v : model_.values) {
      if (std::ranges::any_of(v.absences, &absence::is_recomputable))
        ++model_.recomputable_value_count[v.producer];
    }
    for (position at = 0; at < uses_.end(); ++at) {
      for (const touched_part& x : uses_.touched_by_recompute(at)) {
        if (x.mode != access_mode::read || has_gaps[x.part] || persists(role_of(x.part))) continue;
        const std::vector<use>& all = uses_.uses_of_part[x.part];
        const bool once = all.front().at < at &&
                          std::ranges::count(all, access_mode::read, &use::mode) == std::ssize(all) - 1;
        if (once)
          model_.required_positions[static_cast<std::size_t>(at)].push_back(
              static_cast<std::size_t>(all.front().at));
      }
    }
  }

  const problem& problem_;
  const graph& g_;
  allowed_moves allowed_;
  use_table uses_;
  std::vector<gap> gaps_;
  model model_;
};

}  // namespace

model make_model(const problem& p, const std::vector<compute>& order, allowed_moves allowed) {
  return model_builder(p, order, allowed).take();
}

void price_index::set_prices(const prices& x) {
  prices_ = &x;
  byte_price_sum_.assign(1, 0);
  for (const double b : x.byte_prices) byte_price_sum_.push_back(byte_price_sum_.back() + b);
  find_cheaper_before(copy_in, 1);
  if (allowed_.swaps) find_cheaper_copy_out_after();
  if (allowed_.recomputes) find_cheaper_before(recompute, 2);
  find_cheapest_recomputes();
}

std::size_t price_index::first_return_interval(const value& v, const absence& s, const return_path& by,
                                               std::size_t from, double cost) const {
  const auto is_held_too_long = [&](std::size_t i) { return holding_cost(v, i, s.end) > cost; };
  std::size_t i = *std::ranges::partition_point(std::views::iota(from, s.end), is_held_too_long);
  const std::size_t step = by.lane == recompute ? 2 : 1;
  for (i += i % step; i < s.end && return_cost(v, s, by, i) > cost;) i += step;
  return i;
}

void price_index::find_cheaper_before(priced_lane l, std::size_t step) {
  std::vector<std::size_t>& before = cheaper_before_[l];
  before.assign(prices_->lane_prices.size(), 0);
  for (std::size_t i = step; i < before.size(); i += step) {
    std::size_t end = i - step + 1;
    while (end > 0 && lane_price(end - 1, l) >= lane_price(i, l)) end = before[end - 1];
    before[i] = end;
  }
}

void price_index::find_cheaper_copy_out_after() {
  const std::size_t count = prices_->lane_prices.size();
  cheaper_copy_out_after_.resize(count);
  for (std::size_t i = count; i-- > 0;) {
    std::size_t next = i + 1;
    while (next < count && lane_price(next, copy_out) >= lane_price(i, copy_out))
      next = cheaper_copy_out_after_[next];
    cheaper_copy_out_after_[i] = next;
  }
}

void price_index::find_cheapest_recomputes() {
  min_recompute_price_.assign(model_.position_count, 1);
  cheapest_recompute_interval_.assign(model_.position_count, 2 * model_.position_count);
  double least = std::numeric_limits<double>::max();
  std::size_t where = 2 * model_.position_count;
  for (std::size_t o = model_.position_count; o-- > 0;) {
    const double here = lane_price(2 * (o + 1), recompute);
    if (o + 1 < model_.position_count && here < least) {
      least = here;
      where = 2 * (o + 1);
    }
    if (where < 2 * model_.position_count) min_recompute_price_[o] = least;
    cheapest_recompute_interval_[o] = where;
  }
}

}  // namespace um::whole
