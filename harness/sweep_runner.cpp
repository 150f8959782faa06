#include "harness/sweep_runner.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "harness/digests.hpp"
#include "harness/isolation.hpp"
#include "harness/json.hpp"
#include "harness/summary.hpp"

namespace um {
namespace {

using clock = std::chrono::steady_clock;

// "00:12", "1:02:03".
std::string clock_text(std::chrono::seconds time) {
  const auto s = time.count();
  return s < 3600 ? fmt::format("{:02}:{:02}", s / 60, s % 60)
                  : fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
}

class sweep_run {
 public:
  sweep_run(const std::vector<cell>& cells, record_file& file, signal_watch& signals, std::FILE* progress)
      : cells_(cells), file_(file), pool_(signals), progress_(progress) {
    for (record r : file.earlier()) digests_.check(r);
    for (std::size_t i = 0; i < cells.size(); ++i) {
      if (const record* r = finished_record(file.earlier(), cells[i].what)) {
        done_.emplace(i, *r);
      } else {
        waiting_.push_back(i);
      }
    }
    skipped_ = done_.size();
  }

  std::size_t skipped() const { return skipped_; }
  bool nothing_to_do() const { return waiting_.empty(); }

  // False if a stop signal came.
  bool run(std::size_t jobs) {
    std::size_t next = 0;
    while (written_ < waiting_.size()) {
      while (next < waiting_.size() && pool_.running() < jobs) {
        start_cell(pool_, waiting_[next], cells_[waiting_[next]]);
        ++next;
      }
      const auto report = pool_.wait();
      if (!report) return false;
      ended_.emplace(report->id, record_of(cells_[report->id], *report));
      write_in_order();
    }
    return true;
  }

  sweep_result result() {
    sweep_result all;
    for (auto& [index, r] : done_) {
      all.failed += is_result(r.result) ? 0 : 1;
      all.records.push_back(std::move(r));
    }
    return all;
  }

 private:
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
    fmt::print(progress_, "[{:>{}}/{}] {} ... {}, {} left\n", skipped_ + written_, total.size(), total, r.key,
               outcome_text(r), clock_text(rounded));
    std::fflush(progress_);
  }

  const std::vector<cell>& cells_;
  record_file& file_;
  child_pool pool_;
  std::FILE* progress_;
  digest_book digests_;
  clock::time_point begin_ = clock::now();
  std::vector<std::size_t> waiting_;       // cells to run, in order
  std::size_t skipped_ = 0, written_ = 0;  // written_ counts within waiting_
  std::map<std::size_t, record> ended_;    // waiting for their turn to be written
  std::map<std::size_t, record> done_;
};

std::string without_time(environment e) {
  e.created.clear();
  return to_json(e);
}

}  // namespace

const record* finished_record(const std::vector<record>& earlier, const experiment& e) {
  const std::string key = key_of(e);
  const auto last =
      std::find_if(earlier.rbegin(), earlier.rend(), [&](const record& r) { return r.key == key; });
  if (last == earlier.rend() || !is_result(last->result) || last->iterations != e.iterations) return nullptr;
  if (e.timeline && last->result == outcome::ok && !last->timeline) return nullptr;
  return &*last;
}

void note_environment(record_file& file, const environment& here) {
  const auto& before = file.environments();
  if (before.empty() || without_time(before.back()) != without_time(here)) file.append(here);
}

sweep_result run_sweep(const std::vector<cell>& cells, std::size_t jobs, record_file& file,
                       const environment& here, signal_watch& signals, std::FILE* progress) {
  sweep_run run(cells, file, signals, progress);
  if (run.skipped() > 0) {
    fmt::print(progress, "{} of {} cells are in {} already\n", run.skipped(), cells.size(),
               file.path().string());
  }
  if (!run.nothing_to_do()) note_environment(file, here);
  const bool complete = run.run(std::max<std::size_t>(jobs, 1));
  sweep_result result = run.result();
  if (!complete) result.stopped_by = signals.stop_signal();
  return result;
}

}  // namespace um
