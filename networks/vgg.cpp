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

graph build_vgg(const network_spec& spec, const stages& depth) {
  const std::int64_t insize = spec.knobs.at("insize");
  if (insize % reduction != 0) {
    throw std::invalid_argument("network " + spec.name + ": insize " + std::to_string(insize) +
                                " is not a multiple of " + std::to_string(reduction));
  }
  builder b(spec.name, spec.mode);
  tensor_id x = b.input("data", {spec.batch, 3, insize, insize});
  for (std::size_t stage = 0; stage < depth.size(); ++stage) {
    const std::string number = std::to_string(stage + 1);
    for (int i = 1; i <= depth[stage]; ++i) {
      const std::string place = number + "_" + std::to_string(i);
      x = b.relu("relu" + place, b.convolution("conv" + place, x, {channels[stage], 3, 1, 1}));
    }
    x = b.max_pool("pool" + number, x, 2, 2, leftover::dropped);
  }
  x = b.relu("relu6", b.linear("fc6", x, 4096));
  x = b.relu("relu7", b.linear("fc7", x, 4096));
  x = b.linear("fc8", x, 1000);
  return spec.mode == pass::train ? b.training(x, spec.joined, spec.sgd) : b.inference(x, spec.joined);
}

}  // namespace

graph build_vgg11(const network_spec& spec) {
  return build_vgg(spec, {1, 1, 2, 2, 2});
}
graph build_vgg13(const network_spec& spec) {
  return build_vgg(spec, {2, 2, 2, 2, 2});
}
graph build_vgg16(const network_spec& spec) {
  return build_vgg(spec, {2, 2, 3, 3, 3});
}
graph build_vgg19(const network_spec& spec) {
  return build_vgg(spec, {2, 2, 4, 4, 4});
}

}  // namespace um
