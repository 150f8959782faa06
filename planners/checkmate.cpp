#include <algorithm>
#include <optional>

#include "planners/feature_maps.hpp"
#include "planners/planners.hpp"
#include "planners/within.hpp"

namespace um {
namespace {

// `held`: stays once it is back; `dropped`: is computed again for whoever needs it.
enum class retention : std::uint8_t { keep, held, dropped };

class rematerializing {
 public:
  explicit rematerializing(const problem& p)
      : p_(p),
        labelling_(p),
        builder_(p.network, labelling_.uses(), labelling_.gaps()),
        nothing_staged_(p.network.tensors.size()) {}

  memory_plan plan(byte_count room) {
    room_ = room;
    if (const byte_count least = least_need(); least > room)
      throw infeasible(too_small(p_, "checkmate", least));
    ways_.assign(labelling_.maps().size(), retention::keep);
    now_ = evaluate(ways_);
    while (now_.over > 0) {
      if (!lower_peak()) throw infeasible(too_small(p_, "checkmate", now_.peak));
    }
    restore_what_fits();
    return labelling_.plan(decisions_for(ways_));
  }

 private:
  struct evaluation {
    byte_count peak = 0;
    nanoseconds time = 0;  // nothing moves: of the computes, one after the other
    double over = 0;       // bytes beyond the room, summed over positions
    position at = 0;       // the position at the peak
  };

  std::vector<decision> decisions_for(const std::vector<retention>& ways) const {
    std::vector<decision> all(labelling_.gaps().size());
    for (std::size_t m = 0; m < ways.size(); ++m) {
      const gap& e = labelling_.gaps()[labelling_.maps()[m].gap];
      if (ways[m] == retention::keep) continue;
      all[labelling_.maps()[m].gap] = {gap_choice::recompute, e.last_use,
                                       ways[m] == retention::held ? e.last_use : e.next_use};
    }
    return all;
  }

  evaluation evaluate(const std::vector<retention>& ways) {
    const std::vector<decision> decisions = decisions_for(ways);
    const std::span<const event> events = builder_.build(decisions, nothing_staged_);
    evaluation e;
    e.peak = labelling_.costs().forecast_memory(events, nothing_staged_).peak;
    for (const event& x : events)
      e.time += x.kind == event_kind::compute ? labelling_.costs().compute_time(x) : 0;
    const std::vector<byte_count> live =
        live_at_positions(labelling_.uses(), events, labelling_.costs().live_bytes());
    e.at = static_cast<position>(std::ranges::max_element(live) - live.begin());
    for (const byte_count l : live) e.over += l > room_ ? static_cast<double>(l - room_) : 0;
    return e;
  }

  // What no recomputation gives up: at each position what it touches, and what is used before and behind it
  // and cannot be recomputed. An output that is computed in place of an input takes no room of its own.
  byte_count least_need() const {
    const use_table& uses = labelling_.uses();
    std::vector<byte_count> change(uses.order.size() + 1, 0);  // what each position adds, modulo 2^64
    const auto add = [&](position begin, position end, byte_count bytes) {
      change[static_cast<std::size_t>(begin)] += bytes;
      change[static_cast<std::size_t>(end)] -= bytes;
    };
    const auto stays = [&](part_id x) { return persists(p_.network.tensors[uses.parts[x].tensor].role); };
    for (part_id x = 0; x < uses.parts.size(); ++x) {
      if (stays(x)) add(0, uses.end(), uses.parts[x].bytes);
    }
    for (const gap& e : labelling_.gaps()) {
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
    retention how = retention::held;
    double worth = 0;
  };

  // Of what is given up at the peak, that which costs the least time for what it does to the whole.
  bool lower_peak() {
    std::vector<candidate> all;
    for (std::size_t m = 0; m < ways_.size(); ++m) {
      const feature_map& f = labelling_.maps()[m];
      const gap& e = labelling_.gaps()[f.gap];
      if (!f.again || e.last_use >= now_.at || now_.at >= e.next_use) continue;
      const double worth = static_cast<double>(f.bytes) /
                           static_cast<double>(labelling_.costs().recompute_time(e.producer) + 1000);
      for (const retention how : {retention::held, retention::dropped}) {
        if (how > ways_[m]) all.push_back({m, how, how == retention::held ? worth : worth * 0.9});
      }
    }
    std::ranges::stable_sort(all, std::ranges::greater{}, &candidate::worth);
    constexpr std::size_t tried_at_once = 4;
    std::optional<std::pair<candidate, evaluation>> best;
    double most = 0;
    for (std::size_t i = 0; i < all.size() && (i < tried_at_once || !best); ++i) {
      std::vector<retention> changed = ways_;
      changed[all[i].map] = all[i].how;
      const evaluation e = evaluate(changed);
      const double gain =
          (now_.over - e.over) / static_cast<double>(std::max<nanoseconds>(e.time - now_.time, 1000));
      if (gain <= most) continue;
      most = gain;
      best = {all[i], e};
    }
    if (!best) return false;
    ways_[best->first.map] = best->first.how;
    now_ = best->second;
    return true;
  }

  // Keeps again what was given up early and fits now, the longest to recompute first.
  void restore_what_fits() {
    std::vector<std::size_t> given_up;
    for (std::size_t m = 0; m < ways_.size(); ++m) {
      if (ways_[m] != retention::keep) given_up.push_back(m);
    }
    const auto time = [&](std::size_t m) {
      return labelling_.costs().recompute_time(labelling_.gaps()[labelling_.maps()[m].gap].producer);
    };
    std::ranges::stable_sort(given_up, std::ranges::greater{}, time);
    for (const std::size_t m : given_up) {
      for (const retention how : {retention::keep, retention::held}) {
        std::vector<retention> changed = ways_;
        changed[m] = how;
        const evaluation e = evaluate(changed);
        if (e.over > 0 || e.time >= now_.time) continue;
        ways_ = std::move(changed);
        now_ = e;
        break;
      }
    }
  }

  const problem& p_;
  labelling labelling_;
  event_builder builder_;
  std::vector<bool> nothing_staged_;  // per tensor
  byte_count room_ = 0;
  std::vector<retention> ways_;
  evaluation now_;
};

}  // namespace

memory_plan plan_checkmate(const problem& p) {
  rematerializing r(p);
  return plan_within(p, packers::searched, "checkmate", [&](byte_count room) { return r.plan(room); });
}

}  // namespace um
