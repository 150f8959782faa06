// Networks small enough for property tests, large enough that tensors fill managed blocks.
#pragma once

#include <string>
#include <vector>

#include "networks/catalogue.hpp"

namespace um::testing {

struct small_network {
  std::string label;
  graph g;
};

inline std::vector<small_network> small_networks() {
  const auto of = [](const std::string& label, const std::string& name, std::int64_t batch, pass mode,
                     bool sgd, std::map<std::string, std::int64_t> knobs = {}) {
    network_spec spec;
    spec.name = name;
    spec.batch = batch;
    spec.mode = mode;
    spec.sgd = sgd;
    spec.knobs = std::move(knobs);
    return small_network{label, build(spec)};
  };
  return {
      of("alexnet", "alexnet", 8, pass::train, false),
      of("alexnet_sgd", "alexnet", 4, pass::train, true),
      of("alexnet_inference", "alexnet", 16, pass::inference, false),
      of("vgg11", "vgg11", 4, pass::train, false),
      of("vgg16", "vgg16", 2, pass::train, true),
      of("conv", "conv", 4, pass::train, false,
         {{"c", 32}, {"h", 64}, {"w", 64}, {"k", 48}, {"kernel", 3}, {"stride", 1}, {"pad", 1}}),
  };
}

}  // namespace um::testing
