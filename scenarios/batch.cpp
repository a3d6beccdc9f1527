#include "scenarios/batch.h"

#include <fnmatch.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string_view>
#include <utility>

#include "scenarios/forecast.h"
#include "scenarios/scenario_file.h"
#include "scenarios/scenario_parts.h"
#include "sim/errors.h"
#include "sim/run_many.h"

namespace flopcast {
namespace {

namespace fs = std::filesystem;

/// Where a trial's scenario lies.
struct Place {
  std::size_t file;
  std::size_t row;
};

struct Work {
  std::vector<ScenarioFile> files;
  std::vector<std::optional<Place>> places;  // by trial; nothing where the file is wrong
  std::vector<Trial> trials;
};

std::vector<fs::path> scenario_files(const std::vector<fs::path>& paths) {
  std::vector<fs::path> files;
  for (const fs::path& path : paths) {
    std::error_code ignored;
    if (!fs::is_directory(path, ignored)) {
      files.push_back(path);
      continue;
    }
    const auto first = static_cast<std::ptrdiff_t>(files.size());
    for (const auto& entry : fs::recursive_directory_iterator(path)) {
      if (entry.path().extension() == ".json") files.push_back(entry.path());
    }
    // A folder lists its files in any order.
    std::sort(files.begin() + first, files.end());
  }
  return files;
}

bool matches(const std::string& name, const std::string& pattern) {
  return fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
}

/// The same in every build: FNV-1a of 64 bits, http://www.isthe.com/chongo/tech/comp/fnv.
std::uint64_t hash_of(std::string_view name) {
  std::uint64_t hash = 14695981039346656037U;
  for (const char letter : name) {
    hash ^= static_cast<unsigned char>(letter);
    hash *= 1099511628211U;
  }
  return hash;
}

/// The rows to be answered, in their order. A row that is added displaces one of a sample at most.
std::vector<std::size_t> rows_of(const ScenarioFile& file, const BatchQuestion& question) {
  std::vector<std::size_t> rows;
  for (std::size_t row = 0; row < file.names().size(); ++row) {
    if (matches(file.names()[row], question.only)) rows.push_back(row);
  }
  if (question.sample == 0 || rows.size() <= question.sample) return rows;
  std::ranges::stable_sort(rows, {}, [&](std::size_t row) { return hash_of(file.names()[row]); });
  rows.resize(question.sample);
  std::ranges::sort(rows);
  return rows;
}

/// A trial without a place yet.
void add_trial(const std::string& name, const fs::path& file, Work& work) {
  Trial& trial = work.trials.emplace_back();
  trial.name = name;
  trial.file = file.string();
  work.places.emplace_back();
}

void add_file(const fs::path& path, const BatchQuestion& question, Work& work) {
  try {
    ScenarioFile file = ScenarioFile::read(path);
    for (const std::size_t row : rows_of(file, question)) {
      add_trial(file.names()[row], path, work);
      work.places.back() = Place{work.files.size(), row};
    }
    work.files.push_back(std::move(file));
  } catch (const InputError& error) {
    const std::string name = path.stem().string();
    if (!matches(name, question.only)) return;
    add_trial(name, path, work);
    work.trials.back().problem = error.what();
  }
}

Outcome outcome_of(const std::vector<ExpectationResult>& expectations) {
  if (!std::ranges::all_of(expectations, &ExpectationResult::accepted)) return Outcome::failed;
  const bool passed = std::ranges::all_of(expectations, &ExpectationResult::passed);
  return passed ? Outcome::passed : Outcome::allowed;
}

/// Reading is short and remembers what was asked for: one at a time.
class Reader {
 public:
  Reader(const std::vector<Override>& overrides, const DataFolders& data)
      : overrides_(overrides), shipped_(data) {}

  Scenario read(const ScenarioFile& file, std::size_t row) {
    const std::lock_guard lock(mutex_);
    Document document = file.scenario(row);
    for (const Override& override : overrides_) document.set(override.path, override.value);
    return read_scenario_document(document, shipped_);
  }

 private:
  const std::vector<Override>& overrides_;
  ShippedData shipped_;
  std::mutex mutex_;
};

void answer(Trial& trial, const ScenarioFile& file, std::size_t row, Reader& reader) {
  const auto start = std::chrono::steady_clock::now();
  try {
    trial.scenario = reader.read(file, row);
    trial.report = forecast(trial.scenario).report;
    trial.expectations = evaluate(trial.scenario.expect, trial.report);
    trial.outcome = outcome_of(trial.expectations);
  } catch (const Unsupported& gap) {
    trial.outcome = Outcome::unsupported;
    trial.problem = gap.what();
  } catch (const InputError& error) {
    trial.outcome = Outcome::wrong;
    trial.problem = error.what();
  } catch (const std::exception& error) {
    trial.outcome = Outcome::broken;
    trial.problem = error.what();
  }
  Profile named;  // the tables of a profile are large
  named.name = std::move(trial.scenario.profile.name);
  trial.scenario.profile = std::move(named);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  trial.took = seconds(took.count());
}

}  // namespace

std::vector<Trial> run_batch(const BatchQuestion& question, const DataFolders& data) {
  Work work;
  for (const fs::path& path : scenario_files(question.paths)) add_file(path, question, work);
  Reader reader(question.overrides, data);
  for_each_parallel(
      work.trials.size(),
      [&](std::size_t i) {
        if (const auto place = work.places[i]) {
          answer(work.trials[i], work.files[place->file], place->row, reader);
        }
      },
      question.threads);
  return std::move(work.trials);
}

}  // namespace flopcast
