// flopcast validate: what the models say against what was measured elsewhere.

#include <CLI/CLI.hpp>
#include <array>

#include "tools/validate_collectives.h"
#include "tools/validate_kernels.h"
#include "tools/validate_runs.h"
#include "tools/verbs.h"

namespace flopcast {

Verb add_validate_verb(CLI::App& app) {
  CLI::App* verb = app.add_subcommand(
      "validate", "Compare forecasts with published runs, or a model with published measurements");
  const auto runs = add_validate_runs(*verb);
  const std::array parts{add_validate_collectives(*verb), add_validate_kernels(*verb)};
  return {verb, [runs, parts] {
            for (const Verb& part : parts) {
              if (part.options->parsed()) return part.act();
            }
            return runs();
          }};
}

}  // namespace flopcast
