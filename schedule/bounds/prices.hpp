// Dual prices of the whole-operator program, and what follows from them alone (README.md, "Whole operators").
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "schedule/bounds/whole_model.hpp"

namespace um::whole {

// What competes for an interval's time. Recomputation runs in waits alone.
enum priced_lane : std::uint8_t { copy_out, copy_in, recompute };

struct prices {
  std::vector<double> byte;                    // price of a byte of device memory, per instant
  std::vector<std::array<double, 3>> of_lane;  // price of the time of each lane, per interval
};

// How a value can be back before the end of a gap: by a copy or by another run, `time` long. The price of its
// lane is reduced by `credit`, which somebody else pays.
struct return_path {
  priced_lane lane = copy_in;
  double time = 0, credit = 0;
};

// Answers questions about one set of prices. The sooner a value comes back, or the later it leaves, the
// longer it is held: only an interval cheaper than all later ones, or than all earlier ones, can be the best.
// These orders are kept; rounding does not change them.
class price_index {
 public:
  // Keeps the reference.
  price_index(const model& m, allowed what) : m_(m), what_(what) {}

  // Keeps the reference.
  void set(const prices& x);

  double price(std::size_t interval, priced_lane l) const { return x_->of_lane[interval][l]; }
  // Of holding a value from instant `begin` to instant `end`.
  double cost_of_holding(const value& v, std::size_t begin, std::size_t end) const {
    return end <= begin ? 0 : v.bytes * (sum_[end] - sum_[begin]);
  }
  // The next interval in which a copy out costs less.
  std::size_t cheaper_after(std::size_t interval) const { return cheaper_after_[interval]; }
  // The minimum price of running a position again behind it, and its interval.
  double least_run(std::size_t at) const { return least_run_[at]; }
  std::size_t least_run_at(std::size_t at) const { return least_run_at_[at]; }

  return_path by_copy(const value& v) const { return {copy_in, v.in, 0}; }
  // `shared`: the closure pays for this run at its minimum.
  return_path by_run(const value& v, bool shared) const {
    return {recompute, m_.again[v.producer], shared ? least_run_[v.producer] : 0};
  }
  // Of coming back in an interval and staying to the end of the gap.
  double cost_of(const value& v, const absence& s, const return_path& by, std::size_t interval) const {
    return cost_of_holding(v, interval, s.last) + by.time * (price(interval, by.lane) - by.credit);
  }

  // The minimum of cost_of() in or after `from`, or `most`. Goes back from the end of the gap, and calls
  // use(interval, the minimum from there on) for each candidate.
  template <class Use>
  double for_each_return(const value& v, const absence& s, const return_path& by, std::size_t from,
                         double most, Use use) const {
    const std::vector<std::size_t>& cheaper = cheaper_before_[by.lane];
    for (std::size_t end = s.last + 1; end > from && cost_of_holding(v, end - 1, s.last) < most;
         end = cheaper[end - 1]) {
      most = std::min(most, cost_of(v, s, by, end - 1));
      use(end - 1, most);
    }
    return most;
  }
  double least_return(const value& v, const absence& s, const return_path& by, std::size_t from,
                      double most = std::numeric_limits<double>::max()) const {
    return for_each_return(v, s, by, from, most, [](std::size_t, double) {});
  }
  // The first interval in which coming back costs no more than `cost`.
  std::size_t first_return(const value& v, const absence& s, const return_path& by, std::size_t from,
                           double cost) const;

 private:
  void find_cheaper_before(priced_lane l, std::size_t step);
  void find_cheaper_after();
  void find_least_runs();

  const model& m_;
  allowed what_;                                            // whether plans may swap, and may recompute
  const prices* x_ = nullptr;                               // the current prices
  std::vector<double> sum_;                                 // sum of byte prices up to an instant
  std::array<std::vector<std::size_t>, 3> cheaper_before_;  // one past the last interval that costs less
  std::vector<std::size_t> cheaper_after_;
  std::vector<double> least_run_;          // per position: lowest price of running it again
  std::vector<std::size_t> least_run_at_;  // the interval of that price
};

}  // namespace um::whole
