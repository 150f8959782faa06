#include <array>
#include <stdexcept>

#include "networks/builder.hpp"
#include "networks/families.hpp"

namespace um {
namespace {

constexpr std::array<std::int64_t, 5> stage_channels{64, 128, 256, 512, 512};
constexpr std::int64_t reduction = 32;

std::int64_t insize_of(const network_spec& spec) {
  const std::int64_t insize = spec.knobs.at("insize");
  if (insize % reduction == 0) return insize;
  throw std::invalid_argument("network " + spec.name + ": insize " + std::to_string(insize) +
                              " is not a multiple of " + std::to_string(reduction));
}

// Appends the convolutions and pools of all stages. Returns the output of the last pool.
tensor_id convolution_layers(builder& b, const network_spec& spec, const vgg_stages& depth, bool with_norms) {
  const std::int64_t insize = insize_of(spec);
  tensor_id x = b.input("data", {spec.batch, 3, insize, insize});
  for (std::size_t stage = 0; stage < depth.size(); ++stage) {
    const std::string number = std::to_string(stage + 1);
    for (int i = 1; i <= depth[stage]; ++i) {
      const std::string place = number + "_" + std::to_string(i);
      x = b.convolution("conv" + place, x, {stage_channels[stage], 3, 1, 1, !with_norms});
      if (with_norms) x = b.batch_norm("bn" + place, x);
      x = b.relu("relu" + place, x);
    }
    x = b.max_pool("pool" + number, x, 2, 2, partial_windows::dropped);
  }
  return x;
}

}  // namespace

graph build_vgg(const network_spec& spec, const vgg_stages& depth) {
  builder b(spec.name, spec.mode);
  tensor_id x = convolution_layers(b, spec, depth, false);
  x = b.relu("relu6", b.linear("fc6", x, 4096));
  x = b.relu("relu7", b.linear("fc7", x, 4096));
  return b.complete(b.linear("fc8", x, 1000), spec);
}

graph build_vgg_cifar(const network_spec& spec, const vgg_stages& depth) {
  builder b(spec.name, spec.mode);
  tensor_id x = convolution_layers(b, spec, depth, true);
  x = b.relu("relu6", b.linear("fc6", x, 512));
  return b.complete(b.linear("fc7", x, 10), spec);
}

}  // namespace um
