// flopcast validate: what the models say against what was measured elsewhere.

#include <CLI/CLI.hpp>
#include <array>

#include "sim/errors.h"
#include "tools/validate_collectives.h"
#include "tools/validate_kernels.h"
#include "tools/verbs.h"

namespace flopcast {

Verb add_validate_verb(CLI::App& app) {
  CLI::App* verb = app.add_subcommand("validate", "Compare the models with published measurements");
  const std::array parts{add_validate_collectives(*verb), add_validate_kernels(*verb)};
  return {verb, [parts] {
            for (const Verb& part : parts) {
              if (part.options->parsed()) return part.act();
            }
            throw InputError("validate: what? (one of: collectives, kernels)");
          }};
}

}  // namespace flopcast
