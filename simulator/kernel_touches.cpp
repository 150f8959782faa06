#include "simulator/kernel_touches.hpp"

#include <algorithm>

#include "core/compute.hpp"
#include "core/cpu_work.hpp"
#include "simulator/cost.hpp"
#include "simulator/touch_order.hpp"

namespace um {
namespace {

struct touched_operand {
  address at;
  access_mode mode = access_mode::read;
  touch_phase phase = touch_phase::streamed;
  bool is_input = false;
  std::vector<range> runs;      // ranges of the arena it lies in
  std::vector<range> to_touch;  // to touch in a pass: everything, or what is missing when the pass begins
  std::uint64_t evictions_seen = 0;  // by the driver when it was last touched as a whole
  bool touched = false, over_the_link = false;
};

bool same_bytes(const touched_operand& a, const touched_operand& b) {
  return a.at.where == b.at.where && a.at.offset == b.at.offset && a.runs == b.runs;
}

// Operands off the device; those that share their bytes (work in place) are one that is read and
// written, streamed if one of them is.
std::vector<touched_operand> operands_off_device(const simulated_run& run, const step& s) {
  const op o = operator_of(run.network, std::get<compute>(s.command));
  const std::vector<touch_phase> phases = phases_of(run.network, o);
  std::vector<touched_operand> all;
  for (std::size_t i = 0; i < s.operands.size(); ++i) {
    const operand& x = s.operands[i];
    if (x.location.where == space::device) continue;
    touched_operand t;
    t.at = x.location;
    t.mode = x.accessed.mode;
    t.phase = i < phases.size() ? phases[i] : touch_phase::streamed;
    t.is_input = i < o.in.size();
    const std::vector<range> runs = runs_of(run.network.tensors[x.accessed.tensor], x.accessed.where);
    for (const range& r : runs) {
      t.runs.push_back({x.location.offset + r.offset - runs.front().offset, r.bytes});
    }
    const auto same = std::ranges::find_if(all, [&](const touched_operand& a) { return same_bytes(a, t); });
    if (same == all.end()) {
      all.push_back(std::move(t));
      continue;
    }
    if (same->mode != t.mode) same->mode = access_mode::accumulate;
    same->phase = std::min(same->phase, t.phase);
  }
  return all;
}

// Operands in pinned memory cost the CPU nothing extra.
managed_traffic touch_by_cpu(const simulated_run& run, const step& s, managed_memory& memory) {
  const op& o = run.network.ops[std::get<compute>(s.command).op];
  for (std::size_t i = 0; i < o.in.size() && i < s.operands.size(); ++i) {
    if (s.operands[i].location.where != space::device) continue;
    throw infeasible("the CPU uses " + run.network.tensors[o.in[i]].name +
                     ", which this plan keeps on the device: take a strategy of managed memory");
  }
  managed_traffic traffic;
  for (const touched_operand& t : operands_off_device(run, s)) {
    if (t.at.where != space::managed) continue;
    for (const range& r : t.runs) traffic += memory.touch_by_host(r, t.mode);
  }
  return traffic;
}

class kernel_simulation {
 public:
  kernel_simulation(const simulated_run& run, const step& s, managed_memory& memory)
      : run_(run), memory_(memory), operands_(operands_off_device(run, s)) {
    const op o = operator_of(run.network, std::get<compute>(s.command));
    passes_ = extra_input_passes(o);
    hits_first_ = run.order == touch_orders::hits_first ||
                  (run.order == touch_orders::by_grid && grid_of(o) == grid_kind::resident);
  }

  managed_traffic run() {
    if (all_resident()) return {};
    for (unsigned pass = 0; pass < passes_; ++pass) {
      reset_waves(true);
      for (std::uint64_t w = 0; w < waves_; ++w) touch_streamed(w, true);
    }
    reset_waves(false);
    for (std::uint64_t w = 0; w < waves_; ++w) {
      for (touched_operand& t : operands_) touch_in_every_wave(t);
      touch_streamed(w, false);
    }
    for (touched_operand& t : operands_) {
      if (t.phase == touch_phase::after_waves) touch(t, t.runs);
    }
    return traffic_;
  }

 private:
  bool all_resident() const {
    return std::ranges::all_of(operands_, [&](const touched_operand& t) {
      return t.at.where == space::managed &&
             std::ranges::all_of(t.runs, [&](const range& r) { return memory_.hits(r, t.mode); });
    });
  }

  void reset_waves(bool inputs_only) {
    const byte_count wave = wave_bytes(run_.on);
    waves_ = 1;
    for (touched_operand& t : operands_) {
      if (t.phase != touch_phase::streamed || (inputs_only && !t.is_input)) continue;
      const bool hits_first = hits_first_ && t.at.where == space::managed;
      t.to_touch =
          hits_first ? memory_.missing_ranges(t.runs, inputs_only ? access_mode::read : t.mode) : t.runs;
      byte_count bytes = 0;
      for (const range& r : t.to_touch) bytes += r.bytes;
      waves_ = std::max(waves_, (bytes + wave - 1) / wave);
    }
  }

  // Data read over the link is not cached: every wave reads it again.
  void touch_in_every_wave(touched_operand& t) {
    if (t.phase != touch_phase::every_wave) return;
    if (t.touched && !t.over_the_link && t.evictions_seen == memory_.evictions()) return;
    touch(t, t.runs);
    t.evictions_seen = memory_.evictions();
    t.touched = true;
  }

  void touch_streamed(std::uint64_t wave, bool inputs_only) {
    for (touched_operand& t : operands_) {
      if (t.phase != touch_phase::streamed || (inputs_only && !t.is_input)) continue;
      const access_mode whole = t.mode;
      if (inputs_only) t.mode = access_mode::read;
      touch(t, waves_ == 1 ? t.to_touch : wave_of(t.to_touch, wave, waves_));
      t.mode = whole;
    }
  }

  void touch(touched_operand& t, const std::vector<range>& runs) {
    for (const range& r : runs) {
      const managed_traffic done =
          t.at.where == space::pinned ? access_over_link(r, t.mode) : memory_.touch(r, t.mode, {}, busy_);
      if (done.remote_bytes > 0) t.over_the_link = true;
      busy_ = busy_ || done.batches > 0;
      traffic_ += done;
    }
  }

  managed_traffic access_over_link(const range& r, access_mode mode) const {
    const uvm_costs& costs = run_.on.uvm;
    managed_traffic t;
    const auto add = [&](std::uint64_t rate, const char* name) {
      t.time += time_for(r.bytes, rate, run_.on, name);
      t.remote_bytes += r.bytes;
    };
    if (mode != access_mode::write) add(costs.remote_read_bytes_per_s, "uvm.remote_read_bytes_per_s");
    if (mode != access_mode::read) add(costs.remote_write_bytes_per_s, "uvm.remote_write_bytes_per_s");
    return t;
  }

  const simulated_run& run_;
  managed_memory& memory_;
  std::vector<touched_operand> operands_;
  unsigned passes_ = 0;
  bool hits_first_ = false;  // hits do not wait for misses
  std::uint64_t waves_ = 1;
  bool busy_ = false;  // the driver has already serviced a fault of this kernel
  managed_traffic traffic_;
};

}  // namespace

managed_traffic touch_operands(const simulated_run& run, const step& s, managed_memory& memory) {
  if (runs_on_cpu(run.network.ops[std::get<compute>(s.command).op])) return touch_by_cpu(run, s, memory);
  return kernel_simulation(run, s, memory).run();
}

}  // namespace um
