#include <array>
#include <string>

#include "networks/builder.hpp"
#include "networks/families.hpp"

namespace um {
namespace {

// Blocks of one width. The first one has the stride, the others have stride 1.
struct stage {
  std::int64_t expansion, channels, blocks, stride;
};
constexpr std::array<stage, 7> stages{{{1, 16, 1, 1},
                                       {6, 24, 2, 2},
                                       {6, 32, 3, 2},
                                       {6, 64, 4, 2},
                                       {6, 96, 3, 1},
                                       {6, 160, 3, 2},
                                       {6, 320, 1, 1}}};
constexpr std::int64_t first_channels = 32, last_channels = 1280;

tensor_id append_conv_and_norm(builder& b, const std::string& name, tensor_id x, const filters& f) {
  return b.batch_norm(name + ".bn", b.convolution(name + ".conv", x, f));
}

// Inverted residual: expand by 1 x 1, depthwise convolution, project by 1 x 1; adds the input if shapes
// agree.
tensor_id inverted_residual(builder& b, const std::string& name, tensor_id x, const stage& s,
                            std::int64_t stride) {
  const std::int64_t before = b.so_far().tensors[x].shape.c, hidden = before * s.expansion;
  tensor_id y = x;
  if (s.expansion > 1) {
    y = b.relu(name + ".expand.relu", append_conv_and_norm(b, name + ".expand", y, {hidden, 1, 1, 0, false}),
               true);
  }
  y = b.relu(name + ".depthwise.relu",
             append_conv_and_norm(b, name + ".depthwise", y, {hidden, 3, stride, 1, false, hidden}), true);
  y = append_conv_and_norm(b, name + ".project", y, {s.channels, 1, 1, 0, false});
  return stride == 1 && before == s.channels ? b.add(name + ".add", y, x) : y;
}

}  // namespace

graph build_mobilenet_v2(const network_spec& spec) {
  const std::int64_t insize = spec.knobs.at("insize");
  builder b(spec.name, spec.mode);
  tensor_id x = b.input("data", {spec.batch, 3, insize, insize});
  x = b.relu("features.0.relu", append_conv_and_norm(b, "features.0", x, {first_channels, 3, 2, 1, false}),
             true);
  int number = 0;
  for (const stage& s : stages) {
    for (std::int64_t i = 0; i < s.blocks; ++i) {
      const std::string name = "features." + std::to_string(++number);
      x = inverted_residual(b, name, x, s, i == 0 ? s.stride : 1);
    }
  }
  const std::string last = "features." + std::to_string(number + 1);
  x = b.relu(last + ".relu", append_conv_and_norm(b, last, x, {last_channels, 1, 1, 0, false}), true);
  x = b.linear("classifier", b.global_average_pool("average", x), 1000);
  return b.complete(x, spec);
}

}  // namespace um
