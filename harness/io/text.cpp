#include "harness/io/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <vector>

namespace um {
namespace {

std::size_t edits_between(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

std::string to_lower_case(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return lower;
}

}  // namespace

std::string nearest_name(std::string_view given, std::span<const std::string> known) {
  constexpr std::size_t longest = 64;  // no suggestion is made for longer texts
  constexpr std::size_t min_beginning =
      3;  // a given name may be the beginning of a known one, as "p100" of p100-pcie3-16g
  constexpr std::size_t min_begun =
      5;  // a known name may be the beginning of a given one, as "--batch" of --batchsize
  if (given.size() > longest) return {};
  const std::string lower = to_lower_case(given);
  std::string best;
  for (const std::string& name : known) {
    if (lower.size() < min_beginning || !to_lower_case(name).starts_with(lower)) continue;
    if (best.empty() || name.size() < best.size()) best = name;
  }
  if (!best.empty()) return best;
  for (const std::string& name : known) {
    const bool begins = name.size() >= min_begun && lower.starts_with(to_lower_case(name));
    if (begins && name.size() > best.size()) best = name;
  }
  if (!best.empty()) return best;
  std::size_t fewest = std::max<std::size_t>(2, given.size() / 3) + 1;
  for (const std::string& name : known) {
    const std::size_t edits = edits_between(lower, name);
    if (edits < fewest && edits < name.size()) {
      fewest = edits;
      best = name;
    }
  }
  return best;
}

std::string one_line(std::string_view text) {
  std::string line(text);
  for (char& c : line) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  }
  const std::size_t end = line.find_last_not_of(' ');
  line.erase(end == std::string::npos ? 0 : end + 1);
  return line;
}

std::string unknown_name(std::string_view kind, std::string_view given, std::span<const std::string> known) {
  const std::string near = nearest_name(given, known);
  return fmt::format("unknown {} \"{}\";{} known: {}", kind, one_line(given.substr(0, 80)),
                     near.empty() ? "" : fmt::format(" did you mean {}?", near),
                     known.empty() ? "none" : fmt::format("{}", fmt::join(known, ", ")));
}

std::string wrap_text(std::string_view text, std::size_t indent, std::size_t width) {
  std::string lines;
  std::size_t column = indent;
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find(' '));
    text.remove_prefix(std::min(word.size() + 1, text.size()));
    if (column > indent && column + 1 + word.size() > width) {
      lines += '\n' + std::string(indent, ' ');
      column = indent;
    } else if (column > indent) {
      lines += ' ';
      ++column;
    }
    lines += word;
    column += word.size();
  }
  return lines;
}

std::string first_sentence(std::string_view text, std::size_t max_length) {
  std::string_view first = text.substr(0, text.find(". "));
  if (first.size() <= max_length) return std::string(first);
  first = first.substr(0, max_length);
  return std::string(first.substr(0, first.rfind(' '))) + " ...";
}

}  // namespace um
