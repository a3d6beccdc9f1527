// The command line: finds the verb, lets it act, and turns errors into messages and exit codes.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cstdio>
#include <exception>
#include <span>

#include "build_info.h"
#include "scenarios/nearest.h"
#include "sim/errors.h"
#include "tools/verbs.h"

namespace flopcast {
namespace {

std::string version_text() {
  const auto yes_no = [](bool built_in) { return built_in ? "yes" : "no"; };
  return fmt::format("flopcast {}\nCUDA: {}\nNCCL: {}\nMPI: {}\nreport: {}\n", kVersion,
                     yes_no(kWithCuda), yes_no(kWithNccl), yes_no(kWithMpi), yes_no(kWithReport));
}

/// What was meant by an argument that neither the program nor its verb knows, if there is one.
std::optional<std::string> unknown_argument(const CLI::App& app, std::span<const Verb> verbs) {
  std::vector<std::string_view> names;
  std::vector<std::string> options;
  const CLI::App* verb = nullptr;
  for (const Verb& each : verbs) {
    names.push_back(each.options->get_name());
    if (each.options->parsed()) verb = each.options;
  }
  const CLI::App& place = verb != nullptr ? *verb : app;
  const auto extras = place.remaining();
  if (extras.empty()) return std::nullopt;
  const std::string& argument = extras.front();
  if (!argument.starts_with('-')) {
    return fmt::format("unknown verb \"{}\"{} (one of: {})", argument,
                       did_you_mean(argument, names), fmt::join(names, ", "));
  }
  for (const CLI::Option* option : place.get_options()) {
    for (const std::string& name : option->get_lnames()) options.push_back("--" + name);
  }
  const std::vector<std::string_view> known(options.begin(), options.end());
  const std::string option = argument.substr(0, argument.find('='));
  return fmt::format("{}unknown option \"{}\"{}", verb != nullptr ? verb->get_name() + ": " : "",
                     option, did_you_mean(option, known));
}

ExitCode act(int argument_count, const char* const* arguments) {
  CLI::App app("Forecasts how fast a large model trains on a GPU cluster", "flopcast");
  const std::array verbs{add_run_verb(app),       add_check_verb(app),  add_batch_verb(app),
                         add_calibrate_verb(app), add_import_verb(app), add_topology_verb(app),
                         add_validate_verb(app),  add_profile_verb(app)};
  bool version = false;
  app.add_flag("--version", version, "Print the version and what this program was built with");
  app.allow_extras();
  for (const Verb& verb : verbs) verb.options->allow_extras();
  try {
    app.parse(argument_count, arguments);
  } catch (const CLI::Success& help) {
    app.exit(help);  // prints it
    return ExitCode::passed;
  } catch (const CLI::ParseError& error) {
    throw InputError(unknown_argument(app, verbs).value_or(error.what()));
  }
  if (const auto unknown = unknown_argument(app, verbs)) throw InputError(*unknown);
  if (version) {
    fmt::print("{}", version_text());
    return ExitCode::passed;
  }
  for (const Verb& verb : verbs) {
    if (verb.options->parsed()) return verb.act();
  }
  throw InputError("no verb; `flopcast --help` lists them");
}

int report_error(const std::exception& error, ExitCode code) {
  fmt::print(stderr, "flopcast: {}\n", error.what());
  return static_cast<int>(code);
}

}  // namespace
}  // namespace flopcast

int main(int argument_count, char** arguments) {
  using flopcast::ExitCode;
  try {
    return static_cast<int>(flopcast::act(argument_count, arguments));
  } catch (const flopcast::InputError& error) {
    return flopcast::report_error(error, ExitCode::wrong_input);
  } catch (const std::exception& error) {  // IoError, DeviceError, no memory
    return flopcast::report_error(error, ExitCode::machine);
  }
}
