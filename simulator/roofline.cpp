#include "simulator/roofline.hpp"

#include <algorithm>
#include <string>
#include <string_view>
#include <type_traits>

#include "core/access.hpp"
#include "core/errors.hpp"
#include "simulator/cost.hpp"

namespace um {
namespace {

struct rate {
  std::uint64_t per_second = 0;
  std::string_view name;
};

// At which rate a machine computes products of that precision.
rate products_of(precision arithmetic, const machine& on) {
  switch (arithmetic) {
    case precision::fp32:
      return {on.fp32_flops_per_s, "fp32_flops_per_s"};
    case precision::tf32:
      return {on.tf32_flops_per_s, "tf32_flops_per_s"};
    case precision::bf16:
      return {on.bf16_flops_per_s, "bf16_flops_per_s"};
  }
  return {};
}

template <class T, class... Kinds>
constexpr bool is_one_of = (std::is_same_v<T, Kinds> || ...);

// Convolutions and fully connected layers, which run on matrix units where there are any.
bool multiplies(const op& o) {
  return std::visit(
      []<class T>(const T&) {
        return is_one_of<T, convolution, convolution_backward_data, convolution_backward_filter, linear,
                         linear_backward_data, linear_backward_filter>;
      },
      o.what);
}

}  // namespace

profile estimate(const graph& g, const machine& on) {
  const rate plain = products_of(precision::fp32, on), products = products_of(g.arithmetic, on);
  if (g.arithmetic != precision::fp32 && products.per_second == 0) {
    throw unsupported("machine " + on.name + " does not compute in " + std::string(to_text(g.arithmetic)) +
                      " (" + std::string(products.name) + " is 0 in its file); use fp32 or another machine");
  }
  profile costs;
  costs.reserve(g.ops.size());
  for (const op& o : g.ops) {
    const work w = work_of(g, o);
    const rate& r = multiplies(o) ? products : plain;
    const nanoseconds arithmetic = time_for(w.flops, r.per_second, on, r.name);
    const nanoseconds memory = time_for(w.read + w.written, on.device_bytes_per_s, on, "device_bytes_per_s");
    costs.push_back({std::max(arithmetic, memory) + on.launch_ns, 0, "roofline"});
  }
  return costs;
}

}  // namespace um
