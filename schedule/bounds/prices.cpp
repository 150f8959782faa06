#include "schedule/bounds/prices.hpp"

#include <ranges>

namespace um::whole {

void price_index::set(const prices& x) {
  x_ = &x;
  sum_.assign(1, 0);
  for (const double b : x.byte) sum_.push_back(sum_.back() + b);
  find_cheaper_before(copy_in, 1);
  if (what_.swaps) find_cheaper_after();
  if (what_.repeats) find_cheaper_before(recompute, 2);
  find_least_runs();
}

std::size_t price_index::first_return(const value& v, const absence& s, const return_path& by,
                                      std::size_t from, double cost) const {
  const auto is_held_too_long = [&](std::size_t i) { return cost_of_holding(v, i, s.last) > cost; };
  std::size_t i = *std::ranges::partition_point(std::views::iota(from, s.last), is_held_too_long);
  const std::size_t step = by.lane == recompute ? 2 : 1;
  for (i += i % step; i < s.last && cost_of(v, s, by, i) > cost;) i += step;
  return i;
}

void price_index::find_cheaper_before(priced_lane l, std::size_t step) {
  std::vector<std::size_t>& before = cheaper_before_[l];
  before.assign(x_->of_lane.size(), 0);
  for (std::size_t i = step; i < before.size(); i += step) {
    std::size_t end = i - step + 1;
    while (end > 0 && price(end - 1, l) >= price(i, l)) end = before[end - 1];
    before[i] = end;
  }
}

void price_index::find_cheaper_after() {
  const std::size_t count = x_->of_lane.size();
  cheaper_after_.resize(count);
  for (std::size_t i = count; i-- > 0;) {
    std::size_t next = i + 1;
    while (next < count && price(next, copy_out) >= price(i, copy_out)) next = cheaper_after_[next];
    cheaper_after_[i] = next;
  }
}

void price_index::find_least_runs() {
  least_run_.assign(m_.count, 1);
  least_run_at_.assign(m_.count, 2 * m_.count);
  double least = std::numeric_limits<double>::max();
  std::size_t where = 2 * m_.count;
  for (std::size_t o = m_.count; o-- > 0;) {
    const double here = price(2 * (o + 1), recompute);
    if (o + 1 < m_.count && here < least) {
      least = here;
      where = 2 * (o + 1);
    }
    if (where < 2 * m_.count) least_run_[o] = least;
    least_run_at_[o] = where;
  }
}

}  // namespace um::whole
