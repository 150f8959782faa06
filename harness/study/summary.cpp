#include "harness/study/summary.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <ranges>

namespace um {
namespace {

std::string row(std::string_view label, const std::string& text) {
  return fmt::format("  {:<11}{}\n", label, text);
}

// The footprint, then a row per term: bytes alive at the peak and fragmentation.
std::string footprint_rows(const footprint_terms& f) {
  const byte_count live = f.total - f.fragmentation;
  std::string text = row(
      "footprint", fmt::format("{}, {:.3f} of what is live at the peak", to_text(f.total),
                               live == 0 ? 1.0 : static_cast<double>(f.total) / static_cast<double>(live)));
  for (const auto& [name, bytes] : {std::pair{"weights", f.parameters},
                                    {"gradients of weights", f.parameter_gradients},
                                    {"activations", f.activations},
                                    {"gradients of activations", f.activation_gradients},
                                    {"inputs and labels", f.inputs},
                                    {"workspace", f.workspace},
                                    {"fragmentation", f.fragmentation}}) {
    text += row("", fmt::format("{:<26}{}", name, to_text(bytes)));
  }
  return text;
}

std::string moved_text(const counters& c) {
  const auto text = [](std::optional<byte_count> b) { return b ? to_text(*b) : "not observed"; };
  return fmt::format("to the device {}, to the host {}", text(bytes_to_device(c)), text(bytes_to_host(c)));
}

// Explains how a run stays within the budget although its arenas are larger; "" if they are not larger.
std::string larger_arenas_note(const memory_figures& m) {
  if (!m.budget || *m.device_arena + *m.managed_arena <= *m.budget) return "";
  return fmt::format(" (addresses, of which at most {} are on the device at once)",
                     to_text(*m.budget - std::min(*m.budget, *m.device_arena)));
}

std::string memory_rows(const memory_figures& m) {
  std::string text;
  if (m.footprint) text += footprint_rows(*m.footprint);
  if (m.budget) text += row("budget", to_text(*m.budget));
  if (m.device_arena && m.managed_arena && m.pinned_arena) {
    text += row("arenas",
                fmt::format("device {}, managed {}{}, pinned host {}", to_text(*m.device_arena),
                            to_text(*m.managed_arena), larger_arenas_note(m), to_text(*m.pinned_arena)));
  }
  return text;
}

std::string faults_text(const counters& c) {
  if (!c.faults || !c.fault_batches) return "";
  return fmt::format(", {} faults in {} batches", *c.faults, *c.fault_batches);
}

std::string amplification_text(const record& r) {
  const auto times = amplification(*r.last, r.memory.touched.value_or(0));
  return times ? fmt::format(" ({:.2f} times what is touched)", *times) : "";
}

// "first 12.1 ms, then 11.2 ms (median; quartiles 11.1 ms and 11.4 ms, n = 10)"
std::string iterations_text(const record& r) {
  std::string spread = "median";
  if (const auto q = steady_quartiles(r))
    spread += fmt::format("; quartiles {} and {}", time_text(q->low), time_text(q->high));
  return fmt::format("first {}, then {} ({}, n = {})", time_text(static_cast<double>(r.samples.front())),
                     time_text(steady_ns(r).value()), spread, std::max<std::size_t>(r.samples.size() - 1, 1));
}

std::string observed_rows(const observation& o) {
  std::string text;
  if (o.host_cpu) text += row("processor", time_text(static_cast<double>(*o.host_cpu)) + " an iteration");
  if (o.energy_uj)
    text += row("energy", fmt::format("{:.3g} J an iteration", static_cast<double>(*o.energy_uj) / 1e6));
  if (o.after && o.after->throttled_by && !o.after->throttled_by->empty()) {
    text += row("clocks", fmt::format("held down: {}", fmt::join(*o.after->throttled_by, ", ")));
  }
  return text;
}

// The number of things with each name: "3 device, 0 staged".
template <class Names, class Things, class NameOf>
std::string counts_text(const Names& names, const Things& things, NameOf name_of) {
  std::string text;
  for (const std::string_view name : names) {
    const auto n = std::ranges::count_if(things, [&](const auto& thing) { return name_of(thing) == name; });
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", n, name);
  }
  return text;
}

std::string residence_counts_text(const memory_plan& plan) {
  const auto name_of = [](residence home) { return to_text(home); };
  return counts_text(all_values<residence>() | std::views::transform(name_of), plan.residences, name_of);
}

std::string action_counts_text(const memory_plan& plan) {
  return counts_text(verbs, plan.actions, [](const action& a) { return verb_of(a); });
}

std::string_view launch_text(launch_mode mode) {
  if (mode == launch_mode::cuda_graph) return "as one CUDA graph";
  if (mode == launch_mode::stretch_graphs) return "as CUDA graphs, with the copies beside them";
  if (mode == launch_mode::operator_graphs) return "operator by operator, each a CUDA graph";
  return "call by call";
}

std::string bound_text(nanoseconds ns) {
  return ns == no_bound ? std::string("no such plan") : time_text(static_cast<double>(ns));
}
std::string bounds_text(const class_bounds& b) {
  return fmt::format(
      "{} with swapping and recomputation ({} with swapping alone, {} with recomputation alone)",
      bound_text(b.both), bound_text(b.swap), bound_text(b.recompute));
}

std::string kind_text(const plan_kind& kind) {
  const char* does = kind.swaps && kind.recomputes ? "swap and recompute"
                     : kind.swaps                  ? "only swap"
                     : kind.recomputes             ? "only recompute"
                                                   : "neither swap nor recompute";
  if (kind.narrowest_class == plan_class::any) return "any plan";
  return fmt::format("plans that {}, {}", does,
                     kind.narrowest_class == plan_class::two_passes
                         ? "the whole batch forward and then backward"
                         : "whole operators in this order");
}

// "1.06 of 20.7 ms, the least for plans that ...", and the bounds of other kinds of plans. Measured operators
// were timed one by one; in one graph they take a few percent less.
std::string bound_rows(const time_bounds& b, const std::optional<plan_bound>& own,
                       const std::optional<double>& time, bool simulated) {
  std::string text;
  if (own && own->min_time != no_bound) {
    const std::string times =
        time ? fmt::format("{:.2f} of ", *time / static_cast<double>(own->min_time)) : std::string();
    text += row("bound", fmt::format("{}{}, the least for {}{}", times, bound_text(own->min_time),
                                     kind_text(own->kind), simulated ? "" : "; operators timed one by one"));
  }
  text += row(text.empty() ? "bound" : "",
              bounds_text(b.two_passes) + ", the whole batch forward and then backward");
  if (b.whole_operators) text += row("", bounds_text(*b.whole_operators) + ", whole operators in order");
  return text;
}

// "no plan that only swaps can take less than 14.0 ms; this one takes 6.52 times that".
std::string lower_bound_text(const plan_bound& own, const std::optional<double>& time) {
  const plan_kind& kind = own.kind;
  const char* does = kind.narrowest_class == plan_class::any ? ""
                     : kind.swaps && kind.recomputes         ? " that swaps and recomputes"
                     : kind.swaps                            ? " that only swaps"
                     : kind.recomputes                       ? " that only recomputes"
                                                             : " that keeps everything resident";
  std::string text = fmt::format("no plan{} can take less than {}", does, bound_text(own.min_time));
  if (time)
    text += fmt::format("; this one takes {:.2f} times that", *time / static_cast<double>(own.min_time));
  return text + " (umbench plan has more bounds)";
}

// The peak of device memory. If the driver evicts, the plan uses more than the budget, and the text says so.
std::string peak_text(const planned_cell& p) {
  const byte_count in_use = peak_device_bytes_of(p.file.mode, p.steps), asked_for = p.steps.peak_device_bytes;
  std::string text = fmt::format("{} of device memory in use", to_text(in_use));
  if (asked_for > in_use)
    text += fmt::format("; the plan touches {}, the driver evicts the rest", to_text(asked_for));
  return text;
}

}  // namespace

std::string time_text(double ns) {
  struct unit {
    double ns;
    const char* name;
  };
  const unit u = ns >= 1e9 ? unit{1e9, "s"} : ns >= 1e5 ? unit{1e6, "ms"} : unit{1e3, "us"};
  const double value = ns / u.ns;
  const int decimals = value < 1 ? 3 : value < 10 ? 2 : value < 100 ? 1 : 0;
  return fmt::format("{:.{}f} {}", value, decimals, u.name);
}

std::string provenance(const record& r) {
  if (!r.simulated) return fmt::format("measured on {}", r.device.value_or(r.backend));
  return fmt::format("simulated on machine file {}, figures {}", parse_backend(r.backend).machine,
                     r.calibrated.value_or(false) ? "calibrated" : "not calibrated") +
         (r.assumes_peak_kernels ? ", kernels at 100 % of the peak" : "");
}

std::string provenance(const machine& m) {
  const std::string text = all_measured(m) ? "calibrated" : "not calibrated";
  const std::string kernels = m.operators.empty() ? ", kernels at 100 % of the peak" : "";
  if (m.estimated.empty()) return text + kernels;
  return fmt::format("{}, {} of its figures estimated{}", text, m.estimated.size(), kernels);
}

std::string unmeasured_kernels_warning(const machine& m) {
  std::vector<std::string_view> at_peak;
  for (const auto& [kind, rate] : {std::pair{precision::fp32, m.fp32_flops_per_s},
                                   {precision::tf32, m.tf32_flops_per_s},
                                   {precision::bf16, m.bf16_flops_per_s}}) {
    const bool is_measured =
        std::ranges::find(m.operators, to_text(kind), &operator_speed::precision) != m.operators.end();
    if (rate > 0 && !is_measured) at_peak.push_back(to_text(kind));
  }
  if (at_peak.empty()) return "";
  return fmt::format(
      "at 100 % of the peak in {}: the file has no measured rate of an operator. Real kernels are slower, so "
      "copies and faults look worse beside them than they are",
      fmt::join(at_peak, ", "));
}

std::string precision_text(const network_spec& of, const machine& target) {
  if (of.arithmetic != precision::fp32 || target.tf32_flops_per_s <= target.fp32_flops_per_s) return "";
  return fmt::format(
      "fp32 without TF32; products may be {:.1f} times as fast with --precision tf32",
      static_cast<double>(target.tf32_flops_per_s) / static_cast<double>(target.fp32_flops_per_s));
}

std::string outcome_text(const record& r) {
  if (const auto time = steady_ns(r)) return fmt::format("{} {}", time_text(*time), to_text(r.result));
  return r.reason ? fmt::format("{}: {}", to_text(r.result), *r.reason) : std::string(to_text(r.result));
}

std::string summary(const record& r) {
  std::string text = r.key + "\n";
  text += row("", provenance(r));
  text += row("outcome", std::string(to_text(r.result)) + (r.reason ? ": " + *r.reason : ""));
  text += memory_rows(r.memory);
  if (steady_ns(r)) text += row("iteration", iterations_text(r));
  if (r.compute_time) {
    text += row("operators",
                fmt::format("{} with everything resident", time_text(static_cast<double>(*r.compute_time))));
  }
  if (r.bound && r.bound->min_time != no_bound)
    text += row("bound", lower_bound_text(*r.bound, steady_ns(r)));
  for (const std::string& line : r.notes) text += row("planner", line);
  if (r.launch) text += row("launched", std::string(launch_text(*r.launch)));
  if (r.last)
    text += row("moved", moved_text(*r.last) + amplification_text(r) + faults_text(*r.last) +
                             " in the last iteration");
  text += observed_rows(r.gpu_and_host);
  if (r.loss) text += row("loss", fmt::format("{}", *r.loss));
  return text;
}

std::string summary(const planned_cell& p) {
  const memory_plan& plan = p.file.plan;
  std::string text = fmt::format("{} on {} batch {}, {}, {}, mode {}, budget {}\n", p.file.strategy,
                                 p.file.network.spec.name, p.file.network.spec.batch,
                                 to_text(p.file.network.spec.fusion_mode), storage_text(p.file.network.spec),
                                 to_text(p.file.mode), to_text(p.file.budget));
  text += row("tensors", residence_counts_text(plan));
  text += row("actions", action_counts_text(plan));
  memory_figures m;
  m.budget = p.file.budget;
  m.device_arena = p.steps.device_arena_bytes;
  m.managed_arena = p.steps.managed_arena_bytes;
  m.pinned_arena = p.steps.pinned_arena_bytes;
  text += memory_rows(m);
  text += row("peak", peak_text(p));
  if (p.expected_time)
    text += row("expected",
                fmt::format("{} an iteration, simulated", time_text(static_cast<double>(*p.expected_time))));
  text +=
      bound_rows(p.bounds, p.bound,
                 p.expected_time ? std::optional(static_cast<double>(*p.expected_time)) : std::nullopt, true);
  text += row("planned", fmt::format("in {}", time_text(static_cast<double>(p.planning_time))));
  for (const std::string& line : p.notes) text += row("planner", line);
  return text;
}

}  // namespace um
