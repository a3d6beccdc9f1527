#include "scenarios/catalogue.h"

#include <fmt/format.h>

#include <utility>

#include "scenarios/nearest.h"
#include "scenarios/scenario_parts.h"
#include "sim/errors.h"

namespace flopcast {
namespace {

constexpr std::size_t kAllListed = 12;  // names that fit into a message

/// Far from every name the user needs the list.
std::string advice(const std::string& name, std::span<const std::string_view> known,
                   const std::filesystem::path& file) {
  const std::string near = did_you_mean(name, known);
  if (!near.empty()) return fmt::format(" among the {} known{}", known.size(), near);
  if (known.size() <= kAllListed) return fmt::format("; known: {}", fmt::join(known, ", "));
  return fmt::format(" among the {} known; they are listed in {}", known.size(), file.string());
}

}  // namespace

Catalogue::Catalogue(std::filesystem::path folder) : folder_(std::move(folder)) {}

std::vector<Node> Catalogue::rows(Shelf& shelf) {
  if (!shelf.document) {
    const auto file = folder_ / shelf.file;
    if (!std::filesystem::exists(file)) {
      throw IoError(fmt::format("{}: the shipped catalogue is missing", file.string()));
    }
    shelf.document = Document::read(file);
  }
  return shelf.document->root().at(shelf.list).items();
}

Node Catalogue::row(Shelf& shelf, const Node& name) {
  const std::string wanted = name.text();
  std::vector<std::string> names;
  for (const Node& row : rows(shelf)) {
    names.push_back(row.at("name").text());
    if (names.back() == wanted) return row;
  }
  const std::vector<std::string_view> known(names.begin(), names.end());
  name.fail(fmt::format("no {} {}{}", shelf.kind, name.shown(),
                        advice(wanted, known, folder_ / shelf.file)));
}

void Catalogue::spell_out(Shelf& shelf, std::vector<std::string>& sources) {
  const auto known = shelf.document->root().find("sources");
  if (!known) return;
  for (std::string& source : sources) {
    if (const auto full = known->find(source)) source = full->text();
  }
}

Gpu Catalogue::gpu_of(const Node& row) {
  Gpu gpu = read_gpu(row, *this);
  spell_out(gpus_, gpu.sources);
  return gpu;
}

System Catalogue::system_of(const Node& row) {
  System system = read_system(row, *this);
  spell_out(systems_, system.sources);
  return system;
}

Gpu Catalogue::gpu(const Node& name) { return gpu_of(row(gpus_, name)); }
System Catalogue::system(const Node& name) { return system_of(row(systems_, name)); }
Transformer Catalogue::model(const Node& name) { return read_model(row(models_, name), *this); }

std::vector<Gpu> Catalogue::gpus() {
  std::vector<Gpu> all;
  for (const Node& row : rows(gpus_)) all.push_back(gpu_of(row));
  return all;
}

std::vector<System> Catalogue::systems() {
  std::vector<System> all;
  for (const Node& row : rows(systems_)) all.push_back(system_of(row));
  return all;
}

std::vector<Transformer> Catalogue::models() {
  std::vector<Transformer> all;
  for (const Node& row : rows(models_)) all.push_back(read_model(row, *this));
  return all;
}

}  // namespace flopcast
