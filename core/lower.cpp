#include "core/lower.hpp"

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <string>

#include "core/homes.hpp"
#include "core/managed_map.hpp"
#include "core/residency.hpp"
#include "core/verify.hpp"

namespace um {
namespace {

class lowering {
 public:
  lowering(const problem& p, const memory_plan& plan, packer how)
      : p_(p),
        g_(p.network),
        plan_(plan),
        table_(lifetimes_of(p, plan)),
        at_(lay_out(g_, table_, plan, how)),
        managed_(g_, plan, table_, at_),
        homes_(homes_of(g_, plan, table_, at_)),
        hazards_(table_.strips),
        tenants_before_(table_.all.size()) {}

  execution_plan run() {
    refuse_beyond_budget(at_.device_bytes, "the device arena");
    residency_ = residency_of(g_, plan_, at_, managed_);
    for (now_ = 0; now_ < plan_.actions.size(); ++now_) out_.steps.push_back(lowered(plan_.actions[now_]));
    out_.home = plan_.home;
    out_.at_start = homes_.at_start;
    out_.at_end = homes_.at_end;
    out_.device_arena_bytes = at_.device_bytes;
    out_.managed_arena_bytes = at_.managed_bytes;
    out_.pinned_arena_bytes = homes_.pinned_bytes;
    out_.budget = p_.budget;
    out_.under = p_.under;
    out_.terms = at_.terms;
    finish_peak();
    return std::move(out_);
  }

 private:
  const action_use& uses() const { return table_.actions[now_]; }

  step lowered(const action& a) {
    step s;
    s.what = a;
    s.where = lane_of(a);
    hazards_.begin(static_cast<std::int32_t>(now_), s.where);
    for (; joins_ < plan_.joins.size() && plan_.joins[joins_] <= now_; ++joins_) joined_ = latest_;
    hazards_.wait_for(joined_);
    latest_[static_cast<std::size_t>(s.where)] = static_cast<std::int32_t>(now_);
    std::visit([&](const auto& x) { lower_action(s, x); }, a);
    const byte_count left = p_.budget - std::min(p_.budget, at_.device_bytes);
    const std::int32_t giver = residency_.giver_of_room(now_, left / managed_block);
    if (giver != no_step) hazards_.wait_for(out_.steps[static_cast<std::size_t>(giver)].where, giver);
    s.after = hazards_.waits();
    s.resident_bytes = std::min(residency_.in_use(now_), p_.budget);
    return s;
  }

  // A discard of managed memory is a call that takes its time.
  lane lane_of(const action& a) const {
    if (std::holds_alternative<prefetch>(a)) return lane::to_device;
    if (std::holds_alternative<evict>(a)) return lane::to_host;
    const auto* const d = std::get_if<discard>(&a);
    return d != nullptr && is_managed(plan_.home[d->what]) ? lane::to_host : lane::compute;
  }

  void lower_action(step& s, const advise& x) {
    s.home = plan_.home[x.what];
    const range whole = managed_.range_of(x.what, {});
    if (whole.bytes > 0) s.moves.push_back({whole, 0});
    s.needed = !s.moves.empty();
  }

  void lower_action(step& s, const prefetch& x) {
    s.home = plan_.home[x.what];
    if (s.home == residence::staged) {
      copy_staged(s, x.what);
    } else {
      s.home == residence::managed ? bring_in(s, x) : bring_back(s, x);
    }
    const std::vector<std::uint32_t> cells = cells_of(x.what, x.part);
    hazards_.read_home(x.what, cells);
    hazards_.write(x.what, uses().moved.what.strip, cells);
  }

  void lower_action(step& s, const evict& x) {
    s.home = plan_.home[x.what];
    const std::vector<std::uint32_t> cells = cells_of(x.what, x.part);
    if (s.home == residence::managed) {
      s.call_bytes = p_.on.uvm.eviction_call_bytes;
      for (const range& r : managed_.owned(x.what, x.part, index())) s.moves.push_back({r, 0});
      s.needed = !s.moves.empty();
      if (!s.needed) return;
      // The pages leave: whoever used them must be done, whoever uses them next must wait.
      hazards_.write(x.what, 0, cells);
      give_up(s, x.what);
    } else if (s.home == residence::twinned) {
      send_home(s, x);
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
    if (is_managed(s.home)) {
      for (const range& r : managed_.owned_alone(x.what, x.part, index())) s.moves.push_back({r, 0});
      s.needed = !s.moves.empty();
      give_up(s, x.what);
    }
    const std::vector<std::uint32_t> cells = cells_of(x.what, x.part);
    for (std::uint32_t strip = 0; strip < table_.strips[x.what].strips.size(); ++strip) {
      hazards_.write(x.what, strip, cells);
    }
  }

  // --- movements ---

  void copy_staged(step& s, tensor_id t) {
    const strip_use& moved = uses().moved;
    const address home{space::pinned, homes_.pinned[t]};
    const region strip = strip_region(t, moved);
    const tensor part = part_of(g_.tensors[t], strip);
    const region there = relative_to(moved.what.where, strip);
    const address base = strip_base(moved);
    s.copies.push_back(s.where == lane::to_device
                           ? copy_of(home, g_.tensors[t], moved.what.where, base, part, there)
                           : copy_of(base, part, there, home, g_.tensors[t], moved.what.where));
    use_lifetimes(moved);
  }

  void bring_in(step& s, const prefetch& x) {
    const range r = managed_.range_of(x.what, x.part);
    if (r.bytes > 0) s.moves.push_back({r, 0});
    s.needed = !s.moves.empty();
    hazards_.wait_for(gone_.of(r));
  }

  // Twinned: room for blocks that are not resident, copies for parts whose value is at home alone.
  void bring_back(step& s, const prefetch& x) {
    refuse_early(x.what);
    hazards_.wait_for(gone_.of(managed_.range_of(x.what, x.part)));
    s.pace_bytes_per_s = rate_from_twin(p_.on);
    s.room = residency_.changes[now_].fresh;
    use_lifetime(table_.of_tensor[x.what].front());
    for (const std::uint32_t c : uses().cells) add_twin_move(s, x.what, c);
    s.needed = !s.room.empty() || !s.moves.empty();
  }

  // Copies parts whose home is stale, gives up the blocks.
  void send_home(step& s, const evict& x) {
    s.pace_bytes_per_s = rate_to_twin(p_.on);
    for (const range& r : managed_.owned(x.what, x.part, index())) s.room.push_back(r);
    use_lifetime(table_.of_tensor[x.what].front());
    for (const std::uint32_t c : uses().cells) add_twin_move(s, x.what, c);
    give_up(s, x.what);
    s.needed = !s.room.empty() || !s.moves.empty();
  }

  // Neighbouring runs make one copy.
  void add_twin_move(step& s, tensor_id t, std::uint32_t cell) {
    for (const range& r : runs_of(g_.tensors[t], region_of(table_.strips[t].cells, cell))) {
      const byte_count here = managed_.offset_of(t) + r.offset, home = homes_.pinned[t] + r.offset;
      if (!s.moves.empty()) {
        movement& last = s.moves.back();
        if (last.device.offset + last.device.bytes == here &&
            last.pinned_offset + last.device.bytes == home) {
          last.device.bytes += r.bytes;
          continue;
        }
      }
      s.moves.push_back({{here, r.bytes}, home});
    }
  }

  // Room that a tensor takes before its first use is not to be somebody else's still.
  void refuse_early(tensor_id t) const {
    if (table_.of_tensor[t].empty()) {
      throw std::invalid_argument("tensor " + g_.tensors[t].name + " is twinned, but nothing touches it");
    }
    const lifetime& mine = table_.all[table_.of_tensor[t].front()];
    if (index() >= mine.begin) return;
    for (const std::uint32_t k : managed_.takers(t)) {
      const lifetime& other = table_.all[k];
      if (other.begin < mine.begin && other.end > index()) {
        throw std::invalid_argument("prefetch " + g_.tensors[t].name +
                                    ": its addresses still belong to tensor " + g_.tensors[other.what].name +
                                    "; prefetch it after that one's last use");
      }
    }
  }

  // --- computes ---

  void lower_action(step& s, const compute& x) {
    const op& o = g_.ops[x.what];
    const std::vector<access> touched = accesses_of(g_, o, x.part);
    const std::uint32_t w = uses().workspace;
    if (w != no_lifetime) {
      use_lifetime(w);
      s.workspace_offset = at_.offset[w];
      s.workspace_bytes = uses().workspace_bytes;
    }
    for (std::size_t i = 0; i < touched.size(); ++i) {
      const operand_use& u = uses().operands[i];
      const tensor_id t = touched[i].what;
      for (const strip_use& from : u.from) {
        hazards_.read(t, from.what.strip, cells_of(t, from.what.where));
        use_lifetimes(from);
      }
      for (const strip_use& to : u.to) {
        hazards_.write(t, to.what.strip, cells_of(t, to.what.where));
        use_lifetimes(to);
      }
      s.operands.push_back({touched[i], place_of(s, touched[i], u)});
      gather_and_scatter(s, s.operands.back(), u);
    }
  }

  address place_of(const step& s, const access& a, const operand_use& u) const {
    if (u.in_scratch) return {space::device, s.workspace_offset + u.scratch_offset};
    return address_in(a.what, u.to.empty() ? u.from.front() : u.to.front(), a.where);
  }

  void gather_and_scatter(step& s, const operand& o, const operand_use& u) const {
    const tensor_id t = o.what.what;
    const tensor dense = part_of(g_.tensors[t], o.what.where);
    const auto copy = [&](const strip_use& strip, bool in) {
      const region within = strip_region(t, strip);
      const tensor part = part_of(g_.tensors[t], within);
      const region there = relative_to(strip.what.where, within);
      const region here = relative_to(strip.what.where, o.what.where);
      const address base = strip_base(strip, t);
      return in ? copy_of(base, part, there, o.at, dense, here)
                : copy_of(o.at, dense, here, base, part, there);
    };
    const bool lies_there = !u.in_scratch && u.from.size() == 1 &&
                            (u.to.empty() || u.to.front().what.strip == u.from.front().what.strip);
    if (!lies_there) {
      for (const strip_use& from : u.from) s.gathers.push_back(copy(from, true));
    }
    if (u.in_scratch) {
      for (const strip_use& to : u.to) s.scatters.push_back(copy(to, false));
    }
  }

  // --- places ---

  region strip_region(tensor_id t, const strip_use& u) const { return table_.strips[t].strips[u.what.strip]; }

  // Of the strip's first element, which may lie before the arena when only a later part is resident: modulo
  // 2^64, so that it comes out right once the offset of that part is added.
  address strip_base(const strip_use& u, tensor_id t = 0) const {
    if (u.held.empty()) return {space::pinned, homes_.pinned[t]};
    const lifetime& l = table_.all[u.held.front()];
    return {l.managed ? space::managed : space::device, at_.offset[u.held.front()] - l.first_byte};
  }

  address address_in(tensor_id t, const strip_use& u, const region& r) const {
    address at = strip_base(u, t);
    const region strip = strip_region(t, u);
    at.offset += pitches_of(part_of(g_.tensors[t], strip), relative_to(r, strip)).offset;
    return at;
  }

  std::uint32_t index() const { return static_cast<std::uint32_t>(now_); }
  std::vector<std::uint32_t> cells_of(tensor_id t, const region& r) const {
    const cell_grid& cells = table_.strips[t].cells;
    return numbers_of(cells, cells_in(cells, r));
  }
  std::vector<std::uint32_t> cells_of(tensor_id t, const box& part) const {
    return cells_of(t, region_of(g_.tensors[t].shape, part));
  }

  // --- who uses which addresses ---

  void use_lifetime(std::uint32_t l) {
    const lifetime& held = table_.all[l];
    address_users& arena = held.managed ? managed_users_ : device_users_;
    const range bytes{at_.offset[l], held.bytes};
    if (!tenants_before_[l]) tenants_before_[l] = arena.of(bytes);
    hazards_.use(arena, bytes, *tenants_before_[l]);
  }
  void use_lifetimes(const strip_use& u) {
    for (const std::uint32_t l : u.held) use_lifetime(l);
  }

  // A movement of a managed tensor's range is a use of its addresses, also of one that is dead or left from
  // the iteration before. Data comes in only once what was given up at its addresses is gone.
  void give_up(const step& s, tensor_id t) {
    const auto step_now = static_cast<std::int32_t>(now_);
    for (const std::uint32_t l : table_.of_tensor[t]) {
      managed_users_.add({at_.offset[l], table_.all[l].bytes}, s.where, step_now);
    }
    for (const range& r : s.room) gone_.add(r, s.where, step_now);
    for (const movement& m : s.moves) gone_.add(m.device, s.where, step_now);
  }

  // --- the budget ---

  void refuse_beyond_budget(byte_count need, const std::string& what) const {
    if (need > p_.budget) {
      throw infeasible(what + " needs " + to_text(need) + ", the budget is " + to_text(p_.budget));
    }
  }

  void finish_peak() {
    const byte_count managed =
        p_.under == pressure::plan ? residency_.most_blocks() * managed_block : at_.managed_bytes;
    out_.peak_device_bytes = at_.device_bytes + managed;
    if (p_.under != pressure::driver) refuse_beyond_budget(out_.peak_device_bytes, "the plan");
  }

  const problem& p_;
  const graph& g_;
  const memory_plan& plan_;
  lifetime_table table_;
  layout at_;
  managed_map managed_;
  homes homes_;
  residency residency_;
  hazards hazards_;
  execution_plan out_;
  std::vector<std::optional<last_steps>> tenants_before_;  // per lifetime, from its first use on
  address_users device_users_, managed_users_;
  address_users gone_;  // of the managed arena: those that gave it up
  std::size_t now_ = 0;
  std::size_t joins_ = 0;                         // of the plan, passed so far
  last_steps joined_ = nobody, latest_ = nobody;  // each lane's last step before the last join, and so far
};

}  // namespace

pitched_copy copy_of(const address& from_base, const tensor& from, const region& in_from,
                     const address& to_base, const tensor& to, const region& in_to) {
  const auto [source, target] = pitches_of(from, in_from, to, in_to);
  return {{from_base.where, from_base.offset + source.offset},
          {to_base.where, to_base.offset + target.offset},
          source.width,
          source.height,
          source.depth,
          source.pitch,
          target.pitch,
          source.slice,
          target.slice};
}

execution_plan lower(const problem& p, const memory_plan& plan, packer how) {
  if (const auto wrong = defect_of(p.network, plan)) throw std::invalid_argument(*wrong);
  return lowering(p, plan, how).run();
}

}  // namespace um
