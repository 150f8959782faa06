#include <stdexcept>

#include "networks/builder.hpp"
#include "networks/families.hpp"

namespace um {
namespace {

constexpr std::int64_t unit = 224;

}  // namespace

graph build_alexnet(const network_spec& spec) {
  const std::int64_t insize = spec.knobs.at("insize");
  if (insize % unit != 0) {
    throw std::invalid_argument("network alexnet: insize " + std::to_string(insize) +
                                " is not a multiple of " + std::to_string(unit));
  }
  const std::int64_t times = insize / unit;
  builder b(spec.name, spec.mode);
  tensor_id x = b.input("data", {spec.batch, 3, insize, insize});
  x = b.relu("relu1", b.convolution("conv1", x, {64, 11, 4, 2}));
  x = b.max_pool("pool1", x, 3, 2, partial_windows::pooled);
  x = b.relu("relu2", b.convolution("conv2", x, {192, 5, 1, 2}));
  x = b.max_pool("pool2", x, 3, 2, partial_windows::pooled);
  x = b.relu("relu3", b.convolution("conv3", x, {384, 3, 1, 1}));
  x = b.relu("relu4", b.convolution("conv4", x, {256, 3, 1, 1}));
  x = b.relu("relu5", b.convolution("conv5", x, {256, 3, 1, 1}));
  x = b.max_pool("pool5", x, 3 * times, 2 * times, partial_windows::dropped);
  x = b.relu("relu6", b.linear("fc6", x, 4096));
  x = b.relu("relu7", b.linear("fc7", x, 4096));
  x = b.linear("fc8", x, 1000);
  return b.complete(x, spec);
}

}  // namespace um
