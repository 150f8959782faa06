#include "planners/torch_copies.hpp"

#include <algorithm>
#include <limits>

namespace um {

std::int64_t torch_copies::copy_ns_of(torch_id tensor) const {
  const torch_step& step = orders_.dataflow.step;
  const double bytes = static_cast<double>(orders_.dataflow.at(tensor).bytes);
  return step.copy_latency_ns + static_cast<std::int64_t>(bytes / step.link_bytes_per_ns);
}

std::int64_t torch_copies::padded_copy_ns_of(torch_id tensor) const {
  return static_cast<std::int64_t>(safety_factor_ * static_cast<double>(copy_ns_of(tensor)));
}

std::int64_t torch_copies::kernel_delay_of(torch_id tensor) const {
  return static_cast<std::int64_t>(orders_.dataflow.step.kernel_slowdown *
                                   static_cast<double>(copy_ns_of(tensor)));
}

void torch_copies::begin_forward() {
  unfinished_.clear();
  offloads_.clear();
  link_free_at_ = padded_link_free_at_ = 0;
}

void torch_copies::begin_copy_out(torch_id tensor, std::int64_t now) {
  link_free_at_ = std::max(link_free_at_, now) + copy_ns_of(tensor);
  padded_link_free_at_ = std::max(padded_link_free_at_, now) + padded_copy_ns_of(tensor);
  unfinished_.push_back({tensor, link_free_at_, padded_link_free_at_});
}

void torch_copies::begin_backward(const torch_kernels& kernels, const std::vector<std::int64_t>& starts,
                                  std::int64_t now) {
  incoming_.clear();
  if (offloads_.empty()) return;
  link_free_at_ = backward_begins_ = now;
  for (const torch_offload& each : offloads_) first_read_[each.tensor] = SIZE_MAX;
  for (std::size_t t = kernels.count(); t-- > 0;) {
    for (const torch_id b : kernels.kernel(t).reads) first_read_[b] = t;
  }
  for (std::size_t i = 0; i < offloads_.size(); ++i) {
    if (const std::size_t t = first_read_[offloads_[i].tensor]; t < kernels.count())
      incoming_.push_back({i, t, 0, 0});
  }
  std::ranges::stable_sort(incoming_, {}, &incoming_copy::first_read);
  std::int64_t padded_end_ns = std::numeric_limits<std::int64_t>::max();
  for (auto each = incoming_.rbegin(); each != incoming_.rend(); ++each) {
    torch_offload& offload = offloads_[each->offload_index];
    padded_end_ns = std::min(padded_end_ns, starts[each->first_read]) - padded_copy_ns_of(offload.tensor);
    const auto after = std::upper_bound(
        starts.begin(), starts.begin() + static_cast<std::ptrdiff_t>(each->first_read) + 1, padded_end_ns);
    schedule_at(kernels, *each,
                after == starts.begin() ? 0 : static_cast<std::size_t>(after - starts.begin()) - 1);
  }
}

// Whether a copy can begin before kernel t. Inductor runs a fused kernel when a library call needs it. So a
// copy begins right after a library call, and before one that keeps its place in the order.
bool torch_copies::may_begin(const torch_kernels& kernels, std::size_t t) const {
  if (!orders_.dataflow.step.fuses_kernels || t == 0) return true;
  if (!kernels.kernel(t - 1).is_library) return false;
  while (t + 1 < kernels.count() && !kernels.kernel(t).is_library) ++t;
  return !kernels.kernel(t).runs_early;
}

// Starts the copy before kernel t, or before the last earlier kernel for which may_begin() holds. In the
// graph, the copy stands before the first node of the next library call.
void torch_copies::schedule_at(const torch_kernels& kernels, incoming_copy& each, std::size_t t) {
  while (!may_begin(kernels, t)) --t;
  each.start_kernel = t;
  while (orders_.dataflow.step.fuses_kernels && t < each.first_read && !kernels.kernel(t).is_library) ++t;
  offloads_[each.offload_index].copied_back_before = kernels.kernel(t).members[0];
}

bool torch_copies::delay_copies_in(const torch_kernels& kernels,
                                   const std::vector<std::int64_t>& free_bytes) {
  link_free_at_ = backward_begins_;
  std::vector<std::int64_t> free_left = free_bytes;
  const auto give = [&](const incoming_copy& each, std::int64_t bytes) {
    for (std::size_t t = each.start_kernel; t < each.first_read; ++t) free_left[t] += bytes;
  };
  for (const incoming_copy& each : incoming_) give(each, reserved_bytes_of(each));
  bool is_any_moved = false;
  std::size_t previous_start = 0;  // copies begin in the order in which they are read
  for (incoming_copy& each : incoming_) {
    const std::size_t old_start = each.start_kernel, earliest_start = std::max(old_start, previous_start);
    std::size_t start = each.first_read;  // the earliest kernel from which the copy has room until it is read
    while (start > earliest_start && free_left[start - 1] >= reserved_bytes_of(each)) --start;
    while (start < each.first_read && !may_begin(kernels, start)) ++start;
    schedule_at(kernels, each, start);
    is_any_moved |= each.start_kernel != old_start;
    previous_start = each.start_kernel;
    give(each, -reserved_bytes_of(each));
  }
  return is_any_moved;
}

std::vector<torch_id> torch_copies::begin_copies_in(std::size_t t, std::int64_t now) {
  std::vector<torch_id> begun;
  for (incoming_copy& each : incoming_) {
    if (each.start_kernel != t) continue;
    const torch_id tensor = offloads_[each.offload_index].tensor;
    link_free_at_ = std::max(link_free_at_, now) + copy_ns_of(tensor);
    each.end_ns = link_free_at_;
    begun.push_back(tensor);
  }
  return begun;
}

std::int64_t torch_copies::arrival_of_reads(std::size_t t, std::int64_t now) const {
  for (const incoming_copy& each : incoming_) {
    if (each.first_read == t) now = std::max(now, each.end_ns);
  }
  return now;
}

}  // namespace um
