#include "tools/scenario_options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "scenarios/scenario_file.h"
#include "scenarios/scenario_parts.h"
#include "sim/errors.h"
#include "tools/data_folders.h"

namespace flopcast {

void add_scenario_options(CLI::App& verb, ScenarioOptions& options) {
  verb.add_option("FILE", options.files, "Scenario files")->required();
  verb.add_option("--set", options.settings, "Override a key of every scenario: parallel.tp=4")
      ->type_name("KEY=VALUE")
      ->expected(1)
      ->take_all();
  verb.add_option("--data", options.data, "Folder with catalogue/ and profiles/")->type_name("DIR");
}

Override read_override(const std::string& setting) {
  const auto equals = setting.find('=');
  if (equals == std::string::npos || equals == 0) {
    throw InputError(
        fmt::format("--set: read \"{}\", expected KEY=VALUE such as parallel.tp=4", setting));
  }
  return {.path = setting.substr(0, equals), .value = setting.substr(equals + 1)};
}

void add_batch_options(CLI::App& verb, ScenarioOptions& options) {
  verb.add_option("--only", options.only, "Only scenarios whose name matches, as 'llama3-*'")
      ->type_name("GLOB");
  verb.add_option("--jobs", options.jobs, "Scenarios side by side; default: one per core")
      ->type_name("N");
}

BatchQuestion batch_question(const ScenarioOptions& options) {
  BatchQuestion question{.paths = {options.files.begin(), options.files.end()},
                         .only = options.only,
                         .overrides = {},
                         .threads = options.jobs};
  question.overrides.reserve(options.settings.size());
  for (const std::string& setting : options.settings) {
    question.overrides.push_back(read_override(setting));
  }
  return question;
}

std::vector<Scenario> read_scenarios(const ScenarioOptions& options) {
  ShippedData shipped(find_data_folders(options.data));
  const auto overrides = batch_question(options).overrides;
  std::vector<Scenario> scenarios;
  for (const std::string& file : options.files) {
    const ScenarioFile source = ScenarioFile::read(file);
    for (std::size_t i = 0; i < source.names().size(); ++i) {
      Document document = source.scenario(i);
      for (const Override& override : overrides) document.set(override.path, override.value);
      scenarios.push_back(read_scenario_document(document, shipped));
    }
  }
  return scenarios;
}

}  // namespace flopcast
