#include "planners/ooc_stream.hpp"

#include <algorithm>

#include "core/strips.hpp"

namespace um {
namespace {

interval hull(const interval& a, const interval& b) {
  return {std::min(a.begin, b.begin), std::max(a.end, b.end)};
}

bool overlap(const region& a, const region& b) {
  return intersection(a, b).has_value();
}

bool have_same_cross_section(const tensor& t, region a, const region& b) {
  const axis outer = outer_axis(t);
  range_along(a, outer) = range_along(b, outer);
  return a == b;
}

class call_streamer {
 public:
  call_streamer(const graph& g, std::vector<residence> home, bool waits_at_call_end)
      : g_(g), joins_lanes_(waits_at_call_end) {
    plan_.residences = std::move(home);
  }

  memory_plan run(const std::vector<std::vector<ooc_step>>& calls) {
    find_single_strip_tensors(calls);
    for (const std::vector<ooc_step>& call : calls) {
      const bool moved = run_call(call);
      const auto now = static_cast<std::uint32_t>(plan_.actions.size());
      if (joins_lanes_ && moved) plan_.joins.push_back(now);
    }
    if (!plan_.joins.empty() && plan_.joins.back() == plan_.actions.size()) plan_.joins.pop_back();
    return std::move(plan_);
  }

 private:
  struct resident_part {
    tensor_id what = 0;
    region where;
    bool dirty = false;
    std::size_t step = 0;  // last step known to use it
  };

  // Tensors of which a call needs both whole cross-sections and parts of them get a single strip.
  void find_single_strip_tensors(const std::vector<std::vector<ooc_step>>& calls) {
    single_strip_.assign(g_.tensors.size(), false);
    for (const auto& call : calls) {
      std::vector<bool> whole(g_.tensors.size(), false), part = whole;
      for (const ooc_step& step : call) {
        for (const ooc_need& n : needs_of(g_, plan_.residences, step)) {
          const tensor& t = g_.tensors[n.what];
          (have_same_cross_section(t, n.where, whole_of(t.shape)) ? whole : part)[n.what] = true;
          if (whole[n.what] && part[n.what]) single_strip_[n.what] = true;
        }
      }
    }
  }

  // Returns whether the call copies anything.
  bool run_call(const std::vector<ooc_step>& steps) {
    std::vector<std::vector<ooc_need>> needs;
    for (const ooc_step& s : steps) needs.push_back(needs_of(g_, plan_.residences, s));
    const bool moves = std::ranges::any_of(needs, [](const auto& n) { return !n.empty(); });
    for (const ooc_need& n : needs.front()) fetch(n, 0);
    for (current_step_ = 0; current_step_ < steps.size(); ++current_step_) {
      for (const ooc_need& n : needs[current_step_]) record_use(n);
      std::vector<ooc_need> later;
      const std::size_t next = current_step_ + 1;
      if (next < steps.size()) {
        for (const ooc_need& n : needs[next]) {
          if (!fetch_during_previous_step(n, next)) later.push_back(n);
        }
      }
      for (const compute& c : steps[current_step_]) plan_.actions.emplace_back(c);
      release(next);
      for (const ooc_need& n : later) fetch(n, next);
    }
    for (const resident_part& r : pending_evicts_) append_evict(r);
    pending_evicts_.clear();
    return moves;
  }

  // Records that the current step uses the part, so that it stays on the device.
  void record_use(const ooc_need& n) {
    const auto at = std::ranges::find_if(
        resident_parts_, [&](const resident_part& r) { return r.what == n.what && r.where == n.where; });
    if (at == resident_parts_.end()) {
      resident_parts_.push_back({n.what, n.where, n.is_written, current_step_});
    } else {
      at->dirty = at->dirty || n.is_written;
    }
  }

  // Whether a resident part shares elements with the needed one and cannot stay beside it.
  bool conflicts(const resident_part& r, const ooc_need& n) const {
    return r.what == n.what && overlap(r.where, n.where) &&
           (r.dirty || single_strip_[n.what] ||
            have_same_cross_section(g_.tensors[n.what], r.where, n.where));
  }

  // Copies the part during the previous step, unless it is on the device. Returns false, and copies nothing,
  // if it conflicts with a part that the previous step still holds.
  bool fetch_during_previous_step(const ooc_need& n, std::size_t step) {
    for (resident_part& r : resident_parts_) {
      if (r.what != n.what || r.where != n.where || (joins_lanes_ && !r.dirty)) continue;
      r.step = step;
      return true;
    }
    const auto blocks = [&](const resident_part& r) { return conflicts(r, n); };
    if (std::ranges::any_of(resident_parts_, blocks) || std::ranges::any_of(pending_evicts_, blocks))
      return false;
    append_prefetch(n, step);
    return true;
  }

  void fetch(const ooc_need& n, std::size_t step) {
    std::erase_if(pending_evicts_, [&](const resident_part& r) {
      if (!conflicts(r, n)) return false;
      append_evict(r);
      return true;
    });
    append_prefetch(n, step);
  }

  void append_prefetch(const ooc_need& n, std::size_t step) {
    if (!n.is_fetched) return;
    plan_.actions.emplace_back(prefetch{n.what, box_of(g_.tensors[n.what].shape, n.where)});
    resident_parts_.push_back({n.what, n.where, false, step});
  }

  // Evicts parts that the next step does not use: those only read now, written ones during the next step.
  void release(std::size_t next) {
    for (const resident_part& r : pending_evicts_) append_evict(r);
    pending_evicts_.clear();
    std::erase_if(resident_parts_, [&](const resident_part& r) {
      if (r.step == next) return false;
      if (r.dirty) {
        pending_evicts_.push_back(r);
      } else {
        append_evict(r);
      }
      return true;
    });
  }

  void append_evict(const resident_part& r) {
    plan_.actions.emplace_back(evict{r.what, box_of(g_.tensors[r.what].shape, r.where)});
  }

  const graph& g_;
  bool joins_lanes_;
  memory_plan plan_;
  std::vector<bool> single_strip_;  // per tensor: it gets a single strip (core/strips.hpp)
  std::vector<resident_part> resident_parts_, pending_evicts_;
  std::size_t current_step_ = 0;
};

}  // namespace

std::vector<ooc_need> needs_of(const graph& g, const std::vector<residence>& home, const ooc_step& step) {
  std::vector<ooc_need> all;
  for (const compute& c : step) {
    for (const access& a : accesses_of(g, g.ops[c.op], c.part)) {
      if (home[a.tensor] != residence::staged) continue;
      const bool writes = a.mode != access_mode::read, reads = a.mode != access_mode::write;
      const auto at = std::ranges::find(all, a.tensor, &ooc_need::what);
      if (at == all.end()) {
        all.push_back({a.tensor, a.where, reads, writes});
        continue;
      }
      at->where = {hull(at->where.batch, a.where.batch), hull(at->where.channel, a.where.channel),
                   hull(at->where.row, a.where.row)};
      at->is_written = at->is_written || writes;
    }
  }
  return all;
}

memory_plan stream_calls(const graph& g, std::vector<residence> home,
                         const std::vector<std::vector<ooc_step>>& calls, bool waits_at_call_end) {
  return call_streamer(g, std::move(home), waits_at_call_end).run(calls);
}

}  // namespace um
