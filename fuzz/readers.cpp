#include "fuzz/readers.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "harness/io/errors.hpp"
#include "harness/json/json.hpp"

namespace um {
namespace {

constexpr const char* source = "fuzzed";

bool bear(std::string_view text, auto read) {
  std::string once;
  try {
    once = to_json(read(text, source));
  } catch (const input_error& refusal) {
    if (std::string_view(refusal.what()).find('\n') == std::string_view::npos) return false;
    std::fprintf(stderr, "the refusal has several lines: %s\n", refusal.what());
    std::abort();
  }
  if (to_json(read(once, source)) == once) return true;
  std::fprintf(stderr, "what was written reads back as something else: %s\n", once.c_str());
  std::abort();
}

// Readers without a writer: reading must succeed or refuse the text.
bool bear_reading(std::string_view text, auto read) {
  try {
    read(text, source);
    return true;
  } catch (const input_error&) {
    return false;
  }
}

bool bear_record_line(std::string_view line) {
  try {
    kind_of_line(line, source);
  } catch (const input_error&) {
    return false;
  }
  return kind_of_line(line, source) == line_kind::environment ? bear(line, environment_from_json)
                                                              : bear(line, record_from_json);
}

constexpr std::array readers{
    fuzzed_reader{"figures", [](std::string_view t) { return bear_reading(t, published_figures_from_json); }},
    fuzzed_reader{"graph", [](std::string_view t) { return bear(t, graph_from_json); }},
    fuzzed_reader{"hints", [](std::string_view t) { return bear(t, hint_strategy_from_json); }},
    fuzzed_reader{"machine", [](std::string_view t) { return bear(t, machine_from_json); }},
    fuzzed_reader{"plan", [](std::string_view t) { return bear(t, plan_from_json); }},
    fuzzed_reader{"record", bear_record_line},
    fuzzed_reader{"sweep", [](std::string_view t) { return bear_reading(t, sweep_from_json); }},
};

}  // namespace

std::span<const fuzzed_reader> fuzzed_readers() {
  return readers;
}

const fuzzed_reader* fuzzed_reader_named(std::string_view name) {
  const auto at = std::find_if(readers.begin(), readers.end(), [&](const auto& r) { return r.name == name; });
  return at == readers.end() ? nullptr : &*at;
}

}  // namespace um
