// flopcast profile: what is known of which GPU, from where, and how two profiles differ.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <memory>
#include <set>

#include "scenarios/read_profile.h"
#include "sim/errors.h"
#include "tools/calibrate_kernels.h"
#include "tools/data_folders.h"
#include "tools/output.h"
#include "tools/profile_numbers.h"
#include "tools/text_table.h"
#include "tools/verbs.h"

namespace flopcast {
namespace {

struct ProfileOptions {
  std::optional<std::string> data;
  std::string name;
  std::string other;
};

Profile read(const ProfileOptions& options, const std::string& name) {
  return read_profile(Document::read(profile_file(options.data, name)));
}

std::string evidence_text(const ProfileNumber& number) {
  return number.provenance == nullptr ? "" : std::string(to_text(number.provenance->evidence));
}

std::string error_text(double error) {
  return error > 0 ? fmt::format("{:.1f} %", 100 * error) : "";
}

ExitCode print(const TextTable& table) {
  write_output(std::nullopt, aligned_text(table, terminal_shows_colour()));
  return ExitCode::passed;
}

/// "2 fitted, 9 assumed": parts of the profile by their evidence.
std::string evidence_counts(const Profile& profile) {
  std::map<Evidence, std::set<std::string>> parts;
  for (const ProfileNumber& number : profile_numbers(profile)) {
    if (number.provenance != nullptr) parts[number.provenance->evidence].insert(number.part);
  }
  std::string text;
  for (const Evidence evidence : {Evidence::measured, Evidence::fitted, Evidence::assumed}) {
    if (parts[evidence].empty()) continue;
    text +=
        fmt::format("{}{} {}", text.empty() ? "" : ", ", parts[evidence].size(), to_text(evidence));
  }
  return text;
}

ExitCode list(const ProfileOptions& options) {
  TextTable table{.title = "Profiles (parts by evidence)",
                  .columns = {{"name", Align::left},
                              {"level"},
                              {"GEMM curves", Align::left},
                              {"parts", Align::left},
                              {"what", Align::left}},
                  .rows = {}};
  std::vector<std::filesystem::path> files;
  for (const auto& entry :
       std::filesystem::directory_iterator(find_data_folders(options.data).profiles)) {
    files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  table.rows.reserve(files.size());
  for (const std::filesystem::path& file : files) {
    const Profile profile = read_profile(Document::read(file));
    std::string types;
    for (const DataType type : kDataTypes) {
      if (profile.gemm[static_cast<std::size_t>(type)]) {
        types += (types.empty() ? "" : " ") + std::string(to_text(type));
      }
    }
    table.rows.push_back({{profile.name, fmt::format("{:g}", profile.level), types,
                           evidence_counts(profile), profile.description}});
  }
  return print(table);
}

ExitCode show(const ProfileOptions& options) {
  const Profile profile = read(options, options.name);
  TextTable table{
      .title = fmt::format("{}: {} ({})", profile.name, profile.description, profile.date),
      .columns = {{"part", Align::left},
                  {"number", Align::left},
                  {"value"},
                  {"evidence", Align::left},
                  {"median error"},
                  {"source", Align::left}},
      .rows = {}};
  std::string last;
  for (const ProfileNumber& number : profile_numbers(profile)) {
    const bool first = number.part != last;
    last = number.part;
    const bool told = first && number.provenance != nullptr;
    table.rows.push_back(
        {{first ? number.part : "", number.name, number.value, evidence_text(number),
          told ? error_text(number.provenance->median_error) : "",
          told ? number.provenance->source : ""}});
  }
  return print(table);
}

ExitCode diff(const ProfileOptions& options) {
  const Profile one = read(options, options.name);
  const Profile other = read(options, options.other);
  std::map<std::string, const ProfileNumber*> others;
  const std::vector<ProfileNumber> right = profile_numbers(other);
  for (const ProfileNumber& number : right) others[number.part + "/" + number.name] = &number;
  TextTable table{.title = fmt::format("{} against {}", other.name, one.name),
                  .columns = {{"part", Align::left},
                              {"number", Align::left},
                              {one.name},
                              {other.name},
                              {"ratio"},
                              {"evidence", Align::left}},
                  .rows = {}};
  for (const ProfileNumber& number : profile_numbers(one)) {
    const auto found = others.extract(number.part + "/" + number.name);
    const ProfileNumber* match = found.empty() ? nullptr : found.mapped();
    if (match != nullptr && match->value == number.value) continue;
    table.rows.push_back(
        {{number.part, number.name, number.value, match == nullptr ? "-" : match->value,
          match == nullptr || number.size == 0 ? ""
                                               : fmt::format("{:.3f}", match->size / number.size),
          evidence_text(number) + (match == nullptr ? "" : ", " + evidence_text(*match))}});
  }
  for (const ProfileNumber& number : right) {
    if (others.contains(number.part + "/" + number.name)) {
      table.rows.push_back(
          {{number.part, number.name, "-", number.value, "", evidence_text(number)}});
    }
  }
  if (table.rows.empty()) {
    write_output(std::nullopt,
                 fmt::format("{} and {} hold the same numbers\n", one.name, other.name));
    return ExitCode::passed;
  }
  return print(table);
}

}  // namespace

Verb add_profile_verb(CLI::App& app) {
  const auto options = std::make_shared<ProfileOptions>();  // shared by the parser and the actions
  CLI::App* verb = app.add_subcommand("profile", "What is known of each GPU, and from where");
  CLI::App* list_verb = verb->add_subcommand("list", "The shipped profiles");
  CLI::App* show_verb = verb->add_subcommand("show", "All numbers of a profile with their sources");
  CLI::App* diff_verb = verb->add_subcommand("diff", "Where two profiles differ");
  for (CLI::App* each : {list_verb, show_verb, diff_verb}) {
    each->add_option("--data", options->data, "Folder with catalogue/ and profiles/")
        ->type_name("DIR");
  }
  show_verb->add_option("profile", options->name, "A shipped name or a file")->required();
  diff_verb->add_option("one", options->name, "A shipped name or a file")->required();
  diff_verb->add_option("other", options->other, "What it is compared with")->required();
  return {verb, [=] {
            if (list_verb->parsed()) return list(*options);
            if (show_verb->parsed()) return show(*options);
            if (diff_verb->parsed()) return diff(*options);
            throw InputError("profile: what? (one of: list, show, diff)");
          }};
}

}  // namespace flopcast
