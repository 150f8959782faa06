// The best plan that a search finds: keep, swap or compute again for every tensor, and how to cut the batch.
#include <algorithm>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <tuple>

#include "core/layout.hpp"
#include "core/lower.hpp"
#include "planners/planners.hpp"
#include "schedule/orders.hpp"
#include "schedule/transfers.hpp"
#include "simulator/simulate.hpp"

namespace um {
namespace {

// What may be decided for a gap. `held`: stays once it was computed again; `in_time`: not before its use.
enum class way : std::uint8_t { keep, swap, swap_in_time, again, again_held };

// Gaps of the parts of one tensor between the same two operators: they are decided alike.
struct gap_class {
  std::vector<std::uint32_t> gaps;
  byte_count bytes = 0;  // of its largest part
  bool again = false;
};

std::vector<gap_class> classes_of(const use_table& uses, const std::vector<gap>& gaps) {
  std::map<std::tuple<tensor_id, std::int64_t, std::int64_t>, std::size_t> index;
  std::vector<gap_class> all;
  const auto op_at = [&](position at) {
    return at < 0 || at >= uses.end() ? -1 : std::int64_t{uses.order[static_cast<std::size_t>(at)].what};
  };
  for (std::uint32_t x = 0; x < gaps.size(); ++x) {
    const gap& e = gaps[x];
    const auto [at, fresh] =
        index.try_emplace({uses.parts[e.part].what, op_at(e.last), op_at(e.next)}, all.size());
    if (fresh) all.push_back({{}, 0, true});
    gap_class& c = all[at->second];
    c.gaps.push_back(x);
    c.bytes = std::max(c.bytes, uses.parts[e.part].bytes);
    c.again = c.again && e.again;
  }
  return all;
}

// In events looked at, about 15 million a second: deciding anew where nothing is decided; one of several ways
// to cut the batch; the best of them.
constexpr std::size_t most_work_for_a_start = 12'000'000, work_for_each = 2'000'000,
                      work_for_best = 16'000'000;

struct evaluation {
  prediction said;
  double over = 0;  // bytes beyond the budget, summed over events
  position at = 0;  // the position at the peak
};

// Decisions for one order.
class deciding {
 public:
  deciding(const problem& p, std::vector<compute> order, byte_count budget, std::size_t work)
      : p_(p),
        uses_(uses_of(p.network, std::move(order))),
        gaps_(gaps_of(p.network, uses_)),
        classes_(classes_of(uses_, gaps_)),
        forecast_(p, uses_),
        links_(p.on.link_to_device_bytes_per_s > 0 && p.on.link_to_host_bytes_per_s > 0),
        budget_(budget),
        left_(work),
        ways_(classes_.size(), way::keep) {}

  // Whether it fits in the end.
  bool decide() {
    std::optional<std::pair<std::vector<way>, evaluation>> best;
    const std::size_t work = left_;
    const byte_count budget = budget_;
    for (const start& s : {start{true, 100}, start{false, 100}, start{true, 85}, start{true, 72}}) {
      left_ = most_work_for_a_start;
      moves_ = s.moves && links_;
      budget_ = budget / 100 * s.percent;
      ways_.assign(classes_.size(), way::keep);
      now_ = evaluate(ways_);
      const bool fits = make_room();
      budget_ = budget;
      now_ = evaluate(ways_);
      if (!fits && now_.over > 0) continue;
      left_ = work / 4;
      improve_one_by_one();
      if (!best || now_.said.time < best->second.said.time) best = {ways_, now_};
    }
    left_ = work / 2;
    if (!best) return false;
    moves_ = links_;
    std::tie(ways_, now_) = *best;
    improve_by_parts();
    return true;
  }

  nanoseconds time() const { return now_.said.time; }
  bool moves() const { return links_; }
  memory_plan plan() const { return plan_of(p_.network, uses_, gaps_, decisions_for(ways_)); }
  nanoseconds computing() const {
    nanoseconds sum = 0;
    for (position at = 0; at < uses_.end(); ++at) sum += forecast_.time_of(at);
    return sum;
  }

 private:
  // A first set of decisions: with swaps or without, for all of the budget or less.
  struct start {
    bool moves = true;
    byte_count percent = 100;
  };

  std::vector<decision> decisions_for(const std::vector<way>& ways) const {
    std::vector<decision> all(gaps_.size());
    std::vector<bool> in_time(gaps_.size(), false);
    bool swaps = false;
    for (std::size_t c = 0; c < classes_.size(); ++c) {
      if (ways[c] == way::keep) continue;
      for (const std::uint32_t x : classes_[c].gaps) {
        if (ways[c] == way::swap || ways[c] == way::swap_in_time) {
          all[x].what = choice::swap;
          in_time[x] = ways[c] == way::swap_in_time;
          swaps = true;
        } else {
          all[x] = {choice::again, gaps_[x].last, ways[c] == way::again ? gaps_[x].next : gaps_[x].last};
        }
      }
    }
    if (swaps) place_transfers(forecast_, uses_, gaps_, in_time, all);
    return all;
  }

  evaluation evaluate(const std::vector<way>& ways) {
    const std::vector<decision> decisions = decisions_for(ways);
    const std::vector<event> events = events_of(p_.network, uses_, gaps_, decisions);
    left_ -= std::min(left_, events.size());
    evaluation e;
    e.said = forecast_.of(events, staged_tensors(uses_, gaps_, decisions));
    for (const byte_count live : forecast_.live()) {
      if (live > budget_) e.over += static_cast<double>(live - budget_);
    }
    // What is computed again at the peak counts as the compute that it is for.
    std::vector<bool> done(uses_.order.size(), false);
    for (std::uint32_t i = 0; i < events.size(); ++i) {
      if (events[i].what != verb::compute) continue;
      const bool first = !done[events[i].which];
      done[events[i].which] = true;
      if (first) e.at = static_cast<position>(events[i].which);
      if (i >= e.said.at && first) break;
    }
    return e;
  }

  // --- room where memory peaks ---

  struct candidate {
    std::size_t which = 0;
    way how = way::keep;
    double worth = 0;
  };

  bool covers(const gap_class& c, position at) const {
    return std::ranges::any_of(c.gaps,
                               [&](std::uint32_t x) { return gaps_[x].last < at && at < gaps_[x].next; });
  }

  nanoseconds time_again(const gap_class& c) const {
    nanoseconds sum = 0;
    for (const std::uint32_t x : c.gaps) sum += forecast_.time_of(gaps_[x].producer);
    return sum;
  }
  nanoseconds time_moving(const gap_class& c) const {
    nanoseconds sum = 0;
    for (const std::uint32_t x : c.gaps) {
      sum += gaps_[x].next < uses_.end() ? forecast_.time_of_copy(c.bytes, lane::to_device) : 0;
      sum += gaps_[x].at_home ? 0 : forecast_.time_of_copy(c.bytes, lane::to_host);
    }
    return sum;
  }

  // Among decisions that are about as good any may be taken, where it is not the first try.
  double noise() { return varies_ ? 0.3 + static_cast<double>(dice_() % 1000) / 700 : 1; }

  std::vector<candidate> candidates() {
    std::vector<candidate> all;
    for (std::size_t c = 0; c < classes_.size(); ++c) {
      const gap_class& x = classes_[c];
      if (!covers(x, now_.at)) continue;
      const double luck = noise();
      const auto worth = [&](nanoseconds time) {
        return static_cast<double>(x.bytes) / static_cast<double>(time + 1000) * luck;
      };
      if (x.again && (ways_[c] != way::again)) {
        all.push_back({c, way::again, worth(time_again(x))});
        if (ways_[c] != way::again_held) all.push_back({c, way::again_held, 0.9 * worth(time_again(x))});
      }
      if (!moves_) continue;
      if (ways_[c] == way::keep) all.push_back({c, way::swap, worth(time_moving(x) / 4)});
      if (ways_[c] == way::keep || ways_[c] == way::swap)
        all.push_back({c, way::swap_in_time, worth(time_moving(x) / 2)});
    }
    std::ranges::stable_sort(all, std::ranges::greater{}, &candidate::worth);
    return all;
  }

  bool make_room() {
    while (now_.over > 0) {
      if (left_ == 0 || !lower_peak()) return false;
    }
    return true;
  }

  // Of what would make room at the peak, that which costs the least time for what it does to the whole.
  bool lower_peak() {
    const std::size_t tried_at_once = varies_ ? 8 : 10;
    const std::vector<candidate> all = candidates();
    std::optional<std::pair<candidate, evaluation>> best;
    double most = 0;
    for (std::size_t i = 0; i < all.size() && (i < tried_at_once || !best); ++i) {
      std::vector<way> changed = ways_;
      changed[all[i].which] = all[i].how;
      const evaluation e = evaluate(changed);
      const double gain = now_.over - e.over;
      if (gain <= 0) continue;
      const auto cost =
          static_cast<double>(std::max<nanoseconds>(e.said.time - now_.said.time, now_.said.time / 20'000));
      const double worth = gain / cost * noise();
      if (worth <= most) continue;
      most = worth;
      best = {all[i], e};
    }
    if (!best) return false;
    ways_[best->first.which] = best->first.how;
    now_ = best->second;
    return true;
  }

  // --- less time ---

  bool is_better(const evaluation& e) const {
    if (e.over > 0) return false;
    if (e.said.time != now_.said.time) return e.said.time < now_.said.time;
    return e.said.to_device + e.said.to_host < now_.said.to_device + now_.said.to_host;
  }

  bool take_if_better(std::vector<way> changed) {
    const evaluation e = evaluate(changed);
    if (!is_better(e)) return false;
    ways_ = std::move(changed);
    now_ = e;
    return true;
  }

  // One class after the other, as long as something gets better and work is left.
  void improve_one_by_one() {
    for (bool better = true; better && left_ > 0;) {
      better = false;
      for (std::size_t c = 0; c < classes_.size() && left_ > 0; ++c) {
        if (classes_[c].bytes < budget_ / 2000) continue;
        for (const way how : {way::keep, way::swap, way::swap_in_time, way::again, way::again_held}) {
          const bool again = how == way::again || how == way::again_held;
          if (how == ways_[c] || (again && !classes_[c].again) || (!again && how != way::keep && !moves_))
            continue;
          if (left_ == 0) return;
          std::vector<way> changed = ways_;
          changed[c] = how;
          better = take_if_better(std::move(changed)) || better;
        }
      }
    }
  }

  // Forgets some decisions and makes room anew; keeps what takes less time (large neighbourhood search, Shaw
  // 1998). The dice start alike.
  void improve_by_parts() {
    varies_ = true;
    const nanoseconds least = computing();
    constexpr int most_in_vain = 150;
    for (int in_vain = 0; left_ > 0 && in_vain < most_in_vain && now_.said.time > least; ++in_vain) {
      std::vector<std::size_t> decided;
      for (std::size_t c = 0; c < ways_.size(); ++c) {
        if (ways_[c] != way::keep) decided.push_back(c);
      }
      if (decided.empty()) return;
      const std::vector<way> ways = ways_;
      const evaluation before = now_;
      const std::size_t count = 1 + dice_() % std::max<std::size_t>(1, decided.size() / 6);
      const bool neighbours = dice_() % 2 == 0;
      const std::size_t first = dice_() % decided.size();
      for (std::size_t i = 0; i < count; ++i)
        ways_[decided[(neighbours ? first + i : dice_()) % decided.size()]] = way::keep;
      moves_ = links_ && dice_() % 2 == 0;
      now_ = evaluate(ways_);
      if (make_room() && now_.said.time < before.said.time) {
        in_vain = 0;
        continue;
      }
      ways_ = ways;
      now_ = before;
    }
  }

  const problem& p_;
  use_table uses_;
  std::vector<gap> gaps_;
  std::vector<gap_class> classes_;
  forecaster forecast_;
  bool links_;  // the machine has some: else nothing moves
  byte_count budget_;
  std::size_t left_;  // events that may still be looked at
  std::vector<way> ways_;
  evaluation now_;
  bool moves_ = true;  // whether swaps may be decided
  bool varies_ = false;
  std::mt19937 dice_{1};  // NOLINT(cert-msc51-cpp): repeatable on purpose
};

struct found {
  memory_plan plan;
  nanoseconds time = 0;
};

// Decides for an order, packs, and decides again for less where packing needs more.
std::optional<found> plan_with(const problem& p, const loops& l, nanoseconds to_beat, std::size_t work) {
  problem unlimited = p;
  unlimited.budget = std::numeric_limits<byte_count>::max();
  byte_count aim = p.budget;
  for (byte_count tries = 1; tries <= 5; ++tries) {
    deciding d(p, order_of(p.network, l), aim, work);
    if (d.computing() >= to_beat || !d.decide() || d.time() >= to_beat) return std::nullopt;
    memory_plan plan = d.plan();
    const execution_plan steps = lower(unlimited, plan, packers::searched);
    const byte_count arena = steps.device_arena_bytes;
    // The simulator asks for the link's rates even where nothing moves.
    const nanoseconds took = d.moves() ? simulate(p, steps, 1).front().duration : d.time();
    if (arena <= p.budget) return took < to_beat ? std::optional(found{std::move(plan), took}) : std::nullopt;
    aim -= std::min(aim, (arena - p.budget) * tries + p.budget / 500);
  }
  return std::nullopt;
}

// What another planner makes of the same problem, if it can.
std::optional<found> plan_by(memory_plan (*other)(const problem&), const problem& p) {
  try {
    memory_plan plan = other(p);
    const nanoseconds time = simulate(p, lower(p, plan, packers::searched), 1).front().duration;
    return found{std::move(plan), time};
  } catch (const infeasible&) {
    return std::nullopt;
  }
}

}  // namespace

memory_plan plan_best(const problem& p) {
  memory_plan resident = plan_resident(p);
  if (footprint_of(p.network, p.costs).total <= p.budget) return resident;
  const bool same_bits = p.knobs.at("bits") == 1;
  std::optional<found> best;
  loops chosen;
  const auto consider = [&](const loops& l, std::size_t work) {
    auto next = plan_with(p, l, best ? best->time : std::numeric_limits<nanoseconds>::max(), work);
    if (!next) return;
    best = std::move(next);
    chosen = l;
  };
  const std::vector<op_id> late = large_gradients(p.network);
  consider({1, {}, late}, work_for_each);
  std::string why;
  for (const std::uint32_t k : {2U, 3U, 4U, 6U, 8U, 12U, 16U, 24U, 32U}) {
    if (same_bits) break;
    if (batch_of(p.network) % k != 0) continue;
    try {
      consider({k, {}, late}, work_for_each);
    } catch (const infeasible& refused) {
      why = std::string("; ") + refused.what();
      break;
    }
  }
  if (best) consider(chosen, work_for_best);
  // Its greedy choice of what to compute again sometimes ends lower than the search does.
  auto recomputed = plan_by(plan_checkmate, p);
  if (recomputed && (!best || recomputed->time < best->time)) best = std::move(recomputed);
  if (!best) {
    throw infeasible("best finds no plan within " + to_text(p.budget) + " of the " +
                     to_text(footprint_of(p.network, p.costs).total) + " that everything takes" + why);
  }
  return std::move(best->plan);
}

}  // namespace um
