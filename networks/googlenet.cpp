#include <string>

#include "networks/builder.hpp"
#include "networks/families.hpp"

namespace um {
namespace {

constexpr float epsilon = 1e-3F;

tensor_id convolution_and_relu(builder& b, const std::string& name, tensor_id x, const filters& f) {
  return b.relu(name + ".relu", b.batch_norm(name + ".bn", b.convolution(name + ".conv", x, f), epsilon));
}

// Channels of the four branches: 1 x 1; 3 x 3 after its reduction; a second 3 x 3 after its reduction; 1 x 1
// after the pool.
struct inception_widths {
  std::int64_t one, reduced_three, three, reduced_five, five, pooled;
};

tensor_id inception(builder& b, const std::string& name, tensor_id x, const inception_widths& w) {
  const auto one_by_one = [&](const std::string& branch, tensor_id from, std::int64_t count) {
    return convolution_and_relu(b, name + branch, from, {count, 1, 1, 0, false});
  };
  const auto three_by_three = [&](const std::string& branch, tensor_id from, std::int64_t count) {
    return convolution_and_relu(b, name + branch, from, {count, 3, 1, 1, false});
  };
  const tensor_id first = one_by_one(".branch1", x, w.one);
  const tensor_id second =
      three_by_three(".branch2.1", one_by_one(".branch2.0", x, w.reduced_three), w.three);
  const tensor_id third = three_by_three(".branch3.1", one_by_one(".branch3.0", x, w.reduced_five), w.five);
  const tensor_id pooled = b.max_pool(name + ".branch4.0", x, 3, 1, partial_windows::pooled, 1);
  return b.concat(name + ".concat", {first, second, third, one_by_one(".branch4.1", pooled, w.pooled)});
}

}  // namespace

graph build_googlenet(const network_spec& spec) {
  const std::int64_t insize = spec.knobs.at("insize");
  builder b(spec.name, spec.mode);
  tensor_id x = b.input("data", {spec.batch, 3, insize, insize});
  x = convolution_and_relu(b, "conv1", x, {64, 7, 2, 3, false});
  x = b.max_pool("maxpool1", x, 3, 2, partial_windows::pooled);
  x = convolution_and_relu(b, "conv2", x, {64, 1, 1, 0, false});
  x = convolution_and_relu(b, "conv3", x, {192, 3, 1, 1, false});
  x = b.max_pool("maxpool2", x, 3, 2, partial_windows::pooled);
  x = inception(b, "inception3a", x, {64, 96, 128, 16, 32, 32});
  x = inception(b, "inception3b", x, {128, 128, 192, 32, 96, 64});
  x = b.max_pool("maxpool3", x, 3, 2, partial_windows::pooled);
  x = inception(b, "inception4a", x, {192, 96, 208, 16, 48, 64});
  x = inception(b, "inception4b", x, {160, 112, 224, 24, 64, 64});
  x = inception(b, "inception4c", x, {128, 128, 256, 24, 64, 64});
  x = inception(b, "inception4d", x, {112, 144, 288, 32, 64, 64});
  x = inception(b, "inception4e", x, {256, 160, 320, 32, 128, 128});
  x = b.max_pool("maxpool4", x, 2, 2, partial_windows::pooled);
  x = inception(b, "inception5a", x, {256, 160, 320, 32, 128, 128});
  x = inception(b, "inception5b", x, {384, 192, 384, 48, 128, 128});
  x = b.linear("fc", b.global_average_pool("average", x), 1000);
  return b.complete(x, spec);
}

}  // namespace um
