#include "simulator/kernel_touches.hpp"

#include <algorithm>
#include <type_traits>

#include "core/memory_plan.hpp"
#include "simulator/driver_clock.hpp"

namespace um {
namespace {

constexpr byte_count bytes_per_thread = 16;
constexpr byte_count threads_per_multiprocessor = 2048;

using enum touch_phase;
using phases = std::vector<touch_phase>;

byte_count size_of(const graph& g, tensor_id t) {
  return bytes_of(g.tensors[t]);
}

// y = x w: the larger of x and w is streamed. y is streamed if x is, else written after the waves.
phases linear_phases(const graph& g, const op& o) {
  const bool by_rows = size_of(g, o.in[0]) > size_of(g, o.in[1]);
  phases p(o.in.size() + o.out.size(), every_wave);
  p[by_rows ? 0 : 1] = streamed;
  p[o.in.size()] = by_rows ? streamed : after_waves;
  return p;
}

// dx = dy w, operands w, dy -> dx.
phases linear_data_phases(const graph& g, const op& o) {
  const bool by_rows = size_of(g, o.out[0]) > size_of(g, o.in[0]);
  return by_rows ? phases{every_wave, streamed, streamed} : phases{streamed, every_wave, after_waves};
}

// dw = x dy, operands x, dy -> dw [, db].
phases linear_filter_phases(const graph& g, const op& o) {
  const bool by_rows = size_of(g, o.in[0]) > size_of(g, o.out[0]);
  phases p = by_rows ? phases{streamed, streamed, after_waves} : phases{every_wave, every_wave, streamed};
  if (o.out.size() > 1) p.push_back(after_waves);
  return p;
}

phases convolution_phases(const op& o) {
  phases p(o.in.size() + o.out.size(), every_wave);
  p[0] = p[o.in.size()] = streamed;
  return p;
}

struct touched_operand {
  address at;
  access_mode mode = access_mode::read;
  touch_phase phase = touch_phase::streamed;
  bool is_input = false;
  std::vector<range> runs;           // ranges of the arena that the operand covers
  std::vector<range> to_touch;       // ranges to touch in a pass: all, or those missing when the pass begins
  std::uint64_t evictions_seen = 0;  // number of evictions when the operand was last touched as a whole
  bool touched = false, over_the_link = false;
};

bool same_bytes(const touched_operand& a, const touched_operand& b) {
  return a.at.where == b.at.where && a.at.offset == b.at.offset && a.runs == b.runs;
}

// Operands that are not in the device arena. Operands that share their bytes (in place) count as one that is
// read and written; it is streamed if one of them is.
std::vector<touched_operand> operands_off_device(const simulation_input& run, const step& s) {
  const op o = operator_of(run.network, std::get<compute>(s.command));
  const std::vector<touch_phase> each = phases_of(run.network, o);
  std::vector<touched_operand> all;
  for (std::size_t i = 0; i < s.operands.size(); ++i) {
    const operand& x = s.operands[i];
    if (x.location.where == space::device) continue;
    touched_operand t;
    t.at = x.location;
    t.mode = x.accessed.mode;
    t.phase = i < each.size() ? each[i] : touch_phase::streamed;
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

// The driver's work for an operator on the CPU. Operands in pinned memory cost nothing extra.
managed_traffic touch_by_cpu(const simulation_input& run, const step& s, managed_memory& memory) {
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
  kernel_simulation(const simulation_input& run, const step& s, managed_memory& memory)
      : run_(run), memory_(memory), operands_(operands_off_device(run, s)) {
    const op o = operator_of(run.network, std::get<compute>(s.command));
    passes_ = extra_input_passes(o);
    hits_first_ = run.order == touch_orders::hits_first ||
                  (run.order == touch_orders::by_grid && grid_of(o) == grid_kind::resident);
  }

  managed_traffic run() {
    if (all_resident()) return {};
    for (unsigned pass = 0; pass < passes_; ++pass) {
      begin_pass(true);
      for (std::uint64_t w = 0; w < waves_; ++w) touch_streamed(w, true);
    }
    begin_pass(false);
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
             std::ranges::all_of(t.runs, [&](const range& r) { return memory_.would_hit(r, t.mode); });
    });
  }

  void begin_pass(bool inputs_only) {
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
      const managed_traffic done = t.at.where == space::pinned
                                       ? access_over_link(r, t.mode)
                                       : memory_.touch(r, t.mode, {}, driver_is_busy_);
      if (done.remote_bytes > 0) t.over_the_link = true;
      driver_is_busy_ = driver_is_busy_ || done.batches > 0;
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

  const simulation_input& run_;
  managed_memory& memory_;
  std::vector<touched_operand> operands_;
  unsigned passes_ = 0;
  bool hits_first_ = false;  // whether hits do not wait for misses
  std::uint64_t waves_ = 1;
  bool driver_is_busy_ = false;  // whether the driver has already serviced a fault of this kernel
  managed_traffic traffic_;
};

}  // namespace

std::vector<touch_phase> phases_of(const graph& g, const op& o) {
  return std::visit(
      overloaded{[&](const convolution&) { return convolution_phases(o); },
                 [](const convolution_backward_data&) { return phases{every_wave, streamed, streamed}; },
                 [](const convolution_backward_filter&) { return phases{streamed, streamed, after_waves}; },
                 [&](const linear&) { return linear_phases(g, o); },
                 [&](const linear_backward_data&) { return linear_data_phases(g, o); },
                 [&](const linear_backward_filter&) { return linear_filter_phases(g, o); },
                 [&](const auto&) { return phases(o.in.size() + o.out.size(), streamed); }},
      o.attributes.value);
}

grid_kind grid_of(const op& o) {
  return std::visit(
      []<class T>(const T&) {
        constexpr bool sums_channels =
            std::is_same_v<T, bias_backward> || std::is_same_v<T, relu_bias_backward> ||
            std::is_same_v<T, batch_norm> || std::is_same_v<T, batch_norm_backward>;
        return sums_channels ? grid_kind::resident : grid_kind::waves;
      },
      o.attributes.value);
}

unsigned extra_input_passes(const op& o) {
  return std::visit(
      []<class T>(const T&) {
        return std::is_same_v<T, batch_norm> || std::is_same_v<T, batch_norm_backward> ? 1U : 0U;
      },
      o.attributes.value);
}

byte_count wave_bytes(const machine& on) {
  return round_up(on.multiprocessors * threads_per_multiprocessor * bytes_per_thread, managed_block);
}

std::vector<range> wave_of(const std::vector<range>& runs, std::uint64_t i, std::uint64_t n) {
  byte_count total = 0;
  for (const range& r : runs) total += r.bytes;
  const auto cut = [&](std::uint64_t k) -> byte_count {
    if (k == 0 || k == n) return k == 0 ? 0 : total;
    const byte_count at = total / n * k + total % n * k / n;
    if (runs.size() != 1) return at;
    const byte_count block = round_down(runs.front().offset + at, managed_block);
    return std::max(block, runs.front().offset) - runs.front().offset;
  };
  const byte_count begin = cut(i), end = cut(i + 1);
  std::vector<range> part;
  byte_count at = 0;
  for (const range& r : runs) {
    const byte_count from = std::max(begin, at), to = std::min(end, at + r.bytes);
    if (from < to) part.push_back({r.offset + (from - at), to - from});
    at += r.bytes;
    if (at >= end) break;
  }
  return part;
}

managed_traffic touch_operands(const simulation_input& run, const step& s, managed_memory& memory) {
  if (runs_on_cpu(run.network.ops[std::get<compute>(s.command).op])) return touch_by_cpu(run, s, memory);
  return kernel_simulation(run, s, memory).run();
}

}  // namespace um
