#include "harness/pack/lifetime_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "harness/io/errors.hpp"
#include "harness/io/text.hpp"
#include "planners/swap_scores.hpp"

namespace um {
namespace {

// Limit of the sum of all lifetimes, so that no sum of addresses overflows.
constexpr byte_count max_bytes = 1ULL << 56;

[[noreturn]] void throw_bad_value(std::string_view source, std::size_t line, std::string_view problem) {
  throw input_error(fmt::format("{}: line {}: {}", source, line, problem));
}

std::string_view trim(std::string_view text) {
  constexpr std::string_view space = " \t\r";
  const std::size_t begin = text.find_first_not_of(space);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(space) - begin + 1);
}

// Removes the text up to the separator, and the separator, from `rest`; returns the text.
std::string_view next_field(std::string_view& rest, char separator) {
  const std::size_t end = std::min(rest.find(separator), rest.size());
  const std::string_view field = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  return trim(field);
}

std::optional<std::uint64_t> parse_number(std::string_view text) {
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
    l.bytes = read_number("bytes");
    l.begin = read_number("begin");
    l.end = read_number("end");
    if (l.id.empty()) refuse("the id is empty");
    if (l.begin >= l.end) refuse(fmt::format("it ends at {}, not after its begin at {}", l.end, l.begin));
    while (!rest_.empty()) {
      std::string_view times = next_field(rest_, ',');
      while (!times.empty()) {
        if (const std::string_view time = next_field(times, ' '); !time.empty()) add_access_time(l, time);
      }
    }
    return l;
  }

 private:
  [[noreturn]] void refuse(std::string_view problem) const { um::throw_bad_value(source_, number_, problem); }

  std::uint64_t read_number(std::string_view name) {
    if (rest_.empty()) refuse(fmt::format("there is no {}; a line is id, bytes, begin, end", name));
    const std::string_view text = next_field(rest_, ',');
    const auto value = parse_number(text);
    if (!value) {
      refuse(fmt::format("{} is \"{}\", which is no whole number from 0 on", name,
                         one_line(text.substr(0, 80))));
    }
    return *value;
  }

  void add_access_time(traced_lifetime& l, std::string_view text) const {
    const auto time = parse_number(text);
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

// Sorted times at which a lifetime begins or ends, is accessed, or has just been accessed. A step is the
// interval between two of them.
std::vector<std::uint64_t> times_of(std::span<const traced_lifetime> all) {
  std::vector<std::uint64_t> times;
  for (const traced_lifetime& l : all) {
    times.insert(times.end(), {l.begin, l.end});
    for (const std::uint64_t at : l.accesses) times.insert(times.end(), {at, at + 1});
  }
  std::ranges::sort(times);
  times.erase(std::ranges::unique(times).begin(), times.end());
  return times;
}

std::size_t index_of_time(const std::vector<std::uint64_t>& times, std::uint64_t time) {
  return static_cast<std::size_t>(std::ranges::lower_bound(times, time) - times.begin());
}

// Bytes alive during each step; there is one step fewer than times.
std::vector<byte_count> bytes_at_times(std::span<const traced_lifetime> all,
                                       const std::vector<std::uint64_t>& times) {
  std::vector<byte_count> load(times.size(),
                               0);  // first holds the changes, modulo 2^64, then their running sums
  for (const traced_lifetime& l : all) {
    load[index_of_time(times, l.begin)] += l.bytes;
    load[index_of_time(times, l.end)] -= l.bytes;
  }
  for (std::size_t i = 1; i < load.size(); ++i) load[i] += load[i - 1];
  load.pop_back();
  return load;
}

// A period during which a lifetime is off the device.
struct absence_time {
  std::size_t which = 0;
  std::uint64_t from = 0, to = 0;
};

swapped_lifetimes without_swapped(std::span<const traced_lifetime> all,
                                  const std::vector<absence_time>& absences,
                                  const std::vector<std::size_t>& chosen_absences) {
  swapped_lifetimes swapped{{all.begin(), all.end()}, chosen_absences.size(), 0};
  for (const std::size_t c : chosen_absences) {
    const absence_time& away = absences[c];
    traced_lifetime& before = swapped.lifetimes[away.which];
    traced_lifetime after = before;
    const auto middle = std::ranges::lower_bound(before.accesses, away.to) - before.accesses.begin();
    before.end = away.from;
    after.begin = away.to;
    before.accesses.erase(before.accesses.begin() + middle, before.accesses.end());
    after.accesses.erase(after.accesses.begin(), after.accesses.begin() + middle);
    swapped.bytes += before.bytes;
    swapped.lifetimes.push_back(std::move(after));
  }
  return swapped;
}

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
    if (all.back().bytes > max_bytes - bytes) {
      throw_bad_value(source, number,
                      fmt::format("all bytes up to here are more than {}", to_text(max_bytes)));
    }
    bytes += all.back().bytes;
  }
  if (all.empty()) throw input_error(fmt::format("{}: it holds no lifetime", source));
  return all;
}

std::vector<block> blocks_of(std::span<const traced_lifetime> all) {
  const std::vector<std::uint64_t> times = times_of(all);
  std::vector<block> blocks;
  for (const traced_lifetime& l : all) {
    blocks.push_back({{{0, l.bytes, static_cast<std::uint32_t>(index_of_time(times, l.begin)),
                        static_cast<std::uint32_t>(index_of_time(times, l.end))}},
                      1});
  }
  return blocks;
}

std::vector<swapped_lifetimes> swap_to_limit(std::span<const traced_lifetime> all, byte_count limit) {
  const std::vector<std::uint64_t> times = times_of(all);
  const std::vector<byte_count> load = bytes_at_times(all, times);
  const auto peak = static_cast<std::size_t>(std::ranges::max_element(load) - load.begin());
  std::vector<possible_absence> absences;
  std::vector<absence_time> absence_times;
  for (std::size_t l = 0; l < all.size() && load[peak] > limit; ++l) {
    const auto& accesses = all[l].accesses;
    const auto after = std::ranges::upper_bound(accesses, times[peak]);
    if (all[l].bytes < smallest_swapped || after == accesses.begin() || after == accesses.end()) continue;
    const possible_absence a{index_of_time(times, *std::prev(after) + 1), index_of_time(times, *after),
                             all[l].bytes, 0};
    if (a.from > peak) continue;
    absences.push_back(a);
    absence_times.push_back({l, *std::prev(after) + 1, *after});
  }
  const swap_chooser chooser(load, std::vector<double>(times.begin(), times.end()), absences);
  std::vector<std::vector<std::size_t>> chosen;
  for (const swap_weights& w : swap_weight_vectors()) {
    std::vector<std::size_t> choice = chooser.choose(w, limit);
    std::ranges::sort(choice);
    if (!choice.empty() && std::ranges::find(chosen, choice) == chosen.end()) chosen.push_back(choice);
  }
  std::vector<swapped_lifetimes> found;
  for (const std::vector<std::size_t>& choice : chosen)
    found.push_back(without_swapped(all, absence_times, choice));
  std::ranges::stable_sort(found, {}, &swapped_lifetimes::bytes);
  return found;
}

}  // namespace um
