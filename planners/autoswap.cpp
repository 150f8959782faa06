#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "core/lower.hpp"
#include "planners/feature_maps.hpp"
#include "planners/planners.hpp"
#include "planners/within.hpp"
#include "schedule/orders.hpp"
#include "schedule/transfers.hpp"

namespace um {
namespace {

constexpr std::size_t scores = 4;  // doa, aoa, wdoa, swdoa
using weights = std::array<double, scores>;
constexpr byte_count smallest_block = MiB;

// Each score alone, then points of [-1, 1]^4 that fill it evenly (Halton 1960): they stand for the paper's
// Bayesian optimisation, which is not repeatable.
std::vector<weights> weight_vectors() {
  std::vector<weights> all{{1, 0, 0, 0}, {0, 1, 0, 0}, {0, 0, 1, 0}, {0, 0, 0, 1}};
  constexpr std::array<std::uint32_t, scores> bases{2, 3, 5, 7};
  for (std::uint32_t i = 1; i <= 40; ++i) {
    weights& w = all.emplace_back();
    for (std::size_t s = 0; s < scores; ++s) {
      double digit = 1, at = 0;
      for (std::uint32_t rest = i; rest > 0; rest /= bases[s]) at += (digit /= bases[s]) * (rest % bases[s]);
      w[s] = 2 * at - 1;
    }
  }
  return all;
}

void standardize(std::vector<double>& values) {
  double sum = 0, squares = 0;
  for (const double v : values) sum += v;
  const double mean = sum / static_cast<double>(values.size());
  for (const double v : values) squares += (v - mean) * (v - mean);
  const double deviation = std::sqrt(squares / static_cast<double>(values.size()));
  for (double& v : values) v = deviation > 0 ? (v - mean) / deviation : 0;
}

class swapping {
 public:
  explicit swapping(const problem& p)
      : p_(p),
        uses_(uses_of(p.network, in_order(p.network))),
        gaps_(gaps_of(p.network, uses_)),
        costs_(p, uses_) {
    for (position at = 0; at < uses_.end(); ++at) starts_.push_back(starts_.back() + costs_.time_of(at));
    const std::vector<decision> kept(gaps_.size());
    const std::vector<event> events = events_of(p.network, uses_, gaps_, kept);
    costs_.memory_of(events, staged_tensors(uses_, gaps_, kept));
    load_ = live_at_positions(uses_, events, costs_.live());
    find_candidates();
    for (std::size_t s = 0; s < scores; ++s) score_.push_back(scores_by(s));
  }

  // The fastest that packs; where none does, the fastest.
  memory_plan plan(byte_count limit) {
    const auto which = static_cast<std::size_t>(p_.knobs.at("score"));
    const std::vector<weights> all = weight_vectors();
    std::vector<std::pair<nanoseconds, std::vector<decision>>> found;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (which < scores && i != which) continue;
      std::vector<decision> decisions = select(all[i], limit);
      const nanoseconds time = schedule(decisions, limit);
      if (time > 0) found.emplace_back(time, std::move(decisions));
    }
    if (found.empty()) throw infeasible(too_small(p_, "autoswap", least_));
    std::ranges::stable_sort(found, {}, [](const auto& f) { return f.first; });
    const auto same = std::ranges::unique(found, {}, [](const auto& f) { return f.second; });
    found.erase(same.begin(), same.end());
    constexpr std::size_t packed_at_once = 8;
    problem unlimited = p_;
    unlimited.budget = std::numeric_limits<byte_count>::max();
    for (std::size_t i = 0; i < std::min(found.size(), packed_at_once); ++i) {
      memory_plan plan = plan_of(p_.network, uses_, gaps_, found[i].second);
      if (lower(unlimited, plan, packers::smartpool).device_arena_bytes <= p_.budget) return plan;
    }
    return plan_of(p_.network, uses_, gaps_, found.front().second);
  }

 private:
  nanoseconds start(position at) const { return starts_[static_cast<std::size_t>(at)]; }
  byte_count bytes_of(std::uint32_t x) const { return uses_.parts[gaps_[x].part].bytes; }

  // Blocks with accesses before and behind the peak.
  void find_candidates() {
    const auto peak = static_cast<position>(std::ranges::max_element(load_) - load_.begin());
    const bool can_move = p_.on.link_to_device_bytes_per_s > 0 && p_.on.link_to_host_bytes_per_s > 0;
    for (std::uint32_t x = 0; x < gaps_.size() && can_move; ++x) {
      const gap& e = gaps_[x];
      if (e.last >= 0 && e.next < uses_.end() && e.last < peak && peak < e.next &&
          bytes_of(x) >= smallest_block)
        candidates_.push_back(x);
    }
  }

  double duration_of_absence(std::uint32_t x) const {
    const nanoseconds copies =
        costs_.time_of_copy(bytes_of(x), lane::to_host) + costs_.time_of_copy(bytes_of(x), lane::to_device);
    return static_cast<double>(start(gaps_[x].next) - start(gaps_[x].last + 1) - copies);
  }
  static double area(std::uint32_t x, const std::vector<gap>& gaps, const std::vector<double>& areas) {
    return areas[static_cast<std::size_t>(gaps[x].next)] - areas[static_cast<std::size_t>(gaps[x].last + 1)];
  }
  std::vector<double> areas_under(const std::vector<byte_count>& load) const {
    std::vector<double> sums{0};
    for (std::size_t i = 0; i < load.size(); ++i)
      sums.push_back(sums.back() +
                     static_cast<double>(load[i]) * static_cast<double>(starts_[i + 1] - starts_[i]));
    return sums;
  }
  void remove(std::vector<byte_count>& load, std::uint32_t x) const {
    for (position q = gaps_[x].last + 1; q < gaps_[x].next; ++q) {
      byte_count& here = load[static_cast<std::size_t>(q)];
      here -= std::min(here, bytes_of(x));
    }
  }

  // One per candidate, standardized.
  std::vector<double> scores_by(std::size_t s) const {
    if (candidates_.empty()) return {};
    std::vector<double> values;
    const std::vector<double> areas = areas_under(load_);
    for (const std::uint32_t x : candidates_) {
      const double d = duration_of_absence(x), bytes = static_cast<double>(bytes_of(x));
      values.push_back(s == 0 ? d : s == 1 ? (d >= 0 ? d * bytes : d / bytes) : area(x, gaps_, areas));
    }
    if (s == 3) values = areas_one_by_one();
    standardize(values);
    return values;
  }

  // The area under what is left of the load when a candidate's turn comes, the largest first.
  std::vector<double> areas_one_by_one() const {
    std::vector<double> values(candidates_.size(), -1);
    std::vector<byte_count> load = load_;
    for (std::size_t taken = 0; taken < values.size(); ++taken) {
      const std::vector<double> areas = areas_under(load);
      std::optional<std::size_t> most;
      for (std::size_t c = 0; c < values.size(); ++c) {
        if (values[c] >= 0) continue;
        if (!most || area(candidates_[c], gaps_, areas) > area(candidates_[*most], gaps_, areas)) most = c;
      }
      values[*most] = std::max(0.0, area(candidates_[*most], gaps_, areas));
      remove(load, candidates_[*most]);
    }
    return values;
  }

  // By descending score until the load keeps within the limit.
  std::vector<decision> select(const weights& w, byte_count limit) const {
    std::vector<std::pair<double, std::uint32_t>> order;
    for (std::size_t c = 0; c < candidates_.size(); ++c) {
      double sum = 0;
      for (std::size_t s = 0; s < scores; ++s) sum += w[s] * score_[s][c];
      order.emplace_back(-sum, candidates_[c]);
    }
    std::ranges::sort(order);
    std::vector<decision> decisions(gaps_.size());
    std::vector<byte_count> load = load_;
    for (const auto& [score, x] : order) {
      if (load.empty() || std::ranges::max(load) <= limit) break;
      decisions[x].what = choice::swap;
      remove(load, x);
    }
    return decisions;
  }

  // Copies out in the order of access, copies in as late as they are there in time; the time with both, 0 if
  // the limit cannot be kept.
  nanoseconds schedule(std::vector<decision>& decisions, byte_count limit) {
    place_transfers(costs_, uses_, gaps_, std::vector<bool>(gaps_.size(), false), decisions);
    const room_found found = fit_transfers(p_.network, uses_, gaps_, costs_, limit, decisions);
    least_ = std::min(least_, found.peak);
    if (found.peak > limit) return 0;
    const std::vector<event> events = events_of(p_.network, uses_, gaps_, decisions);
    return costs_.of(events, staged_tensors(uses_, gaps_, decisions)).time;
  }

  const problem& p_;
  use_table uses_;
  std::vector<gap> gaps_;
  forecaster costs_;
  std::vector<nanoseconds> starts_{0};                         // of every position, computes alone
  std::vector<byte_count> load_;                               // at every position, nothing swapped
  std::vector<std::uint32_t> candidates_;                      // gaps
  std::vector<std::vector<double>> score_;                     // per kind, per candidate
  byte_count least_ = std::numeric_limits<byte_count>::max();  // the least load that was come to
};

}  // namespace

memory_plan plan_autoswap(const problem& p) {
  swapping s(p);
  return plan_within(p, packers::smartpool, "autoswap", [&](byte_count room) { return s.plan(room); });
}

}  // namespace um
