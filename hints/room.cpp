#include "hints/room.hpp"

#include <algorithm>
#include <limits>
#include <optional>
#include <string>

namespace um {
namespace {

constexpr int most_rounds = 8;

// Invariants: `resident_` is what the actions in `done_` make of it; `now_` is the next compute.
class room_maker {
 public:
  room_maker(const problem& p, const memory_plan& draft, const placement& at, const room_rules& rules)
      : g_(p.network),
        draft_(draft),
        rules_(rules),
        placement_(at),
        parts_(leaving_parts_of(p, draft, at, rules.part_bytes)),
        resident_(g_, draft, at, parts_, rules),
        spared_(resident_.ledger().size()),
        wanted_(resident_.ledger().size()),
        limit_(at.blocks_within(p.budget)),
        capacity_(at.blocks_within(p.budget - std::min(p.budget, rules.reserve_bytes))) {}

  // Repeats the iteration until its evictions repeat, that is, until it is in its steady state.
  memory_plan run() {
    std::vector<action> before;
    for (int round = 0;; ++round) {
      const block_ledger start = resident_.ledger();
      run_iteration();
      if (done_ == before) break;
      if (round + 1 == most_rounds) {
        give_back_beyond(start);
        break;
      }
      before = done_;
    }
    return {draft_.home, std::move(done_)};
  }

 private:
  void run_iteration() {
    done_.clear();
    resident_.begin_iteration();
    now_ = 0;
    for (const action& a : draft_.actions) {
      const auto* const f = std::get_if<prefetch>(&a);
      if (f != nullptr && !may_prefetch(*f)) continue;
      if (std::holds_alternative<compute>(a)) prepare();
      apply(a);
      if (std::holds_alternative<compute>(a)) ++now_;
    }
    send_home();
  }

  void apply(const action& a) {
    resident_.apply(a, now_);
    done_.push_back(a);
  }

  const std::vector<managed_operand>& operands_at(position at) const {
    return parts_.of_position[static_cast<std::size_t>(at)];
  }
  const op& op_now() const { return g_.ops[parts_.order[static_cast<std::size_t>(now_)].what]; }
  bool is_managed(tensor_id t) const { return um::is_managed(draft_.home[t]); }

  // --- before a compute ---

  // What it lacks is fetched for it, or it brings it in by itself.
  void prepare() {
    const std::vector<managed_operand>& operands = operands_at(now_);
    std::vector<prefetch> fetches;
    wanted_.clear();
    for (const managed_operand& o : operands) {
      for (const range& r : o.touched) wanted_.add(r);
      for (std::size_t x = o.begin; x < o.end; ++x) {
        if (!is_fetched(parts_.parts[x])) continue;
        fetches.push_back({o.what, parts_.parts[x].part});
        wanted_.add(parts_.parts[x].place);
      }
    }
    spare(now_, now_);
    for (const tensor_id t : under_way_) spared_.add(placement_.managed.range_of(t, {}));
    if (!make_room()) {
      spare(now_, now_);
      if (!make_room()) refuse();
    }
    std::erase_if(under_way_, [&](tensor_id t) {
      return std::ranges::find(operands, t, &managed_operand::what) != operands.end();
    });
    for (const prefetch& f : fetches) apply(f);
  }

  // Whether to fetch data that is not on the device, or to populate memory that is written first.
  bool is_fetched(const leaving_part& x) const {
    const tensor& t = g_.tensors[x.what];
    if (bytes_of(t) < managed_block) return false;
    const bool first = !persists(t.use) && x.uses.front() == now_;
    const bool fetches = rules_.fetch || draft_.home[x.what] == residence::twinned;
    if (first ? !rules_.populate || is_in_place(x.what) : !fetches) return false;
    return !resident_.ledger().is_filled(x.place);
  }

  // In-place operator: the output takes the address of an input, which is on the device.
  bool is_in_place(tensor_id t) const {
    const op& o = op_now();
    if (!o.alias || o.out[o.alias->output] != t) return false;
    const tensor_id from = o.in[o.alias->input];
    return is_managed(from) && placement_.managed.offset_of(from) == placement_.managed.offset_of(t);
  }

  // --- prefetches of the draft ---

  // Refuses a prefetch of data that would be evicted again before its use.
  bool may_prefetch(const prefetch& f) {
    const std::optional<position> use = next_touch(f.what);
    if (!use) return false;
    wanted_.clear();
    wanted_.add(placement_.managed.range_of(f.what, f.part));
    if (is_of_twins(f.what) || spare(now_, *use) > capacity_ || !make_room()) return false;
    under_way_.push_back(f.what);
    return true;
  }

  // What is wanted of a tensor that nobody has touched yet may be another's room until then. Where one of the
  // two is twinned, only prepare() gives it: for the other one it would be there, and its value not.
  bool is_of_twins(tensor_id t) const {
    const block_ledger& ledger = resident_.ledger();
    const auto is_twinned = [&](tensor_id x) { return draft_.home[x] == residence::twinned; };
    if (ledger.was_touched(t) || persists(g_.tensors[t].use)) return false;
    return is_twinned(t) || std::ranges::any_of(wanted_.members(), [&](std::size_t b) {
             return ledger.owner(b) != block_ledger::no_owner && is_twinned(ledger.owner(b));
           });
  }

  std::optional<position> next_touch(tensor_id t) const {
    std::optional<position> next;
    for (std::size_t x = parts_.first_of_tensor[t]; x < parts_.first_of_tensor[t + 1]; ++x) {
      const auto at = std::ranges::lower_bound(parts_.parts[x].uses, now_);
      if (at != parts_.parts[x].uses.end()) next = std::min(next.value_or(*at), *at);
    }
    return next;
  }

  // --- room ---

  // Spares what the computes from `first` to `last` touch; how many blocks that is.
  std::uint64_t spare(position first, position last) {
    spared_.clear();
    for (position at = first; at <= last; ++at) {
      for (const managed_operand& o : operands_at(at)) {
        for (std::size_t x = o.begin; x < o.end; ++x) spared_.add(parts_.parts[x].place);
      }
    }
    return spared_.members().size();
  }

  // Gives up parts until what is wanted has room. False, and nothing given up, if that cannot be. What is
  // reserved is for what comes early; what is wanted now may use it in the end.
  bool make_room() {
    const auto victims = resident_.victims(now_, wanted_, spared_, capacity_, limit_);
    if (!victims) return false;
    for (const std::size_t x : *victims) apply(resident_.departure(parts_.parts[x], now_));
    return true;
  }

  [[noreturn]] void refuse() const {
    const std::uint64_t wanted = wanted_.members().size();
    throw infeasible("operator " + op_now().name + " touches " + to_text(wanted * managed_block) +
                     " of managed memory at once, the budget leaves " + to_text(limit_ * managed_block) +
                     (wanted > limit_ ? "; in mode capped an operator cannot be evicted from within"
                                      : ", and what else lies there cannot all leave"));
  }

  // --- the end of an iteration ---

  // Twinned tensors that persist end an iteration where they begin it.
  void send_home() {
    for (const leaving_part& x : parts_.parts) {
      if (draft_.home[x.what] != residence::twinned || !survives(g_.tensors[x.what].use)) continue;
      if (resident_.is_here(x)) apply(resident_.departure(x, now_));
    }
  }

  // Evicts what the iteration leaves resident beyond what it was planned to start with.
  void give_back_beyond(const block_ledger& start) {
    for (const leaving_part& x : parts_.parts) {
      const auto [begin, end] = blocks_of(x.place);
      bool is_new = false;
      for (std::size_t b = begin; b < end; ++b) {
        const block_ledger& now = resident_.ledger();
        is_new = is_new || (now.is_resident(b) && now.owner(b) == x.what && !start.is_resident(b));
      }
      if (is_new) apply(resident_.departure(x, now_));
    }
  }

  const graph& g_;
  const memory_plan& draft_;
  const room_rules& rules_;
  const placement& placement_;
  const leaving_parts parts_;
  resident_parts resident_;
  block_set spared_, wanted_;
  std::vector<tensor_id> under_way_;  // prefetched, and not used yet
  std::vector<action> done_;
  position now_ = 0;
  std::uint64_t limit_, capacity_;  // blocks: that there are, and without the reserve
};

}  // namespace

placement placement_of_draft(const problem& p, const memory_plan& draft, packer how) {
  memory_plan on_demand = draft;
  std::ranges::replace(on_demand.home, residence::twinned, residence::managed);
  return {p, on_demand, how};
}

memory_plan make_room(const problem& p, const memory_plan& draft, const placement& at,
                      const room_rules& rules) {
  if (at.addresses.device_bytes > p.budget) {
    throw infeasible("workspaces need " + to_text(at.addresses.device_bytes) + ", the budget is " +
                     to_text(p.budget));
  }
  return room_maker(p, draft, at, rules).run();
}

}  // namespace um
