#include "hints/make_room.hpp"

#include <algorithm>
#include <optional>

namespace um {
namespace {

constexpr int most_rounds = 8;

// Invariants: `resident_` is the state after `actions_`; `position_` is the next compute.
class eviction_planner {
 public:
  eviction_planner(const problem& p, const memory_plan& draft, const placement& at,
                   const eviction_options& rules)
      : graph_(p.network),
        draft_(draft),
        rules_(rules),
        placement_(at),
        parts_(find_evictable_parts(p, draft, at, rules.part_bytes)),
        resident_(graph_, draft, at, parts_, rules),
        spared_blocks_(resident_.ledger().block_count()),
        wanted_blocks_(resident_.ledger().block_count()),
        block_limit_(at.managed_blocks_within(p.budget)),
        blocks_without_reserve_(
            at.managed_blocks_within(p.budget - std::min(p.budget, rules.reserve_bytes))) {}

  // Repeats the iteration until its evictions no longer change: the steady state.
  memory_plan plan_steady_iteration() {
    std::vector<action> before;
    for (int round = 0;; ++round) {
      const block_ledger start = resident_.ledger();
      plan_iteration();
      if (actions_ == before) break;
      if (round + 1 == most_rounds) {
        evict_newly_resident(start);
        break;
      }
      before = actions_;
    }
    return {draft_.residences, std::move(actions_)};
  }

 private:
  void plan_iteration() {
    actions_.clear();
    resident_.begin_iteration();
    position_ = 0;
    for (const action& a : draft_.actions) {
      const auto* const f = std::get_if<prefetch>(&a);
      if (f != nullptr && !make_room_for_prefetch(*f)) continue;
      if (std::holds_alternative<compute>(a)) prepare_compute();
      apply(a);
      if (std::holds_alternative<compute>(a)) ++position_;
    }
    evict_persistent_twins();
  }

  void apply(const action& a) {
    resident_.apply(a, position_);
    actions_.push_back(a);
  }

  const std::vector<managed_operand>& operands_at(position at) const {
    return parts_.operands[static_cast<std::size_t>(at)];
  }
  const op& current_op() const { return graph_.ops[parts_.order[static_cast<std::size_t>(position_)].op]; }
  bool is_managed(tensor_id t) const { return um::is_managed(draft_.residences[t]); }

  // --- before a compute ---

  // Evicts parts for the operands of the next compute, and prefetches missing ones if the options say so.
  void prepare_compute() {
    const std::vector<managed_operand>& operands = operands_at(position_);
    std::vector<prefetch> fetches;
    wanted_blocks_.clear();
    for (const managed_operand& o : operands) {
      for (const range& r : o.touched_ranges) wanted_blocks_.add(r);
      for (std::size_t x = o.part_begin; x < o.part_end; ++x) {
        if (!needs_fetch(parts_.parts[x])) continue;
        fetches.push_back({o.tensor, parts_.parts[x].region});
        wanted_blocks_.add(parts_.parts[x].address_range);
      }
    }
    protect_operands(position_, position_);
    for (const tensor_id t : pending_prefetches_) spared_blocks_.add(placement_.managed.range_of(t, {}));
    if (!evict_for_wanted_blocks()) {
      protect_operands(position_, position_);
      if (!evict_for_wanted_blocks()) throw_no_room();
    }
    std::erase_if(pending_prefetches_, [&](tensor_id t) {
      return std::ranges::find(operands, t, &managed_operand::tensor) != operands.end();
    });
    for (const prefetch& f : fetches) apply(f);
  }

  // Whether to prefetch data that is not on the device, or to populate memory before its first write.
  bool needs_fetch(const evictable_part& x) const {
    const tensor& t = graph_.tensors[x.tensor];
    if (!is_block_sized(t)) return false;
    const bool first = !persists(t.role) && x.uses.front() == position_;
    const bool fetches = rules_.prefetch_inputs || draft_.residences[x.tensor] == residence::twinned;
    if (first ? !rules_.populate_outputs || is_in_place_output(x.tensor) : !fetches) return false;
    return !resident_.ledger().is_fully_resident(x.address_range);
  }

  // Whether the tensor is an in-place output: it has the address of an input, which is on the device.
  bool is_in_place_output(tensor_id t) const {
    const op& o = current_op();
    if (!o.alias || o.out[o.alias->output] != t) return false;
    const tensor_id from = o.in[o.alias->input];
    return is_managed(from) && placement_.managed.offset_of(from) == placement_.managed.offset_of(t);
  }

  // --- prefetches of the draft ---

  // Evicts for a prefetch of the draft. Returns whether it is kept: not if its data would be evicted again
  // before its use.
  bool make_room_for_prefetch(const prefetch& f) {
    const std::optional<position> use = next_touch(f.tensor);
    if (!use) return false;
    wanted_blocks_.clear();
    wanted_blocks_.add(placement_.managed.range_of(f.tensor, f.part));
    if (conflicts_with_twin(f.tensor) || protect_operands(position_, *use) > blocks_without_reserve_ ||
        !evict_for_wanted_blocks())
      return false;
    pending_prefetches_.push_back(f.tensor);
    return true;
  }

  // Whether a prefetch of an untouched tensor would take memory that still belongs to another tensor while
  // one of the two is twinned. Only prepare_compute() may take it over then: an earlier prefetch would make
  // the other tensor resident without its value.
  bool conflicts_with_twin(tensor_id t) const {
    const block_ledger& ledger = resident_.ledger();
    const auto is_twinned = [&](tensor_id x) { return draft_.residences[x] == residence::twinned; };
    if (ledger.was_touched(t) || persists(graph_.tensors[t].role)) return false;
    return is_twinned(t) || std::ranges::any_of(wanted_blocks_.members(), [&](std::size_t b) {
             return ledger.owner(b) != block_ledger::no_owner && is_twinned(ledger.owner(b));
           });
  }

  std::optional<position> next_touch(tensor_id t) const {
    std::optional<position> next;
    for (std::size_t x = parts_.first_part[t]; x < parts_.first_part[t + 1]; ++x) {
      const auto at = std::ranges::lower_bound(parts_.parts[x].uses, position_);
      if (at != parts_.parts[x].uses.end()) next = std::min(next.value_or(*at), *at);
    }
    return next;
  }

  // --- evictions ---

  // Protects the operands of computes `first` to `last` from eviction. Returns their number of blocks.
  std::uint64_t protect_operands(position first, position last) {
    spared_blocks_.clear();
    for (position at = first; at <= last; ++at) {
      for (const managed_operand& o : operands_at(at)) {
        for (std::size_t x = o.part_begin; x < o.part_end; ++x)
          spared_blocks_.add(parts_.parts[x].address_range);
      }
    }
    return spared_blocks_.members().size();
  }

  // Evicts parts until the wanted blocks have room. Returns false, and evicts nothing, if that is impossible.
  // The reserve is for early prefetches; the operands of the next compute may use it if necessary.
  bool evict_for_wanted_blocks() {
    const auto victims = resident_.choose_victims(position_, wanted_blocks_, spared_blocks_,
                                                  blocks_without_reserve_, block_limit_);
    if (!victims) return false;
    for (const std::size_t x : *victims) apply(resident_.eviction_of(parts_.parts[x], position_));
    return true;
  }

  [[noreturn]] void throw_no_room() const {
    const std::uint64_t wanted = wanted_blocks_.members().size();
    const std::string why = "operator " + current_op().name + " touches " + to_text(wanted * managed_block) +
                            " of managed memory at once, the budget leaves " +
                            to_text(block_limit_ * managed_block);
    if (wanted > block_limit_)
      throw operands_too_large(why + "; in mode capped an operator cannot be evicted from within");
    throw infeasible(why + ", and what else lies there cannot all leave");
  }

  // --- the end of an iteration ---

  // Evicts twinned tensors that persist: they must be on the host when an iteration ends.
  void evict_persistent_twins() {
    for (const evictable_part& x : parts_.parts) {
      if (draft_.residences[x.tensor] != residence::twinned || !survives(graph_.tensors[x.tensor].role))
        continue;
      if (resident_.is_resident(x)) apply(resident_.eviction_of(x, position_));
    }
  }

  // Evicts parts that the iteration leaves resident and that were not resident at its start.
  void evict_newly_resident(const block_ledger& start) {
    for (const evictable_part& x : parts_.parts) {
      const auto [begin, end] = blocks_of(x.address_range);
      bool is_new = false;
      for (std::size_t b = begin; b < end; ++b) {
        const block_ledger& now = resident_.ledger();
        is_new = is_new || (now.is_resident(b) && now.owner(b) == x.tensor && !start.is_resident(b));
      }
      if (is_new) apply(resident_.eviction_of(x, position_));
    }
  }

  const graph& graph_;
  const memory_plan& draft_;
  const eviction_options& rules_;
  const placement& placement_;
  const evictable_parts parts_;
  resident_parts resident_;
  block_set spared_blocks_, wanted_blocks_;
  std::vector<tensor_id> pending_prefetches_;  // prefetched but not used yet
  std::vector<action> actions_;
  position position_ = 0;
  std::uint64_t block_limit_,
      blocks_without_reserve_;  // numbers of blocks: in the budget; in the budget without the reserve
};

}  // namespace

placement placement_of_draft(const problem& p, const memory_plan& draft, packer arena_packer) {
  memory_plan on_demand = draft;
  std::ranges::replace(on_demand.residences, residence::twinned, residence::managed);
  return {p, on_demand, arena_packer};
}

memory_plan make_room(const problem& p, const memory_plan& draft, const placement& at,
                      const eviction_options& rules) {
  if (at.addresses.device_bytes > p.budget) {
    throw infeasible("workspaces need " + to_text(at.addresses.device_bytes) + ", the budget is " +
                     to_text(p.budget));
  }
  return eviction_planner(p, draft, at, rules).plan_steady_iteration();
}

}  // namespace um
