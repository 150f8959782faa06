#include "core/operators.hpp"

namespace um {

std::string_view kind_of(const op_attributes& attributes) {
  return std::visit([]<class Kind>(const Kind&) { return Kind::kind; }, attributes.value);
}

std::vector<op_attributes> every_kind() {
  return []<class... Kinds>(const std::variant<Kinds...>&) {
    return std::vector<op_attributes>{Kinds{}...};
  }(op_attributes{}.value);
}

}  // namespace um
