// The program whose optimum bounds plans of whole operators: when values may be off the device, and what that
// costs (README.md, "Whole operators").
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "core/planner.hpp"

namespace um {

struct allowed_moves {
  bool swaps = true, recomputes = true;
};

namespace whole {

// Times are fractions of the operators' total time, bytes fractions of the budget. Interval 2 p is the wait
// before position p, 2 p + 1 its compute, 2 n the wait after the last. Instant i lies between intervals i and
// i + 1.
struct absence {
  std::size_t begin = 0, end = 0;  // instants [begin, end) at which the value may be off the device
  bool is_recomputable = false;    // the absence may end with a recomputation
  // Instants [first_without_room, room_again) at which operands leave no room for the value; empty if it
  // always fits.
  std::size_t first_without_room = 0, room_again = 0;  // instants
  bool must_leave() const { return room_again > 0; }
};

// A value of a part: what one producer wrote, and the gaps between its uses.
struct value {
  double budget_share = 0;
  double copy_out_time = 0, copy_in_time = 0;
  std::size_t first_leave_interval = 0;  // first interval in which the value can leave the device
  std::size_t producer = 0;              // position that computes the value, if any absence is recomputable
  bool starts_on_host = false;           // the value starts on the host and off the device
  bool ends_on_host = false;             // its last absence ends with the iteration
  bool leaves_without_copy = false;      // its host copy is valid, so it leaves without a copy
  std::vector<absence> absences;         // ascending by begin
};

struct model {
  std::size_t position_count = 0;      // number of positions
  double unit_ns = 0;                  // nanoseconds of one unit of time
  std::vector<double> compute_time;    // compute time per position
  std::vector<double> recompute_time;  // per position
  std::vector<double> fixed_share;  // per instant: share of the budget that no decision moves off the device
  std::vector<value> values;
  std::vector<std::vector<std::size_t>>
      required_positions;  // per position: positions that must run again before it
  std::vector<int>
      recomputable_value_count;  // per position: number of values that can be computed again there
  bool is_feasible = true;       // whether operands and fixed shares fit the budget
  bool fits_entirely = true;     // whether everything fits at once
};

model make_model(const problem& p, const std::vector<compute>& order, allowed_moves allowed);

}  // namespace whole

}  // namespace um

namespace um::whole {

// Dual prices of the whole-operator program.

// The lanes that compete for an interval's time. Recomputation runs only in waits.
enum priced_lane : std::uint8_t { copy_out, copy_in, recompute };

struct prices {
  std::vector<double> byte_prices;                 // price of a byte of device memory, per instant
  std::vector<std::array<double, 3>> lane_prices;  // price of the time of each lane, per interval
};

// How a value returns before the end of a gap: by a copy or by a recomputation, which takes
// `copy_or_run_time`. `credit`: the part of the lane's price that another value pays.
struct return_path {
  priced_lane lane = copy_in;               // lane of the copy or recomputation
  double copy_or_run_time = 0, credit = 0;  // credit: price that another value pays
};

// Answers queries on one set of prices. An earlier return and a later departure hold memory longer. So a
// return can only be optimal in an interval cheaper than all later ones, a departure in one cheaper than all
// earlier ones. The class stores the order of these intervals.
class price_index {
 public:
  // Keeps the reference.
  price_index(const model& m, allowed_moves allowed) : model_(m), allowed_(allowed) {}

  // Keeps the reference.
  void set_prices(const prices& x);

  double lane_price(std::size_t interval, priced_lane l) const { return prices_->lane_prices[interval][l]; }
  // Price of holding a value from instant `begin` to instant `end`.
  double holding_cost(const value& v, std::size_t begin, std::size_t end) const {
    return end <= begin ? 0 : v.budget_share * (byte_price_sum_[end] - byte_price_sum_[begin]);
  }
  // The next interval in which a copy out is cheaper.
  std::size_t cheaper_copy_out_after(std::size_t interval) const { return cheaper_copy_out_after_[interval]; }
  // The minimum price of recomputing a position, and the interval of that price.
  double min_recompute_price(std::size_t at) const { return min_recompute_price_[at]; }
  std::size_t cheapest_recompute_interval(std::size_t at) const { return cheapest_recompute_interval_[at]; }

  return_path return_by_copy(const value& v) const { return {copy_in, v.copy_in_time, 0}; }
  // `shared`: the closure (closure.hpp) pays the minimum price of this recomputation.
  return_path return_by_recompute(const value& v, bool shared) const {
    return {recompute, model_.recompute_time[v.producer], shared ? min_recompute_price_[v.producer] : 0};
  }
  // Cost of returning in an interval and staying until the gap ends.
  double return_cost(const value& v, const absence& s, const return_path& by, std::size_t interval) const {
    return holding_cost(v, interval, s.end) +
           by.copy_or_run_time * (lane_price(interval, by.lane) - by.credit);
  }

  // The minimum of return_cost() in or after `from`, at most `most`. Iterates backwards from the end of the
  // gap and calls use(interval, minimum from there on) for each candidate.
  template <class Use>
  double for_each_return_interval(const value& v, const absence& s, const return_path& by, std::size_t from,
                                  double most, Use use) const {
    const std::vector<std::size_t>& cheaper = cheaper_before_[by.lane];
    for (std::size_t end = s.end + 1; end > from && holding_cost(v, end - 1, s.end) < most;
         end = cheaper[end - 1]) {
      most = std::min(most, return_cost(v, s, by, end - 1));
      use(end - 1, most);
    }
    return most;
  }
  double min_return_cost(const value& v, const absence& s, const return_path& by, std::size_t from,
                         double most = std::numeric_limits<double>::max()) const {
    return for_each_return_interval(v, s, by, from, most, [](std::size_t, double) {});
  }
  // The first interval in which a return costs no more than `cost`.
  std::size_t first_return_interval(const value& v, const absence& s, const return_path& by, std::size_t from,
                                    double cost) const;

 private:
  void find_cheaper_before(priced_lane l, std::size_t step);
  void find_cheaper_copy_out_after();
  void find_cheapest_recomputes();

  const model& model_;
  allowed_moves allowed_;               // whether plans may swap, and may recompute
  const prices* prices_ = nullptr;      // the current prices
  std::vector<double> byte_price_sum_;  // prefix sums of byte prices, per instant
  std::array<std::vector<std::size_t>, 3>
      cheaper_before_;  // per lane and interval: one past the last earlier interval that costs less
  std::vector<std::size_t> cheaper_copy_out_after_;
  std::vector<double> min_recompute_price_;               // per position: minimum price of computing it again
  std::vector<std::size_t> cheapest_recompute_interval_;  // per position: interval of that price
};

}  // namespace um::whole
