#include "core/operators.hpp"

#include <array>
#include <cstddef>

namespace um {
namespace {

template <std::size_t... I>
std::vector<op_attributes> default_of_each_kind(std::index_sequence<I...>) {
  return {op_attributes(std::in_place_index<I>)...};
}

}  // namespace

std::string_view kind_of(const op_attributes& what) {
  return std::visit([]<class Kind>(const Kind&) { return Kind::kind; }, what);
}

std::vector<op_attributes> every_kind() {
  return default_of_each_kind(std::make_index_sequence<std::variant_size_v<op_attributes>>{});
}

}  // namespace um
