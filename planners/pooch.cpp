#include <algorithm>
#include <limits>
#include <map>

#include "planners/feature_maps.hpp"
#include "planners/planners.hpp"
#include "planners/within.hpp"

namespace um {
namespace {

class pooch_planner {
 public:
  explicit pooch_planner(const problem& p)
      : p_(p),
        label_evaluator_(p),
        reference_(p, label_evaluator_.uses()),
        labels_(label_evaluator_.maps().size(), gap_choice::swap) {}

  memory_plan plan(byte_count room) {
    if (!label_evaluator_.has_link_to_host()) return recompute_only(room);
    labels_.assign(labels_.size(), gap_choice::swap);
    const byte_count least = label_evaluator_.peak_of(labels_);
    if (least > room) throw infeasible(budget_too_small_text(p_, "pooch", least));
    if (p_.knobs.at("keep") == 1) keep_stalled_maps(room);
    if (p_.knobs.at("recompute") == 1) recompute_by_ratio(room);
    return label_evaluator_.plan(label_evaluator_.place(labels_, chosen_return_timing(), room), "pooch");
  }

 private:
  return_timing chosen_return_timing() const {
    const std::int64_t schedule = p_.knobs.at("schedule");
    return schedule == 0   ? return_timing::just_in_time
           : schedule == 1 ? return_timing::early
                           : return_timing::late;
  }

  // Recomputes maps, the least time per byte first, until the rest fits.
  memory_plan recompute_only(byte_count room) {
    labels_.assign(labels_.size(), gap_choice::keep);
    std::vector<std::size_t> order;
    for (std::size_t m = 0; m < labels_.size(); ++m) {
      if (label_evaluator_.maps()[m].is_recomputable) order.push_back(m);
    }
    const auto time_of_a_byte = [&](std::size_t m) {
      const feature_map& f = label_evaluator_.maps()[m];
      return static_cast<double>(
                 label_evaluator_.costs().recompute_time(label_evaluator_.gaps()[f.gap].producer)) /
             static_cast<double>(f.bytes);
    };
    std::ranges::stable_sort(order, {}, time_of_a_byte);
    byte_count need = label_evaluator_.peak_of(labels_);
    for (std::size_t i = 0; need > room && i < order.size(); ++i) {
      labels_[order[i]] = gap_choice::recompute;
      const byte_count with = label_evaluator_.peak_of(labels_);
      if (with > need) labels_[order[i]] = gap_choice::keep;
      need = std::min(need, with);
    }
    if (need > room) throw infeasible(budget_too_small_text(p_, "pooch", need));
    return label_evaluator_.plan(label_evaluator_.decisions_for(labels_, return_timing::just_in_time));
  }

  // Phase 1: keeps the maps whose copies stall the forward pass, the last one first, until one does not fit;
  // then all that fit.
  void keep_stalled_maps(byte_count room) {
    const std::vector<std::uint32_t> stalled =
        label_evaluator_.place(labels_, chosen_return_timing(), room).fit.stalled_gaps;
    for (std::size_t i = stalled.size(); i-- > 0;) {
      const auto m = std::ranges::find(label_evaluator_.maps(), stalled[i], &feature_map::gap) -
                     label_evaluator_.maps().begin();
      gap_choice& label = labels_[static_cast<std::size_t>(m)];
      label = gap_choice::keep;
      if (label_evaluator_.peak_of(labels_) <= room) continue;
      label = gap_choice::swap;
      break;
    }
    label_evaluator_.keep_latest_maps(labels_, room);
  }

  // Phase 2: recomputes the map with the least ratio of computing time to copy time, until no ratio is worth
  // it. A ratio is updated only if it would be the least: first its copy time, then, if it still is the
  // least, its computing time.
  void recompute_by_ratio(byte_count room) {
    struct candidate {
      std::size_t map = 0;
      nanoseconds computing = 0;  // last computed value; at first the time of its own operator
      nanoseconds copying = 0;
      int copying_known_at = -1;    // number of maps chosen when `copying` was computed
      int computing_known_at = -1;  // the same for `computing`
    };
    std::multimap<double, candidate> by_ratio;
    for (std::size_t m = 0; m < labels_.size(); ++m) {
      if (labels_[m] != gap_choice::swap || !label_evaluator_.maps()[m].is_recomputable) continue;
      by_ratio.emplace(-1.0,
                       candidate{m, label_evaluator_.costs().recompute_time(
                                        label_evaluator_.gaps()[label_evaluator_.maps()[m].gap].producer)});
    }
    label_evaluator::outcome now = label_evaluator_.place(labels_, chosen_return_timing(), room);
    set_reference(now);
    for (int chosen_maps = 0; !by_ratio.empty();) {
      candidate c = by_ratio.begin()->second;
      by_ratio.erase(by_ratio.begin());
      if (c.computing_known_at == chosen_maps) {
        labels_[c.map] = gap_choice::recompute;
        now = label_evaluator_.place(labels_, chosen_return_timing(), room);
        set_reference(now);
        ++chosen_maps;
        continue;
      }
      if (c.copying_known_at == chosen_maps) {
        c.computing_known_at = chosen_maps;
        c.computing = added_recompute_time(c.map, now, room);
      } else {
        c.copying_known_at = chosen_maps;
        c.copying = copy_delay(c.map, now);
      }
      if (c.computing < c.copying)
        by_ratio.emplace(static_cast<double>(c.computing) / static_cast<double>(c.copying), c);
    }
  }

  // Sets the outcome that copy_delay() compares with.
  void set_reference(const label_evaluator::outcome& now) {
    reference_.forecast(now.events,
                        find_staged_tensors(label_evaluator_.uses(), label_evaluator_.gaps(), now.decisions));
  }
  nanoseconds copy_delay(std::size_t m, const label_evaluator::outcome& now) {
    return now.predicted.time - reference_.time_without_copies_of(label_evaluator_.maps()[m].part);
  }

  // Recomputation time that is added if the map is recomputed as well; the maximum if it then does not fit.
  nanoseconds added_recompute_time(std::size_t m, const label_evaluator::outcome& now, byte_count room) {
    std::vector<gap_choice> changed = labels_;
    changed[m] = gap_choice::recompute;
    const decisions_minimum other = label_evaluator_.minimum_for(changed);
    return other.peak > room ? std::numeric_limits<nanoseconds>::max()
                             : other.recompute_time - now.predicted.recompute_time;
  }

  const problem& p_;
  label_evaluator label_evaluator_;
  forecaster reference_;  // keeps the forecast of set_reference() while label_evaluator_ makes others
  std::vector<gap_choice> labels_;
};

}  // namespace

memory_plan plan_pooch(const problem& p) {
  pooch_planner c(p);
  return plan_within(p, packers::searched, "pooch", [&](byte_count room) { return c.plan(room); });
}

}  // namespace um
