#include "planners/torch_walk.hpp"

#include <algorithm>

namespace um {

torch_estimate torch_walk::run_both_passes() {
  estimate_ = {};
  kernel_count_ = 0;
  live_ = flow_.step.base_bytes;
  copies_.begin_forward();
  run_graph(orders_.forward, false);
  wait_for_copies();
  estimate_.forward_peak = estimate_.peak;
  for (const torch_id v : orders_.used_saved) {
    if (!orders_.is_offloaded[v]) estimate_.saved_bytes += flow_.reserved_bytes(v);
  }
  // Saved tensors, the caller's results and incoming gradients are in memory from the start.
  live_ = flow_.step.base_bytes + estimate_.saved_bytes;
  for (torch_id v = 0; v < flow_.memory_owner.size(); ++v) {
    const torch_node& node = flow_.at(v);
    const bool incoming = node.kind == torch_kind::input && !node.is_resident;
    const bool returned = flow_.is_forward_result[v] && node.can_run_forward && !orders_.is_saved[v];
    if (incoming || returned) live_ += flow_.reserved_bytes(v);
  }
  run_graph(orders_.backward, true);
  estimate_.excess /= static_cast<double>(std::max<std::size_t>(1, kernel_count_));
  estimate_.ns = std::max(estimate_.ns, host_ns());
  return estimate_;
}

// CPU time to launch all kernels and copies: the GPU waits for it if kernels are short.
std::int64_t torch_walk::host_ns() const {
  const auto kernels = static_cast<std::int64_t>(kernel_count_),
             copies = 2 * static_cast<std::int64_t>(copies_.offloads().size());
  return kernels * flow_.step.kernel_launch_cpu_ns + copies * flow_.step.copy_launch_cpu_ns;
}

void torch_walk::run_graph(const std::vector<torch_id>& order, bool backward) {
  torch_kernels& kernels = backward ? backward_kernels_ : forward_kernels_;
  kernels_ = &kernels;
  std::vector<std::pair<torch_id, bool>> graph;
  for (const torch_id v : order) graph.emplace_back(v, kernels.is_kept(v, backward));
  if (graph != (backward ? backward_graph_ : forward_graph_)) {
    kernels.fuse(order, backward);
    (backward ? backward_graph_ : forward_graph_) = std::move(graph);
  }
  const std::size_t n = kernels_->count();
  kernel_count_ += n;
  for (std::size_t t = 0; t < n; ++t) {
    for (const torch_id b : kernels_->kernel(t).reads) last_use_[b] = t;
    for (const torch_id b : kernels_->kernel(t).writes) last_use_[b] = t;
  }
  for (std::size_t t = 0; t < n; ++t) {
    for (const torch_id b : kernels_->kernel(t).writes) {
      if (kernels_->is_kept(b, backward) && (backward || !orders_.is_offloaded[b])) last_use_[b] = always;
    }
  }
  if (backward) {
    starts_.clear();
    std::int64_t start = estimate_.ns;
    for (std::size_t t = 0; t < n; ++t) {
      starts_.push_back(start);
      start += time_of(kernels_->kernel(t));
    }
    copies_.begin_backward(*kernels_, starts_, estimate_.ns);
  }
  const torch_estimate before = estimate_;
  const std::int64_t live_before = live_;
  bytes_to_free_.assign(n, 0);
  run_kernels(backward);
  if (estimate_.excess <= before.excess || !make_room(backward)) return;
  estimate_ = before;
  live_ = live_before;
  run_kernels(backward);
}

void torch_walk::run_kernels(bool backward) {
  free_bytes_.resize(kernels_->count());
  live_after_.resize(kernels_->count());
  for (std::size_t t = 0; t < kernels_->count(); ++t) {
    if (backward) copy_in(t);
    run_kernel(kernels_->kernel(t), t, backward);
    if (!backward) {
      copy_out(kernels_->kernel(t), t);
      live_after_[t] = live_;
    }
  }
}

// Makes room for kernels that exceeded the budget: waits for copies to the host before them, or delays copies
// back. Returns whether anything changed.
bool torch_walk::make_room(bool backward) {
  if (backward) return !copies_.offloads().empty() && copies_.delay_copies_in(*kernels_, free_bytes_);
  if (copies_.offloads().empty() && copies_.unfinished().empty()) return false;
  std::int64_t missing = 0;  // bytes missing for later kernels
  bool any = false;
  for (std::size_t t = kernels_->count(); t-- > 0;) {
    if (can_wait_after(kernels_->kernel(t))) {
      bytes_to_free_[t] = missing;
      any |= missing > 0;
      missing = 0;
    }
    missing = std::max(missing, -free_bytes_[t]);
  }
  if (!any) return false;
  previous_live_after_.swap(live_after_);
  copies_.begin_forward();
  return true;
}

// Whether the graph can wait for copies right after this kernel. Inductor runs fused kernels when a library
// call needs them, so a wait after their nodes comes too early. A wait keeps its place in the order, so it
// comes too late after a call that runs early.
bool torch_walk::can_wait_after(const torch_kernel& kernel) const {
  return (kernel.is_library && !kernel.runs_early) || !flow_.step.fuses_kernels;
}

// Begins the copies out of a kernel's results, and frees tensors that are copied and no longer read.
void torch_walk::copy_out(const torch_kernel& kernel, std::size_t t) {
  for (const torch_id b : kernel.writes) {
    if (!orders_.is_offloaded[b]) continue;
    copies_.begin_copy_out(b, estimate_.ns);
    estimate_.ns += copies_.kernel_delay_of(b);
  }
  if (!can_wait_after(kernel)) return;
  std::int64_t missing = bytes_to_free_[t] > 0 ? bytes_to_free_[t] - (previous_live_after_[t] - live_) : 0;
  std::erase_if(copies_.unfinished(), [&](const torch_copies::outgoing_copy& each) {
    const bool has_left = each.padded_end_ns <= estimate_.ns;
    if ((!has_left && missing <= 0) || last_use_[each.tensor] > t) return false;
    const std::int64_t bytes = flow_.reserved_bytes(each.tensor);
    if (!has_left) estimate_.ns = std::max(estimate_.ns, each.end_ns);
    live_ -= bytes;
    missing -= bytes;
    copies_.record_end(each.tensor, kernel.members.back());
    return true;
  });
}

void torch_walk::wait_for_copies() {
  for (const auto& each : copies_.unfinished()) {
    estimate_.ns = std::max(estimate_.ns, each.end_ns);
    copies_.record_end(each.tensor, no_node);
  }
  copies_.unfinished().clear();
}

void torch_walk::copy_in(std::size_t t) {
  for (const torch_id b : copies_.begin_copies_in(t, estimate_.ns)) {
    live_ += flow_.reserved_bytes(b);
    estimate_.ns += copies_.kernel_delay_of(b);
  }
  estimate_.ns = copies_.arrival_of_reads(t, estimate_.ns);
}

void torch_walk::run_kernel(const torch_kernel& kernel, std::size_t t, bool backward) {
  std::int64_t written = 0;
  for (const torch_id b : kernel.writes) written += flow_.reserved_bytes(b);
  const std::int64_t workspace = kernel.is_library ? flow_.at(kernel.members[0]).workspace : 0;
  const std::int64_t now = live_ + written - in_place_bytes(kernel, t, backward) + workspace;
  if (now > estimate_.peak) {
    estimate_.peak = now;
    estimate_.peak_node = kernel.members[0];
  }
  free_bytes_[t] = budget_ - now;
  estimate_.excess += static_cast<double>(std::max<std::int64_t>(0, now - budget_));
  estimate_.ns += time_of(kernel);
  live_ += written;
  for (const auto* owners : {&kernel.reads, &kernel.writes}) {
    for (const torch_id b : *owners) {
      if (is_freed_after(b, t, backward)) live_ -= flow_.reserved_bytes(b);
    }
  }
}

bool torch_walk::is_freed_after(torch_id b, std::size_t t, bool backward) const {
  if (last_use_[b] != t || (!backward && orders_.is_offloaded[b])) return false;
  const torch_node& node = flow_.at(b);
  if (node.kind == torch_kind::input) return !node.is_resident && backward;
  return kernels_->runs(b) || (backward && orders_.is_saved[b] && !flow_.is_forward_result[b]);
}

// Bytes of a kernel's results that overwrite inputs. Inductor does so if the result's own loop is the input's
// last reader, element by element, and no other loop of the kernel reads the input
// (python/umbench/torch/kernels.py: Kernel.overwritable).
std::int64_t torch_walk::in_place_bytes(const torch_kernel& kernel, std::size_t t, bool backward) const {
  if (kernel.is_library) {
    const torch_node& node = flow_.at(kernel.members[0]);
    const torch_id first = node.writes_over_first_input ? flow_.memory_owner[node.inputs[0]] : no_node;
    const bool is_over = first != no_node && kernels_->runs(first) && is_freed_after(first, t, backward);
    return is_over ? flow_.reserved_bytes(first) : 0;
  }
  if (kernel.writes.empty()) return 0;
  std::vector<torch_id> taken = kernel.shared_reads;
  std::int64_t bytes = 0;
  for (const torch_id written : kernel.writes) {
    const auto& shifted = kernels_->shifted_reads_of(flow_.producer(written));
    for (const torch_id b : kernels_->reads_of(flow_.producer(written))) {
      if (std::ranges::find(shifted, b) != shifted.end()) continue;
      const bool from_outside = std::ranges::find(kernel.reads, b) != kernel.reads.end();
      const bool is_taken = std::ranges::find(taken, b) != taken.end();
      const bool came_back = backward && orders_.is_offloaded[b];  // Inductor does not overwrite copies
      if (!from_outside || is_taken || came_back || flow_.at(b).bytes != flow_.at(written).bytes ||
          !is_freed_after(b, t, backward))
        continue;
      bytes += flow_.reserved_bytes(b);
      taken.push_back(b);
      break;
    }
  }
  return bytes;
}

std::int64_t torch_walk::time_of(const torch_kernel& kernel) const {
  if (kernel.is_library) return flow_.at(kernel.members[0]).ns;
  constexpr std::int64_t widest = 8;  // maximum bytes of an element
  std::int64_t steps = 0, bytes = 0;
  double bandwidth_share = 1;
  for (const torch_id v : kernel.members) {
    steps = std::max(steps, flow_.at(v).elements);
    bandwidth_share = std::min(bandwidth_share, flow_.at(v).bandwidth_share);
  }
  for (const torch_id b : kernel.reads) bytes += std::min(flow_.at(b).bytes, widest * steps);
  for (const torch_id b : kernel.writes) bytes += flow_.at(b).bytes;
  const double moved = static_cast<double>(bytes) / (bandwidth_share * flow_.step.bytes_per_ns);
  return flow_.step.kernel_gap_ns + std::max(flow_.step.min_kernel_ns, static_cast<std::int64_t>(moved));
}

}  // namespace um
