#include <optional>

#include "planners/feature_maps.hpp"
#include "planners/planners.hpp"
#include "planners/within.hpp"

namespace um {
namespace {

class capuchin_planner {
 public:
  explicit capuchin_planner(const problem& p) : p_(p), label_evaluator_(p), start_times_{0} {
    for (position at = 0; at < label_evaluator_.uses().end(); ++at)
      start_times_.push_back(start_times_.back() + label_evaluator_.costs().compute_time(at));
    map_of_part_.assign(label_evaluator_.uses().parts.size(), none);
    for (std::size_t m = 0; m < label_evaluator_.maps().size(); ++m)
      map_of_part_[label_evaluator_.maps()[m].part] = m;
  }

  memory_plan plan(byte_count room) {
    labels_.assign(label_evaluator_.maps().size(), gap_choice::keep);
    for (byte_count peak = label_evaluator_.peak_of(labels_); peak > room;
         peak = label_evaluator_.peak_of(labels_)) {
      const position at = label_evaluator_.peak_position();
      if (!swap_one_if_hidden(at) && !swap_or_recompute_cheapest(at))
        throw infeasible(budget_too_small_text(p_, "capuchin", peak));
    }
    return label_evaluator_.plan(label_evaluator_.place(labels_, return_timing::late, room), "capuchin");
  }

 private:
  static constexpr std::size_t none = ~std::size_t{0};

  const gap& gap_of(std::size_t m) const { return label_evaluator_.gaps()[label_evaluator_.maps()[m].gap]; }
  // Whether the map is kept and position `at` lies in its gap.
  bool is_kept_across(std::size_t m, position at) const {
    return labels_[m] == gap_choice::keep && gap_of(m).last_use < at && at < gap_of(m).next_use;
  }

  // Capuchin's "free time": time between two accesses, less both copies.
  nanoseconds free_time(std::size_t m) {
    const byte_count bytes = label_evaluator_.maps()[m].bytes;
    const auto start = [&](position at) { return start_times_[static_cast<std::size_t>(at)]; };
    return start(gap_of(m).next_use) - start(gap_of(m).last_use + 1) -
           label_evaluator_.costs().copy_time(bytes, lane::to_host) -
           label_evaluator_.costs().copy_time(bytes, lane::to_device);
  }

  // Time to recompute the map and those of its inputs that are recomputed as well.
  nanoseconds recompute_time(std::size_t m) {
    const position by = gap_of(m).producer;
    nanoseconds sum = label_evaluator_.costs().recompute_time(by);
    for (const touched_part& x : label_evaluator_.uses().touched_by_recompute(by)) {
      const std::size_t input_map = map_of_part_[x.part];
      if (x.mode == access_mode::read && input_map != none && input_map < m &&
          labels_[input_map] == gap_choice::recompute)
        sum += recompute_time(input_map);
    }
    return sum;
  }

  std::optional<std::size_t> map_with_longest_free_time(position at) {
    std::optional<std::size_t> best;
    for (std::size_t m = 0; m < labels_.size() && label_evaluator_.has_link_to_host(); ++m) {
      if (is_kept_across(m, at) && (!best || free_time(m) > free_time(*best))) best = m;
    }
    return best;
  }

  // Swaps the map with the longest free time if its copies hide behind computes.
  bool swap_one_if_hidden(position at) {
    const std::optional<std::size_t> m = map_with_longest_free_time(at);
    if (!m || free_time(*m) < 0) return false;
    labels_[*m] = gap_choice::swap;
    return true;
  }

  // Compares the swap whose copies delay computes least with the recomputation that frees the most bytes per
  // second. Chooses the faster one.
  bool swap_or_recompute_cheapest(position at) {
    const std::optional<std::size_t> swapped = map_with_longest_free_time(at);
    std::optional<std::size_t> again;
    const auto saves = [&](std::size_t m) {
      return static_cast<double>(label_evaluator_.maps()[m].bytes) /
             static_cast<double>(recompute_time(m) + 1);
    };
    for (std::size_t m = 0; m < labels_.size(); ++m) {
      if (is_kept_across(m, at) && label_evaluator_.maps()[m].is_recomputable &&
          (!again || saves(m) > saves(*again)))
        again = m;
    }
    if (!swapped && !again) return false;
    const bool recomputes = again && (!swapped || recompute_time(*again) <= -free_time(*swapped));
    labels_[recomputes ? *again : *swapped] = recomputes ? gap_choice::recompute : gap_choice::swap;
    return true;
  }

  const problem& p_;
  label_evaluator label_evaluator_;
  std::vector<nanoseconds> start_times_;  // per position: start time without copies
  std::vector<std::size_t> map_of_part_;  // per part: its map
  std::vector<gap_choice> labels_;
};

}  // namespace

memory_plan plan_capuchin(const problem& p) {
  capuchin_planner c(p);
  return plan_within(p, packers::searched, "capuchin", [&](byte_count room) { return c.plan(room); });
}

}  // namespace um
