// The figures of a machine as a table. Machine files, calibration, lists and checks are driven by its rows.
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
//   told        the device's and the host's own properties, the maker's data
//   measured    `umbench calibrate`; machine.hpp says by which measurement
//   fitted      by hand, to runs on an H200; machine.hpp says to which
enum class figure_source : std::uint8_t { told, measured, fitted };
template <>
inline constexpr std::array enum_names<figure_source>{"told"sv, "measured"sv, "fitted"sv};

struct figure {
  using member_of = std::variant<std::uint64_t machine::*, nanoseconds machine::*, std::uint64_t uvm_costs::*,
                                 nanoseconds uvm_costs::*>;
  std::string_view name;  // "uvm.fault_ns"
  std::string_view unit;  // "ns", "bytes", "bytes/s", "operations/s", "percent", "" of counts
  figure_source from;
  member_of member;
  std::int64_t least = 0;
  std::int64_t most = std::numeric_limits<std::int64_t>::max();
  // A file may lack it: then it is as in a default machine, or the h200's if it is fitted.
  bool may_be_absent = false;
};

// In the order of machine files, those of the driver last. Values are at least 0 and below 2^63.
std::span<const figure> figures();

std::int64_t value_of(const machine& m, const figure& f);
void set_value(machine& m, const figure& f, std::int64_t value);

// The machine with every uncertain figure at its fast, or its slow, end.
machine with_fastest_figures(machine m);
machine with_slowest_figures(machine m);

}  // namespace um
