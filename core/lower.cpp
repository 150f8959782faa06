#include "core/lower.hpp"

#include <algorithm>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <string>

#include "core/layout.hpp"
#include "core/lifetimes.hpp"
#include "core/managed_map.hpp"
#include "core/verify.hpp"

namespace um {
namespace {

// --- hazards ---

using last_steps = std::array<std::int32_t, lane_count>;
inline constexpr last_steps nobody{no_step, no_step, no_step};

void merge(last_steps& into, const last_steps& from) {
  for (std::size_t i = 0; i < lane_count; ++i) into[i] = std::max(into[i], from[i]);
}

// The last steps that used one copy of one part.
struct uses {
  last_steps read = nobody, write = nobody;
};
struct part_uses {
  uses device, host;
  bool home_valid = false;  // copied: the home holds the current value
  bool here = false;        // twinned: the managed arena does
};

class lowering {
 public:
  lowering(const problem& p, const memory_plan& plan, packer how)
      : p_(p),
        g_(p.network),
        plan_(plan),
        cells_(cells_of(g_, plan)),
        table_(lifetimes_of(g_, p.costs, plan, cells_)),
        at_(lay_out(g_, table_, plan, how)),
        managed_(g_, plan, cells_, table_, at_) {
    out_.home = plan.home;
    out_.device_arena_bytes = at_.device_bytes;
    out_.managed_arena_bytes = at_.managed_bytes;
    out_.budget = p.budget;
    out_.under = p.under;
    out_.terms = at_.terms;
    users_.assign(table_.all.size(), nobody);
    movers_.assign(table_.all.size(), nobody);
    started_.assign(table_.all.size(), false);
    resident_.assign(at_.managed_bytes / managed_block, false);
    filled_ = resident_;
    gone_.assign(resident_.size(), nobody);
    place_pinned();
  }

  execution_plan run() {
    refuse_beyond_budget(at_.device_bytes, "the device arena");
    place_ends();
    // Managed residency of the first iteration is contained in that of every later one, so the
    // second walk finds the peak.
    for (int iteration = 0; iteration < 2; ++iteration) walk_residency();
    emit();
    finish_peak();
    return std::move(out_);
  }

 private:
  // --- homes, starts and ends ---

  void place_pinned() {
    pinned_.assign(g_.tensors.size(), 0);
    std::vector<bool> leaves(g_.tensors.size(), false);
    for (const action& a : plan_.actions) {
      if (const auto* e = std::get_if<evict>(&a)) leaves[e->what] = true;
    }
    for (tensor_id t = 0; t < g_.tensors.size(); ++t) {
      const bool has_twin = leaves[t] || persists(g_.tensors[t].use);
      if (!is_pinned(plan_.home[t]) || (plan_.home[t] == residence::twinned && !has_twin)) continue;
      pinned_[t] = out_.pinned_arena_bytes;
      out_.pinned_arena_bytes += round_up(bytes_of(g_.tensors[t]), arena_alignment);
    }
    for (tensor_id t = 0; t < g_.tensors.size(); ++t) {
      parts_.emplace_back(cells_[t].count());
      for (part_uses& u : parts_.back()) u.home_valid = persists(g_.tensors[t].use);
    }
  }

  void place_ends() {
    const auto last = static_cast<std::uint32_t>(plan_.actions.empty() ? 0 : plan_.actions.size() - 1);
    for (tensor_id t = 0; t < g_.tensors.size(); ++t) {
      const bool pinned = is_pinned(plan_.home[t]);
      const auto end = [&](std::uint32_t action) -> address {
        if (pinned) return {space::pinned, pinned_[t]};
        const std::uint32_t l = table_.at(t, 0, action);
        if (l == no_lifetime) return {};
        return {plan_.home[t] == residence::managed ? space::managed : space::device, at_.offset[l]};
      };
      out_.at_start.push_back(end(0));
      out_.at_end.push_back(end(last));
    }
  }

  // --- residency of managed blocks, in list order ---

  // The runs of blocks of a range that change, as ranges. A block of which only small tensors were touched
  // still has to be filled up.
  std::vector<range> mark(const range& r, bool resident, bool wholly = true) {
    std::vector<range> changed;
    if (r.bytes == 0) return changed;
    for (byte_count b = r.offset / managed_block;
         b < (r.offset + r.bytes + managed_block - 1) / managed_block; ++b) {
      const bool fills_up = resident && wholly && !filled_[b];
      if (wholly) filled_[b] = resident;
      if (resident_[b] == resident && !fills_up) continue;
      if (resident_[b] != resident) resident ? ++resident_count_ : --resident_count_;
      resident_[b] = resident;
      const byte_count at = b * managed_block;
      if (!changed.empty() && changed.back().offset + changed.back().bytes == at) {
        changed.back().bytes += managed_block;
      } else {
        changed.push_back({at, managed_block});
      }
    }
    return changed;
  }

  struct touch {
    range where;
    bool wholly = true;
  };
  std::vector<touch> touched(const compute& x) const {
    std::vector<touch> all;
    for (const access& a : accesses_of(g_, g_.ops[x.what], x.part)) {
      if (!is_managed(plan_.home[a.what])) continue;
      for (const range& r : runs_of(g_.tensors[a.what], a.where))
        all.push_back({{managed_.offset_of(a.what) + r.offset, r.bytes},
                       bytes_of(g_.tensors[a.what]) >= managed_block});
    }
    return all;
  }

  // Blocks that become resident at an action, and those that stop being so.
  struct change {
    std::vector<range> fresh;
    std::uint64_t freed = 0;
  };

  change change_at(std::uint32_t i) {
    change c;
    const std::uint64_t before = resident_count_;
    const auto leave = [&](tensor_id t, const box& part) {
      for (const range& r : managed_.owned(t, part, i)) mark(r, false);
      c.freed = before - resident_count_;
    };
    std::visit(overloaded{[](const advise&) {},
                          [&](const compute& x) {
                            for (const touch& t : touched(x)) {
                              if (!mark(t.where, true, t.wholly).empty()) c.fresh.push_back(t.where);
                            }
                          },
                          [&](const prefetch& x) {
                            if (is_managed(plan_.home[x.what]))
                              c.fresh = mark(managed_.range_of(x.what, x.part), true);
                          },
                          [&](const evict& x) {
                            if (is_managed(plan_.home[x.what])) leave(x.what, x.part);
                          },
                          [&](const discard& x) {
                            if (is_managed(plan_.home[x.what])) leave(x.what, x.part);
                          }},
               plan_.actions[i]);
    return c;
  }

  void walk_residency() {
    changes_.clear();
    resident_blocks_.clear();
    for (std::uint32_t i = 0; i < plan_.actions.size(); ++i) {
      changes_.push_back(change_at(i));
      resident_blocks_.push_back(resident_count_);
    }
  }

  // What takes room waits for those who gave it up: for the last of them without whom the capacity would
  // be exceeded, in whatever order they end.
  std::int32_t giver_of_room(std::int32_t now) const {
    const auto i = static_cast<std::size_t>(now);
    const byte_count left = p_.budget - std::min(p_.budget, at_.device_bytes);
    const std::uint64_t capacity = left / managed_block;
    if (changes_[i].fresh.empty() || resident_blocks_[i] > capacity) return no_step;
    std::uint64_t spare = capacity - resident_blocks_[i];
    for (std::size_t k = i; k-- > 0;) {
      if (changes_[k].freed > spare) return static_cast<std::int32_t>(k);
      spare -= changes_[k].freed;
    }
    return no_step;
  }

  // --- steps ---

  void emit() {
    last_steps joined = nobody, latest = nobody;
    auto join = plan_.joins.begin();
    for (now_ = 0; now_ < static_cast<std::int32_t>(plan_.actions.size()); ++now_) {
      for (; join != plan_.joins.end() && *join <= index(); ++join) joined = latest;
      step s;
      s.what = plan_.actions[static_cast<std::size_t>(now_)];
      wait_ = joined;
      std::visit([&](const auto& x) { lower_action(s, x); }, s.what);
      const std::int32_t giver = giver_of_room(now_);
      if (giver != no_step) {
        const auto l = static_cast<std::size_t>(out_.steps[static_cast<std::size_t>(giver)].where);
        wait_[l] = std::max(wait_[l], giver);
      }
      if (s.home == residence::managed && s.where == lane::to_host) s.call_bytes = eviction_call_bytes;
      if (s.home == residence::twinned) {
        s.pace_bytes_per_s = s.where == lane::to_device ? rate_from_twin(p_.on) : rate_to_twin(p_.on);
      }
      s.after = wait_;
      s.after[static_cast<std::size_t>(s.where)] = no_step;
      latest[static_cast<std::size_t>(s.where)] = now_;
      s.resident_bytes = in_use(static_cast<std::size_t>(now_));
      out_.steps.push_back(std::move(s));
    }
  }

  byte_count in_use(std::size_t i) const {
    const byte_count held = at_.live_device[i] + resident_blocks_[i] * managed_block;
    return std::min(held, p_.budget);
  }

  void lower_action(step& s, const advise& x) {
    s.home = plan_.home[x.what];
    const range whole = managed_.range_of(x.what, {});
    if (whole.bytes > 0) s.moves.push_back({whole, 0});
    s.needed = !s.moves.empty();
  }

  void lower_action(step& s, const prefetch& x) {
    s.where = lane::to_device;
    s.home = plan_.home[x.what];
    if (s.home == residence::managed) {
      const range r = managed_.range_of(x.what, x.part);
      if (r.bytes > 0) s.moves.push_back({r, 0});
      s.needed = !s.moves.empty();
      wait_for_movements(r);
    } else if (s.home == residence::twinned) {
      return bring_back(s, x.what, x.part);
    } else {
      add_staged_copies(s, x.what, x.part);
      use_lifetimes(s.where, x.what, x.part);
    }
    for_parts(x.what, x.part, [&](part_uses& u) {
      read(s.where, u.host);
      write(s.where, u.device);
    });
  }

  void lower_action(step& s, const evict& x) {
    s.where = lane::to_host;
    s.home = plan_.home[x.what];
    if (s.home == residence::managed) {
      for (const range& r : managed_.owned(x.what, x.part, index())) {
        s.moves.push_back({r, 0});
      }
      s.needed = !s.moves.empty();
      if (!s.needed) return;
      // The pages leave: whoever used them must be done, whoever uses them next must wait.
      for_parts(x.what, x.part, [&](part_uses& u) { write(s.where, u.device); });
      use_addresses(s, x.what);
      return;
    }
    if (s.home == residence::twinned) return send_home(s, x.what, x.part);
    s.needed = false;
    for_parts(x.what, x.part, [&](const part_uses& u) { s.needed = s.needed || !u.home_valid; });
    if (!s.needed) return;
    add_staged_copies(s, x.what, x.part);
    use_lifetimes(s.where, x.what, x.part);
    for_parts(x.what, x.part, [&](part_uses& u) {
      read(s.where, u.device);
      write(s.where, u.host);
      u.home_valid = true;
    });
  }

  void lower_action(step& s, const discard& x) {
    s.home = plan_.home[x.what];
    s.needed = false;
    if (is_managed(s.home)) {
      s.where = lane::to_host;  // the call takes its time
      for (const range& r : managed_.owned(x.what, x.part, index())) {
        s.moves.push_back({r, 0});
      }
      s.needed = !s.moves.empty();
      use_addresses(s, x.what);
    }
    for_parts(x.what, x.part, [&](part_uses& u) {
      write(s.where, u.device);
      u.home_valid = u.here = false;
    });
  }

  // Twinned: room for blocks that are not resident, copies for parts whose value is at home alone.
  void bring_back(step& s, tensor_id t, const box& part) {
    refuse_early(t);
    wait_for_movements(managed_.range_of(t, part));
    s.room = changes_[index()].fresh;
    use_lifetime(s.where, table_.of_tensor[t].front());
    for_each_part(t, part, [&](std::uint32_t p, part_uses& u) {
      if (u.home_valid && !u.here) {
        add_twin_move(s, t, p);
        u.here = true;
      }
      read(s.where, u.host);
      write(s.where, u.device);
    });
    s.needed = !s.room.empty() || !s.moves.empty();
  }

  // Copies parts whose home is stale, gives up the blocks.
  void send_home(step& s, tensor_id t, const box& part) {
    for (const range& r : managed_.owned(t, part, index())) s.room.push_back(r);
    use_lifetime(s.where, table_.of_tensor[t].front());
    use_addresses(s, t);
    for_each_part(t, part, [&](std::uint32_t p, part_uses& u) {
      if (u.here && !u.home_valid) add_twin_move(s, t, p);
      u.home_valid = u.home_valid || u.here;
      u.here = false;
      write(s.where, u.device);
      write(s.where, u.host);
    });
    s.needed = !s.room.empty() || !s.moves.empty();
  }

  // Neighbouring parts make one copy.
  void add_twin_move(step& s, tensor_id t, std::uint32_t cell) {
    const layout_of_runs part = pitches_of(g_.tensors[t], region_of(cells_[t], cell));
    const byte_count from = part.offset, to = from + part.width * part.height * part.depth;
    const byte_count here = managed_.offset_of(t) + from, home = pinned_[t] + from;
    if (!s.moves.empty()) {
      movement& last = s.moves.back();
      if (last.device.offset + last.device.bytes == here && last.pinned_offset + last.device.bytes == home) {
        last.device.bytes += to - from;
        return;
      }
    }
    s.moves.push_back({{here, to - from}, home});
  }

  // Room that a tensor takes before its first use is not to be somebody else's still.
  void refuse_early(tensor_id t) const {
    const std::uint32_t l = table_.of_tensor[t].empty() ? no_lifetime : table_.of_tensor[t].front();
    if (l == no_lifetime) {
      throw std::invalid_argument("tensor " + g_.tensors[t].name + " is twinned, but nothing touches it");
    }
    for (std::uint32_t k = 0; k < table_.all.size(); ++k) {
      const lifetime& other = table_.all[k];
      if (k == l || index() >= table_.all[l].begin || !meet(table_, at_, k, l)) continue;
      if (other.begin < table_.all[l].begin && other.end > index()) {
        throw std::invalid_argument("prefetch " + g_.tensors[t].name +
                                    ": its addresses still belong to tensor " + g_.tensors[other.what].name +
                                    "; prefetch it after that one's last use");
      }
    }
  }

  void lower_action(step& s, const compute& x) {
    for (const access& a : accesses_of(g_, g_.ops[x.what], x.part)) {
      for (const std::uint32_t p : numbers_of(cells_[a.what], cells_in(cells_[a.what], a.where))) {
        part_uses& u = parts_[a.what][p];
        if (a.mode == access_mode::read) {
          read(s.where, u.device);
        } else {
          write(s.where, u.device);
          u.home_valid = false;
          u.here = true;
        }
      }
      if (plan_.home[a.what] != residence::host) {
        const part_run run = parts_of(cells_[a.what], a.where);
        for (std::uint32_t p = run.begin; p < run.end; ++p)
          use_lifetime(s.where, table_.at(a.what, p, index()));
      }
      s.operands.push_back({a, operand_address(a)});
    }
    const std::uint32_t w = table_.workspace_of_action[index()];
    if (w == no_lifetime) return;
    use_lifetime(s.where, w);
    s.workspace_offset = at_.offset[w];
    s.workspace_bytes = table_.all[w].bytes;
  }

  address operand_address(const access& a) const {
    const byte_count first = pitches_of(g_.tensors[a.what], a.where).offset;
    if (plan_.home[a.what] == residence::host) return {space::pinned, pinned_[a.what] + first};
    const std::uint32_t l = table_.at(a.what, parts_of(cells_[a.what], a.where).begin, index());
    return {table_.all[l].managed ? space::managed : space::device,
            at_.offset[l] + first - table_.all[l].first_byte};
  }

  // One copy for each lifetime: groups lie apart.
  void add_staged_copies(step& s, tensor_id t, const box& part) {
    const tensor& what = g_.tensors[t];
    const region moved = region_of(what.shape, part);
    const part_run run = parts_of(cells_[t], moved);
    for (std::uint32_t p = run.begin; p < run.end;) {
      const std::uint32_t l = table_.at(t, p, index());
      const part_run held = table_.all[l].parts;
      region here = moved;
      here.batch = {std::max(moved.batch.begin, cells_[t].batch[held.begin]),
                    std::min(moved.batch.end, cells_[t].batch[held.end])};
      const layout_of_runs runs = pitches_of(what, here);
      const address home{space::pinned, pinned_[t]};
      const address there{space::device, at_.offset[l] - table_.all[l].first_byte};
      s.copies.push_back(s.where == lane::to_device ? copy_of(home, runs, there, runs)
                                                    : copy_of(there, runs, home, runs));
      p = held.end;
    }
  }

  // --- who waits for whom ---

  std::uint32_t index() const { return static_cast<std::uint32_t>(now_); }

  void read(lane where, uses& u) {
    merge(wait_, u.write);
    u.read[static_cast<std::size_t>(where)] = now_;
  }
  void write(lane where, uses& u) {
    merge(wait_, u.read);
    merge(wait_, u.write);
    u.write[static_cast<std::size_t>(where)] = now_;
  }

  // The first use of a lifetime waits for every earlier user of its addresses.
  void use_lifetime(lane where, std::uint32_t l) {
    if (l == no_lifetime) return;
    if (!started_[l]) {
      started_[l] = true;
      for (std::uint32_t k = 0; k < table_.all.size(); ++k) {
        if (k == l || !meet(table_, at_, k, l)) continue;
        if (started_[k]) merge(wait_, users_[k]);
        merge(wait_, movers_[k]);
      }
    }
    users_[l][static_cast<std::size_t>(where)] = now_;
  }
  void use_lifetimes(lane where, tensor_id t, const box& part) {
    const part_run run = parts_of(cells_[t], region_of(g_.tensors[t].shape, part));
    for (std::uint32_t p = run.begin; p < run.end; ++p) use_lifetime(where, table_.at(t, p, index()));
  }
  // A movement of a managed tensor's range is a use of its addresses, also of one that is dead or left from
  // the iteration before.
  void use_addresses(const step& s, tensor_id t) {
    for (const std::uint32_t l : table_.of_tensor[t]) movers_[l][static_cast<std::size_t>(s.where)] = now_;
    const auto give_up = [&](const range& r) {
      for (byte_count b = r.offset / managed_block; b * managed_block < r.offset + r.bytes; ++b)
        gone_[b][static_cast<std::size_t>(s.where)] = now_;
    };
    for (const range& r : s.room) give_up(r);
    for (const movement& m : s.moves) give_up(m.device);
  }

  // Data comes in only once what was given up at its addresses is gone.
  void wait_for_movements(const range& r) {
    for (byte_count b = r.offset / managed_block; b * managed_block < r.offset + r.bytes; ++b)
      merge(wait_, gone_[b]);
  }

  template <class F>
  void for_parts(tensor_id t, const box& part, F&& f) {
    for_each_part(t, part, [&](std::uint32_t, part_uses& u) { f(u); });
  }
  template <class F>
  void for_each_part(tensor_id t, const box& part, F&& f) {
    const region r = region_of(g_.tensors[t].shape, part);
    for (const std::uint32_t p : numbers_of(cells_[t], cells_in(cells_[t], r))) f(p, parts_[t][p]);
  }

  // --- the budget ---

  void refuse_beyond_budget(byte_count need, const std::string& what) const {
    if (need > p_.budget) {
      throw infeasible(what + " needs " + to_text(need) + ", the budget is " + to_text(p_.budget));
    }
  }

  void finish_peak() {
    out_.peak_device_bytes = at_.device_bytes + at_.managed_bytes;
    if (p_.under == pressure::plan) {
      const auto most = std::max_element(resident_blocks_.begin(), resident_blocks_.end());
      out_.peak_device_bytes =
          at_.device_bytes + (most == resident_blocks_.end() ? 0 : *most * managed_block);
    }
    if (p_.under != pressure::driver) refuse_beyond_budget(out_.peak_device_bytes, "the plan");
  }

  const problem& p_;
  const graph& g_;
  const memory_plan& plan_;
  std::vector<cell_grid> cells_;
  lifetime_table table_;
  layout at_;
  managed_map managed_;
  execution_plan out_;
  std::vector<byte_count> pinned_;              // per tensor: offset of its home
  std::vector<std::vector<part_uses>> parts_;   // per tensor, per part
  std::vector<last_steps> users_;               // per lifetime
  std::vector<last_steps> movers_;              // per lifetime: those that gave up some of its addresses
  std::vector<bool> started_;                   // per lifetime
  std::vector<last_steps> gone_;                // per managed block: those that gave it up
  std::vector<bool> resident_, filled_;         // per managed block
  std::vector<change> changes_;                 // per action
  std::vector<std::uint64_t> resident_blocks_;  // per action
  std::uint64_t resident_count_ = 0;
  last_steps wait_ = nobody;
  std::int32_t now_ = 0;
};

}  // namespace

pitched_copy copy_of(const address& from_base, const layout_of_runs& from, const address& to_base,
                     const layout_of_runs& to) {
  pitched_copy c;
  c.from = {from_base.where, from_base.offset + from.offset};
  c.to = {to_base.where, to_base.offset + to.offset};
  c.width = from.width;
  c.height = from.height;
  c.depth = from.depth;
  c.from_pitch = from.pitch;
  c.to_pitch = to.pitch;
  c.from_slice = from.slice;
  c.to_slice = to.slice;
  return c;
}

execution_plan lower(const problem& p, const memory_plan& plan, packer how) {
  if (const auto wrong = defect_of(p.network, plan)) throw std::invalid_argument(*wrong);
  return lowering(p, plan, how).run();
}

}  // namespace um
