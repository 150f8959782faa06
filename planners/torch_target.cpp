#include "planners/torch_target.hpp"

#include <algorithm>
#include <limits>

#include "planners/torch_copies.hpp"
#include "planners/torch_kernels.hpp"
#include "planners/torch_orders.hpp"

namespace um {
namespace {

// The caching allocator's grain.
std::int64_t rounded(std::int64_t bytes) {
  return (bytes + 511) / 512 * 512;
}

// Memory and time of one graph after the other.
class walk {
 public:
  walk(const torch_orders& orders, std::int64_t budget)
      : orders_(orders),
        wiring_(orders.wiring),
        budget_(budget),
        kernels_(orders),
        copies_(orders),
        last_use_(wiring_.root.size()) {}

  torch_estimate run_both_passes();
  const std::vector<torch_offload>& copies() const { return copies_.made(); }
  const std::vector<torch_id>& told_to_store() const { return kernels_.told_to_store(); }
  void aim_at(std::int64_t budget) { budget_ = budget; }
  void leave_time(double times) { copies_.leave_time(times); }

 private:
  static constexpr std::size_t always = std::numeric_limits<std::size_t>::max();

  void follow(const std::vector<torch_id>& order, bool backward);
  void run_all(bool backward);
  bool make_room(bool backward);
  bool may_wait_behind(const torch_kernel& kernel) const;
  void copy_out(const torch_kernel& kernel, std::size_t t);
  void wait_for_copies();
  void copy_in(std::size_t t);
  void run(const torch_kernel& kernel, std::size_t t, bool backward);
  bool is_last_use(torch_id b, std::size_t t, bool backward) const;
  std::int64_t in_place(const torch_kernel& kernel, std::size_t t, bool backward) const;
  std::int64_t time_of(const torch_kernel& kernel) const;
  std::int64_t host_ns() const;

  const torch_orders& orders_;
  const torch_wiring& wiring_;
  std::int64_t budget_;
  torch_kernels kernels_;
  torch_copies copies_;
  std::vector<std::size_t> last_use_;
  // Per kernel: when it starts; bytes left while it runs, and behind it what there is, now and by the walk
  // before; bytes that have to go behind it, beside what that walk let go.
  std::vector<std::int64_t> starts_, free_, live_after_, live_then_, missing_;
  torch_estimate estimate_;
  std::int64_t live_ = 0;
  std::size_t count_ = 0;
};

torch_estimate walk::run_both_passes() {
  estimate_ = {};
  count_ = 0;
  live_ = wiring_.step.base_bytes;
  copies_.begin_forward();
  follow(orders_.forward, false);
  wait_for_copies();
  estimate_.forward_peak = estimate_.peak;
  for (const torch_id v : orders_.used) {
    if (!orders_.is_offloaded[v]) estimate_.saved_bytes += rounded(wiring_.at(v).bytes);
  }
  // In memory: saved tensors, results that the caller holds, and the incoming gradients.
  live_ = wiring_.step.base_bytes + estimate_.saved_bytes;
  for (torch_id v = 0; v < wiring_.root.size(); ++v) {
    const torch_node& node = wiring_.at(v);
    const bool incoming = node.kind == torch_kind::input && !node.resident;
    const bool returned = wiring_.forward_result[v] && node.forward && !orders_.is_saved[v];
    if (incoming || returned) live_ += rounded(node.bytes);
  }
  follow(orders_.backward, true);
  estimate_.excess /= static_cast<double>(std::max<std::size_t>(1, count_));
  estimate_.ns = std::max(estimate_.ns, host_ns());
  return estimate_;
}

// What the CPU takes to launch everything: the GPU waits for it where kernels are short.
std::int64_t walk::host_ns() const {
  const auto kernels = static_cast<std::int64_t>(count_),
             copies = 2 * static_cast<std::int64_t>(copies_.made().size());
  return kernels * wiring_.step.host_kernel_ns + copies * wiring_.step.host_copy_ns;
}

void walk::follow(const std::vector<torch_id>& order, bool backward) {
  kernels_.fuse(order, backward);
  const std::size_t n = kernels_.count();
  count_ += n;
  for (std::size_t t = 0; t < n; ++t) {
    for (const torch_id b : kernels_.kernel(t).reads) last_use_[b] = t;
    for (const torch_id b : kernels_.kernel(t).writes) last_use_[b] = t;
  }
  for (std::size_t t = 0; t < n; ++t) {
    for (const torch_id b : kernels_.kernel(t).writes) {
      if (kernels_.is_kept(b, backward) && (backward || !orders_.is_offloaded[b])) last_use_[b] = always;
    }
  }
  if (backward) {
    starts_.clear();
    std::int64_t start = estimate_.ns;
    for (std::size_t t = 0; t < n; ++t) {
      starts_.push_back(start);
      start += time_of(kernels_.kernel(t));
    }
    copies_.begin_backward(kernels_, starts_, estimate_.ns);
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

void walk::run_all(bool backward) {
  free_.resize(kernels_.count());
  live_after_.resize(kernels_.count());
  for (std::size_t t = 0; t < kernels_.count(); ++t) {
    if (backward) copy_in(t);
    run(kernels_.kernel(t), t, backward);
    if (!backward) {
      copy_out(kernels_.kernel(t), t);
      live_after_[t] = live_;
    }
  }
}

// Where kernels found too little room: what goes to the host is waited for before them, what comes back
// begins later. Whether that changes anything.
bool walk::make_room(bool backward) {
  if (backward) return !copies_.made().empty() && copies_.delay(kernels_, free_);
  if (copies_.made().empty() && copies_.open().empty()) return false;
  std::int64_t missing = 0;  // for the kernels from the next on, until copies may be waited for again
  bool any = false;
  for (std::size_t t = kernels_.count(); t-- > 0;) {
    if (may_wait_behind(kernels_.kernel(t))) {
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

// Inductor computes what it fuses when a library call wants it: a wait behind a fused node comes too early.
bool walk::may_wait_behind(const torch_kernel& kernel) const {
  return kernel.library || !wiring_.step.fused;
}

// Begins the copies of what a kernel wrote, and frees what has been copied and read.
void walk::copy_out(const torch_kernel& kernel, std::size_t t) {
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
    const std::int64_t bytes = rounded(wiring_.at(each.tensor).bytes);
    if (!has_left) estimate_.ns = std::max(estimate_.ns, each.done);
    live_ -= bytes;
    missing -= bytes;
    copies_.gone(each.tensor, kernel.members.back());
    return true;
  });
}

void walk::wait_for_copies() {
  for (const auto& each : copies_.open()) {
    estimate_.ns = std::max(estimate_.ns, each.done);
    copies_.gone(each.tensor, no_node);
  }
  copies_.open().clear();
}

void walk::copy_in(std::size_t t) {
  for (const torch_id b : copies_.begin_copies_in(t, estimate_.ns)) {
    live_ += rounded(wiring_.at(b).bytes);
    estimate_.ns += copies_.kernel_delay_of(b);
  }
  estimate_.ns = copies_.arrival_of_reads(t, estimate_.ns);
}

void walk::run(const torch_kernel& kernel, std::size_t t, bool backward) {
  std::int64_t written = 0;
  for (const torch_id b : kernel.writes) written += rounded(wiring_.at(b).bytes);
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
      if (is_last_use(b, t, backward)) live_ -= rounded(wiring_.at(b).bytes);
    }
  }
}

bool walk::is_last_use(torch_id b, std::size_t t, bool backward) const {
  if (last_use_[b] != t || (!backward && orders_.is_offloaded[b])) return false;
  const torch_node& node = wiring_.at(b);
  if (node.kind == torch_kind::input) return !node.resident && backward;
  return kernels_.runs(b) || (backward && orders_.is_saved[b] && !wiring_.forward_result[b]);
}

// Bytes of results that Inductor writes over what their own loop is the last to read, and no other loop of
// the kernel reads (python/umbench/torch/kernels.py: Kernel.over), element by element.
std::int64_t walk::in_place(const torch_kernel& kernel, std::size_t t, bool backward) const {
  if (kernel.library) {
    const torch_node& node = wiring_.at(kernel.members[0]);
    const torch_id first = node.over_first ? wiring_.root[node.inputs[0]] : no_node;
    const bool is_over = first != no_node && kernels_.runs(first) && is_last_use(first, t, backward);
    return is_over ? rounded(wiring_.at(first).bytes) : 0;
  }
  if (kernel.writes.empty()) return 0;
  std::vector<torch_id> taken = kernel.read_often;
  std::int64_t bytes = 0;
  for (const torch_id written : kernel.writes) {
    const auto& shifted = kernels_.shifted_reads_of(wiring_.maker(written));
    for (const torch_id b : kernels_.reads_of(wiring_.maker(written))) {
      if (std::ranges::find(shifted, b) != shifted.end()) continue;
      const bool from_outside = std::ranges::find(kernel.reads, b) != kernel.reads.end();
      const bool is_taken = std::ranges::find(taken, b) != taken.end();
      if (!from_outside || is_taken || wiring_.at(b).bytes != wiring_.at(written).bytes ||
          !is_last_use(b, t, backward))
        continue;
      bytes += rounded(wiring_.at(b).bytes);
      taken.push_back(b);
      break;
    }
  }
  return bytes;
}

std::int64_t walk::time_of(const torch_kernel& kernel) const {
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

}  // namespace

std::int64_t least_torch_peak(const torch_step& step) {
  const torch_wiring wiring(step);
  const auto bytes_of = [&](const std::vector<torch_id>& roots) {
    std::int64_t bytes = 0;
    for (const torch_id v : roots) bytes += wiring.at(v).resident ? 0 : wiring.at(v).bytes;
    return bytes;
  };
  std::vector<torch_id> returned;
  for (torch_id v = 0; v < step.nodes.size(); ++v) {
    if (wiring.backward_result[v]) returned.push_back(v);
  }
  std::int64_t most = bytes_of(returned);
  for (const torch_id v : wiring.computed) {
    if (wiring.at(v).kind != torch_kind::kernel) continue;
    most = std::max(most, bytes_of(wiring.sources[v]) + wiring.at(v).bytes + bytes_of(wiring.items[v]) +
                              wiring.at(v).workspace);
  }
  return step.base_bytes + most;
}

struct torch_model::parts {
  parts(const torch_step& step, std::int64_t budget) : wiring(step), orders(wiring), walks(orders, budget) {}

  torch_wiring wiring;
  torch_orders orders;
  walk walks;
  torch_estimate estimate;
};

torch_model::torch_model(const torch_step& step, std::int64_t budget)
    : parts_(std::make_unique<parts>(step, budget)) {}
torch_model::~torch_model() = default;

torch_estimate torch_model::evaluate(const std::vector<torch_fate>& fates) {
  parts_->orders.choose(fates);
  parts_->estimate = parts_->walks.run_both_passes();
  return parts_->estimate;
}

void torch_model::aim_at(std::int64_t budget) {
  parts_->walks.aim_at(budget);
}

void torch_model::leave_time(double times) {
  parts_->walks.leave_time(times);
}

torch_plan torch_model::plan() const {
  const torch_orders& orders = parts_->orders;
  torch_plan made;
  made.saved = orders.used;
  std::vector<char> again(parts_->wiring.root.size());
  for (const torch_id v : orders.forward) again[v] = 1;
  for (const torch_id v : orders.backward) {
    if (again[v]) made.recomputed.push_back(v);
  }
  std::ranges::sort(made.saved);
  made.offloaded = parts_->walks.copies();
  made.stored = parts_->walks.told_to_store();
  std::ranges::sort(made.recomputed);
  made.estimate = parts_->estimate;
  return made;
}

}  // namespace um
