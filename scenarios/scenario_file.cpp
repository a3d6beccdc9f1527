#include "scenarios/scenario_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "scenarios/nearest.h"

namespace flopcast {
namespace {

/// The text that a cell names, or the cell itself.
Node meant(const Node& root, const Node& cell) {
  if (!cell.is_text() || !cell.text().starts_with('@')) return cell;
  const std::string name = cell.text().substr(1);
  std::vector<std::string> names;
  if (const auto texts = root.find("texts")) {
    for (const Node::Member& member : texts->members()) {
      if (member.key == name) return member.value;
      names.push_back(member.key);
    }
  }
  const std::vector<std::string_view> known(names.begin(), names.end());
  cell.fail(fmt::format("no text {} in \"texts\"{}", cell.shown(), did_you_mean(name, known)));
}

}  // namespace

ScenarioFile ScenarioFile::read(const std::filesystem::path& file) {
  return of(Document::read(file));
}

ScenarioFile ScenarioFile::of(Document document) {
  ScenarioFile file(std::move(document));
  const Node root = file.document_.root();
  file.table_ = root.is_object() && root.find("rows");
  if (file.table_) {
    file.read_table();
    return file;
  }
  const auto name = root.is_object() ? root.find("name") : std::nullopt;
  file.names_.push_back(name && name->is_text()
                            ? name->text()
                            : std::filesystem::path(file.document_.name()).stem().string());
  return file;
}

void ScenarioFile::read_table() {
  const Node root = document_.root();
  root.find("$schema");
  root.find("description");
  root.find("texts");
  if (!root.at("base").is_object()) root.at("base").expected("a scenario");
  const Node columns = root.at("columns");
  for (const Node& column : columns.items()) columns_.push_back(column.text());
  const auto rows = root.at("rows").items();
  root.finish();
  const auto found = std::find(columns_.begin(), columns_.end(), "name");
  if (found == columns_.end()) columns.fail("a table needs the column \"name\"");
  const auto name_column = static_cast<std::size_t>(found - columns_.begin());
  std::set<std::string> taken;
  names_.reserve(rows.size());
  for (const Node& row : rows) {
    const auto cells = row.items();
    if (cells.size() != columns_.size()) {
      row.fail(fmt::format("{} cells in a table of {} columns", cells.size(), columns_.size()));
    }
    names_.push_back(cells[name_column].text());
    if (!taken.insert(names_.back()).second) {
      cells[name_column].fail(fmt::format("a second row named {}", cells[name_column].shown()));
    }
  }
}

Document ScenarioFile::scenario(std::size_t n) const {
  const Node root = document_.root();
  if (!table_) return document_.part(root);
  Document scenario = document_.part(root.at("base"));
  const auto rows = root.at("rows").items();
  const auto cells = rows.at(n).items();
  for (std::size_t column = 0; column < cells.size(); ++column) {
    const Node& cell = cells[column];
    scenario.set(columns_[column], meant(root, cell));
    if (!cell.is_array()) continue;
    const auto elements = cell.items();
    for (std::size_t i = 0; i < elements.size(); ++i) {
      const Node text = meant(root, elements[i]);
      scenario.set(fmt::format("{}.{}", columns_[column], i), text);
    }
  }
  return scenario;
}

}  // namespace flopcast
