#include "core/lower.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "core/address_hazards.hpp"
#include "core/compute.hpp"
#include "core/placement.hpp"
#include "core/residency.hpp"

namespace um {
namespace {

// A discard of managed memory is a call that takes its time.
lane lane_of(const action& a, const memory_plan& plan) {
  if (std::holds_alternative<prefetch>(a)) return lane::to_device;
  if (std::holds_alternative<evict>(a)) return lane::to_host;
  const auto* const d = std::get_if<discard>(&a);
  return d != nullptr && is_managed(plan.home[d->what]) ? lane::to_host : lane::compute;
}

// Every launch waits for calls of other threads that move managed memory. So one launch per operator is
// better than one per kernel. Calls of the driver cannot be recorded in a graph.
launch_method launch_of(const action& a, bool moves_managed_memory) {
  if (!moves_managed_memory) return launch_method::by_stretch;
  return std::holds_alternative<compute>(a) ? launch_method::as_operator : launch_method::by_call;
}

// Whether the plan, or the driver under pressure, moves managed memory while operators run. Advice is given
// once.
bool moves_managed_memory(const memory_plan& plan, pressure under) {
  const auto by_driver = [&](const auto& x) { return is_managed(plan.home[x.what]); };
  return std::ranges::any_of(plan.home, is_managed) &&
         (under == pressure::driver || std::ranges::any_of(plan.actions, [&](const action& a) {
            return std::visit(overloaded{[](const compute&) { return false; },
                                         [](const advise&) { return false; }, by_driver},
                              a);
          }));
}

// The step does nothing and takes no time: who takes the memory next waits for its last users.
bool takes_no_time(const step& s) {
  return std::holds_alternative<discard>(s.what) && !is_managed(s.home);
}

void refuse_over_budget(byte_count budget, byte_count need, const std::string& what) {
  if (need > budget) {
    throw infeasible(what + " needs " + to_text(need) + ", the budget is " + to_text(budget));
  }
}

std::vector<range> ranges_released_by(const step& s) {
  std::vector<range> all = s.room;
  for (const movement& m : s.movements) all.push_back(m.device);
  return all;
}

byte_count peak_of(const layout& at, const residency& who, pressure under) {
  const byte_count managed = under == pressure::plan ? who.peak_blocks() * managed_block : at.managed_bytes;
  return at.device_bytes + managed;
}

// Lowers a plan action by action.
class lowering {
 public:
  lowering(const problem& p, const memory_plan& plan, const placement& placed)
      : p_(p),
        g_(p.network),
        plan_(plan),
        table_(placed.table),
        layout_(placed.addresses),
        managed_(placed.managed),
        homes_(home_addresses_of(g_, plan, table_, layout_)),
        places_(g_, table_, layout_, managed_, homes_, p.on),
        hazards_(table_.strips),
        address_hazards_(table_, layout_, hazards_),
        moves_managed_(moves_managed_memory(plan, p.under)) {}

  execution_plan run() {
    refuse_over_budget(p_.budget, layout_.device_bytes, "the device arena");
    residency_ = residency_of(g_, plan_, layout_, managed_);
    for (now_ = 0; now_ < plan_.actions.size(); ++now_) steps_.push_back(step_of(plan_.actions[now_]));
    const byte_count peak = peak_of(layout_, residency_, p_.under);
    if (p_.under != pressure::driver) refuse_over_budget(p_.budget, peak, "the plan");
    return {std::move(steps_),
            plan_.home,
            homes_.at_start,
            homes_.at_end,
            layout_.device_bytes,
            layout_.managed_bytes,
            homes_.pinned_bytes,
            peak,
            p_.budget,
            p_.under,
            layout_.terms};
  }

 private:
  const action_use& uses() const { return table_.actions[now_]; }

  step step_of(const action& a) {
    step s;
    s.what = a;
    s.where = lane_of(a, plan_);
    for (; joins_ < plan_.joins.size() && plan_.joins[joins_] <= now_; ++joins_) hazards_.join();
    hazards_.begin_step(static_cast<std::int32_t>(now_), s.where);
    s.launch = launch_of(a, moves_managed_);
    std::visit([&](const auto& x) { lower_action(s, x); }, a);
    const byte_count left = p_.budget - std::min(p_.budget, layout_.device_bytes);
    const std::int32_t giver = residency_.release_to_wait_for(now_, left / managed_block);
    if (giver != no_step) hazards_.wait_for(steps_[static_cast<std::size_t>(giver)].where, giver);
    if (!takes_no_time(s)) s.after = hazards_.awaited_steps();
    s.resident_bytes = std::min(residency_.in_use(now_), p_.budget);
    return s;
  }

  void lower_action(step& s, const advise& x) {
    s.home = plan_.home[x.what];
    const range whole = managed_.range_of(x.what, {});
    if (whole.bytes > 0) s.movements.push_back({whole, 0});
    s.needed = !s.movements.empty();
  }

  void lower_action(step& s, const prefetch& x) {
    s.home = plan_.home[x.what];
    if (s.home == residence::staged) {
      copy_staged(s, x.what);
    } else {
      s.home == residence::managed ? lower_managed_prefetch(s, x) : lower_twinned_prefetch(s, x);
    }
    const std::vector<std::uint32_t> cells = cells_of(x.what, x.part);
    hazards_.read_home(x.what, cells);
    hazards_.write(x.what, uses().moved.what.strip, cells);
  }

  void lower_action(step& s, const evict& x) {
    s.home = plan_.home[x.what];
    const std::vector<std::uint32_t> cells = cells_of(x.what, x.part);
    if (s.home == residence::managed) {
      const byte_count call = p_.on.uvm.eviction_call_bytes;
      s.call_bytes = call == 0 ? 0 : std::max(call, managed_block);
      s.pause_ns = p_.on.uvm.eviction_gives_way_ns;
      for (const range& r : managed_.owned(x.what, x.part, index())) s.movements.push_back({r, 0});
      s.needed = !s.movements.empty();
      if (!s.needed) return;
      // The pages leave: earlier users must have ended, later users must wait.
      hazards_.write(x.what, 0, cells);
      release(s, x.what);
    } else if (s.home == residence::twinned) {
      lower_twinned_evict(s, x);
      hazards_.write(x.what, 0, cells);
      hazards_.write_home(x.what, cells);
    } else {
      s.needed = !uses().cells.empty();  // else the home copy is valid still
      if (!s.needed) return;
      copy_staged(s, x.what);
      hazards_.read(x.what, uses().moved.what.strip, cells);
      hazards_.write_home(x.what, cells);
    }
  }

  void lower_action(step& s, const discard& x) {
    s.home = plan_.home[x.what];
    s.needed = false;
    if (!is_managed(s.home)) return;
    for (const range& r : managed_.owned_alone(x.what, x.part, index())) s.movements.push_back({r, 0});
    s.needed = !s.movements.empty();
    release(s, x.what);
    const std::vector<std::uint32_t> cells = cells_of(x.what, x.part);
    for (std::uint32_t strip = 0; strip < table_.strips[x.what].strips.size(); ++strip) {
      hazards_.write(x.what, strip, cells);
    }
  }

  // --- movements ---

  void copy_staged(step& s, tensor_id t) {
    const strip_use& moved = uses().moved;
    s.copies.push_back(s.where == lane::to_device ? places_.from_home(t, moved) : places_.to_home(t, moved));
    address_hazards_.use(moved);
  }

  void lower_managed_prefetch(step& s, const prefetch& x) {
    const range r = managed_.range_of(x.what, x.part);
    if (r.bytes > 0) s.movements.push_back({r, 0});
    s.needed = !s.movements.empty();
    address_hazards_.wait_for_release(r);
  }

  // Twinned: populates blocks that are not resident, copies parts whose only valid value is at home.
  void lower_twinned_prefetch(step& s, const prefetch& x) {
    managed_.refuse_early_prefetch(x.what, index());
    address_hazards_.wait_for_release(managed_.range_of(x.what, x.part));
    s.copy_bytes_per_s = rate_from_twin(p_.on);
    s.room = residency_.changes[now_].added;
    address_hazards_.use(table_.by_tensor[x.what].front());
    s.movements = places_.twin_moves(x.what, uses().cells);
    s.needed = !s.room.empty() || !s.movements.empty();
  }

  // Copies parts whose home copy is stale, then releases the blocks.
  void lower_twinned_evict(step& s, const evict& x) {
    s.copy_bytes_per_s = rate_to_twin(p_.on);
    for (const range& r : managed_.owned(x.what, x.part, index())) s.room.push_back(r);
    address_hazards_.use(table_.by_tensor[x.what].front());
    s.movements = places_.twin_moves(x.what, uses().cells);
    release(s, x.what);
    s.needed = !s.room.empty() || !s.movements.empty();
  }

  // --- computes ---

  void lower_action(step& s, const compute& x) {
    const std::vector<access> touched = accesses_of(g_, x);
    const std::uint32_t w = uses().workspace;
    if (w != no_lifetime) {
      address_hazards_.use(w);
      s.workspace_offset = layout_.offset[w];
      s.workspace_bytes = uses().workspace_bytes;
    }
    for (std::size_t i = 0; i < touched.size(); ++i) {
      const operand_use& u = uses().operands[i];
      const tensor_id t = touched[i].what;
      for (const strip_use& from : u.sources) {
        hazards_.read(t, from.what.strip, table_.strips[t].cells_of(from.what.where));
        address_hazards_.use(from);
      }
      for (const strip_use& to : u.targets) {
        hazards_.write(t, to.what.strip, table_.strips[t].cells_of(to.what.where));
        address_hazards_.use(to);
      }
      s.operands.push_back({touched[i], places_.address_of(touched[i], u, s.workspace_offset)});
      const auto [before, after] = places_.copies_for(s.operands.back(), u);
      s.gathers.insert(s.gathers.end(), before.begin(), before.end());
      s.scatters.insert(s.scatters.end(), after.begin(), after.end());
    }
  }

  std::uint32_t index() const { return static_cast<std::uint32_t>(now_); }
  std::vector<std::uint32_t> cells_of(tensor_id t, const box& part) const {
    return table_.strips[t].cells_of(region_of(g_.tensors[t].shape, part));
  }

  void release(const step& s, tensor_id t) {
    address_hazards_.release(t, ranges_released_by(s), s.where, static_cast<std::int32_t>(now_));
  }

  const problem& p_;
  const graph& g_;
  const memory_plan& plan_;
  const lifetime_table& table_;
  const layout& layout_;
  const managed_map& managed_;
  home_addresses homes_;
  places places_;
  residency residency_;
  hazards hazards_;
  address_hazards address_hazards_;
  bool moves_managed_ = false;
  std::vector<step> steps_;
  std::size_t now_ = 0;
  std::size_t joins_ = 0;  // joins of the plan passed so far
};

}  // namespace

execution_plan lower(const problem& p, const verified_plan& plan, packer how) {
  if (!plan.is_of(p.network)) throw std::invalid_argument("the plan was verified for another network");
  return lowering(p, plan.plan(), placement(p, plan.plan(), how)).run();
}

execution_plan lower(const problem& p, const memory_plan& plan, packer how) {
  return lower(p, verified(p.network, plan), how);
}

execution_plan lower(const problem& p, const memory_plan& plan, const placement& known) {
  return lower(p, verified(p.network, plan), known);
}

execution_plan lower(const problem& p, const verified_plan& plan, const placement& known) {
  if (!plan.is_of(p.network)) throw std::invalid_argument("the plan was verified for another network");
  return lowering(p, plan.plan(), placement(p, plan.plan(), known)).run();
}

}  // namespace um
