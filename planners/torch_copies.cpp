#include "planners/torch_copies.hpp"

#include <algorithm>
#include <limits>

namespace um {

std::int64_t torch_copies::ns_of(torch_id tensor) const {
  const torch_step& step = orders_.wiring.step;
  const double bytes = static_cast<double>(orders_.wiring.at(tensor).bytes);
  return step.copy_ns + static_cast<std::int64_t>(bytes / step.link_bytes_per_ns);
}

std::int64_t torch_copies::padded_ns_of(torch_id tensor) const {
  return static_cast<std::int64_t>(times_ * static_cast<double>(ns_of(tensor)));
}

std::int64_t torch_copies::kernel_delay_of(torch_id tensor) const {
  return static_cast<std::int64_t>(orders_.wiring.step.copy_drag * static_cast<double>(ns_of(tensor)));
}

void torch_copies::begin_forward() {
  open_.clear();
  made_.clear();
  free_at_ = padded_free_at_ = 0;
}

void torch_copies::begin_copy_out(torch_id tensor, std::int64_t now) {
  free_at_ = std::max(free_at_, now) + ns_of(tensor);
  padded_free_at_ = std::max(padded_free_at_, now) + padded_ns_of(tensor);
  open_.push_back({tensor, free_at_, padded_free_at_});
}

void torch_copies::begin_backward(const torch_kernels& kernels, const std::vector<std::int64_t>& starts,
                                  std::int64_t now) {
  returning_.clear();
  if (made_.empty()) return;
  free_at_ = backward_begins_ = now;
  for (const torch_offload& each : made_) first_read_[each.tensor] = SIZE_MAX;
  for (std::size_t t = kernels.count(); t-- > 0;) {
    for (const torch_id b : kernels.kernel(t).reads) first_read_[b] = t;
  }
  for (std::size_t i = 0; i < made_.size(); ++i) {
    if (const std::size_t t = first_read_[made_[i].tensor]; t < kernels.count())
      returning_.push_back({i, t, 0, 0});
  }
  std::ranges::stable_sort(returning_, {}, &returning_copy::first_read);
  std::int64_t latest = std::numeric_limits<std::int64_t>::max();
  for (auto each = returning_.rbegin(); each != returning_.rend(); ++each) {
    torch_offload& copy = made_[each->copy];
    latest = std::min(latest, starts[each->first_read]) - padded_ns_of(copy.tensor);
    const auto after = std::upper_bound(
        starts.begin(), starts.begin() + static_cast<std::ptrdiff_t>(each->first_read) + 1, latest);
    begin_at(kernels, *each,
             after == starts.begin() ? 0 : static_cast<std::size_t>(after - starts.begin()) - 1);
  }
}

// Inductor computes what it fuses when a library call wants it, so a copy begins right behind such a call,
// and before one that keeps its place among the nodes.
bool torch_copies::may_begin(const torch_kernels& kernels, std::size_t t) const {
  if (!orders_.wiring.step.fused || t == 0) return true;
  if (!kernels.kernel(t - 1).library) return false;
  while (t + 1 < kernels.count() && !kernels.kernel(t).library) ++t;
  return !kernels.kernel(t).early;
}

// Or as soon before t as it may. The graph begins the copy before the first node of the next library call.
void torch_copies::begin_at(const torch_kernels& kernels, returning_copy& each, std::size_t t) {
  while (!may_begin(kernels, t)) --t;
  each.begin = t;
  while (orders_.wiring.step.fused && t < each.first_read && !kernels.kernel(t).library) ++t;
  made_[each.copy].back_before = kernels.kernel(t).members[0];
}

bool torch_copies::delay(const torch_kernels& kernels, const std::vector<std::int64_t>& free) {
  free_at_ = backward_begins_;
  std::vector<std::int64_t> left = free;
  const auto give = [&](const returning_copy& each, std::int64_t bytes) {
    for (std::size_t t = each.begin; t < each.first_read; ++t) left[t] += bytes;
  };
  for (const returning_copy& each : returning_) give(each, bytes_of(each));
  bool any = false;
  std::size_t earliest = 0;  // a copy begins no earlier than the one that is read before it
  for (returning_copy& each : returning_) {
    std::size_t begin = std::max(each.begin, earliest), room = each.first_read;
    while (room > begin && left[room - 1] >= bytes_of(each)) --room;
    while (room < each.first_read && !may_begin(kernels, room)) ++room;
    const std::size_t before = each.begin;
    begin_at(kernels, each, room);
    any |= each.begin != before;
    earliest = each.begin;
    give(each, -bytes_of(each));
  }
  return any;
}

std::vector<torch_id> torch_copies::begin_copies_in(std::size_t t, std::int64_t now) {
  std::vector<torch_id> begun;
  for (returning_copy& each : returning_) {
    if (each.begin != t) continue;
    const torch_id tensor = made_[each.copy].tensor;
    free_at_ = std::max(free_at_, now) + ns_of(tensor);
    each.done = free_at_;
    begun.push_back(tensor);
  }
  return begun;
}

std::int64_t torch_copies::arrival_of_reads(std::size_t t, std::int64_t now) const {
  for (const returning_copy& each : returning_) {
    if (each.first_read == t) now = std::max(now, each.done);
  }
  return now;
}

}  // namespace um
