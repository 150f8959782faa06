#include "schedule/bounds/prices.hpp"

#include <ranges>

namespace um::whole {

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
