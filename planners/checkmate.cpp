#include <algorithm>
#include <optional>

#include "planners/feature_maps.hpp"
#include "planners/planners.hpp"
#include "planners/within.hpp"

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
        nothing_staged_(p.network.tensors.size()) {}

  memory_plan plan(byte_count room) {
    room_ = room;
    if (const byte_count least = least_need(); least > room)
      throw infeasible(budget_too_small_text(p_, "checkmate", least));
    retentions_.assign(labels_to_plan_.maps().size(), retention::keep);
    now_ = evaluate(retentions_);
    while (now_.over > 0) {
      if (!lower_peak()) throw infeasible(budget_too_small_text(p_, "checkmate", now_.peak));
    }
    restore_fitting();
    return labels_to_plan_.plan(decisions_for(retentions_));
  }

 private:
  struct evaluation {
    byte_count peak = 0;
    nanoseconds time = 0;  // sum of all computes
    double over = 0;       // bytes beyond the room, summed over positions
    position at = 0;       // the position at the peak
  };

  std::vector<decision> decisions_for(const std::vector<retention>& retentions) const {
    std::vector<decision> all(labels_to_plan_.gaps().size());
    for (std::size_t m = 0; m < retentions.size(); ++m) {
      const gap& e = labels_to_plan_.gaps()[labels_to_plan_.maps()[m].gap];
      if (retentions[m] == retention::keep) continue;
      all[labels_to_plan_.maps()[m].gap] = {
          gap_choice::recompute, e.last_use,
          retentions[m] == retention::recomputed_once ? e.last_use : e.next_use};
    }
    return all;
  }

  evaluation evaluate(const std::vector<retention>& retentions) {
    const std::vector<decision> decisions = decisions_for(retentions);
    const std::span<const event> events = builder_.build(decisions, nothing_staged_);
    evaluation e;
    e.peak = labels_to_plan_.costs().forecast_memory(events, nothing_staged_).peak;
    for (const event& x : events)
      e.time += x.kind == event_kind::compute ? labels_to_plan_.costs().compute_time(x) : 0;
    const std::vector<byte_count> live =
        live_at_positions(labels_to_plan_.uses(), events, labels_to_plan_.costs().live_bytes());
    e.at = static_cast<position>(std::ranges::max_element(live) - live.begin());
    for (const byte_count l : live) e.over += l > room_ ? static_cast<double>(l - room_) : 0;
    return e;
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
    std::optional<std::pair<candidate, evaluation>> best;
    double most = 0;
    for (std::size_t i = 0; i < all.size() && (i < tried_at_once || !best); ++i) {
      std::vector<retention> changed = retentions_;
      changed[all[i].map] = all[i].how;
      const evaluation e = evaluate(changed);
      const double gain =
          (now_.over - e.over) / static_cast<double>(std::max<nanoseconds>(e.time - now_.time, 1000));
      if (gain <= most) continue;
      most = gain;
      best = {all[i], e};
    }
    if (!best) return false;
    retentions_[best->first.map] = best->first.how;
    now_ = best->second;
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
        std::vector<retention> changed = retentions_;
        changed[m] = how;
        const evaluation e = evaluate(changed);
        if (e.over > 0 || e.time >= now_.time) continue;
        retentions_ = std::move(changed);
        now_ = e;
        break;
      }
    }
  }

  const problem& p_;
  label_evaluator labels_to_plan_;
  event_builder builder_;
  std::vector<bool> nothing_staged_;  // per tensor
  byte_count room_ = 0;
  std::vector<retention> retentions_;
  evaluation now_;
};

}  // namespace

memory_plan plan_checkmate(const problem& p) {
  checkmate_planner r(p);
  return plan_within(p, packers::searched, "checkmate", [&](byte_count room) { return r.plan(room); });
}

}  // namespace um
