#include "planners/ooc_cudnn.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <set>
#include <string>

#include "core/errors.hpp"
#include "core/layout.hpp"
#include "core/liveness.hpp"
#include "core/lower.hpp"
#include "planners/ooc_stream.hpp"
#include "planners/planners.hpp"
#include "planners/within.hpp"
#include "simulator/simulate.hpp"

namespace um {
namespace {

using kind = ooc_call::kind;

byte_count arena_bytes(const tensor& t) {
  return round_up(bytes_of(t), arena_alignment);
}

// --- device memory, first come, first served ---

bool is_private_to_call(const graph& g, const ooc_call& call, tensor_id t, const index_range& s) {
  return !survives(g.tensors[t].role) && s.first >= call.begin && s.last < call.end;
}

class first_come_allocator {
 public:
  first_come_allocator(const graph& g, byte_count room, byte_count most)
      : g_(g), room_(room), free_(std::min(most, room)), is_placed_(g.tensors.size()) {
    placement_.home.assign(g.tensors.size(), residence::device);
    placement_.touched = touched_ranges(g);
  }

  ooc_placement run(const std::vector<ooc_call>& calls) {
    for (tensor_id t = 0; t < g_.tensors.size(); ++t) {
      if (persists(g_.tensors[t].role)) place(t);
    }
    for (const ooc_call& call : calls) {
      for (op_id o = call.begin; o < call.end; ++o) place_outputs(call, o);
      placement_.free_bytes.push_back(room_ - std::min(room_, used_));
      free_last_uses(call);
    }
    return std::move(placement_);
  }

 private:
  void place(tensor_id t) {
    if (is_placed_[t]) return;
    is_placed_[t] = true;
    const byte_count bytes = arena_bytes(g_.tensors[t]);
    if (bytes < free_) {
      free_ -= bytes;
      used_ += bytes;
    } else {
      placement_.home[t] = residence::staged;
    }
  }

  void place_outputs(const ooc_call& call, op_id o) {
    for (std::size_t i = 0; i < g_.ops[o].out.size(); ++i) {
      const tensor_id t = g_.ops[o].out[i];
      if (is_private_to_call(g_, call, t, *placement_.touched[t])) continue;
      if (!reuses_input_memory(call, o, i)) place(t);
    }
  }

  // Lets an output reuse the memory of an input at its last use, if possible. Returns whether it does.
  bool reuses_input_memory(const ooc_call& call, op_id o, std::size_t output) {
    const op& x = g_.ops[o];
    if (!x.alias || x.alias->output != output) return false;
    const tensor_id from = x.in[x.alias->input], to = x.out[output];
    const bool has_place = is_placed_[from] && placement_.home[from] == residence::device && !is_placed_[to];
    if (!has_place || from == to || survives(g_.tensors[from].role) || placement_.touched[from]->last != o ||
        is_private_to_call(g_, call, from, *placement_.touched[from]) ||
        arena_bytes(g_.tensors[from]) != arena_bytes(g_.tensors[to])) {
      return false;
    }
    is_placed_[to] = true;
    reused_tensors_.insert(from);
    return true;
  }

  void free_last_uses(const ooc_call& call) {
    std::set<tensor_id> done;
    for (op_id o = call.begin; o < call.end; ++o) {
      for (const auto* operands : {&g_.ops[o].in, &g_.ops[o].out})
        done.insert(operands->begin(), operands->end());
    }
    for (const tensor_id t : done) {
      const bool has_place =
          is_placed_[t] && placement_.home[t] == residence::device && !reused_tensors_.contains(t);
      if (!has_place || survives(g_.tensors[t].role) || placement_.touched[t]->last >= call.end) continue;
      free_ += arena_bytes(g_.tensors[t]);
      used_ -= arena_bytes(g_.tensors[t]);
    }
  }

  const graph& g_;
  byte_count room_, free_, used_ = 0;
  std::vector<bool> is_placed_;
  std::set<tensor_id> reused_tensors_;  // tensors whose memory an output reuses
  ooc_placement placement_;
};

// --- division of a call into parts ---

class call_divider {
 public:
  call_divider(const problem& p, const ooc_call& call, const ooc_placement& at, byte_count free_bytes)
      : p_(p),
        g_(p.network),
        call_(call),
        home_(at.home),
        available_bytes_(free_bytes),
        max_division_(max_division(g_, call)) {
    for (op_id o = call.begin; o < call.end; ++o) {
      workspace_ = std::max(workspace_, p.operator_costs[o].workspace_bytes);
      for (const auto* operands : {&g_.ops[o].in, &g_.ops[o].out}) {
        for (const tensor_id t : *operands) {
          has_staged_operands_ = has_staged_operands_ || home_[t] == residence::staged;
          if (is_private_to_call(g_, call, t, *at.touched[t])) private_tensors_.insert(t);
        }
      }
    }
    if (has_staged_operands_) workspace_ = std::min(workspace_, free_bytes / 4);
  }

  std::optional<std::vector<ooc_step>> run() {
    std::optional<division> best;
    if (!has_staged_operands_ && time_of({})) best = division{};
    const bool backward = call_.what == kind::backward;
    if (!best) {
      const auto time = [&](const division& d) { return time_of(d); };
      best = backward ? best_division(max_division_, backward_order, time)
                      : best_division(max_division_, forward_order, time);
      if (!best && backward) best = best_division(max_division_, forward_order, time);
    }
    if (!best) return std::nullopt;
    std::vector<ooc_step> steps = steps_of(g_, call_, *best);
    for (ooc_step& step : steps) {
      for (compute& c : step) {
        const byte_count allowed = allowed_workspace(*best);
        if (p_.operator_costs[c.op].workspace_bytes > allowed) c.workspace = allowed;
      }
    }
    return steps;
  }

  byte_count min_bytes() const { return min_bytes_; }

 private:
  struct part_needs {
    // Bytes of staged operands, of tensors that only this call touches, of one operator's scratch memory.
    byte_count staged_bytes = 0, private_bytes = 0, scratch = 0;
    nanoseconds compute_time = 0;
  };

  byte_count allowed_workspace(const division& d) const {
    if (has_staged_operands_ || parts_of(d) > 1) return workspace_;
    return std::min(workspace_,
                    available_bytes_ - std::min(available_bytes_,
                                                required_bytes(needs_of_step(step_of(g_, call_, d, {})), 1)));
  }

  // Time of a part of an operator, estimated from the whole operator.
  nanoseconds time_of(const compute& c) const {
    const op& o = g_.ops[c.op];
    const box all = iteration_domain(g_, o), part = with_explicit_ranges(g_, o, c.part);
    const bool of_convolution = call_.what != kind::other;
    const auto share = [](const interval& i, const interval& of) {
      return static_cast<double>(i.size()) / static_cast<double>(of.size());
    };
    const double volume = share(part.batch, all.batch) * share(part.row, all.row) *
                          share(part.reduction, all.reduction) *
                          share_of_channels(part.channel.size(), all.channel.size(), of_convolution);
    const nanoseconds launch = std::max(p_.target.launch_ns + p_.target.slice_ns, min_launch_time);
    return part_time(p_.operator_costs[c.op].time, launch, volume);
  }

  part_needs needs_of_step(const ooc_step& step) const {
    part_needs all;
    for (const ooc_need& n : needs_of(g_, home_, step))
      all.staged_bytes += bytes_of(g_.tensors[n.what], n.where);
    std::map<tensor_id, byte_count> private_bytes;
    for (const compute& c : step) {
      const op& o = g_.ops[c.op];
      byte_count scratch = 0;
      for (const access& a : accesses_of(g_, o, c.part)) {
        const tensor& t = g_.tensors[a.tensor];
        const byte_count bytes = round_up(bytes_of(t, a.where), arena_alignment);
        if (a.mode == access_mode::accumulate) scratch += bytes;
        if (home_[a.tensor] == residence::staged) continue;
        if (private_tensors_.contains(a.tensor))
          private_bytes[a.tensor] = std::max(private_bytes[a.tensor], bytes);
        if (!is_dense(t, a.where)) scratch += bytes;
      }
      all.scratch = std::max(all.scratch, scratch);
      all.compute_time += time_of(c);
    }
    for (const auto& [t, bytes] : private_bytes) all.private_bytes += bytes;
    return all;
  }
  static byte_count required_bytes(const part_needs& t, std::uint64_t parts) {
    return t.staged_bytes * std::min<std::uint64_t>(parts, 3) + t.private_bytes + t.scratch;
  }

  nanoseconds copy_time(byte_count bytes, std::uint64_t bytes_per_s) const {
    return bytes == 0 || bytes_per_s == 0 ? 0 : p_.target.copy_ns + time_at(bytes, bytes_per_s);
  }

  // Index of the largest part along the rows, if possible one with neighbours on both sides.
  std::uint32_t index_of_largest_rows(const division& d) const {
    const auto extent = static_cast<std::int64_t>(max_division_.h);
    std::uint32_t at = d.h / 2;
    while (at + 1 < d.h && part_of(extent, at, d.h).size() * d.h < extent) ++at;
    return at;
  }

  std::optional<nanoseconds> time_of(const division& d) {
    if (parts_of(d) > max_parts_of_call) return std::nullopt;
    const bool backward = call_.what == kind::backward;
    const ooc_step step =
        step_of(g_, call_, d, {d.n - 1, index_of_largest_rows(d), backward ? 0 : d.xc - 1, d.yc - 1});
    for (const compute& c : step) {
      for (const access& a : accesses_of(g_, g_.ops[c.op], c.part)) {
        const region& r = a.where;
        if (r.batch.size() * r.channel.size() * r.row.size() * g_.tensors[a.tensor].shape.w >= max_elements)
          return std::nullopt;
      }
    }
    const part_needs part = needs_of_step(step);
    const byte_count bytes =
        required_bytes(part, parts_of(d)) + (has_staged_operands_ || parts_of(d) > 1 ? workspace_ : 0);
    min_bytes_ = std::min(min_bytes_, bytes);
    if (bytes > available_bytes_) return std::nullopt;
    return backward ? backward_time_of(step, part, d) : forward_time_of(step, part, d);
  }

  nanoseconds forward_time_of(const ooc_step& step, const part_needs& part, const division& d) const {
    byte_count in = 0, out = 0;
    for (const ooc_need& n : needs_of(g_, home_, step)) {
      const byte_count bytes = bytes_of(g_.tensors[n.what], n.where);
      if (n.is_fetched && (!n.is_written || d.xc == 1)) in += bytes;
      if (n.is_written) out += bytes;
    }
    const nanoseconds off = copy_time(out, p_.target.link_to_host_bytes_per_s);
    return forward_time(
        {copy_time(in, p_.target.link_to_device_bytes_per_s), part.compute_time, off, part.compute_time, off},
        d);
  }

  nanoseconds backward_time_of(const ooc_step& step, const part_needs& part, const division& d) const {
    byte_count x = 0, rest = 0, parameters = 0, dx = 0;
    for (const ooc_need& n : needs_of(g_, home_, step)) {
      const byte_count bytes = bytes_of(g_.tensors[n.what], n.where);
      const bool of_filter = g_.tensors[n.what].role == role::parameter_gradient;
      if (n.is_written) (of_filter ? parameters : dx) += bytes;
      if (n.is_fetched && (!n.is_written || of_filter)) (is_x_of_filter_gradient(n.what) ? x : rest) += bytes;
    }
    const auto in = [&](byte_count b) { return copy_time(b, p_.target.link_to_device_bytes_per_s); };
    const auto out = [&](byte_count b) { return copy_time(b, p_.target.link_to_host_bytes_per_s); };
    return backward_time({in(x), in(rest), part.compute_time, out(parameters), out(dx), part.compute_time,
                          out(parameters), out(dx)},
                         d);
  }
  bool is_x_of_filter_gradient(tensor_id t) const {
    for (op_id o = call_.begin; o < call_.end; ++o) {
      if (has_kind<convolution_backward_filter>(g_.ops[o]) && g_.ops[o].in[0] == t) return true;
    }
    return false;
  }

  // Minimum launch time: small parts must cost time also if the machine's file has no launch time.
  static constexpr nanoseconds min_launch_time = 1000;
  static constexpr std::uint64_t max_parts_of_call = 1 << 14;
  // Maximum number of elements of a part: a limit of cuDNN when ooc_cuDNN was written.
  static constexpr std::int64_t max_elements = std::int64_t{1} << 31;

  const problem& p_;
  const graph& g_;
  const ooc_call& call_;
  const std::vector<residence>& home_;
  byte_count available_bytes_;
  division max_division_;
  byte_count workspace_ = 0, min_bytes_ = std::numeric_limits<byte_count>::max();
  bool has_staged_operands_ = false;
  std::set<tensor_id> private_tensors_;  // tensors that no other call touches
};

// --- plans of all calls ---

std::string call_text(const graph& g, const ooc_call& call) {
  std::string text = g.ops[call.begin].name;
  if (call.end - call.begin > 1) text += " to " + g.ops[call.end - 1].name;
  return text;
}

// Divides each call on its own and streams the parts. A fused call that does not fit becomes one call for
// each of its operators.
memory_plan plan_calls(const problem& p, byte_count room, bool waits_at_call_end) {
  const graph& g = p.network;
  const auto most = room / 100 * static_cast<byte_count>(p.knobs.at("share"));
  std::vector<ooc_call> calls = calls_of(g);
  for (bool again = true; again;) {
    again = false;
    const ooc_placement at = place_first_come(g, calls, room, most);
    std::vector<std::vector<ooc_step>> steps;
    for (std::size_t c = 0; c < calls.size() && !again; ++c) {
      byte_count min_bytes = 0;
      auto parts = steps_within(p, calls[c], at, at.free_bytes[c], min_bytes);
      if (parts) {
        steps.push_back(std::move(*parts));
        continue;
      }
      if (calls[c].end - calls[c].begin == 1) {
        throw infeasible("ooc_cudnn: " + call_text(g, calls[c]) + " takes " + to_text(min_bytes) +
                         " in its smallest parts, and tensors leave it " + to_text(at.free_bytes[c]) +
                         "; the budget is " + to_text(p.budget));
      }
      // The fused function does not fit, so its operators become calls of their own.
      const std::vector<ooc_call> single = split_into_operators(g, calls[c]);
      calls.erase(calls.begin() + static_cast<std::ptrdiff_t>(c));
      calls.insert(calls.begin() + static_cast<std::ptrdiff_t>(c), single.begin(), single.end());
      again = true;
    }
    if (!again) return stream_calls(g, at.home, steps, waits_at_call_end);
  }
  return {};
}

// Calls `make` with `room` = the budget. If its plan needs more than the budget, reduces `room` by the excess
// and tries again.
memory_plan plan_within_budget(const problem& p, const std::function<memory_plan(byte_count room)>& make) {
  byte_count room = p.budget, need = 0;
  for (int tries = 0; tries < 10; ++tries) {
    memory_plan plan;
    try {
      plan = make(room);
    } catch (const infeasible&) {
      if (tries == 0) throw;
      break;
    }
    if (is_clearly_slower(p, plan)) throw too_slow("ooc_cudnn");
    try {
      need = std::ranges::max(live_bytes(with_estimates(p), plan));
      if (need <= p.budget) need = packed_bytes_unless_slow(p, plan, packers::searched, "ooc_cudnn");
    } catch (const too_many_parts& reason) {  // borders of calls do not meet; with less room they may
      if (tries == 9)
        throw infeasible(std::string("ooc_cudnn: ") + reason.what() + "; the budget is " + to_text(p.budget));
      room -= room / 32;
      continue;
    }
    if (need <= p.budget) return plan;
    room -= std::min(room, need - p.budget + p.budget / 200);
  }
  throw infeasible("ooc_cudnn finds no plan that packs into the budget: the last that it made takes " +
                   to_text(need) + ", the budget is " + to_text(p.budget));
}

}  // namespace

ooc_placement place_first_come(const graph& g, const std::vector<ooc_call>& calls, byte_count room,
                               byte_count most) {
  return first_come_allocator(g, room, most).run(calls);
}

std::optional<std::vector<ooc_step>> steps_within(const problem& p, const ooc_call& call,
                                                  const ooc_placement& at, byte_count free_bytes,
                                                  byte_count& min_bytes) {
  call_divider d(p, call, at, free_bytes);
  auto steps = d.run();
  min_bytes = d.min_bytes();
  return steps;
}

memory_plan plan_ooc_cudnn(const problem& p) {
  memory_plan resident = plan_resident(p);
  if (footprint_of(p.network, p.operator_costs).total <= p.budget) return resident;
  const bool keep = p.knobs.at("keep") == 1;
  const auto by_calls = [&] {
    return plan_within_budget(p, [&](byte_count room) { return plan_calls(p, room, !keep); });
  };
  if (!keep) return by_calls();
  std::optional<memory_plan> kept;
  try {
    kept = plan_within_budget(p, [&](byte_count room) { return plan_ooc_kept(p, room); });
  } catch (const infeasible&) {
    return by_calls();
  }
  if (!has_link(p.target)) return std::move(*kept);
  try {
    memory_plan each = by_calls();
    const auto time = [&](const memory_plan& plan) {
      return simulate(p, lower(p, plan), 1).front().duration;
    };
    return time(each) < time(*kept) ? each : std::move(*kept);
  } catch (const infeasible&) {
    return std::move(*kept);
  }
}

}  // namespace um
