#include "core/trace.hpp"

namespace um {

std::string_view to_text(lane where) {
  switch (where) {
    case lane::compute:
      return "compute";
    case lane::to_device:
      return "to_device";
    case lane::to_host:
      return "to_host";
  }
  return "?";
}

}  // namespace um
