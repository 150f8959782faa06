// Copies of offloaded tensors to the host and back, one after the other in each direction, while kernels run.
#pragma once

#include <vector>

#include "planners/torch_kernels.hpp"

namespace um {

class torch_copies {
 public:
  explicit torch_copies(const torch_orders& orders)
      : orders_(orders), first_read_(orders.wiring.root.size()) {}

  // Copies that take `times` as long as forecast shall still make nothing wait. At least 1; 1 at first.
  void leave_time(double times) { times_ = times; }

  // The forward graph begins; times are those of its clock.
  void begin_forward();
  void begin_copy_out(torch_id tensor, std::int64_t now);
  struct leaving {
    torch_id tensor = no_node;
    std::int64_t done = 0, latest = 0;  // as forecast, and with the time left
  };
  // Copies that are not known to be done, in the order of their ends.
  std::vector<leaving>& open() { return open_; }
  void gone(torch_id tensor, torch_id after) { made_.push_back({tensor, after, no_node}); }

  // How much longer kernels take because of one copy.
  std::int64_t kernel_delay_of(torch_id tensor) const;

  // The backward graph begins. starts[t]: when kernel t would start if it waited for no copy. Each copy back
  // begins as late as it may to be done before the first kernel that reads it.
  void begin_backward(const torch_kernels& kernels, const std::vector<std::int64_t>& starts,
                      std::int64_t now);
  // Lets copies back begin later where there is no room for them until they are read. free[t]: bytes that are
  // left while kernel t runs. Whether any does.
  bool delay(const torch_kernels& kernels, const std::vector<std::int64_t>& free);
  // Tensors whose copies back begin right before kernel t.
  std::vector<torch_id> begin_copies_in(std::size_t t, std::int64_t now);
  // When kernel t has what it reads.
  std::int64_t arrival_of_reads(std::size_t t, std::int64_t now) const;

  const std::vector<torch_offload>& made() const { return made_; }

 private:
  struct returning_copy {
    std::size_t copy = 0;  // index into made_
    std::size_t first_read = 0, begin = 0;
    std::int64_t done = 0;
  };
  void begin_at(const torch_kernels& kernels, returning_copy& each, std::size_t t);
  bool may_begin(const torch_kernels& kernels, std::size_t t) const;
  std::int64_t bytes_of(const returning_copy& each) const {
    return orders_.wiring.allocated(made_[each.copy].tensor);
  }
  std::int64_t ns_of(torch_id tensor) const;
  std::int64_t padded_ns_of(torch_id tensor) const;

  const torch_orders& orders_;
  std::vector<std::size_t> first_read_;
  std::vector<leaving> open_;
  std::vector<returning_copy> returning_;
  std::vector<torch_offload> made_;
  double times_ = 1;
  // When the link can begin the next copy; padded: with the safety factor times_.
  std::int64_t free_at_ = 0, padded_free_at_ = 0, backward_begins_ = 0;
};

}  // namespace um
