// Estimates memory and time of both passes by walking over their kernels.
#pragma once

#include <limits>
#include <utility>
#include <vector>

#include "planners/torch_copies.hpp"
#include "planners/torch_kernels.hpp"

namespace um {

struct torch_estimate {
  std::int64_t ns = 0;
  std::int64_t peak = 0, forward_peak = 0, saved_bytes = 0;
  double excess = 0;             // bytes above the budget, averaged over all kernels
  torch_id peak_node = no_node;  // the node whose kernel runs at the peak
};

// Runs the forward graph, then the backward graph, on a model of memory and time.
class torch_walk {
 public:
  torch_walk(const torch_orders& orders, std::int64_t budget)
      : orders_(orders),
        flow_(orders.dataflow),
        budget_(budget),
        forward_kernels_(orders),
        backward_kernels_(orders),
        copies_(orders),
        last_use_(flow_.memory_owner.size()) {}

  torch_estimate run_both_passes();
  const std::vector<torch_offload>& offloads() const { return copies_.offloads(); }
  const std::vector<torch_id>& gradients_to_store() const { return backward_kernels_.gradients_to_store(); }
  void set_budget(std::int64_t budget) { budget_ = budget; }
  void set_copy_safety_factor(double times) { copies_.set_copy_safety_factor(times); }

 private:
  static constexpr std::size_t always = std::numeric_limits<std::size_t>::max();

  void run_graph(const std::vector<torch_id>& order, bool backward);
  void run_kernels(bool backward);
  bool make_room(bool backward);
  bool can_wait_after(const torch_kernel& kernel) const;
  void copy_out(const torch_kernel& kernel, std::size_t t);
  void wait_for_copies();
  void copy_in(std::size_t t);
  void run_kernel(const torch_kernel& kernel, std::size_t t, bool backward);
  bool is_freed_after(torch_id b, std::size_t t, bool backward) const;
  std::int64_t in_place_bytes(const torch_kernel& kernel, std::size_t t, bool backward) const;
  std::int64_t time_of(const torch_kernel& kernel) const;
  std::int64_t host_ns() const;

  const torch_orders& orders_;
  const torch_dataflow& flow_;
  std::int64_t budget_;
  torch_kernels forward_kernels_, backward_kernels_;
  const torch_kernels* kernels_ = &forward_kernels_;  // kernels of the current graph
  // The graphs for which forward_kernels_ and backward_kernels_ were made: nodes, and whether each outlives
  // the graph.
  std::vector<std::pair<torch_id, bool>> forward_graph_, backward_graph_;
  torch_copies copies_;
  std::vector<std::size_t> last_use_;  // per owner: the last kernel that uses it
  // Per kernel: its start time; free bytes while it runs; live bytes after it, in this walk and in the
  // previous one; bytes that copies must free after it in addition to the previous walk.
  std::vector<std::int64_t> starts_, free_bytes_, live_after_, previous_live_after_, bytes_to_free_;
  torch_estimate estimate_;
  std::int64_t live_ = 0;  // bytes on the device now
  std::size_t kernel_count_ = 0;
};

}  // namespace um
