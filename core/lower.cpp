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
  bool home_valid = false;  // staged: the home holds the current value
};

class lowering {
 public:
  lowering(const problem& p, const memory_plan& plan, packer how)
      : p_(p),
        g_(p.network),
        plan_(plan),
        cuts_(cuts_of(g_, plan)),
        table_(lifetimes_of(g_, p.costs, plan, cuts_)),
        at_(lay_out(g_, table_, plan, how)),
        managed_(g_, cuts_, table_, at_) {
    out_.home = plan.home;
    out_.device_arena_bytes = at_.device_bytes;
    out_.managed_arena_bytes = at_.managed_bytes;
    out_.budget = p.budget;
    out_.under = p.under;
    out_.terms = at_.terms;
    users_.assign(table_.all.size(), nobody);
    started_.assign(table_.all.size(), false);
    resident_.assign(at_.managed_bytes / managed_block, false);
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
    for (tensor_id t = 0; t < g_.tensors.size(); ++t) {
      if (plan_.home[t] != residence::staged && plan_.home[t] != residence::host) continue;
      pinned_[t] = out_.pinned_arena_bytes;
      out_.pinned_arena_bytes += round_up(bytes_of(g_.tensors[t]), arena_alignment);
    }
    for (tensor_id t = 0; t < g_.tensors.size(); ++t) {
      parts_.emplace_back(cuts_[t].of);
      for (part_uses& u : parts_.back()) u.home_valid = persists(g_.tensors[t].use);
    }
  }

  void place_ends() {
    const auto last = static_cast<std::uint32_t>(plan_.actions.empty() ? 0 : plan_.actions.size() - 1);
    for (tensor_id t = 0; t < g_.tensors.size(); ++t) {
      const bool pinned = plan_.home[t] == residence::staged || plan_.home[t] == residence::host;
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

  void mark(const range& r, bool resident, bool& fresh) {
    if (r.bytes == 0) return;
    for (byte_count b = r.offset / managed_block;
         b < (r.offset + r.bytes + managed_block - 1) / managed_block; ++b) {
      if (resident_[b] == resident) continue;
      resident_[b] = resident;
      if (resident) {
        fresh = true;
        ++resident_count_;
      } else {
        --resident_count_;
      }
    }
  }

  std::vector<range> touched(const compute& x) const {
    std::vector<range> all;
    for (const access& a : accesses_of(g_, g_.ops[x.what], x.part)) {
      if (plan_.home[a.what] != residence::managed) continue;
      for (const range& r : runs_of(g_.tensors[a.what], a.where))
        all.push_back({managed_.offset_of(a.what) + r.offset, r.bytes});
    }
    return all;
  }

  void walk_residency() {
    fresh_.assign(plan_.actions.size(), false);
    resident_blocks_.assign(plan_.actions.size(), 0);
    for (std::uint32_t i = 0; i < plan_.actions.size(); ++i) {
      bool fresh = false, ignored = false;
      const action& a = plan_.actions[i];
      if (const auto* c = std::get_if<compute>(&a)) {
        for (const range& r : touched(*c)) mark(r, true, fresh);
      } else if (const auto* f = std::get_if<prefetch>(&a); f && plan_.home[f->what] == residence::managed) {
        mark(managed_.range_of(f->what, f->part), true, fresh);
      } else if (const auto* e = std::get_if<evict>(&a); e && plan_.home[e->what] == residence::managed) {
        for (const range& r : managed_.owned(e->what, e->part, i)) mark(r, false, ignored);
      } else if (const auto* d = std::get_if<discard>(&a); d && plan_.home[d->what] == residence::managed) {
        for (const range& r : managed_.owned(d->what, d->part, i)) mark(r, false, ignored);
      }
      fresh_[i] = fresh;
      resident_blocks_[i] = resident_count_;
    }
  }

  // --- steps ---

  void emit() {
    for (now_ = 0; now_ < static_cast<std::int32_t>(plan_.actions.size()); ++now_) {
      step s;
      s.what = plan_.actions[static_cast<std::size_t>(now_)];
      wait_ = nobody;
      std::visit([&](const auto& x) { lower_action(s, x); }, s.what);
      if (p_.under == pressure::plan && fresh_[static_cast<std::size_t>(now_)]) {
        wait_[static_cast<std::size_t>(lane::to_host)] =
            std::max(wait_[static_cast<std::size_t>(lane::to_host)], last_managed_evict_);
      }
      s.after = wait_;
      s.after[static_cast<std::size_t>(s.where)] = no_step;
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
    } else {
      add_staged_moves(s, x.what, x.part);
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
      last_managed_evict_ = now_;
      // The pages leave: whoever used them must be done, whoever uses them next must wait.
      for_parts(x.what, x.part, [&](part_uses& u) { write(s.where, u.device); });
      use_takers(s.where, x.what);
      return;
    }
    s.needed = false;
    for_parts(x.what, x.part, [&](const part_uses& u) { s.needed = s.needed || !u.home_valid; });
    if (!s.needed) return;
    add_staged_moves(s, x.what, x.part);
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
    if (s.home == residence::managed) {
      for (const range& r : managed_.owned(x.what, x.part, index())) {
        s.moves.push_back({r, 0});
      }
      s.needed = !s.moves.empty();
      use_takers(s.where, x.what);
    }
    for_parts(x.what, x.part, [&](part_uses& u) {
      write(s.where, u.device);
      u.home_valid = false;
    });
  }

  void lower_action(step& s, const compute& x) {
    for (const access& a : accesses_of(g_, g_.ops[x.what], x.part)) {
      const tensor& t = g_.tensors[a.what];
      const part_run run = parts_of(t.shape, cuts_[a.what], a.where);
      for (std::uint32_t p = run.begin; p < run.end; ++p) {
        part_uses& u = parts_[a.what][p];
        if (a.mode == access_mode::read) {
          read(s.where, u.device);
        } else {
          write(s.where, u.device);
          u.home_valid = false;
        }
        if (plan_.home[a.what] != residence::host) use_lifetime(s.where, table_.at(a.what, p, index()));
      }
      s.operands.push_back({a, operand_address(a.what, run.begin)});
    }
    const std::uint32_t w = table_.workspace_of_action[index()];
    if (w == no_lifetime) return;
    use_lifetime(s.where, w);
    s.workspace_offset = at_.offset[w];
    s.workspace_bytes = table_.all[w].bytes;
  }

  address operand_address(tensor_id t, std::uint32_t part) const {
    if (plan_.home[t] == residence::host) return {space::pinned, pinned_[t]};
    const std::uint32_t l = table_.at(t, part, index());
    const byte_count first = at_.offset[l] - table_.all[l].first_byte;
    return {table_.all[l].managed ? space::managed : space::device, first};
  }

  void add_staged_moves(step& s, tensor_id t, const slice& part) {
    const tensor& what = g_.tensors[t];
    const range home{pinned_[t], bytes_of(what)};
    if (is_whole(part)) {
      const part_run run{0, cuts_[t].of};
      for (std::uint32_t p = run.begin; p < run.end;) {  // one move per lifetime: groups lie apart
        const lifetime& l = table_.all[table_.at(t, p, index())];
        const byte_count end =
            l.parts.end == cuts_[t].of ? home.bytes : first_byte_of(what, cuts_[t], l.parts.end);
        const byte_count at = at_.offset[table_.at(t, p, index())];
        s.moves.push_back({{at, end - l.first_byte}, home.offset + l.first_byte});
        p = l.parts.end;
      }
      return;
    }
    const part_run run = parts_of(cuts_[t], part);
    const std::uint32_t l = table_.at(t, run.begin, index());
    for (const range& r : runs_of(what, region_of(what.shape, part))) {
      s.moves.push_back(
          {{at_.offset[l] + r.offset - table_.all[l].first_byte, r.bytes}, home.offset + r.offset});
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
        if (k != l && started_[k] && meet(table_, at_, k, l)) merge(wait_, users_[k]);
      }
    }
    users_[l][static_cast<std::size_t>(where)] = now_;
  }
  void use_lifetimes(lane where, tensor_id t, const slice& part) {
    const part_run run = parts_of(cuts_[t], part);
    for (std::uint32_t p = run.begin; p < run.end; ++p) use_lifetime(where, table_.at(t, p, index()));
  }
  // A movement of a dead managed tensor's range is a use of its addresses.
  void use_takers(lane where, tensor_id t) {
    for (const std::uint32_t l : table_.of_tensor[t]) {
      if (started_[l]) users_[l][static_cast<std::size_t>(where)] = now_;
    }
  }

  template <class F>
  void for_parts(tensor_id t, const slice& s, F&& f) {
    const part_run run = parts_of(cuts_[t], s);
    for (std::uint32_t p = run.begin; p < run.end; ++p) f(parts_[t][p]);
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
  std::vector<cut> cuts_;
  lifetime_table table_;
  layout at_;
  managed_map managed_;
  execution_plan out_;
  std::vector<byte_count> pinned_;              // per tensor: offset of its home
  std::vector<std::vector<part_uses>> parts_;   // per tensor, per part
  std::vector<last_steps> users_;               // per lifetime
  std::vector<bool> started_;                   // per lifetime
  std::vector<bool> resident_;                  // per managed block
  std::vector<bool> fresh_;                     // per action: makes blocks resident
  std::vector<std::uint64_t> resident_blocks_;  // per action
  std::uint64_t resident_count_ = 0;
  last_steps wait_ = nobody;
  std::int32_t now_ = 0;
  std::int32_t last_managed_evict_ = no_step;
};

}  // namespace

execution_plan lower(const problem& p, const memory_plan& plan, packer how) {
  if (const auto wrong = defect_of(p.network, plan)) throw std::invalid_argument(*wrong);
  return lowering(p, plan, how).run();
}

}  // namespace um
