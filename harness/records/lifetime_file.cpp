#include "harness/records/lifetime_file.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "harness/records/suggest.hpp"

namespace um {
namespace {

// Of all lifetimes together, so that no sum of addresses overflows.
constexpr byte_count most_bytes = 1ULL << 56;

[[noreturn]] void refuse(std::string_view source, std::size_t line, std::string_view what) {
  throw input_error(fmt::format("{}: line {}: {}", source, line, what));
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view space = " \t\r";
  const std::size_t begin = text.find_first_not_of(space);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(space) - begin + 1);
}

// What comes before the separator, which goes, too.
std::string_view next_field(std::string_view& rest, char separator) {
  const std::size_t end = std::min(rest.find(separator), rest.size());
  const std::string_view field = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  return trimmed(field);
}

std::optional<std::uint64_t> number_in(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// The fields of one line, left to right.
class line_reader {
 public:
  line_reader(std::string_view line, std::string_view source, std::size_t number)
      : rest_(line), source_(source), number_(number) {}

  traced_lifetime read() {
    traced_lifetime l;
    l.id = next_field(rest_, ',');
    l.bytes = number("bytes");
    l.begin = number("begin");
    l.end = number("end");
    if (l.id.empty()) refuse("the id is empty");
    if (l.begin >= l.end) refuse(fmt::format("it ends at {}, not after its begin at {}", l.end, l.begin));
    while (!rest_.empty()) {
      std::string_view times = next_field(rest_, ',');
      while (!times.empty()) {
        if (const std::string_view time = next_field(times, ' '); !time.empty()) add_access(l, time);
      }
    }
    return l;
  }

 private:
  [[noreturn]] void refuse(std::string_view what) const { um::refuse(source_, number_, what); }

  std::uint64_t number(std::string_view name) {
    if (rest_.empty()) refuse(fmt::format("there is no {}; a line is id, bytes, begin, end", name));
    const std::string_view text = next_field(rest_, ',');
    const auto value = number_in(text);
    if (!value) {
      refuse(fmt::format("{} is \"{}\", which is no whole number from 0 on", name,
                         one_line(text.substr(0, 80))));
    }
    return *value;
  }

  void add_access(traced_lifetime& l, std::string_view text) const {
    const auto time = number_in(text);
    if (!time) {
      refuse(fmt::format("access time \"{}\" is no whole number from 0 on", one_line(text.substr(0, 80))));
    }
    if (*time < l.begin || *time >= l.end) {
      refuse(fmt::format("access time {} is outside its life from {} to before {}", *time, l.begin, l.end));
    }
    if (!l.accesses.empty() && *time < l.accesses.back()) {
      refuse(fmt::format("access time {} comes after {}; times must ascend", *time, l.accesses.back()));
    }
    l.accesses.push_back(*time);
  }

  std::string_view rest_, source_;
  std::size_t number_;
};

}  // namespace

std::vector<traced_lifetime> lifetimes_from_csv(std::string_view text, std::string_view source) {
  std::vector<traced_lifetime> all;
  byte_count bytes = 0;
  bool may_be_names = true;
  for (std::size_t number = 1; !text.empty(); ++number) {
    std::string_view line = next_field(text, '\n');
    if (line.empty() || line.starts_with('#')) continue;
    std::string_view rest = line;
    const bool names_columns = may_be_names && next_field(rest, ',') == "id";
    may_be_names = false;
    if (names_columns) continue;
    all.push_back(line_reader(line, source, number).read());
    if (all.back().bytes > most_bytes - bytes) {
      refuse(source, number, fmt::format("all bytes up to here are more than {}", to_text(most_bytes)));
    }
    bytes += all.back().bytes;
  }
  if (all.empty()) throw input_error(fmt::format("{}: it holds no lifetime", source));
  return all;
}

std::string to_csv(std::span<const traced_lifetime> all) {
  std::string text = "id,bytes,begin,end,accesses\n";
  for (const traced_lifetime& l : all) {
    text += fmt::format("{},{},{},{},{}\n", l.id, l.bytes, l.begin, l.end, fmt::join(l.accesses, " "));
  }
  return text;
}

std::vector<block> blocks_of(std::span<const traced_lifetime> all) {
  std::vector<std::uint64_t> times;
  for (const traced_lifetime& l : all) times.insert(times.end(), {l.begin, l.end});
  std::ranges::sort(times);
  times.erase(std::ranges::unique(times).begin(), times.end());
  const auto rank = [&](std::uint64_t time) {
    return static_cast<std::uint32_t>(std::ranges::lower_bound(times, time) - times.begin());
  };
  std::vector<block> blocks;
  for (const traced_lifetime& l : all) blocks.push_back({{{0, l.bytes, rank(l.begin), rank(l.end)}}, 1});
  return blocks;
}

}  // namespace um
