#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "planners/feature_maps.hpp"
#include "planners/planners.hpp"
#include "planners/within.hpp"
#include "schedule/change_evaluator.hpp"

namespace um {
namespace {

// What happens to a feature map. `recomputed_once`: stays on the device after its first recomputation.
// `recomputed_each_time`: is recomputed for every reader.
enum class retention : std::uint8_t { keep, recomputed_once, recomputed_each_time };

class checkmate_planner {
 public:
  explicit checkmate_planner(const problem& p)
      : p_(p),
        label_evaluator_(p),
        builder_(p.network, label_evaluator_.uses(), label_evaluator_.gaps()),
        evaluator_(label_evaluator_.uses(), label_evaluator_.gaps(), builder_, label_evaluator_.costs()),
        nothing_staged_(p.network.tensors.size()) {}

  memory_plan plan(byte_count room) {
    room_ = room;
    if (const byte_count least = unavoidable_peak(); least > room)
      throw infeasible(budget_too_small_text(p_, "checkmate", least));
    retentions_.assign(label_evaluator_.maps().size(), retention::keep);
    decisions_.assign(label_evaluator_.gaps().size(), {});
    evaluator_.rebuild(decisions_, nothing_staged_, room_);
    current_ = evaluate({});
    while (current_.summed_excess > 0) {
      if (!drop_best_map()) throw infeasible(budget_too_small_text(p_, "checkmate", current_.peak));
    }
    keep_fitting_maps_again();
    return label_evaluator_.plan(decisions_);
  }

 private:
  struct evaluation {
    byte_count peak = 0;
    nanoseconds time = 0;      // sum of all computes
    double summed_excess = 0;  // bytes beyond the room, summed over positions
    position at = 0;           // the position at the peak
  };

  decision decision_for(std::size_t map, retention how) const {
    const gap& e = label_evaluator_.gaps()[label_evaluator_.maps()[map].gap];
    if (how == retention::keep) return {};
    return {gap_choice::recompute, e.last_use, how == retention::recomputed_once ? e.last_use : e.next_use};
  }

  // Evaluates decisions_, which differ from those of the last accept() at these gaps.
  evaluation evaluate(std::span<const std::uint32_t> changed) {
    const list_totals found = evaluator_.evaluate(decisions_, nothing_staged_, changed, room_);
    evaluation e{found.peak, found.compute_time, 0, 0};
    const std::span<const byte_count> live = evaluator_.new_live_at_positions();
    e.at = static_cast<position>(std::ranges::max_element(live) - live.begin());
    for (const byte_count l : live) e.summed_excess += l > room_ ? static_cast<double>(l - room_) : 0;
    return e;
  }
  evaluation evaluate_with(std::size_t map, retention how) {
    const std::array<std::uint32_t, 1> changed{label_evaluator_.maps()[map].gap};
    const decision before = std::exchange(decisions_[changed[0]], decision_for(map, how));
    const evaluation e = evaluate(changed);
    decisions_[changed[0]] = before;
    return e;
  }
  void apply(std::size_t map, retention how) {
    const std::array<std::uint32_t, 1> changed{label_evaluator_.maps()[map].gap};
    retentions_[map] = how;
    decisions_[changed[0]] = decision_for(map, how);
    current_ = evaluate(changed);
    evaluator_.accept();
  }

  // Lower bound on the peak: the maximum over positions of the parts that the position touches and of those
  // that live across it and cannot be recomputed. In-place outputs need no memory of their own.
  byte_count unavoidable_peak() const {
    const use_table& uses = label_evaluator_.uses();
    std::vector<byte_count> change(uses.order.size() + 1,
                                   0);  // per position: change of live bytes, modulo 2^64
    const auto add = [&](position begin, position end, byte_count bytes) {
      change[static_cast<std::size_t>(begin)] += bytes;
      change[static_cast<std::size_t>(end)] -= bytes;
    };
    const auto stays = [&](part_id x) { return persists(p_.network.tensors[uses.parts[x].tensor].role); };
    for (part_id x = 0; x < uses.parts.size(); ++x) {
      if (stays(x)) add(0, uses.end(), uses.parts[x].bytes);
    }
    for (const gap& e : label_evaluator_.gaps()) {
      if (!e.is_recomputable && !stays(e.part)) add(e.last_use + 1, e.next_use, uses.parts[e.part].bytes);
    }
    const auto comes = [&](part_id x) { return !stays(x); };
    for (position at = 0; at < uses.end(); ++at) add(at, at + 1, touched_bytes(p_.network, uses, at, comes));
    byte_count most = 0, now = 0;
    for (const byte_count by : change) most = std::max(most, now += by);
    return most;
  }

  struct candidate {
    std::size_t map = 0;
    retention how = retention::recomputed_once;
    double bytes_per_ns = 0;
  };

  // Of the maps that live at the peak, drops the one whose recomputation takes the least time per excess byte
  // removed.
  bool drop_best_map() {
    std::vector<candidate> all;
    for (std::size_t m = 0; m < retentions_.size(); ++m) {
      const feature_map& f = label_evaluator_.maps()[m];
      const gap& e = label_evaluator_.gaps()[f.gap];
      if (!f.is_recomputable || e.last_use >= current_.at || current_.at >= e.next_use) continue;
      const double bytes_per_ns =
          static_cast<double>(f.bytes) /
          static_cast<double>(label_evaluator_.costs().recompute_time(e.producer) + 1000);
      for (const retention how : {retention::recomputed_once, retention::recomputed_each_time}) {
        if (how > retentions_[m])
          all.push_back({m, how, how == retention::recomputed_once ? bytes_per_ns : bytes_per_ns * 0.9});
      }
    }
    std::ranges::stable_sort(all, std::ranges::greater{}, &candidate::bytes_per_ns);
    constexpr std::size_t tried_at_once = 4;
    std::optional<candidate> best;
    double most = 0;
    for (std::size_t i = 0; i < all.size() && (i < tried_at_once || !best); ++i) {
      const evaluation e = evaluate_with(all[i].map, all[i].how);
      const double gain = (current_.summed_excess - e.summed_excess) /
                          static_cast<double>(std::max<nanoseconds>(e.time - current_.time, 1000));
      if (gain <= most) continue;
      most = gain;
      best = all[i];
    }
    if (!best) return false;
    apply(best->map, best->how);
    return true;
  }

  // Keeps dropped maps again where the budget allows, the longest recomputation first.
  void keep_fitting_maps_again() {
    std::vector<std::size_t> dropped;
    for (std::size_t m = 0; m < retentions_.size(); ++m) {
      if (retentions_[m] != retention::keep) dropped.push_back(m);
    }
    const auto time = [&](std::size_t m) {
      return label_evaluator_.costs().recompute_time(
          label_evaluator_.gaps()[label_evaluator_.maps()[m].gap].producer);
    };
    std::ranges::stable_sort(dropped, std::ranges::greater{}, time);
    for (const std::size_t m : dropped) {
      for (const retention how : {retention::keep, retention::recomputed_once}) {
        const evaluation e = evaluate_with(m, how);
        if (e.summed_excess > 0 || e.time >= current_.time) continue;
        apply(m, how);
        break;
      }
    }
  }

  const problem& p_;
  label_evaluator label_evaluator_;
  event_builder builder_;
  change_evaluator evaluator_;
  std::vector<bool> nothing_staged_;  // per tensor: false, since none is swapped
  byte_count room_ = 0;
  std::vector<retention> retentions_;
  std::vector<decision> decisions_;  // decisions that follow from retentions_
  evaluation current_;
};

}  // namespace

memory_plan plan_checkmate(const problem& p) {
  checkmate_planner r(p);
  return plan_within(p, packers::searched, "checkmate", [&](byte_count room) { return r.plan(room); });
}

}  // namespace um
