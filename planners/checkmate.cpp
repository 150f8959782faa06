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

// `recomputed_once`: stays on the device after its first recomputation. `recomputed_each_time`: for every
// reader.
enum class retention : std::uint8_t { keep, recomputed_once, recomputed_each_time };

class checkmate_planner {
 public:
  explicit checkmate_planner(const problem& p)
      : p_(p),
        labels_to_plan_(p),
        builder_(p.network, labels_to_plan_.uses(), labels_to_plan_.gaps()),
        evaluator_(labels_to_plan_.uses(), labels_to_plan_.gaps(), builder_, labels_to_plan_.costs()),
        nothing_staged_(p.network.tensors.size()) {}

  memory_plan plan(byte_count room) {
    room_ = room;
    if (const byte_count least = least_need(); least > room)
      throw infeasible(budget_too_small_text(p_, "checkmate", least));
    retentions_.assign(labels_to_plan_.maps().size(), retention::keep);
    decisions_.assign(labels_to_plan_.gaps().size(), {});
    evaluator_.rebuild(decisions_, nothing_staged_, room_);
    now_ = evaluate({});
    while (now_.over > 0) {
      if (!lower_peak()) throw infeasible(budget_too_small_text(p_, "checkmate", now_.peak));
    }
    restore_fitting();
    return labels_to_plan_.plan(decisions_);
  }

 private:
  struct evaluation {
    byte_count peak = 0;
    nanoseconds time = 0;  // sum of all computes
    double over = 0;       // bytes beyond the room, summed over positions
    position at = 0;       // the position at the peak
  };

  decision decision_for(std::size_t map, retention how) const {
    const gap& e = labels_to_plan_.gaps()[labels_to_plan_.maps()[map].gap];
    if (how == retention::keep) return {};
    return {gap_choice::recompute, e.last_use, how == retention::recomputed_once ? e.last_use : e.next_use};
  }

  // Of decisions_, which differ from those of the last accept() at these gaps.
  evaluation evaluate(std::span<const std::uint32_t> changed) {
    const list_totals found = evaluator_.evaluate(decisions_, nothing_staged_, changed, room_);
    evaluation e{found.peak, found.compute_time, 0, 0};
    const std::vector<byte_count> live =
        live_at_positions(labels_to_plan_.uses(), evaluator_.new_events(), evaluator_.new_live_bytes());
    e.at = static_cast<position>(std::ranges::max_element(live) - live.begin());
    for (const byte_count l : live) e.over += l > room_ ? static_cast<double>(l - room_) : 0;
    return e;
  }
  evaluation evaluate_with(std::size_t map, retention how) {
    const std::array<std::uint32_t, 1> changed{labels_to_plan_.maps()[map].gap};
    const decision before = std::exchange(decisions_[changed[0]], decision_for(map, how));
    const evaluation e = evaluate(changed);
    decisions_[changed[0]] = before;
    return e;
  }
  void take(std::size_t map, retention how) {
    const std::array<std::uint32_t, 1> changed{labels_to_plan_.maps()[map].gap};
    retentions_[map] = how;
    decisions_[changed[0]] = decision_for(map, how);
    now_ = evaluate(changed);
    evaluator_.accept();
  }

  // Memory that no recomputation frees. It is the maximum over positions of what the position touches and of
  // parts that live across it and cannot be recomputed. Outputs in place of an input need none of their own.
  byte_count least_need() const {
    const use_table& uses = labels_to_plan_.uses();
    std::vector<byte_count> change(uses.order.size() + 1, 0);  // what each position adds, modulo 2^64
    const auto add = [&](position begin, position end, byte_count bytes) {
      change[static_cast<std::size_t>(begin)] += bytes;
      change[static_cast<std::size_t>(end)] -= bytes;
    };
    const auto stays = [&](part_id x) { return persists(p_.network.tensors[uses.parts[x].tensor].role); };
    for (part_id x = 0; x < uses.parts.size(); ++x) {
      if (stays(x)) add(0, uses.end(), uses.parts[x].bytes);
    }
    for (const gap& e : labels_to_plan_.gaps()) {
      if (!e.is_recomputable && !stays(e.part)) add(e.last_use + 1, e.next_use, uses.parts[e.part].bytes);
    }
    for (position at = 0; at < uses.end(); ++at) {
      const op& o = p_.network.ops[uses.order[static_cast<std::size_t>(at)].op];
      for (const touched_part& x : uses.touched_parts[static_cast<std::size_t>(at)]) {
        const bool in_place = o.alias && uses.parts[x.part].tensor == o.out[o.alias->output];
        if (!stays(x.part) && !in_place) add(at, at + 1, uses.parts[x.part].bytes);
      }
    }
    byte_count most = 0, now = 0;
    for (const byte_count by : change) most = std::max(most, now += by);
    return most;
  }

  struct candidate {
    std::size_t map = 0;
    retention how = retention::recomputed_once;
    double worth = 0;
  };

  // Drops the map at the peak whose recomputation takes the least time for each excess byte that it removes.
  bool lower_peak() {
    std::vector<candidate> all;
    for (std::size_t m = 0; m < retentions_.size(); ++m) {
      const feature_map& f = labels_to_plan_.maps()[m];
      const gap& e = labels_to_plan_.gaps()[f.gap];
      if (!f.is_recomputable || e.last_use >= now_.at || now_.at >= e.next_use) continue;
      const double worth = static_cast<double>(f.bytes) /
                           static_cast<double>(labels_to_plan_.costs().recompute_time(e.producer) + 1000);
      for (const retention how : {retention::recomputed_once, retention::recomputed_each_time}) {
        if (how > retentions_[m])
          all.push_back({m, how, how == retention::recomputed_once ? worth : worth * 0.9});
      }
    }
    std::ranges::stable_sort(all, std::ranges::greater{}, &candidate::worth);
    constexpr std::size_t tried_at_once = 4;
    std::optional<candidate> best;
    double most = 0;
    for (std::size_t i = 0; i < all.size() && (i < tried_at_once || !best); ++i) {
      const evaluation e = evaluate_with(all[i].map, all[i].how);
      const double gain =
          (now_.over - e.over) / static_cast<double>(std::max<nanoseconds>(e.time - now_.time, 1000));
      if (gain <= most) continue;
      most = gain;
      best = all[i];
    }
    if (!best) return false;
    take(best->map, best->how);
    return true;
  }

  // Keeps dropped maps that fit by now, the one with the longest recomputation first.
  void restore_fitting() {
    std::vector<std::size_t> given_up;
    for (std::size_t m = 0; m < retentions_.size(); ++m) {
      if (retentions_[m] != retention::keep) given_up.push_back(m);
    }
    const auto time = [&](std::size_t m) {
      return labels_to_plan_.costs().recompute_time(
          labels_to_plan_.gaps()[labels_to_plan_.maps()[m].gap].producer);
    };
    std::ranges::stable_sort(given_up, std::ranges::greater{}, time);
    for (const std::size_t m : given_up) {
      for (const retention how : {retention::keep, retention::recomputed_once}) {
        const evaluation e = evaluate_with(m, how);
        if (e.over > 0 || e.time >= now_.time) continue;
        take(m, how);
        break;
      }
    }
  }

  const problem& p_;
  label_evaluator labels_to_plan_;
  event_builder builder_;
  change_evaluator evaluator_;
  std::vector<bool> nothing_staged_;  // per tensor
  byte_count room_ = 0;
  std::vector<retention> retentions_;
  std::vector<decision> decisions_;  // of retentions_
  evaluation now_;
};

}  // namespace

memory_plan plan_checkmate(const problem& p) {
  checkmate_planner r(p);
  return plan_within(p, packers::searched, "checkmate", [&](byte_count room) { return r.plan(room); });
}

}  // namespace um
