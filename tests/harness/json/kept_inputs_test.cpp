// Inputs kept for each reader, by its name; *.json are good.
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <map>

#include "harness/io/errors.hpp"
#include "harness/io/files.hpp"
#include "harness/json/json.hpp"

namespace um {
namespace {

// Reads the text. True if it is accepted; then what is written reads back as the same text.
using input_check = std::function<bool(std::string_view)>;

bool is_accepted(std::string_view text, auto read) {
  try {
    read(text, "input");
    return true;
  } catch (const input_error& refused) {
    EXPECT_EQ(std::string_view(refused.what()).find('\n'), std::string_view::npos) << refused.what();
    return false;
  }
}

bool reads_back(std::string_view text, auto read) {
  if (!is_accepted(text, read)) return false;
  const std::string written = to_json(read(text, "input"));
  EXPECT_EQ(to_json(read(written, "input")), written);
  return true;
}

bool line_reads_back(std::string_view line) {
  if (!is_accepted(line, kind_of_line)) return false;
  const bool is_environment = kind_of_line(line, "input") == line_kind::environment;
  return is_environment ? reads_back(line, environment_from_json) : reads_back(line, record_from_json);
}

TEST(KeptInputs, AreRefusedInOneLineOrReadBackEqual) {
  const std::map<std::string, input_check> readers{
      {"figures", [](std::string_view t) { return is_accepted(t, published_figures_from_json); }},
      {"graph", [](std::string_view t) { return reads_back(t, graph_from_json); }},
      {"hints", [](std::string_view t) { return reads_back(t, hint_strategy_from_json); }},
      {"machine", [](std::string_view t) { return reads_back(t, machine_from_json); }},
      {"plan", [](std::string_view t) { return reads_back(t, plan_from_json); }},
      {"record", line_reads_back},
      {"sweep", [](std::string_view t) { return is_accepted(t, sweep_from_json); }}};
  const std::filesystem::path kept =
      std::filesystem::path(UM_SOURCE_FOLDER) / "tests/harness/json/kept_inputs";
  for (const auto& [name, check] : readers) {
    std::size_t files = 0;
    for (const auto& file : std::filesystem::directory_iterator(kept / name)) {
      const bool accepted = check(read_file(file.path()));
      EXPECT_TRUE(accepted || file.path().extension() != ".json") << file.path();
      ++files;
    }
    EXPECT_GT(files, 10U) << name;
  }
}

}  // namespace
}  // namespace um
