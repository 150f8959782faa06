#include "harness/study/experiment.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "harness/io/errors.hpp"
#include "harness/io/numbers.hpp"
#include "harness/io/text.hpp"

namespace um {

backend_name parse_backend(const std::string& text) {
  if (text.starts_with("sim:") && text.size() > 4) return {true, text.substr(4), 0};
  if (text.starts_with("cuda:")) {
    return {false, "", static_cast<int>(parse_whole_number("backend cuda:N", text.substr(5), 0, 1023))};
  }
  throw input_error(
      fmt::format("unknown backend \"{}\"; use sim:NAME (see `umbench list machines`) or cuda:N",
                  one_line(text.substr(0, 80))));
}

std::string optimizer_text(const network_spec& n) {
  if (!n.optimizer) return n.appends_sgd ? "+sgd" : "";
  return fmt::format("+optimizer={}{}", to_text(*n.optimizer), n.keeps_masters ? ",masters" : "");
}

std::string storage_text(const network_spec& n) {
  const memory_order standard = standard_order(n.arithmetic), order = n.order.value_or(standard);
  return fmt::format("{}{}", to_text(n.arithmetic),
                     order == standard ? "" : fmt::format(",{}", to_text(order)));
}

byte_count peak_device_bytes_of(run_mode mode, const execution_plan& steps) {
  const byte_count asked_for = steps.peak_device_bytes;
  return facts_of_mode(mode).evicted_by == pressure::driver ? std::min(asked_for, steps.budget) : asked_for;
}

const mode_row& facts_of_mode(run_mode mode) {
  static constexpr std::array rows{
      mode_row{pressure::driver, true, false, false},  // simulated
      mode_row{pressure::plan, true, true, false},     // capped
      mode_row{pressure::driver, false, true, true},   // native
  };
  static_assert(rows.size() == enum_names<run_mode>.size());
  return rows.at(static_cast<std::size_t>(mode));
}

}  // namespace um
