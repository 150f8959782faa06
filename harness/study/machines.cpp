#include "harness/study/machines.hpp"

#include <algorithm>
#include <cctype>
#include <ranges>

#include "harness/io/errors.hpp"
#include "harness/io/text.hpp"

namespace um {
namespace {

// Lower-case runs of letters and digits.
std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words{""};
  for (const unsigned char c : text) {
    if (std::isalnum(c)) {
      words.back() += static_cast<char>(std::tolower(c));
    } else if (!words.back().empty()) {
      words.emplace_back();
    }
  }
  return words;
}

// Whether consecutive words give `name` when joined, as "titan", "v" give "titan-v".
bool matches_name(const std::vector<std::string>& words, const std::string& name) {
  std::string wanted;
  for (const std::string& word : words_of(name)) wanted += word;
  if (wanted.empty()) return false;
  for (std::size_t first = 0; first < words.size(); ++first) {
    std::string run;
    for (std::size_t i = first; i < words.size() && run.size() < wanted.size(); ++i) run += words[i];
    if (run == wanted) return true;
  }
  return false;
}

}  // namespace

const machine& find_machine(const std::vector<machine>& machines, std::string_view name) {
  std::vector<std::string> known;
  for (const machine& m : machines) {
    if (m.name == name) return m;
    known.push_back(m.name);
  }
  throw input_error(unknown_name("machine", name, known));
}

const machine* find_machine_like(const std::vector<machine>& machines, std::string_view gpu_name) {
  const std::vector<std::string> words = words_of(gpu_name);
  const auto kind = [](const machine& m) { return m.name.substr(0, m.name.find('-')); };
  const auto first = [&](auto name_of) {
    const auto found =
        std::ranges::find_if(machines, [&](const machine& m) { return matches_name(words, name_of(m)); });
    return found == machines.end() ? nullptr : &*found;
  };
  const std::string measured =
      "on one " + std::string(gpu_name) + ',';  // the beginning of the source that umbench calibrate writes
  for (const machine& m : std::views::reverse(machines)) {  // files of the user come last and take precedence
    if (m.source.find(measured) != std::string::npos) return &m;
  }
  if (const machine* whole = first([](const machine& m) { return m.name; })) return whole;
  return first([&](const machine& m) {
    const std::string name = kind(m);
    return std::ranges::any_of(name, [](unsigned char c) { return std::isdigit(c); }) ? name : "";
  });
}

}  // namespace um
