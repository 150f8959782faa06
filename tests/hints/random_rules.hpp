// Strategies of hints by dice: any rules beside each other that are no defect by themselves.
#pragma once

#include <array>
#include <random>
#include <string>

#include "hints/rules.hpp"

namespace um::testing {

template <class T, std::size_t n>
T one_of(std::mt19937& dice, const std::array<T, n>& all) {
  return all.at(dice() % n);
}

inline tensor_choice random_choice(std::mt19937& dice) {
  tensor_choice which;
  for (const role use : {role::input, role::parameter, role::parameter_gradient, role::activation,
                         role::activation_gradient}) {
    if (dice() % 3 == 0) which.roles.push_back(use);
  }
  which.use = static_cast<tensor_use>(dice() % 5);
  if (dice() % 2 == 0) which = {};
  return which;
}

inline hint_policy random_policy(std::mt19937& dice) {
  const auto flip = [&] { return dice() % 2 == 0; };
  switch (dice() % 8) {
    case 0:
      return residence_rule{one_of(
          dice, std::array{residence::device, residence::device, residence::host, residence::managed})};
    case 1:
      return advice_rule{one_of(dice, std::array{advice::read_mostly, advice::preferred_device,
                                                 advice::preferred_host, advice::accessed_by_device})};
    case 2:
    case 3: {
      prefetch_rule r;
      r.side = static_cast<operand_side>(dice() % 3);
      r.unit = static_cast<look_ahead_unit>(dice() % 3);
      r.ahead = r.unit == look_ahead_unit::bytes ? 64 << 20 : one_of(dice, std::array{0, 1, 2, 3, 8, 32});
      r.source = dice() % 4 == 0 ? fetch_source::recorded : fetch_source::network;
      return r;
    }
    case 4:
    case 5:
      return evict_rule{flip() ? evict_when::after_use : evict_when::pressure,
                        static_cast<evict_order>(dice() % 3), one_of(dice, std::array{0, 1, 2, 4, 16}),
                        flip() ? evict_means::twin : evict_means::prefetch_to_host};
    case 6:
      return discard_rule{flip()};
    default:
      return flip() ? hint_policy(cut_rule{}) : hint_policy(search_rule{2});
  }
}

inline hint_strategy random_rules(std::mt19937& dice) {
  while (true) {
    hint_strategy s{"random", "", {}};
    const std::size_t count = 1 + dice() % 6;
    for (std::size_t i = 0; i < count; ++i)
      s.rules.push_back({"r" + std::to_string(i), random_choice(dice), random_policy(dice)});
    if (!defect_of(s)) return s;
  }
}

}  // namespace um::testing
