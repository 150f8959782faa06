// The figures of a machine as a table. Its rows drive machine files, calibration, lists and checks.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string_view>
#include <variant>

#include "core/machine.hpp"
#include "core/names.hpp"

namespace um {

// Where a figure comes from.
//
// given_by_maker: properties of the device and the host, data sheets. measured: `umbench calibrate`;
// machine.hpp names the measurement. fitted: by hand, to runs on an H200; machine.hpp names them.
enum class figure_source : std::uint8_t { given_by_maker, measured, fitted };
template <>
inline constexpr std::array enum_names<figure_source>{"told"sv, "measured"sv, "fitted"sv};

struct figure {
  using member_of = std::variant<std::uint64_t machine::*, nanoseconds machine::*, std::uint64_t uvm_costs::*,
                                 nanoseconds uvm_costs::*>;
  std::string_view name;  // "uvm.fault_ns"
  std::string_view unit;  // "ns", "bytes", "bytes/s", "operations/s", "percent", "" of counts
  figure_source source;
  member_of member;  // pointer to the machine's member
  std::int64_t min_value = 0;
  std::int64_t max_value = std::numeric_limits<std::int64_t>::max();
  // A machine file may omit the figure. It then has its default or, if it is fitted, the value of the h200.
  bool is_optional = false;
};

// All figures, in the order of machine files, the driver's last. Values are at least 0 and below 2^63.
std::span<const figure> figures();

std::int64_t value_of(const machine& m, const figure& f);
void set_value(machine& m, const figure& f, std::int64_t value);

// The machine with every uncertain figure at the fast end of its range, or at the slow end.
machine with_fastest_figures(machine m);
machine with_slowest_figures(machine m);

}  // namespace um
