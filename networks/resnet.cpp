#include <string>

#include "networks/builder.hpp"
#include "networks/families.hpp"

namespace um {
namespace {

constexpr std::int64_t expansion = 4;

tensor_id convolution_and_norm(builder& b, const std::string& convolution, const std::string& norm,
                               tensor_id x, std::int64_t count, std::int64_t kernel, std::int64_t stride) {
  const filters f{count, kernel, stride, kernel / 2, false};
  return b.batch_norm(norm, b.convolution(convolution, x, f));
}

// The shortcut of a block: its input or, if the shape changes, a projection of it.
tensor_id shortcut(builder& b, const std::string& block, tensor_id x, std::int64_t count,
                   std::int64_t stride) {
  if (stride == 1 && b.so_far().tensors[x].shape.c == count) return x;
  return convolution_and_norm(b, block + ".downsample.0", block + ".downsample.1", x, count, 1, stride);
}

// The last normalisation comes after the shortcut, so that sum and ReLU can be fused into it.
tensor_id residual_block(builder& b, const std::string& name, tensor_id x, std::int64_t width,
                         std::int64_t stride, bool bottleneck) {
  const auto part = [&](const char* kind, int i) { return name + "." + kind + std::to_string(i); };
  const std::int64_t count = bottleneck ? expansion * width : width;
  const int last = bottleneck ? 3 : 2;
  tensor_id y = x;
  if (bottleneck)
    y = b.relu(part("relu", 1), convolution_and_norm(b, part("conv", 1), part("bn", 1), y, width, 1, 1));
  y = b.relu(part("relu", last - 1),
             convolution_and_norm(b, part("conv", last - 1), part("bn", last - 1), y, width, 3, stride));
  y = b.convolution(part("conv", last), y, {count, bottleneck ? 1 : 3, 1, bottleneck ? 0 : 1, false});
  const tensor_id beside = shortcut(b, name, x, count, stride);
  y = b.add(name + ".add", b.batch_norm(part("bn", last), y), beside);
  return b.relu(part("relu", last), y);
}

}  // namespace

graph build_resnet(const network_spec& spec, const resnet_architecture& a) {
  const std::int64_t insize = spec.knobs.at("insize");
  builder b(spec.name, spec.mode);
  tensor_id x = b.input("data", {spec.batch, 3, insize, insize});
  const bool large = a.first == resnet_stem::imagenet;
  x = b.relu("relu1", convolution_and_norm(b, "conv1", "bn1", x, a.width, large ? 7 : 3, large ? 2 : 1));
  if (large) x = b.max_pool("pool1", x, 3, 2, partial_windows::dropped, 1);
  std::int64_t width = a.width;
  for (std::size_t stage = 0; stage < a.blocks.size(); ++stage) {
    for (int i = 0; i < a.blocks[stage]; ++i) {
      const std::string name = "layer" + std::to_string(stage + 1) + "." + std::to_string(i);
      x = residual_block(b, name, x, width, stage > 0 && i == 0 ? 2 : 1, a.bottleneck);
    }
    width *= 2;
  }
  x = b.linear("fc", b.global_average_pool("average", x), a.classes);
  return b.complete(x, spec);
}

}  // namespace um
