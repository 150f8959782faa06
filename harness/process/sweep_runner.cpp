#include "harness/process/sweep_runner.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "harness/io/errors.hpp"
#include "harness/io/say.hpp"
#include "harness/io/text.hpp"
#include "harness/json/json.hpp"
#include "harness/process/isolation.hpp"
#include "harness/study/record.hpp"
#include "harness/study/summary.hpp"

namespace um {
namespace {

using clock = std::chrono::steady_clock;

// A time as "00:12" or "1:02:03".
std::string clock_text(std::chrono::seconds time) {
  const auto s = time.count();
  return s < 3600 ? fmt::format("{:02}:{:02}", s / 60, s % 60)
                  : fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
}

class sweep_run {
 public:
  sweep_run(const std::vector<cell>& cells, const sweep_settings& settings, record_file& file,
            signal_watch& signals, std::FILE* progress)
      : cells_(cells), settings_(settings), file_(file), pool_(signals), progress_(progress) {
    for (record r : file.earlier()) digests_.check(r);
    for (std::size_t i = 0; i < cells.size(); ++i) {
      if (const record* r = finished_record(file.earlier(), cells[i])) {
        done_.emplace(i, *r);
      } else if (const record* hung = find_earlier_hang(cells[i])) {
        done_.emplace(i, *hung);
        remember_failure(cells[i], *hung);
      } else {
        waiting_.push_back(i);
      }
    }
    skipped_ = done_.size();
  }

  std::size_t skipped() const { return skipped_; }
  bool nothing_to_do() const { return waiting_.empty(); }

  // Returns false if a stop signal came.
  bool run() {
    std::size_t next = 0;
    while (true) {
      while (!hung_ && next < waiting_.size() && pool_.running() < settings_.jobs &&
             start_cell_at(waiting_[next]))
        ++next;
      write_in_order();
      if (pool_.running() == 0) return true;
      const auto report = pool_.wait();
      if (!report) return false;
      record r = record_of(cells_[report->id], *report);
      remember_failure(cells_[report->id], r);
      if (r.result == outcome::hung) hung_ = r.key;
      ended_.emplace(report->id, std::move(r));
    }
  }

  sweep_result result() {
    sweep_result all;
    all.hung_cell = hung_;
    for (auto& [index, r] : done_) {
      all.failed += is_result(r.result) ? 0 : 1;
      all.records.push_back(std::move(r));
    }
    return all;
  }

 private:
  // For each line key, the cell with the most memory that timed out or hung.
  struct failed_cell {
    const cell* work;
    outcome result;
  };

  const record* find_earlier_hang(const cell& c) const {
    const record* r = settings_.ignores_earlier_failures ? nullptr : last_record(file_.earlier(), c);
    return r && r->result == outcome::hung ? r : nullptr;
  }

  void remember_failure(const cell& work, const record& r) {
    if (settings_.ignores_earlier_failures || (r.result != outcome::timeout && r.result != outcome::hung))
      return;
    const auto [at, is_new] = line_ends_.emplace(work.line_key, failed_cell{&work, r.result});
    if (!is_new && is_tighter(at->second.work->settings, work.settings)) at->second = {&work, r.result};
  }

  // Returns false if the limit of processes is reached until a running one ends.
  bool start_cell_at(std::size_t index) {
    const cell& work = cells_[index];
    const auto end = line_ends_.find(work.line_key);
    if (end == line_ends_.end() || !is_tighter(work.settings, end->second.work->settings)) {
      if (start_cell(pool_, index, work)) return true;
      settings_.jobs = pool_.running();
      print_to(progress_,
               "no more than {} cells run at a time: the system lends no more processes or descriptors\n",
               settings_.jobs);
      return false;
    }
    record r = make_record(work);
    r.result = end->second.result;
    r.reason = fmt::format("not run: {} {}; --no-skip runs it all the same", end->second.work->key,
                           r.result == outcome::hung ? "hung" : "timed out");
    ended_.emplace(index, std::move(r));
    return true;
  }

  void write_in_order() {
    while (written_ < waiting_.size()) {
      auto next = ended_.extract(waiting_[written_]);
      if (next.empty()) return;
      record& r = next.mapped();
      digests_.check(r);
      file_.append(r);
      ++written_;
      report(r);
      done_.emplace(next.key(), std::move(r));
    }
  }

  void report(const record& r) const {
    const std::string total = std::to_string(cells_.size());
    const std::chrono::duration<double> spent = clock::now() - begin_;
    const double left =
        spent.count() / static_cast<double>(written_) * static_cast<double>(waiting_.size() - written_);
    const std::chrono::seconds rounded{static_cast<std::int64_t>(left + 0.5)};
    print_to(progress_, "[{:>{}}/{}] {} ... {}, {} left\n", skipped_ + written_, total.size(), total, r.key,
             outcome_text(r), clock_text(rounded));
  }

  const std::vector<cell>& cells_;
  sweep_settings settings_;
  record_file& file_;
  child_pool pool_;
  std::FILE* progress_;
  digest_checker digests_;
  clock::time_point begin_ = clock::now();
  std::vector<std::size_t> waiting_;  // cells to run, in order
  std::size_t skipped_ = 0,
              written_ = 0;  // written_ is the number of cells of waiting_ whose records are written
  std::map<std::size_t, record> ended_;  // records of cells that have ended but are not written yet
  std::map<std::size_t, record> done_;
  std::map<std::string, failed_cell> line_ends_;
  std::optional<std::string> hung_;
};

}  // namespace

const record* last_record(const std::vector<record>& earlier, const cell& c) {
  const auto last =
      std::find_if(earlier.rbegin(), earlier.rend(), [&](const record& r) { return r.key == c.key; });
  return last == earlier.rend() ? nullptr : &*last;
}

const record* finished_record(const std::vector<record>& earlier, const cell& c) {
  const record* last = last_record(earlier, c);
  if (last == nullptr || !is_result(last->result) || last->iterations != c.settings.iterations)
    return nullptr;
  if (c.settings.timeline && last->result == outcome::ok && !last->timeline) return nullptr;
  return last;
}

void check_figures_and_rules(std::span<const cell> cells, const record_file& file) {
  figures_and_rules_checker book;
  for (const record& r : file.earlier()) book.remember(r);
  for (const cell& c : cells) {
    record r = make_record(c);
    if (c.planner_machine) r.planner_machine_digest = digest_of_figures(*c.planner_machine);
    if (const auto conflict = book.conflict(r)) {
      throw input_error(
          fmt::format("{}: {}; choose another --out", one_line(file.path().string()), *conflict));
    }
  }
}

sweep_result run_sweep(const std::vector<cell>& cells, const sweep_settings& settings, record_file& file,
                       const environment& here, signal_watch& signals, std::FILE* progress) {
  check_figures_and_rules(cells, file);
  sweep_run run(cells, settings, file, signals, progress);
  if (run.skipped() > 0) {
    print_to(progress, "{} of {} cells are in {} already\n", run.skipped(), cells.size(),
             file.path().string());
  }
  if (!run.nothing_to_do()) append_environment_if_new(file, here);
  const bool complete = run.run();
  sweep_result result = run.result();
  if (!complete) result.stop_signal = signals.stop_signal();
  return result;
}

}  // namespace um
