#include <algorithm>
#include <limits>
#include <map>

#include "planners/feature_maps.hpp"
#include "planners/planners.hpp"
#include "planners/within.hpp"

namespace um {
namespace {

class classifying {
 public:
  explicit classifying(const problem& p)
      : p_(p),
        labelling_(p),
        beside_(p, labelling_.uses()),
        labels_(labelling_.maps().size(), gap_choice::swap) {}

  memory_plan plan(byte_count room) {
    if (!labelling_.can_move()) return recompute_only(room);
    labels_.assign(labels_.size(), gap_choice::swap);
    const byte_count least = labelling_.peak_of(labels_);
    if (least > room) throw infeasible(too_small(p_, "pooch", least));
    if (p_.knobs.at("keep") == 1) keep(room);
    if (p_.knobs.at("recompute") == 1) recompute(room);
    return labelling_.plan(labelling_.place(labels_, when(), room).decisions);
  }

 private:
  arrival when() const {
    const std::int64_t schedule = p_.knobs.at("schedule");
    return schedule == 0 ? arrival::just_in_time : schedule == 1 ? arrival::early : arrival::late;
  }

  // The cheapest for their bytes first, until it fits.
  memory_plan recompute_only(byte_count room) {
    labels_.assign(labels_.size(), gap_choice::keep);
    std::vector<std::size_t> order;
    for (std::size_t m = 0; m < labels_.size(); ++m) {
      if (labelling_.maps()[m].again) order.push_back(m);
    }
    const auto time_of_a_byte = [&](std::size_t m) {
      const feature_map& f = labelling_.maps()[m];
      return static_cast<double>(labelling_.costs().recompute_time(labelling_.gaps()[f.gap].producer)) /
             static_cast<double>(f.bytes);
    };
    std::ranges::stable_sort(order, {}, time_of_a_byte);
    byte_count need = labelling_.peak_of(labels_);
    for (std::size_t i = 0; need > room && i < order.size(); ++i) {
      labels_[order[i]] = gap_choice::recompute;
      const byte_count with = labelling_.peak_of(labels_);
      if (with > need) labels_[order[i]] = gap_choice::keep;
      need = std::min(need, with);
    }
    if (need > room) throw infeasible(too_small(p_, "pooch", need));
    return labelling_.plan(labelling_.decisions_for(labels_, arrival::just_in_time));
  }

  // Phase 1: what the forward pass waits for, the last first, until one does not fit; then whatever fits.
  void keep(byte_count room) {
    const std::vector<std::uint32_t> stalled = labelling_.place(labels_, when(), room).room.stalled_gaps;
    for (std::size_t i = stalled.size(); i-- > 0;) {
      const auto m =
          std::ranges::find(labelling_.maps(), stalled[i], &feature_map::gap) - labelling_.maps().begin();
      gap_choice& label = labels_[static_cast<std::size_t>(m)];
      label = gap_choice::keep;
      if (labelling_.peak_of(labels_) <= room) continue;
      label = gap_choice::swap;
      break;
    }
    labelling_.keep_latest(labels_, room);
  }

  // Phase 2: recomputes the map with the least ratio of computing time to copy time, until no ratio is worth
  // it. A ratio is renewed only when it would be the least: first its copy time, then, if it still is the
  // least, its computing time.
  void recompute(byte_count room) {
    struct candidate {
      std::size_t map = 0;
      nanoseconds computing = 0;  // as it was worked out last: at first its own operator
      nanoseconds copying = 0;
      int round = -1;        // round in which the cost of its copies was computed
      int computed_in = -1;  // round
    };
    std::multimap<double, candidate> by_ratio;
    for (std::size_t m = 0; m < labels_.size(); ++m) {
      if (labels_[m] != gap_choice::swap || !labelling_.maps()[m].again) continue;
      by_ratio.emplace(-1.0, candidate{m, labelling_.costs().recompute_time(
                                              labelling_.gaps()[labelling_.maps()[m].gap].producer)});
    }
    labelling::outcome now = labelling_.place(labels_, when(), room);
    look_at(now);
    for (int round = 0; !by_ratio.empty();) {
      candidate c = by_ratio.begin()->second;
      by_ratio.erase(by_ratio.begin());
      if (c.computed_in == round) {
        labels_[c.map] = gap_choice::recompute;
        now = labelling_.place(labels_, when(), room);
        look_at(now);
        ++round;
        continue;
      }
      if (c.round == round) {
        c.computed_in = round;
        c.computing = time_of_computing(c.map, now, room);
      } else {
        c.round = round;
        c.copying = price_of_copies(c.map, now);
      }
      if (c.computing < c.copying)
        by_ratio.emplace(static_cast<double>(c.computing) / static_cast<double>(c.copying), c);
    }
  }

  // Until the next call, costs of copies are those at these events.
  void look_at(const labelling::outcome& now) {
    beside_.forecast(now.events, find_staged_tensors(labelling_.uses(), labelling_.gaps(), now.decisions));
  }
  nanoseconds price_of_copies(std::size_t m, const labelling::outcome& now) {
    return now.predicted.time - beside_.time_without_copies_of(labelling_.maps()[m].part);
  }

  // What is computed more if a map is; without end where that does not fit.
  nanoseconds time_of_computing(std::size_t m, const labelling::outcome& now, byte_count room) {
    std::vector<gap_choice> changed = labels_;
    changed[m] = gap_choice::recompute;
    const fit_result other = labelling_.least_of(changed);
    return other.peak > room ? std::numeric_limits<nanoseconds>::max()
                             : other.recompute_time - now.predicted.recompute_time;
  }

  const problem& p_;
  labelling labelling_;
  forecaster beside_;  // keeps what it knows of one outcome while labelling_ looks at others
  std::vector<gap_choice> labels_;
};

}  // namespace

memory_plan plan_pooch(const problem& p) {
  classifying c(p);
  return plan_within(p, packers::searched, "pooch", [&](byte_count room) { return c.plan(room); });
}

}  // namespace um
