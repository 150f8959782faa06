#include "planners/best_repair.hpp"

#include <algorithm>

namespace um {
namespace {

// Limit of the product of gap classes, computes and tries per class.
constexpr std::size_t work_for_tries = 70'000'000;

class plan_repairer {
 public:
  plan_repairer(search_space& of, const placer& place, const search_goal& at, const effort_limits& most)
      : place_(place), goal_(at), limits_(most), of_(of), live_limit_(at.live_limit) {
    const std::size_t size = std::max<std::size_t>(of_.classes().size() * of_.uses().order.size(), 1);
    tries_ = std::clamp(work_for_tries / size, most.min_tries_per_gap_class, most.max_tries_per_gap_class);
  }

  repair_result run() {
    if (of_.compute_time() >= goal_.time_to_beat) return {};
    result_.live_limit = goal_.live_limit;
    const solution first = decide(of_, live_limit_, {tries_, limits_.max_work, goal_.time_to_beat});
    result_.is_cut_off = first.score.excess > 0;
    result_.is_promising = is_promising(first.score, goal_.time_to_beat);
    if (!result_.is_promising) return result_;
    try_live_limits(first);
    if (place_.find_crowded && first.score.excess == 0) try_reserved_bytes(first);
    return std::move(result_);
  }

 private:
  // Decides for fewer live bytes while packing needs more than the budget, and for more while it needs less.
  void try_live_limits(solution now) {
    const std::uint64_t decided = of_.work();
    byte_count min_decided_limit = live_limit_;  // smallest limit for which decisions were found
    for (int i = 0; i < limits_.max_placements; ++i) {
      if (i > 0 && of_.work() - decided > limits_.max_work / 2 * 3) break;
      if (i > 0) now = decide_again(of_, live_limit_, {tries_ / 8, limits_.max_work / 8}, now);
      const nanoseconds least = now.score.forecast.time;
      if (now.score.excess == 0 && least >= goal_.time_to_beat && !result_.best) break;
      if (now.score.excess > 0 && live_limit_ < min_decided_limit)
        live_limit_ += (min_decided_limit - live_limit_) / 2;
      if (now.score.excess > 0 || least >= goal_.time_to_beat) continue;
      min_decided_limit = std::min(min_decided_limit, live_limit_);
      if (!place_and_adjust(now)) break;
    }
  }

  // Places the solution, unless the same decisions were placed just before, and adjusts the limit for the
  // next decisions. Returns false if no other limit can give a faster plan.
  bool place_and_adjust(const solution& now) {
    std::optional<placed_plan> placed;
    std::vector<decision> decisions;
    if (now.treatments != placed_treatments_ || (of_.decides_by_budget() && live_limit_ != placed_limit_)) {
      decisions = of_.decisions_for(now.treatments, live_limit_);
      placed = place_.place_decided(of_.plan(decisions), goal_.budget);
      placed_treatments_ = now.treatments;
      placed_limit_ = live_limit_;
      placed_bytes_ = placed ? std::optional(placed->device_bytes) : std::nullopt;
    }
    if (!placed_bytes_) {  // other decisions may still be placeable
      live_limit_ -= live_limit_ / 20;
    } else if (*placed_bytes_ <= goal_.budget) {
      if (placed && accept_if_faster({now.treatments, std::move(decisions), std::move(*placed)}))
        result_.live_limit = live_limit_;
      if (live_limit_ == goal_.budget) return false;
      fitting_limit_ = live_limit_;
      live_limit_ += (goal_.budget - live_limit_) / 3;
    } else {
      live_limit_ = std::max(
          fitting_limit_,
          live_limit_ - std::min(live_limit_, (*placed_bytes_ - goal_.budget) * 3 / 4 + goal_.budget / 1000));
    }
    return true;
  }

  bool accept_if_faster(placed_decisions found) {
    if (found.placed.time >= goal_.time_to_beat) return false;
    goal_.time_to_beat = found.placed.time;
    result_.best = std::move(found);
    return true;
  }

  // Decides again from the first decisions with bytes reserved where packing is crowded, as long as that may
  // be faster by half a percent: the room elsewhere stays in use.
  void try_reserved_bytes(solution now) {
    const int max_placements = limits_.max_placements + 2;
    live_limit_ = goal_.budget;
    std::vector<byte_count> reserved(of_.uses().order.size(), 0);  // per position
    for (int i = 0; i < max_placements; ++i) {
      if (i > 0 || goal_.live_limit < goal_.budget)
        now = decide_again(of_, live_limit_, {tries_ / 8, limits_.max_work / 8}, now);
      if (now.score.excess == 0 && !may_be_faster(now)) break;
      bool fits = now.score.excess > 0;  // too much is reserved
      if (!fits) {
        std::vector<decision> decisions = of_.decisions_for(now.treatments, live_limit_);
        const memory_plan plan = of_.plan(decisions);
        std::optional<placed_plan> placed = place_.place_decided(plan, goal_.budget);
        fits = placed && placed->device_bytes <= goal_.budget;
        if (fits) accept_if_faster({now.treatments, std::move(decisions), std::move(*placed)});
        if (!fits) reserve_where_crowded(plan, reserved);
      }
      if (fits && i == 0) break;
      if (fits) {
        for (byte_count& bytes : reserved) bytes -= bytes / 3;
      }
      set_reserved_bytes(reserved);
    }
    set_reserved_bytes(std::vector<byte_count>(reserved.size(), 0));
  }
  bool may_be_faster(const solution& now) const {
    return now.score.forecast.time < goal_.time_to_beat - goal_.time_to_beat / 200;
  }

  // Reserves at these positions what packing takes beyond the bytes in use, and a thousandth of the budget:
  // decisions then have that many fewer live bytes there.
  void reserve_where_crowded(const memory_plan& plan, std::vector<byte_count>& reserved) const {
    const std::vector<position> positions = positions_of(plan);
    for (const crowded_range& x : place_.find_crowded(plan, goal_.budget)) {
      const byte_count bytes = x.packed_bytes - std::min(goal_.budget, x.live_bytes) + goal_.budget / 1000;
      for (position at = positions[x.begin]; at <= positions[x.end - 1]; ++at) {
        byte_count& here = reserved[static_cast<std::size_t>(at)];
        here = std::max(here, bytes);
      }
    }
  }

  void set_reserved_bytes(const std::vector<byte_count>& reserved) {
    for (position at = 0; at < of_.uses().end(); ++at)
      of_.costs().reserve(at, reserved[static_cast<std::size_t>(at)]);
    of_.forget();
  }

  // Per action: the position that it belongs to. Recomputations and copies belong to the compute that
  // follows.
  std::vector<position> positions_of(const memory_plan& plan) const {
    std::vector<position> all;
    position next = 0;
    for (const action& a : plan.actions) {
      all.push_back(std::min(next, of_.uses().end() - 1));
      const compute* c = std::get_if<compute>(&a);
      if (c == nullptr || next == of_.uses().end()) continue;
      const compute& first = of_.uses().order[static_cast<std::size_t>(next)];
      if (c->op == first.op && c->part == first.part) ++next;
    }
    return all;
  }

  const placer& place_;
  search_goal goal_;
  effort_limits limits_;
  search_space& of_;
  std::size_t tries_ = 0;
  byte_count live_limit_ = 0, fitting_limit_ = 0;  // fitting_limit_: largest limit whose placed plan fits
  std::optional<std::vector<treatment>> placed_treatments_;  // of the plan placed last
  byte_count placed_limit_ = 0;                              // limit of its live bytes
  std::optional<byte_count> placed_bytes_;                   // its bytes; nothing if it could not be placed
  repair_result result_;
};

}  // namespace

effort_limits quick_effort(std::uint64_t max_work) {
  return {12, 12, 3, max_work};
}
effort_limits full_effort(std::uint64_t max_work) {
  return {20, 300, 6, max_work};
}

repair_result decide_and_place(search_space& of, const placer& place, const search_goal& at,
                               const effort_limits& most) {
  return plan_repairer(of, place, at, most).run();
}

std::optional<placed_plan> place_or_repair(search_space& of, const placer& place, solution decided,
                                           byte_count rung, byte_count budget, nanoseconds time_to_beat,
                                           const repair_limits& most) {
  byte_count live_limit = rung;
  for (int i = 0; i < most.max_placements; ++i) {
    if (i > 0) decided = decide_again(of, live_limit, most.per_decision, decided);
    if (decided.score.excess > 0 || decided.score.forecast.time >= time_to_beat) return std::nullopt;
    std::optional<placed_plan> placed =
        place.place_decided(of.plan(of.decisions_for(decided.treatments, live_limit)), budget);
    if (placed && placed->device_bytes <= budget) return placed;
    // Other decisions may be placeable if these are not.
    const byte_count beyond = placed ? (placed->device_bytes - rung) * 3 / 4 + rung / 1000 : live_limit / 20;
    live_limit -= std::min(live_limit, beyond);
  }
  return std::nullopt;
}

}  // namespace um
