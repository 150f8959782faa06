#include "core/lower.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "core/hazards.hpp"
#include "core/managed_map.hpp"
#include "core/memory_plan.hpp"
#include "core/residency.hpp"

namespace um {
namespace {

// Chooses the lane of an action. A discard of managed memory is a call that takes time, so it has a lane.
lane choose_lane(const action& a, const memory_plan& plan) {
  if (std::holds_alternative<prefetch>(a)) return lane::to_device;
  if (std::holds_alternative<evict>(a)) return lane::to_host;
  const auto* const d = std::get_if<discard>(&a);
  return d != nullptr && is_managed(plan.residences[d->tensor]) ? lane::to_host : lane::compute;
}

// Chooses how an action is launched. A launch waits for calls of other threads that move managed memory, so
// one launch per operator is better than one per kernel. Driver calls cannot be recorded in a graph.
launch_method choose_launch(const action& a, bool moves_managed_memory) {
  if (!moves_managed_memory) return launch_method::by_stretch;
  return std::holds_alternative<compute>(a) ? launch_method::as_operator : launch_method::by_call;
}

// Whether the plan, or the driver under pressure, moves managed memory while operators run. Advice is given
// only once.
bool moves_managed_memory(const memory_plan& plan, evictor evicted_by) {
  const auto by_driver = [&](const auto& x) { return is_managed(plan.residences[x.tensor]); };
  return std::ranges::any_of(plan.residences, is_managed) &&
         (evicted_by == evictor::driver || std::ranges::any_of(plan.actions, [&](const action& a) {
            return std::visit(overloaded{[](const compute&) { return false; },
                                         [](const advise&) { return false; }, by_driver},
                              a);
          }));
}

// Whether the step does nothing by itself: the next user of the memory waits for its earlier users.
bool takes_no_time(const step& s) {
  return std::holds_alternative<discard>(s.command) && !is_managed(s.home);
}

void throw_if_over_budget(byte_count budget, byte_count need, const std::string& what) {
  if (need > budget) {
    throw infeasible(what + " needs " + to_text(need) + ", the budget is " + to_text(budget));
  }
}

std::vector<range> ranges_released_by(const step& s) {
  std::vector<range> all = s.populate_or_discard;
  for (const managed_target& m : s.managed_targets) all.push_back(m.device_range);
  return all;
}

byte_count peak_bytes(const layout& at, const residency& used, evictor evicted_by) {
  const byte_count managed =
      evicted_by == evictor::plan ? used.peak_blocks() * managed_block : at.managed_bytes;
  return at.device_bytes + managed;
}

// Lowers a plan action by action.
class plan_lowerer {
 public:
  plan_lowerer(const problem& p, const memory_plan& plan, const placement& placed)
      : p_(p),
        g_(p.network),
        plan_(plan),
        table_(placed.table),
        layout_(placed.addresses),
        managed_(placed.managed),
        homes_(home_addresses_of(g_, plan, table_, layout_)),
        places_(g_, table_, layout_, managed_, homes_, p.target),
        hazards_(table_.strips),
        address_hazards_(table_, layout_, hazards_),
        moves_managed_(moves_managed_memory(plan, p.evicted_by)) {}

  execution_plan lower_all() {
    throw_if_over_budget(p_.budget, layout_.device_bytes, "the device arena");
    residency_ = residency_of(g_, plan_, layout_, managed_);
    for (action_ = 0; action_ < plan_.actions.size(); ++action_)
      steps_.push_back(make_step(plan_.actions[action_]));
    const byte_count peak = peak_bytes(layout_, residency_, p_.evicted_by);
    if (p_.evicted_by != evictor::driver) throw_if_over_budget(p_.budget, peak, "the plan");
    return {std::move(steps_),
            plan_.residences,
            homes_.at_start,
            homes_.at_end,
            layout_.device_bytes,
            layout_.managed_bytes,
            homes_.pinned_bytes,
            peak,
            p_.budget,
            p_.evicted_by,
            layout_.terms};
  }

 private:
  const action_use& current_use() const { return table_.actions[action_]; }

  step make_step(const action& a) {
    step s;
    s.command = a;
    s.in_lane = choose_lane(a, plan_);
    for (; passed_joins_ < plan_.joins.size() && plan_.joins[passed_joins_] <= action_; ++passed_joins_)
      hazards_.join();
    hazards_.begin_step(static_cast<std::int32_t>(action_), s.in_lane);
    s.launch = choose_launch(a, moves_managed_);
    std::visit([&](const auto& x) { lower_action(s, x); }, a);
    const byte_count left = p_.budget - std::min(p_.budget, layout_.device_bytes);
    const std::int32_t giver = residency_.release_to_wait_for(action_, left / managed_block);
    if (giver != no_step) hazards_.wait_for(steps_[static_cast<std::size_t>(giver)].in_lane, giver);
    if (!takes_no_time(s)) s.waits_for = hazards_.awaited_steps();
    s.resident_bytes = std::min(residency_.bytes_in_use(action_), p_.budget);
    return s;
  }

  void lower_action(step& s, const advise& x) {
    s.home = plan_.residences[x.tensor];
    const range whole = managed_.range_of(x.tensor, {});
    if (whole.bytes > 0) s.managed_targets.push_back({whole, 0});
    s.is_needed = !s.managed_targets.empty();
  }

  void lower_action(step& s, const prefetch& x) {
    s.home = plan_.residences[x.tensor];
    if (s.home == residence::staged) {
      copy_staged(s, x.tensor);
    } else {
      s.home == residence::managed ? lower_managed_prefetch(s, x) : lower_twinned_prefetch(s, x);
    }
    const std::vector<std::uint32_t> cells = cells_of(x.tensor, x.part);
    hazards_.read_host_copy(x.tensor, cells);
    hazards_.write(x.tensor, current_use().moved.part.strip, cells);
  }

  void lower_action(step& s, const evict& x) {
    s.home = plan_.residences[x.tensor];
    const std::vector<std::uint32_t> cells = cells_of(x.tensor, x.part);
    if (s.home == residence::managed) {
      const byte_count call = p_.target.uvm.eviction_call_bytes;
      s.call_bytes = call == 0 ? 0 : std::max(call, managed_block);
      s.pause_ns = p_.target.uvm.eviction_gives_way_ns;
      for (const range& r : managed_.owned_ranges(x.tensor, x.part, index()))
        s.managed_targets.push_back({r, 0});
      s.is_needed = !s.managed_targets.empty();
      if (!s.is_needed) return;
      // The pages leave the device: earlier users must have ended, and later users must wait.
      hazards_.write(x.tensor, 0, cells);
      release(s, x.tensor);
    } else if (s.home == residence::twinned) {
      lower_twinned_evict(s, x);
      hazards_.write(x.tensor, 0, cells);
      hazards_.write_host_copy(x.tensor, cells);
    } else {
      s.is_needed = !current_use().cells_to_copy.empty();  // otherwise the host copy is still valid
      if (!s.is_needed) return;
      copy_staged(s, x.tensor);
      hazards_.read(x.tensor, current_use().moved.part.strip, cells);
      hazards_.write_host_copy(x.tensor, cells);
    }
  }

  void lower_action(step& s, const discard& x) {
    s.home = plan_.residences[x.tensor];
    s.is_needed = false;
    if (!is_managed(s.home)) return;
    for (const range& r : managed_.owned_discardable_ranges(x.tensor, x.part, index()))
      s.managed_targets.push_back({r, 0});
    s.is_needed = !s.managed_targets.empty();
    release(s, x.tensor);
    const std::vector<std::uint32_t> cells = cells_of(x.tensor, x.part);
    for (std::uint32_t strip = 0; strip < table_.strips[x.tensor].strips.size(); ++strip) {
      hazards_.write(x.tensor, strip, cells);
    }
  }

  // --- movements ---

  void copy_staged(step& s, tensor_id t) {
    const strip_use& moved = current_use().moved;
    s.copies.push_back(s.in_lane == lane::to_device ? places_.copy_from_host(t, moved)
                                                    : places_.copy_to_host(t, moved));
    address_hazards_.use_addresses(moved);
  }

  void lower_managed_prefetch(step& s, const prefetch& x) {
    const range r = managed_.range_of(x.tensor, x.part);
    if (r.bytes > 0) s.managed_targets.push_back({r, 0});
    s.is_needed = !s.managed_targets.empty();
    address_hazards_.wait_for_release(r);
  }

  // Populates blocks that are not resident, and copies parts whose only valid value is on the host.
  void lower_twinned_prefetch(step& s, const prefetch& x) {
    managed_.throw_if_prefetch_is_early(x.tensor, index());
    address_hazards_.wait_for_release(managed_.range_of(x.tensor, x.part));
    s.copy_bytes_per_s = rate_from_twin(p_.target);
    s.populate_or_discard = residency_.changes[action_].added;
    address_hazards_.use_addresses(table_.by_tensor[x.tensor].front());
    s.managed_targets = places_.twin_copy_ranges(x.tensor, current_use().cells_to_copy);
    s.is_needed = !s.populate_or_discard.empty() || !s.managed_targets.empty();
  }

  // Copies parts whose host copy is stale, then releases the blocks.
  void lower_twinned_evict(step& s, const evict& x) {
    s.copy_bytes_per_s = rate_to_twin(p_.target);
    for (const range& r : managed_.owned_ranges(x.tensor, x.part, index()))
      s.populate_or_discard.push_back(r);
    address_hazards_.use_addresses(table_.by_tensor[x.tensor].front());
    s.managed_targets = places_.twin_copy_ranges(x.tensor, current_use().cells_to_copy);
    release(s, x.tensor);
    s.is_needed = !s.populate_or_discard.empty() || !s.managed_targets.empty();
  }

  // --- computes ---

  void lower_action(step& s, const compute& x) {
    const std::vector<access> touched = accesses_of(g_, x);
    const std::uint32_t w = current_use().workspace;
    if (w != no_lifetime) {
      address_hazards_.use_addresses(w);
      s.workspace_offset = layout_.offsets[w];
      s.workspace_bytes = current_use().workspace_bytes;
    }
    for (std::size_t i = 0; i < touched.size(); ++i) {
      const operand_use& u = current_use().operands[i];
      const tensor_id t = touched[i].tensor;
      for (const strip_use& from : u.sources) {
        hazards_.read(t, from.part.strip, table_.strips[t].cells_of(from.part.where));
        address_hazards_.use_addresses(from);
      }
      for (const strip_use& to : u.targets) {
        hazards_.write(t, to.part.strip, table_.strips[t].cells_of(to.part.where));
        address_hazards_.use_addresses(to);
      }
      s.operands.push_back({touched[i], places_.address_of(touched[i], u, s.workspace_offset)});
      const auto [before, after] = places_.copies_for(s.operands.back(), u);
      s.gathers.insert(s.gathers.end(), before.begin(), before.end());
      s.scatters.insert(s.scatters.end(), after.begin(), after.end());
    }
  }

  std::uint32_t index() const { return static_cast<std::uint32_t>(action_); }
  std::vector<std::uint32_t> cells_of(tensor_id t, const box& part) const {
    return table_.strips[t].cells_of(region_of(g_.tensors[t].shape, part));
  }

  void release(const step& s, tensor_id t) {
    address_hazards_.release_addresses(t, ranges_released_by(s), s.in_lane,
                                       static_cast<std::int32_t>(action_));
  }

  const problem& p_;
  const graph& g_;
  const memory_plan& plan_;
  const lifetime_table& table_;
  const layout& layout_;
  const managed_map& managed_;
  home_addresses homes_;
  address_resolver places_;
  residency residency_;
  hazards hazards_;
  address_hazards address_hazards_;
  bool moves_managed_ = false;
  std::vector<step> steps_;
  std::size_t action_ = 0;
  std::size_t passed_joins_ = 0;  // number of the plan's joins passed so far
};

}  // namespace

execution_plan lower(const problem& p, const verified_plan& plan, packer how) {
  if (!plan.was_verified_for(p.network))
    throw std::invalid_argument("the plan was verified for another network");
  return plan_lowerer(p, plan.plan(), placement(p, plan.plan(), how)).lower_all();
}

execution_plan lower(const problem& p, const memory_plan& plan, packer how) {
  return lower(p, verify_plan(p.network, plan), how);
}

execution_plan lower(const problem& p, const memory_plan& plan, const placement& known) {
  return lower(p, verify_plan(p.network, plan), known);
}

execution_plan lower(const problem& p, const verified_plan& plan, const placement& known) {
  if (!plan.was_verified_for(p.network))
    throw std::invalid_argument("the plan was verified for another network");
  return plan_lowerer(p, plan.plan(), placement(p, plan.plan(), known)).lower_all();
}

}  // namespace um
