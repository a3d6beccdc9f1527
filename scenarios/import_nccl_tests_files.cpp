// The JSON that nccl-tests writes (-J), and the JSON and CSV that rccl-tests write.

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "scenarios/document.h"
#include "scenarios/import_nccl_tests_parts.h"

namespace flopcast {
namespace {

// What one line of rccl-tests' files holds: one timing, in place or not.
struct FlatRow {
  std::string collective;
  std::optional<std::int64_t> ranks;
  std::optional<std::int64_t> nodes;
  std::int64_t size = 0;
  std::string element_type;
  std::string operation;
  bool in_place = false;
  CollectiveTiming timing;
  int line = 0;
};

std::optional<int> as_count(std::optional<std::int64_t> value) {
  if (!value || *value < 1 || *value > 1'000'000) {
    return std::nullopt;
  }
  return static_cast<int>(*value);
}

// Rows of one size in a line, out of place first, belong together.
void add(std::vector<RawCollectiveTable>& tables, const FlatRow& flat) {
  const auto kind = nccl_tests_kind(flat.collective);
  const Bytes size = bytes(static_cast<double>(flat.size));
  if (flat.size <= 0 || flat.timing.time.value <= 0) {
    return;
  }
  const bool starts =
      tables.empty() || tables.back().kind != kind ||
      tables.back().element_type != flat.element_type ||
      tables.back().ranks != as_count(flat.ranks) || size < tables.back().rows.back().size ||
      (size == tables.back().rows.back().size &&
       (flat.in_place ? tables.back().rows.back().in_place : tables.back().rows.back().out_of_place)
           .has_value());
  if (starts) {
    RawCollectiveTable& table = tables.emplace_back();
    table.kind = kind;
    table.ranks = as_count(flat.ranks);
    table.nodes = as_count(flat.nodes);
    table.element_type = flat.element_type;
    table.reduces = flat.operation != "none" && !flat.operation.empty();
  }
  std::vector<CollectiveRow>& rows = tables.back().rows;
  if (rows.empty() || rows.back().size != size) {
    rows.push_back(
        {.size = size, .count = 0, .out_of_place = {}, .in_place = {}, .line = flat.line});
  }
  (flat.in_place ? rows.back().in_place : rows.back().out_of_place) = flat.timing;
}

std::vector<std::string_view> split_fields(std::string_view line) {
  std::vector<std::string_view> out;
  while (true) {
    const std::size_t comma = line.find(',');
    std::string_view field = line.substr(0, comma);
    const auto words = split_words(field);
    out.push_back(words.empty() ? std::string_view{} : words.front());
    if (comma == std::string_view::npos) {
      return out;
    }
    line.remove_prefix(comma + 1);
  }
}

class CsvRow {
 public:
  CsvRow(const std::vector<std::string>& names, const TextLine& line, const std::string& file)
      : names_(names), fields_(split_fields(line.text)), line_(line.number), file_(file) {
    if (fields_.size() != names.size()) {
      fail_at_line(
          file, line_,
          fmt::format("{} fields, but the first line names {}", fields_.size(), names.size()));
    }
  }

  std::optional<std::string_view> find(std::initializer_list<std::string_view> names) const {
    for (const std::string_view name : names) {
      const auto at = std::find(names_.begin(), names_.end(), name);
      if (at != names_.end()) {
        return fields_[static_cast<std::size_t>(at - names_.begin())];
      }
    }
    return std::nullopt;
  }

  double number(std::initializer_list<std::string_view> names) const {
    const auto field = find(names);
    const auto value = field ? parse_number(*field) : std::nullopt;
    if (!value) {
      fail_at_line(file_, line_,
                   fmt::format("{}: expected a number, found \"{}\"", *names.begin(),
                               field.value_or("nothing")));
    }
    return *value;
  }

  std::optional<std::int64_t> integer(std::initializer_list<std::string_view> names) const {
    const auto field = find(names);
    return field ? parse_integer(*field) : std::nullopt;
  }

  std::string text(std::initializer_list<std::string_view> names) const {
    return std::string(find(names).value_or(""));
  }

  int line() const { return line_; }

 private:
  const std::vector<std::string>& names_;
  std::vector<std::string_view> fields_;
  int line_;
  const std::string& file_;
};

FlatRow flat_row(const CsvRow& csv, const std::string& file) {
  FlatRow row;
  row.collective = csv.text({"collective", "name"});
  row.ranks = csv.integer({"ranks", "gpus"});
  row.nodes = csv.integer({"nodes"});
  const auto size = csv.integer({"size"});
  if (!size || *size < 0) {
    fail_at_line(file, csv.line(), "size: expected a whole number of bytes");
  }
  row.size = *size;
  row.element_type = csv.text({"type"});
  row.operation = csv.text({"redop"});
  row.in_place = csv.integer({"inplace", "inPlace"}).value_or(0) != 0;
  row.timing.time = microseconds(csv.number({"time"}));
  row.timing.algorithm_bandwidth = gigabytes_per_second(csv.number({"algbw", "algBw"}));
  row.timing.bus_bandwidth = gigabytes_per_second(csv.number({"busbw", "busBw"}));
  row.timing.errors = csv.integer({"#wrong", "wrong"});
  row.line = csv.line();
  return row;
}

std::string text_or(const Node& node, std::string_view key, const std::string& fallback) {
  const auto value = node.find(key);
  return value && value->is_text() ? value->text() : fallback;
}

std::optional<std::int64_t> integer_of(const Node& node, std::string_view key) {
  const auto value = node.find(key);
  if (value && value->is_number()) {
    return static_cast<std::int64_t>(value->number(-1e18, 1e18));
  }
  return std::nullopt;
}

FlatRow flat_row(const Node& node) {
  FlatRow row;
  row.collective = text_or(node, "name", text_or(node, "collective", ""));
  row.ranks = integer_of(node, "ranks");
  if (!row.ranks) {
    row.ranks = integer_of(node, "gpus");
  }
  row.nodes = integer_of(node, "nodes");
  row.size = node.at("size").integer();
  row.element_type = text_or(node, "type", "");
  row.operation = text_or(node, "redop", "");
  row.in_place = integer_of(node, "inPlace").value_or(0) != 0;
  row.timing.time = microseconds(node.at("time").number());
  row.timing.algorithm_bandwidth = gigabytes_per_second(node.at("algBw").number());
  row.timing.bus_bandwidth = gigabytes_per_second(node.at("busBw").number());
  row.timing.errors = integer_of(node, "wrong");
  return row;
}

// "in_place" and "out_of_place" of nccl-tests: an object, or null where it was not run.
std::optional<CollectiveTiming> timing_of(const Node& row, std::string_view key) {
  const auto node = row.find(key);
  if (!node || node->is_null()) {
    return std::nullopt;
  }
  CollectiveTiming timing;
  const auto wall = node->find("time");
  timing.time = microseconds((wall ? *wall : node->at("cpu_time")).number());
  timing.algorithm_bandwidth = gigabytes_per_second(node->at("alg_bw").number());
  timing.bus_bandwidth = gigabytes_per_second(node->at("bus_bw").number());
  timing.errors = integer_of(*node, "nwrong");
  return timing.time.value > 0 ? std::optional(timing) : std::nullopt;
}

// The program among the arguments, and ranks and hosts among the devices.
void read_environment(const Node& root, RawCollectiveTable& table) {
  if (const auto arguments = root.find("args"); arguments && arguments->is_array()) {
    for (const Node& argument : arguments->items()) {
      if (!table.kind && argument.is_text()) {
        table.kind = nccl_tests_kind(argument.text());
      }
    }
  }
  std::optional<Node> devices = root.find("devices");
  if (const auto config = root.find("config"); !devices && config && config->is_object()) {
    devices = config->find("devices");
  }
  if (!devices || !devices->is_array()) {
    return;
  }
  std::set<std::string> hosts;
  for (const Node& device : devices->items()) {
    if (device.is_object()) {
      hosts.insert(text_or(device, "hostname", ""));
    }
  }
  const auto count = static_cast<std::int64_t>(devices->items().size());
  table.ranks = as_count(count);
  table.nodes = as_count(static_cast<std::int64_t>(hosts.size()));
}

std::vector<RawCollectiveTable> read_results(const Node& root) {
  RawCollectiveTable first;
  read_environment(root, first);
  std::vector<RawCollectiveTable> tables;
  for (const Node& item : root.at("results").items()) {
    CollectiveRow row;
    row.size = bytes(static_cast<double>(item.at("size").integer()));
    row.count = integer_of(item, "count").value_or(0);
    row.out_of_place = timing_of(item, "out_of_place");
    row.in_place = timing_of(item, "in_place");
    if (row.size.value <= 0 || (!row.out_of_place && !row.in_place)) {
      continue;
    }
    if (tables.empty() || row.size <= tables.back().rows.back().size) {
      tables.push_back(first);
      tables.back().element_type = text_or(item, "type", "");
      const std::string operation = text_or(item, "redop", "none");
      tables.back().reduces = operation != "none";
    }
    tables.back().rows.push_back(row);
  }
  return tables;
}

}  // namespace

std::vector<RawCollectiveTable> read_nccl_tests_csv(std::string_view text,
                                                    const std::string& name) {
  std::vector<RawCollectiveTable> tables;
  std::vector<std::string> names;
  const std::vector<TextLine> lines = text_lines(text);
  for (const TextLine& line : lines) {
    if (split_words(line.text).empty()) {
      continue;
    }
    if (names.empty()) {
      for (const std::string_view field : split_fields(line.text)) {
        names.emplace_back(field);
      }
      continue;
    }
    const bool last = line.number == lines.back().number;
    if (last && !tables.empty() && split_fields(line.text).size() < names.size()) {
      tables.back().notes.push_back(fmt::format("{}: row cut, left out", line.number));
      continue;
    }
    add(tables, flat_row(CsvRow(names, line, name), name));
  }
  return tables;
}

std::vector<RawCollectiveTable> read_nccl_tests_json(std::string_view text,
                                                     const std::string& name) {
  const Document document = Document::parse(std::string(text), name);
  const Node root = document.root();
  if (!root.is_array()) {
    return read_results(root);
  }
  std::vector<RawCollectiveTable> tables;
  for (const Node& item : root.items()) {
    add(tables, flat_row(item));
  }
  return tables;
}

}  // namespace flopcast
