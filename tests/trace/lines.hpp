// The lines that a recorder wrote, as JSON.
#pragma once

#include <cstdint>
#include <sstream>
#include <string>
#include <vector>

#include "harness/json/fields.hpp"
#include "trace/recorder.hpp"

namespace um::tracing {

inline constexpr std::uint64_t base = std::uint64_t{100} << block_shift;  // of traced memory

struct written {
  std::string text;
  writer_options to() {
    return {[this](std::string_view more) { text += more; },
            [](std::uint64_t counter) { return "program+" + std::to_string(counter); }};
  }
  // Those of one kind, in order.
  std::vector<json> lines(const std::string& kind) const {
    std::vector<json> all;
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);) {
      auto value = parse_json(line, kind);
      if (value.at("kind") == kind) all.push_back(std::move(value));
    }
    return all;
  }
};

}  // namespace um::tracing
