#include "core/operators.hpp"

#include <array>
#include <cstddef>

namespace um {
namespace {

template <std::size_t... I>
std::vector<op_attributes> one_of_each(std::index_sequence<I...>) {
  return {op_attributes(std::in_place_index<I>)...};
}

}  // namespace

op_attributes::op_attributes() = default;
op_attributes::op_attributes(const op_attributes& other) = default;
op_attributes::op_attributes(op_attributes&& other) noexcept = default;
op_attributes& op_attributes::operator=(const op_attributes& other) = default;
op_attributes& op_attributes::operator=(op_attributes&& other) noexcept = default;
op_attributes::~op_attributes() = default;

std::string_view kind_of(const op_attributes& what) {
  return std::visit([]<class Kind>(const Kind&) { return Kind::kind; }, what);
}

std::vector<op_attributes> every_kind() {
  return one_of_each(std::make_index_sequence<std::variant_size_v<attributes_of_some_kind>>{});
}

std::string_view to_text(batch_cut cut) {
  constexpr std::array<std::string_view, 3> names{"whole", "part", "sum"};
  return names.at(static_cast<std::size_t>(cut));
}

}  // namespace um
