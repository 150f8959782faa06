#include <array>
#include <stdexcept>

#include "networks/builder.hpp"
#include "networks/families.hpp"

namespace um {
namespace {

// Convolutions in each of the five stages; every stage ends in a pool.
using stages = std::array<int, 5>;
constexpr std::array<std::int64_t, 5> channels{64, 128, 256, 512, 512};
constexpr std::int64_t reduction = 32;

std::int64_t insize_of(const network_spec& spec) {
  const std::int64_t insize = spec.knobs.at("insize");
  if (insize % reduction == 0) return insize;
  throw std::invalid_argument("network " + spec.name + ": insize " + std::to_string(insize) +
                              " is not a multiple of " + std::to_string(reduction));
}

// Convolutions and pools; returns the output of the last pool.
tensor_id convolution_layers(builder& b, const network_spec& spec, const stages& depth, bool with_norms) {
  const std::int64_t insize = insize_of(spec);
  tensor_id x = b.input("data", {spec.batch, 3, insize, insize});
  for (std::size_t stage = 0; stage < depth.size(); ++stage) {
    const std::string number = std::to_string(stage + 1);
    for (int i = 1; i <= depth[stage]; ++i) {
      const std::string place = number + "_" + std::to_string(i);
      x = b.convolution("conv" + place, x, {channels[stage], 3, 1, 1, !with_norms});
      if (with_norms) x = b.batch_norm("bn" + place, x);
      x = b.relu("relu" + place, x);
    }
    x = b.max_pool("pool" + number, x, 2, 2, partial_windows::dropped);
  }
  return x;
}

graph finish_network(const builder& b, const network_spec& spec, tensor_id logits) {
  return spec.mode == pass::train ? b.training(logits, spec.fusion_mode, spec.appends_sgd)
                                  : b.inference(logits, spec.fusion_mode);
}

graph build_vgg(const network_spec& spec, const stages& depth) {
  builder b(spec.name, spec.mode);
  tensor_id x = convolution_layers(b, spec, depth, false);
  x = b.relu("relu6", b.linear("fc6", x, 4096));
  x = b.relu("relu7", b.linear("fc7", x, 4096));
  return finish_network(b, spec, b.linear("fc8", x, 1000));
}

graph build_vgg_cifar(const network_spec& spec, const stages& depth) {
  builder b(spec.name, spec.mode);
  tensor_id x = convolution_layers(b, spec, depth, true);
  x = b.relu("relu6", b.linear("fc6", x, 512));
  return finish_network(b, spec, b.linear("fc7", x, 10));
}

constexpr stages vgg11{1, 1, 2, 2, 2}, vgg13{2, 2, 2, 2, 2}, vgg16{2, 2, 3, 3, 3}, vgg19{2, 2, 4, 4, 4};

}  // namespace

graph build_vgg11(const network_spec& spec) {
  return build_vgg(spec, vgg11);
}
graph build_vgg13(const network_spec& spec) {
  return build_vgg(spec, vgg13);
}
graph build_vgg16(const network_spec& spec) {
  return build_vgg(spec, vgg16);
}
graph build_vgg19(const network_spec& spec) {
  return build_vgg(spec, vgg19);
}
graph build_vgg11_cifar(const network_spec& spec) {
  return build_vgg_cifar(spec, vgg11);
}
graph build_vgg13_cifar(const network_spec& spec) {
  return build_vgg_cifar(spec, vgg13);
}
graph build_vgg16_cifar(const network_spec& spec) {
  return build_vgg_cifar(spec, vgg16);
}
graph build_vgg19_cifar(const network_spec& spec) {
  return build_vgg_cifar(spec, vgg19);
}

}  // namespace um
