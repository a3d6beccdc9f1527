#include "scenarios/sample_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <fstream>

#include "scenarios/document.h"
#include "scenarios/nearest.h"
#include "scenarios/text_file.h"
#include "scenarios/trace_samples.h"
#include "sim/errors.h"

namespace flopcast {
namespace {

constexpr std::string_view kRecordStart = "{\"flopcast_samples\":";

constexpr std::size_t kLargestTrace = std::size_t{2} << 30U;

std::string read_samples(const std::filesystem::path& file) {
  return read_text_file(file, "samples of kernels", kLargestTrace);
}

/// Without their ends.
std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    lines.push_back(line);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

/// Fields of one line; "a, b" in quotes is one, "" in quotes is a quote.
std::vector<SampleField> split(std::string_view line) {
  std::vector<SampleField> fields(1);
  bool quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '"' && quoted && line.substr(i + 1).starts_with('"')) {
      fields.back().text += line[++i];
    } else if (line[i] == '"') {
      quoted = !quoted;
    } else if (line[i] == ',' && !quoted) {
      fields.push_back({.name = {}, .text = {}, .column = i + 2});
    } else {
      fields.back().text += line[i];
    }
  }
  return fields;
}

void read_csv(std::string_view text, SampleTable& into) {
  std::vector<SampleField> header;
  int number = 0;
  for (const std::string_view line : lines_of(text)) {
    ++number;
    if (line.empty() || line.front() == '#') continue;
    std::vector<SampleField> fields = split(line);
    if (header.empty()) {
      header = std::move(fields);
      continue;
    }
    if (fields.size() != header.size()) {
      throw InputError(fmt::format("{}:{}:1: expected {} fields as in the header, found {}",
                                   into.file, number, header.size(), fields.size()));
    }
    for (std::size_t i = 0; i < fields.size(); ++i) fields[i].name = header[i].text;
    into.rows.emplace_back(into.file, number, std::move(fields));
  }
}

std::string field_text(const Node& node) {
  if (node.is_text()) return node.text();
  if (node.is_number()) return fmt::format("{:.17g}", node.number());
  return {};
}

/// Every run of a case that is there for its repetitions.
void add_repetitions(const Node& root, SampleRow& row) {
  if (!row.has("repeated")) return;
  for (const std::string_view name : {"time_us", "throttled"}) {
    const auto found = root.find(name);
    if (!found || !found->is_array()) continue;
    SampleList& list = row.add_list(std::string(name));
    for (const Node& value : found->items()) {
      list.values.push_back(value.is_null() ? std::nullopt : std::optional(value.number()));
    }
  }
}

void read_record(std::string_view text, SampleTable& into) {
  std::string above;  // keeps the line of each part in its messages
  int number = 0;
  for (const std::string_view line : lines_of(text)) {
    ++number;
    const Document document = Document::parse(above + std::string(line), into.file);
    above += '\n';
    if (number == 1) {
      if (const auto gpu = document.root().find("gpu")) into.gpu = gpu->text();
      continue;
    }
    std::vector<SampleField> fields;
    for (const Node::Member& member : document.root().members()) {
      if (member.value.is_text() || member.value.is_number()) {
        fields.push_back({.name = member.key, .text = field_text(member.value), .column = 1});
      }
    }
    into.rows.emplace_back(into.file, number, std::move(fields));
    add_repetitions(document.root(), into.rows.back());
  }
}

std::string joined(std::initializer_list<std::string_view> names) {
  return fmt::format("{}", fmt::join(names, " or "));
}

}  // namespace

const SampleField* SampleRow::field(std::initializer_list<std::string_view> names) const {
  for (const std::string_view name : names) {
    for (const SampleField& one : fields_) {
      if (one.name == name && !one.text.empty()) return &one;
    }
  }
  return nullptr;
}

std::optional<std::string_view> SampleRow::find(
    std::initializer_list<std::string_view> names) const {
  const SampleField* found = field(names);
  return found == nullptr ? std::nullopt : std::optional<std::string_view>(found->text);
}

std::string SampleRow::text(std::initializer_list<std::string_view> names) const {
  return std::string(find(names).value_or(""));
}

double SampleRow::number(std::initializer_list<std::string_view> names) const {
  const SampleField* found = field(names);
  if (found == nullptr) {
    std::vector<std::string_view> known;
    known.reserve(fields_.size());
    for (const SampleField& one : fields_) known.push_back(one.name);
    fail(fmt::format("no \"{}\"{}", joined(names), did_you_mean(*names.begin(), known)));
  }
  double value = 0;
  const char* end = found->text.data() + found->text.size();
  const auto [stop, error] = std::from_chars(found->text.data(), end, value);
  // Also false for NaN.
  if (error != std::errc{} || stop != end || !(value > 0 && value < 1e300)) {
    fail_at(*found, "a number above 0");
  }
  return value;
}

std::int64_t SampleRow::count(std::initializer_list<std::string_view> names) const {
  const double value = number(names);
  const auto whole = static_cast<std::int64_t>(std::min(value, 1e15));
  if (static_cast<double>(whole) != value) fail_at(*field(names), "a whole number above 0");
  return whole;
}

std::int64_t SampleRow::count_or(std::initializer_list<std::string_view> names,
                                 std::int64_t absent) const {
  return find(names) ? count(names) : absent;
}

void SampleRow::fail(std::string_view problem) const {
  throw InputError(fmt::format("{}:{}:1: {}", *file_, line_, problem));
}

void SampleRow::fail_at(const SampleField& field, std::string_view expected) const {
  throw InputError(fmt::format("{}:{}:{}: {}: expected {}, found \"{}\"", *file_, line_,
                               field.column, field.name, expected, field.text));
}

void SampleRow::assume(const std::string& name, const std::string& text) {
  if (!has(name)) fields_.push_back({.name = name, .text = text, .column = 1});
}

std::span<const std::optional<double>> SampleRow::list(std::string_view name) const {
  for (const SampleList& one : lists_) {
    if (one.name == name) return one.values;
  }
  return {};
}

bool is_sample_table(const std::filesystem::path& file) {
  std::ifstream stream(file);
  if (!stream) throw InputError(fmt::format("{}: cannot be read", file.string()));
  std::string line;
  while (std::getline(stream, line) && (line.empty() || line.front() == '#')) {
  }
  if (line.starts_with(kRecordStart)) return true;
  if (line.starts_with("{")) return is_profiler_trace(read_samples(file));
  const std::vector<SampleField> header = split(line);
  return header.size() > 1 && std::any_of(header.begin(), header.end(), [](const auto& field) {
           return field.text.ends_with("_us") || field.text == "gbps" ||
                  field.text == "gelements_per_s";
         });
}

void read_sample_table(const std::filesystem::path& file, SampleTable& into) {
  const std::string text = read_samples(file);
  into.file = file.string();
  if (text.starts_with(kRecordStart)) {
    read_record(text, into);
  } else if (is_profiler_trace(text)) {
    read_profiler_trace(Document::parse(text, into.file), into);
  } else {
    read_csv(text, into);
  }
}

}  // namespace flopcast
