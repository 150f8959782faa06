#include <array>
#include <string>

#include "networks/builder.hpp"
#include "networks/families.hpp"

namespace um {
namespace {

constexpr std::array<int, 4> layers_of_blocks{6, 12, 24, 16};
constexpr std::int64_t growth = 32, bottleneck_channels = 4 * growth, stem_channels = 64;

tensor_id append_norm_and_relu(builder& b, const std::string& norm, const std::string& relu, tensor_id x) {
  return b.relu(relu, b.batch_norm(norm, x));
}

// Appends a dense layer. Returns its new features.
tensor_id dense_layer(builder& b, const std::string& name, tensor_id x) {
  x = b.convolution(name + ".conv1", append_norm_and_relu(b, name + ".norm1", name + ".relu1", x),
                    {bottleneck_channels, 1, 1, 0, false});
  return b.convolution(name + ".conv2", append_norm_and_relu(b, name + ".norm2", name + ".relu2", x),
                       {growth, 3, 1, 1, false});
}

// Each layer reads the input of the block and the features of all layers before it. These are the input of
// the previous layer and its new features, so one concatenation of two tensors is enough.
tensor_id dense_block(builder& b, const std::string& name, tensor_id x, int layers) {
  for (int i = 1; i <= layers; ++i) {
    const std::string layer = name + ".denselayer" + std::to_string(i);
    x = b.concat(layer + ".concat", {x, dense_layer(b, layer, x)});
  }
  return x;
}

// Halves the channels, rows and columns.
tensor_id transition(builder& b, const std::string& name, tensor_id x) {
  const std::int64_t channels = b.so_far().tensors[x].shape.c;
  x = b.convolution(name + ".conv", append_norm_and_relu(b, name + ".norm", name + ".relu", x),
                    {channels / 2, 1, 1, 0, false});
  return b.average_pool(name + ".pool", x, 2, 2, partial_windows::dropped);
}

}  // namespace

graph build_densenet121(const network_spec& spec) {
  const std::int64_t insize = spec.knobs.at("insize");
  builder b(spec.name, spec.mode);
  tensor_id x = b.input("data", {spec.batch, 3, insize, insize});
  x = b.convolution("conv0", x, {stem_channels, 7, 2, 3, false});
  x = b.max_pool("pool0", append_norm_and_relu(b, "norm0", "relu0", x), 3, 2, partial_windows::dropped, 1);
  for (std::size_t i = 0; i < layers_of_blocks.size(); ++i) {
    const std::string number = std::to_string(i + 1);
    if (i > 0) x = transition(b, "transition" + std::to_string(i), x);
    x = dense_block(b, "denseblock" + number, x, layers_of_blocks[i]);
  }
  x = append_norm_and_relu(b, "norm5", "relu5", x);
  x = b.linear("classifier", b.global_average_pool("average", x), 1000);
  return b.complete(x, spec);
}

}  // namespace um
