#include <algorithm>
#include <optional>
#include <stdexcept>

#include "core/layout.hpp"
#include "planners/planners.hpp"
#include "schedule/orders.hpp"

namespace um {
namespace {

using loop_list = std::vector<inner_loop>;

// Longer ones are not tried at once; runs that touch become one.
constexpr op_id most_operators = 24;
// A run must lower the peak by more than 1 part in so many: slices are less efficient.
constexpr byte_count least_gain = 100;

memory_plan plan_with(const graph& g, const loop_list& inner) {
  return plan_of(g, order_of(g, {1, inner, {}}), residence::device);
}

// `added` and those of `runs` that it touches, as one run.
loop_list with(const loop_list& runs, inner_loop added) {
  loop_list all;
  for (const inner_loop& r : runs) {
    if (r.end < added.begin || added.end < r.begin) {
      all.push_back(r);
    } else {
      added.begin = std::min(added.begin, r.begin);
      added.end = std::max(added.end, r.end);
    }
  }
  all.push_back(added);
  std::ranges::sort(all, {}, &inner_loop::begin);
  return all;
}

class slicing {
 public:
  explicit slicing(const problem& p) : p_(p), parts_(static_cast<std::uint32_t>(p.knobs.at("parts"))) {
    for (const op& o : p.network.ops) cuttable_.push_back(can_be_cut(p.network, o, parts_));
  }

  memory_plan plan() {
    live_ = live_with(runs_);
    while (const auto better = lower_at_peak()) {
      runs_ = *better;
      live_ = live_with(runs_);
    }
    return plan_with(p_.network, without_needless());
  }

 private:
  // The most bytes alive during each operator, over all its slices.
  using heights = std::vector<byte_count>;

  heights live_with(const loop_list& runs) const {
    const memory_plan plan = plan_with(p_.network, runs);
    const std::vector<byte_count> live = live_bytes(p_, plan);
    heights most(p_.network.ops.size(), 0);
    for (std::size_t i = 0; i < live.size(); ++i) {
      byte_count& m = most[std::get<compute>(plan.actions[i]).what];
      m = std::max(m, live[i]);
    }
    return most;
  }
  static byte_count most_of(const heights& live, op_id begin, op_id end) {
    byte_count most = 0;
    for (op_id o = begin; o < end; ++o) most = std::max(most, live[o]);
    return most;
  }
  byte_count most_of(const heights& live) const { return most_of(live, 0, end_); }

  // The runs with one more, or a longer one, in which all operators stay below the peak.
  std::optional<loop_list> lower_at_peak() const {
    const byte_count peak = most_of(live_);
    const auto at = static_cast<op_id>(std::ranges::find(live_, peak) - live_.begin());
    const byte_count enough = peak - peak / least_gain;
    std::optional<loop_list> best;
    byte_count least = enough;
    for (op_id end = at + 1; end <= end_ && cuttable_[end - 1] && end - at <= most_operators; ++end) {
      for (op_id begin = at + 1; begin-- > 0 && cuttable_[begin] && end - begin <= most_operators;) {
        loop_list candidate = with(runs_, {begin, end, parts_, false});
        const heights live = live_with(candidate);
        if (live[at] >= least || most_of(live, begin, end) > enough || most_of(live) > peak) continue;
        least = live[at];
        best = std::move(candidate);
      }
    }
    return best;
  }

  loop_list without_needless() const {
    loop_list kept = runs_;
    const byte_count peak = most_of(live_);
    for (std::size_t i = kept.size(); i-- > 0;) {
      loop_list fewer = kept;
      fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
      if (most_of(live_with(fewer)) <= peak) kept = std::move(fewer);
    }
    return kept;
  }

  const problem& p_;
  std::uint32_t parts_;
  op_id end_ = static_cast<op_id>(p_.network.ops.size());
  std::vector<bool> cuttable_;
  loop_list runs_;
  heights live_;
};

}  // namespace

memory_plan plan_sliced(const problem& p) {
  return slicing(p).plan();
}

}  // namespace um
