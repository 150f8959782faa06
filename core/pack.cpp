#include "core/pack.hpp"

#include <algorithm>
#include <array>

namespace um {

std::span<const packer> all_packers() {
  static constexpr std::array all{packers::searched, packers::first_fit, packers::best_fit,
                                  packers::smartpool};
  return all;
}

const packer* find_packer(std::string_view name) {
  const auto at = std::ranges::find(all_packers(), name, &packer::name);
  return at == all_packers().end() ? nullptr : &*at;
}

}  // namespace um
