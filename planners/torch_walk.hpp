// Walks over the graphs of both passes, kernel by kernel.
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
  double excess = 0;             // bytes above the budget, averaged over the kernels
  torch_id peak_node = no_node;  // the node whose kernel runs at the peak
};

// Memory and time of one graph after the other.
class torch_walk {
 public:
  torch_walk(const torch_orders& orders, std::int64_t budget)
      : orders_(orders),
        wiring_(orders.wiring),
        budget_(budget),
        forward_kernels_(orders),
        backward_kernels_(orders),
        copies_(orders),
        last_use_(wiring_.root.size()) {}

  torch_estimate run_both_passes();
  const std::vector<torch_offload>& copies() const { return copies_.made(); }
  const std::vector<torch_id>& gradients_to_store() const { return backward_kernels_.gradients_to_store(); }
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
  torch_kernels forward_kernels_, backward_kernels_;
  const torch_kernels* kernels_ = &forward_kernels_;  // of the graph that is followed
  // The graphs that these are of: nodes, and whether they are kept.
  std::vector<std::pair<torch_id, bool>> forward_graph_, backward_graph_;
  torch_copies copies_;
  std::vector<std::size_t> last_use_;
  // Per kernel: when it starts; bytes left while it runs, and behind it what there is, now and by the walk
  // before; bytes that have to go behind it, beside what that walk let go.
  std::vector<std::int64_t> starts_, free_, live_after_, live_then_, missing_;
  torch_estimate estimate_;
  std::int64_t live_ = 0;
  std::size_t count_ = 0;
};

}  // namespace um
