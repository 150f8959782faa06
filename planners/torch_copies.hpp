// Timeline of the copies of offloaded tensors to the host and back. In each direction they run one after
// another, beside kernels.
#pragma once

#include <vector>

#include "planners/torch_kernels.hpp"

namespace um {

class torch_copies {
 public:
  explicit torch_copies(const torch_orders& orders)
      : orders_(orders), first_read_(orders.dataflow.memory_owner.size()) {}

  // Plans copies so that none delays a kernel even if all take `factor` (at least 1) times as long as
  // forecast.
  void set_copy_safety_factor(double factor) { safety_factor_ = factor; }

  // Starts the forward graph. Later `now` arguments are its times.
  void begin_forward();
  void begin_copy_out(torch_id tensor, std::int64_t now);
  struct outgoing_copy {
    torch_id tensor = no_node;
    std::int64_t end_ns = 0, padded_end_ns = 0;  // end as forecast, and with the safety factor
  };
  // Copies that may still run, in the order of their ends.
  std::vector<outgoing_copy>& unfinished() { return unfinished_; }
  void record_end(torch_id tensor, torch_id after) { offloads_.push_back({tensor, after, no_node}); }

  // Time that one copy adds to the kernels beside it.
  std::int64_t kernel_delay_of(torch_id tensor) const;

  // Starts the backward graph. starts[t]: when kernel t would start if it waited for no copy. Each copy back
  // begins as late as possible to end before the first kernel that reads it.
  void begin_backward(const torch_kernels& kernels, const std::vector<std::int64_t>& starts,
                      std::int64_t now);
  // Delays copies back that have no room until they are read. free_bytes[t]: those while kernel t runs.
  // Returns whether any copy was delayed.
  bool delay_copies_in(const torch_kernels& kernels, const std::vector<std::int64_t>& free_bytes);
  // Tensors whose copies back begin right before kernel t.
  std::vector<torch_id> begin_copies_in(std::size_t t, std::int64_t now);
  // Time at which all tensors that kernel t reads are on the device.
  std::int64_t arrival_of_reads(std::size_t t, std::int64_t now) const;

  const std::vector<torch_offload>& offloads() const { return offloads_; }

 private:
  struct incoming_copy {
    std::size_t offload_index = 0;  // index into offloads_
    std::size_t first_read = 0, start_kernel = 0;
    std::int64_t end_ns = 0;
  };
  void schedule_at(const torch_kernels& kernels, incoming_copy& each, std::size_t t);
  bool may_begin(const torch_kernels& kernels, std::size_t t) const;
  std::int64_t reserved_bytes_of(const incoming_copy& each) const {
    return orders_.dataflow.reserved_bytes(offloads_[each.offload_index].tensor);
  }
  std::int64_t copy_ns_of(torch_id tensor) const;
  std::int64_t padded_copy_ns_of(torch_id tensor) const;

  const torch_orders& orders_;
  std::vector<std::size_t> first_read_;    // per tensor: the first kernel of the backward graph that reads it
  std::vector<outgoing_copy> unfinished_;  // to the host
  std::vector<incoming_copy> incoming_;    // to the device
  std::vector<torch_offload> offloads_;
  double safety_factor_ = 1;
  // When the link can begin the next copy; padded: if all copies take safety_factor_ times as long.
  std::int64_t link_free_at_ = 0, padded_link_free_at_ = 0, backward_begins_ = 0;
};

}  // namespace um
