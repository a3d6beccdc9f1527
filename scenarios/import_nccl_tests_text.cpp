// Tables of text. A line, freed of what others printed (import_nccl_tests_lines.cpp), is a comment
// with facts or column names, or a row, or nothing.
// nccl-tests prints the first columns of a row before it measures and the rest after, so that other
// output may stand between: a row without times waits for a line of nothing but numbers.

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <span>

#include "scenarios/import_nccl_tests_parts.h"

namespace flopcast {
namespace {

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

enum class Column : std::uint8_t { time, algorithm_bandwidth, bus_bandwidth, errors, other };

// Columns of the measurements, one group for out of place and mostly a second for in place.
struct Columns {
  std::vector<Column> group{Column::time, Column::algorithm_bandwidth, Column::bus_bandwidth,
                            Column::errors};
  std::size_t trailing = 0;  // a time stamp
};

Column column_of(std::string_view word) {
  if (word == "time" || word == "cputime") return Column::time;
  if (word == "algbw") return Column::algorithm_bandwidth;
  if (word == "busbw") return Column::bus_bandwidth;
  if (word == "#wrong" || word == "wrong" || word == "error" || word == "errors") {
    return Column::errors;
  }
  return Column::other;
}

// "# size count type redop root time algbw busbw #wrong time algbw busbw #wrong"
std::optional<Columns> column_names(std::string_view comment) {
  const std::vector<std::string_view> words = split_words(comment);
  const auto is_time = [](std::string_view word) { return column_of(word) == Column::time; };
  const auto first = std::find_if(words.begin(), words.end(), is_time);
  if (first == words.end() || words.front() != "size" ||
      std::find(words.begin(), words.end(), "busbw") == words.end()) {
    return std::nullopt;
  }
  auto second = std::find_if(first + 1, words.end(), is_time);
  Columns columns;
  columns.group.clear();
  for (auto word = first; word != second; ++word) {
    columns.group.push_back(column_of(*word));
  }
  const auto tail = static_cast<std::size_t>(words.end() - second);
  if (second != words.end() && tail > columns.group.size()) {
    columns.trailing = tail - columns.group.size();
  }
  return columns;
}

// The first columns of a row: size, count, type and mostly operation and root.
struct Preamble {
  CollectiveRow row;
  std::string_view element_type;
  bool reduces = false;
  std::size_t words = 0;
};

std::optional<Preamble> preamble_of(std::span<const std::string_view> words) {
  if (words.size() < 3) {
    return std::nullopt;
  }
  const auto size = parse_integer(words[0]);
  const auto count = parse_integer(words[1]);
  if (!size || *size < 0 || !count || *count < 0 || !is_letter(words[2].front())) {
    return std::nullopt;
  }
  Preamble out;
  out.row.size = bytes(static_cast<double>(*size));
  out.row.count = *count;
  out.element_type = words[2];
  out.words = 3;
  if (words.size() > 3 && is_letter(words[3].front()) && words[3] != "N/A") {
    out.reduces = words[3] != "none";
    out.words = 4;
  }
  return out;
}

// Other labels may stand in front of a row: "host1: ", a time stamp.
std::ptrdiff_t labels_before_row(std::span<const std::string_view> words) {
  if (words.empty() || parse_integer(words[0])) {
    return 0;
  }
  for (std::size_t i = 1; i + 3 < words.size(); ++i) {
    if (preamble_of(words.subspan(i))) {
      return static_cast<std::ptrdiff_t>(i);
    }
  }
  return 0;
}

class TextReader {
 public:
  explicit TextReader(const std::string& name) : name_(name) {}

  void read(const TextLine& line) {
    line_ = line.number;
    const std::string_view trimmed = without_other_output(line.text);
    if (trimmed.starts_with('#')) {
      read_comment(trimmed);
      return;
    }
    note_program(trimmed);
    read_row(split_words(trimmed));
  }

  std::vector<RawCollectiveTable> finish() && {
    drop_pending();
    std::erase_if(tables_, [](const RawCollectiveTable& table) { return table.rows.empty(); });
    return std::move(tables_);
  }

 private:
  void read_comment(std::string_view line) {
    const std::size_t begin = line.find_first_not_of("# \t");
    if (begin == std::string_view::npos) {
      return;
    }
    const std::string_view comment = line.substr(begin);
    if (const auto columns = column_names(comment)) {
      columns_ = *columns;
      start_table();
      return;
    }
    read_facts(comment);
  }

  // What is said before a table holds for it, and for those after it until said again.
  void read_facts(std::string_view comment) {
    const std::vector<std::string_view> words = split_words(comment);
    note_program(comment);
    for (std::size_t i = 0; i + 1 < words.size(); ++i) {
      if (words[i] == "collective:") {
        std::string_view word = words[i + 1];
        kind_ = nccl_tests_kind(word.substr(0, word.find(';')));
      }
      if (words[i] == "Rank" && i == 0) {
        read_device(words);
        return;
      }
    }
    for (std::size_t i = 0; i + 4 < words.size(); ++i) {  // "2 node(s) x 8 GPU(s)"
      const auto nodes = parse_integer(words[i]);
      const auto gpus = parse_integer(words[i + 3]);
      if (words[i + 1] == "node(s)" && words[i + 2] == "x" && words[i + 4] == "GPU(s)" && nodes &&
          gpus && *nodes > 0 && *gpus > 0 && *nodes < 1'000'000 && *gpus < 1000) {
        forget_devices();
        nodes_ = static_cast<int>(*nodes);
        ranks_ = static_cast<int>(*nodes * *gpus);
      }
    }
  }

  // "Rank 3 Group 0 Pid 1234 on node01 device 3 [0x1b] NVIDIA H100"; older without Group.
  void read_device(const std::vector<std::string_view>& words) {
    const auto rank = parse_integer(words[1]);
    const auto on = std::find(words.begin(), words.end(), "on");
    if (!rank || *rank < 0 || *rank >= 1'000'000 || words.end() - on < 2) {
      return;
    }
    if (*rank == 0) {
      forget_devices();
    }
    hosts_.insert(std::string(*(on + 1)));
    ranks_ = std::max(ranks_.value_or(0), static_cast<int>(*rank) + 1);
    nodes_ = static_cast<int>(hosts_.size());
  }

  void forget_devices() {
    hosts_.clear();
    ranks_.reset();
    nodes_.reset();
  }

  // A word such as "./build/all_reduce_perf" in a command line or in nccl-tests' own header.
  void note_program(std::string_view line) {
    for (const std::string_view word : split_words(line)) {
      if (word.ends_with("_perf")) {
        if (const auto kind = nccl_tests_kind(word)) {
          kind_ = kind;
        }
      }
    }
  }

  void start_table() {
    drop_pending();
    if (tables_.empty() || !tables_.back().rows.empty()) {
      tables_.emplace_back();
    }
    RawCollectiveTable& table = tables_.back();
    table.kind = kind_;
    table.ranks = ranks_;
    table.nodes = nodes_;
  }

  void read_row(std::vector<std::string_view> words) {
    words.erase(words.begin(), words.begin() + labels_before_row(words));
    if (auto preamble = preamble_of(words)) {
      drop_pending();
      words.erase(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(preamble->words));
      preamble->row.line = line_;
      pending_ = Pending{.row = preamble->row,
                         .element_type = std::string(preamble->element_type),
                         .reduces = preamble->reduces};
      finish_row(words, true);
      return;
    }
    if (pending_ && !words.empty()) {
      finish_row(words, false);
    }
  }

  // Words after the type and operation: perhaps a root, then one or two groups.
  void finish_row(std::vector<std::string_view> words, bool same_line) {
    const std::size_t width = columns_.group.size();
    const auto fits = [&](std::size_t count) {
      return count == width || count == 2 * width || count == 2 * width + columns_.trailing;
    };
    if (same_line && !words.empty() && !fits(words.size()) && parse_integer(words.front())) {
      words.erase(words.begin());  // root
    }
    if (!fits(words.size())) {
      if (same_line && (words.empty() || words.size() < width)) {
        return;  // the rest may follow
      }
      if (same_line && words.size() < 2 * width) {
        words.resize(width);  // cut within the second group
        note("row cut: its in-place columns are left out");
      } else if (same_line) {
        fail_at_line(name_, line_,
                     fmt::format("a row with {} more columns, expected {} or {}", words.size(),
                                 width, 2 * width));
      } else {
        return;  // other output between
      }
    }
    if (!same_line && !std::all_of(words.begin(), words.end(), [](std::string_view word) {
          return parse_number(word) || word == "N/A";
        })) {
      return;
    }
    CollectiveRow row = pending_->row;
    row.out_of_place = timing(words, 0);
    if (words.size() >= 2 * width) {
      row.in_place = timing(words, width);
    }
    add(row);
  }

  std::optional<CollectiveTiming> timing(const std::vector<std::string_view>& words,
                                         std::size_t begin) {
    CollectiveTiming out;
    for (std::size_t i = 0; i < columns_.group.size(); ++i) {
      const std::string_view word = words[begin + i];
      if (columns_.group[i] == Column::other) {
        continue;
      }
      const auto value = parse_number(word);
      if (!value) {
        if (word != "N/A") {
          fail_at_line(name_, line_, fmt::format("\"{}\" where a number or N/A is expected", word));
        }
        if (columns_.group[i] == Column::time) {
          return std::nullopt;
        }
        continue;
      }
      set(out, columns_.group[i], *value);
    }
    return out.time.value > 0 ? std::optional(out) : std::nullopt;
  }

  static void set(CollectiveTiming& timing, Column column, double value) {
    switch (column) {
      case Column::time: timing.time = microseconds(value); break;
      case Column::algorithm_bandwidth:
        timing.algorithm_bandwidth = gigabytes_per_second(value);
        break;
      case Column::bus_bandwidth: timing.bus_bandwidth = gigabytes_per_second(value); break;
      case Column::errors:
        timing.errors = value >= 0 && value < 1e18 ? static_cast<std::int64_t>(value) : 0;
        break;
      case Column::other: break;
    }
  }

  void add(const CollectiveRow& row) {
    const std::string element_type = pending_->element_type;
    const bool reduces = pending_->reduces;
    pending_.reset();
    if (row.size.value <= 0 || (!row.out_of_place && !row.in_place)) {
      return;  // rows of size 0, and sizes that were not measured
    }
    if (tables_.empty()) {
      start_table();
      note("rows without column names: taken as nccl-tests prints them");
    } else if (!tables_.back().rows.empty() && row.size <= tables_.back().rows.back().size) {
      start_table();
      note("sizes start again: a new table");
    }
    RawCollectiveTable& table = tables_.back();
    if (table.rows.empty()) {
      table.element_type = element_type;
      table.reduces = reduces;
    }
    table.rows.push_back(row);
  }

  void drop_pending() {
    if (pending_) {
      const int line = pending_->row.line;
      pending_.reset();
      if (tables_.empty()) {
        tables_.emplace_back();
        tables_.back().kind = kind_;
      }
      tables_.back().notes.push_back(fmt::format("{}: row without times: cut, left out", line));
    }
  }

  void note(std::string_view text) {
    if (tables_.empty()) {
      start_table();
    }
    tables_.back().notes.push_back(fmt::format("{}: {}", line_, text));
  }

  struct Pending {
    CollectiveRow row;
    std::string element_type;
    bool reduces = false;
  };

  const std::string& name_;
  int line_ = 0;
  Columns columns_;
  std::optional<Pending> pending_;
  std::optional<CollectiveKind> kind_;
  std::optional<int> ranks_;
  std::optional<int> nodes_;
  std::set<std::string> hosts_;
  std::vector<RawCollectiveTable> tables_;
};

}  // namespace

std::vector<RawCollectiveTable> read_nccl_tests_text(std::string_view text,
                                                     const std::string& name) {
  TextReader reader(name);
  for (const TextLine& line : text_lines(text)) {
    reader.read(line);
  }
  return std::move(reader).finish();
}

}  // namespace flopcast
