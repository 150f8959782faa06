#include "planners/torch_walk.hpp"

#include <algorithm>

namespace um {

torch_estimate torch_walk::run_both_passes() {
  estimate_ = {};
  count_ = 0;
  live_ = wiring_.step.base_bytes;
  copies_.begin_forward();
  follow(orders_.forward, false);
  wait_for_copies();
  estimate_.forward_peak = estimate_.peak;
  for (const torch_id v : orders_.used) {
    if (!orders_.is_offloaded[v]) estimate_.saved_bytes += wiring_.allocated(v);
  }
  // In memory: saved tensors, results that the caller holds, and the incoming gradients.
  live_ = wiring_.step.base_bytes + estimate_.saved_bytes;
  for (torch_id v = 0; v < wiring_.root.size(); ++v) {
    const torch_node& node = wiring_.at(v);
    const bool incoming = node.kind == torch_kind::input && !node.resident;
    const bool returned = wiring_.forward_result[v] && node.forward && !orders_.is_saved[v];
    if (incoming || returned) live_ += wiring_.allocated(v);
  }
  follow(orders_.backward, true);
  estimate_.excess /= static_cast<double>(std::max<std::size_t>(1, count_));
  estimate_.ns = std::max(estimate_.ns, host_ns());
  return estimate_;
}

// What the CPU takes to launch everything: the GPU waits for it where kernels are short.
std::int64_t torch_walk::host_ns() const {
  const auto kernels = static_cast<std::int64_t>(count_),
             copies = 2 * static_cast<std::int64_t>(copies_.made().size());
  return kernels * wiring_.step.host_kernel_ns + copies * wiring_.step.host_copy_ns;
}

void torch_walk::follow(const std::vector<torch_id>& order, bool backward) {
  torch_kernels& fused = backward ? backward_kernels_ : forward_kernels_;
  kernels_ = &fused;
  std::vector<std::pair<torch_id, bool>> graph;
  for (const torch_id v : order) graph.emplace_back(v, fused.is_kept(v, backward));
  if (graph != (backward ? backward_graph_ : forward_graph_)) {
    fused.fuse(order, backward);
    (backward ? backward_graph_ : forward_graph_) = std::move(graph);
  }
  const std::size_t n = kernels_->count();
  count_ += n;
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
  missing_.assign(n, 0);
  run_all(backward);
  if (estimate_.excess <= before.excess || !make_room(backward)) return;
  estimate_ = before;
  live_ = live_before;
  run_all(backward);
}

void torch_walk::run_all(bool backward) {
  free_.resize(kernels_->count());
  live_after_.resize(kernels_->count());
  for (std::size_t t = 0; t < kernels_->count(); ++t) {
    if (backward) copy_in(t);
    run(kernels_->kernel(t), t, backward);
    if (!backward) {
      copy_out(kernels_->kernel(t), t);
      live_after_[t] = live_;
    }
  }
}

// Where kernels found too little room: what goes to the host is waited for before them, what comes back
// begins later. Whether that changes anything.
bool torch_walk::make_room(bool backward) {
  if (backward) return !copies_.made().empty() && copies_.delay(*kernels_, free_);
  if (copies_.made().empty() && copies_.open().empty()) return false;
  std::int64_t missing = 0;  // for the kernels from the next on, until copies may be waited for again
  bool any = false;
  for (std::size_t t = kernels_->count(); t-- > 0;) {
    if (may_wait_behind(kernels_->kernel(t))) {
      missing_[t] = missing;
      any |= missing > 0;
      missing = 0;
    }
    missing = std::max(missing, -free_[t]);
  }
  if (!any) return false;
  live_then_.swap(live_after_);
  copies_.begin_forward();
  return true;
}

// Inductor computes what it fuses when a library call wants it: a wait behind a fused node comes too early. A
// wait keeps its place among the nodes: behind a call that runs early it comes too late.
bool torch_walk::may_wait_behind(const torch_kernel& kernel) const {
  return (kernel.library && !kernel.early) || !wiring_.step.fused;
}

// Begins the copies of what a kernel wrote, and frees what has been copied and read.
void torch_walk::copy_out(const torch_kernel& kernel, std::size_t t) {
  for (const torch_id b : kernel.writes) {
    if (!orders_.is_offloaded[b]) continue;
    copies_.begin_copy_out(b, estimate_.ns);
    estimate_.ns += copies_.kernel_delay_of(b);
  }
  if (!may_wait_behind(kernel)) return;
  std::int64_t missing = missing_[t] > 0 ? missing_[t] - (live_then_[t] - live_) : 0;
  std::erase_if(copies_.open(), [&](const torch_copies::leaving& each) {
    const bool has_left = each.latest <= estimate_.ns;
    if ((!has_left && missing <= 0) || last_use_[each.tensor] > t) return false;
    const std::int64_t bytes = wiring_.allocated(each.tensor);
    if (!has_left) estimate_.ns = std::max(estimate_.ns, each.done);
    live_ -= bytes;
    missing -= bytes;
    copies_.gone(each.tensor, kernel.members.back());
    return true;
  });
}

void torch_walk::wait_for_copies() {
  for (const auto& each : copies_.open()) {
    estimate_.ns = std::max(estimate_.ns, each.done);
    copies_.gone(each.tensor, no_node);
  }
  copies_.open().clear();
}

void torch_walk::copy_in(std::size_t t) {
  for (const torch_id b : copies_.begin_copies_in(t, estimate_.ns)) {
    live_ += wiring_.allocated(b);
    estimate_.ns += copies_.kernel_delay_of(b);
  }
  estimate_.ns = copies_.arrival_of_reads(t, estimate_.ns);
}

void torch_walk::run(const torch_kernel& kernel, std::size_t t, bool backward) {
  std::int64_t written = 0;
  for (const torch_id b : kernel.writes) written += wiring_.allocated(b);
  const std::int64_t workspace = kernel.library ? wiring_.at(kernel.members[0]).workspace : 0;
  const std::int64_t now = live_ + written - in_place(kernel, t, backward) + workspace;
  if (now > estimate_.peak) {
    estimate_.peak = now;
    estimate_.peak_node = kernel.members[0];
  }
  free_[t] = budget_ - now;
  estimate_.excess += static_cast<double>(std::max<std::int64_t>(0, now - budget_));
  estimate_.ns += time_of(kernel);
  live_ += written;
  for (const auto* roots : {&kernel.reads, &kernel.writes}) {
    for (const torch_id b : *roots) {
      if (is_last_use(b, t, backward)) live_ -= wiring_.allocated(b);
    }
  }
}

bool torch_walk::is_last_use(torch_id b, std::size_t t, bool backward) const {
  if (last_use_[b] != t || (!backward && orders_.is_offloaded[b])) return false;
  const torch_node& node = wiring_.at(b);
  if (node.kind == torch_kind::input) return !node.resident && backward;
  return kernels_->runs(b) || (backward && orders_.is_saved[b] && !wiring_.forward_result[b]);
}

// Bytes of results that Inductor writes over what their own loop is the last to read, and no other loop of
// the kernel reads (python/umbench/torch/kernels.py: Kernel.over), element by element.
std::int64_t torch_walk::in_place(const torch_kernel& kernel, std::size_t t, bool backward) const {
  if (kernel.library) {
    const torch_node& node = wiring_.at(kernel.members[0]);
    const torch_id first = node.over_first ? wiring_.root[node.inputs[0]] : no_node;
    const bool is_over = first != no_node && kernels_->runs(first) && is_last_use(first, t, backward);
    return is_over ? wiring_.allocated(first) : 0;
  }
  if (kernel.writes.empty()) return 0;
  std::vector<torch_id> taken = kernel.read_often;
  std::int64_t bytes = 0;
  for (const torch_id written : kernel.writes) {
    const auto& shifted = kernels_->shifted_reads_of(wiring_.maker(written));
    for (const torch_id b : kernels_->reads_of(wiring_.maker(written))) {
      if (std::ranges::find(shifted, b) != shifted.end()) continue;
      const bool from_outside = std::ranges::find(kernel.reads, b) != kernel.reads.end();
      const bool is_taken = std::ranges::find(taken, b) != taken.end();
      const bool came_back = backward && orders_.is_offloaded[b];  // Inductor writes over no copy
      if (!from_outside || is_taken || came_back || wiring_.at(b).bytes != wiring_.at(written).bytes ||
          !is_last_use(b, t, backward))
        continue;
      bytes += wiring_.allocated(b);
      taken.push_back(b);
      break;
    }
  }
  return bytes;
}

std::int64_t torch_walk::time_of(const torch_kernel& kernel) const {
  if (kernel.library) return wiring_.at(kernel.members[0]).ns;
  constexpr std::int64_t widest =
      8;  // bytes of an element: a kernel reads no more of a table than it has steps
  std::int64_t steps = 0, bytes = 0;
  double pace = 1;
  for (const torch_id v : kernel.members) {
    steps = std::max(steps, wiring_.at(v).elements);
    pace = std::min(pace, wiring_.at(v).pace);
  }
  for (const torch_id b : kernel.reads) bytes += std::min(wiring_.at(b).bytes, widest * steps);
  for (const torch_id b : kernel.writes) bytes += wiring_.at(b).bytes;
  const double moved = static_cast<double>(bytes) / (pace * wiring_.step.bytes_per_ns);
  return wiring_.step.between_ns + std::max(wiring_.step.launch_ns, static_cast<std::int64_t>(moved));
}

}  // namespace um
