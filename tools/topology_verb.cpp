#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "scenarios/import_topology.h"
#include "sim/errors.h"
#include "tools/choice.h"
#include "tools/collective_logs.h"
#include "tools/data_folders.h"
#include "tools/output.h"
#include "tools/scenario_options.h"
#include "tools/topology_check.h"
#include "tools/topology_report.h"
#include "tools/verbs.h"
#include "topology/analysis.h"

namespace flopcast {
namespace {

struct ShowOptions {
  std::optional<std::string> file;
  std::optional<std::string> system;
  std::optional<std::string> nodes;
  std::optional<std::string> fabric;
  std::vector<std::string> settings;
  std::optional<std::string> data;
  std::string format = "table";
  std::optional<std::string> output;
  std::optional<std::string> dot;
  CollectiveLogOptions logs;  // of --check; its system is the cluster's
  std::vector<std::string> healthy;
};

struct ImportOptions {
  std::string file;
  std::string gpu;
  std::string name = "imported";
  std::optional<std::string> nic_bandwidth;
  std::optional<std::string> output;
};

enum class TopologyFormat : std::uint8_t { table, json };

TopologyFormat read_format(std::string_view name) {
  constexpr Choice<TopologyFormat> kFormats[] = {{"table", TopologyFormat::table},
                                                 {"json", TopologyFormat::json}};
  return read_choice<TopologyFormat>("--format", name, kFormats);
}

ExitCode check_logs(const Cluster& cluster, const ShowOptions& options, TopologyFormat format) {
  const NetworkModel model =
      CollectiveMachine{.system = cluster.spec().system, .sharp = cluster.spec().fabric.sharp}
          .prior();
  CollectiveLogOptions before = options.logs;
  before.files = options.healthy;
  const std::vector<PlacedTable> well = tables_on(cluster, before);
  std::vector<CheckedLog> logs;
  bool healthy = true;
  for (PlacedTable& placed : tables_on(cluster, options.logs)) {
    CheckedTable checked = check_table(placed, model, well);
    healthy = healthy && checked.healthy();
    logs.push_back({.placed = std::move(placed), .checked = std::move(checked)});
  }
  const bool colour = !options.output && terminal_shows_colour();
  write_output(options.output, format == TopologyFormat::json ? topology_check_json(logs)
                                                              : topology_check_text(logs, colour));
  return healthy ? ExitCode::passed : ExitCode::failed;
}

ExitCode show(const ShowOptions& options) {
  const TopologyFormat format = read_format(options.format);
  if (!options.file && !options.system) {
    throw InputError("topology show: expected a scenario FILE, or --system NAME --nodes N");
  }
  if (!options.healthy.empty() && options.logs.files.empty()) {
    throw InputError("--healthy: expected --check LOG..., the logs that are held against these");
  }
  std::vector<Override> overrides;
  const auto set = [&](const char* path, const std::optional<std::string>& value) {
    if (value) overrides.push_back({path, *value});
  };
  set("cluster.system", options.system);
  set("cluster.nodes", options.nodes);
  set("cluster.fabric.kind", options.fabric);
  for (const std::string& setting : options.settings) overrides.push_back(read_override(setting));
  const Cluster cluster(
      read_cluster_alone(options.file, overrides, find_data_folders(options.data)));
  if (options.dot) write_output(options.dot, to_dot(cluster));
  if (!options.logs.files.empty()) return check_logs(cluster, options, format);
  const bool colour = !options.output && terminal_shows_colour();
  write_output(options.output, format == TopologyFormat::json ? topology_json(cluster)
                                                              : topology_text(cluster, colour));
  return ExitCode::passed;
}

ExitCode import(const ImportOptions& options) {
  std::optional<BytesPerSecond> rate;
  if (options.nic_bandwidth) {
    rate = parse_quantity<BytesPerSecond>(*options.nic_bandwidth);
    if (!rate || *rate <= BytesPerSecond{}) {
      throw InputError(fmt::format("--nic-bandwidth: read \"{}\", expected {}",
                                   *options.nic_bandwidth, quantity_example<BytesPerSecond>()));
    }
  }
  ImportedSystem imported = import_topology(options.file, rate);
  imported.system.name = options.name;
  imported.system.sources = {options.file};
  write_output(options.output, system_json(imported, options.gpu));
  return ExitCode::passed;
}

}  // namespace

Verb add_topology_verb(CLI::App& app) {
  const auto options = std::make_shared<ShowOptions>();  // shared by the parser and the action
  const auto imports = std::make_shared<ImportOptions>();
  CLI::App* verb = app.add_subcommand("topology", "Show a cluster, or import a node's wiring");
  verb->require_subcommand(1);
  CLI::App* show_verb = verb->add_subcommand("show", "Parts, links, bisection, oversubscription");
  show_verb->add_option("FILE", options->file, "Scenario, of which the cluster is read");
  show_verb->add_option("--system", options->system, "Of the catalogue: dgx-h100");
  show_verb->add_option("--nodes", options->nodes, "How many of it");
  show_verb->add_option("--fabric", options->fabric, "Kind of network: fat_tree, torus, ...");
  show_verb
      ->add_option("--set", options->settings, "Override a key: cluster.fabric.oversubscription=2")
      ->type_name("KEY=VALUE")
      ->expected(1)
      ->take_all();
  show_verb->add_option("--data", options->data, "Folder with catalogue/ and profiles/")
      ->type_name("DIR");
  show_verb->add_option("--format", options->format, "table or json")->capture_default_str();
  show_verb->add_option("-o,--output", options->output, "Write to a file")->type_name("FILE");
  show_verb->add_option("--dot", options->dot, "Write the graph for Graphviz")->type_name("FILE");
  show_verb
      ->add_option("--check", options->logs.files,
                   "Logs of nccl-tests instead: what they reach of links and model, likely causes")
      ->type_name("LOG...");
  show_verb
      ->add_option("--healthy", options->healthy,
                   "Logs of the same machine when it was well: the measure for their group shapes")
      ->type_name("LOG...");
  show_verb->add_option("--kind", options->logs.kind,
                        "The collective, where a log does not say it");
  CLI::App* import_verb = verb->add_subcommand(
      "import", "Text of nvidia-smi topo -m, or NCCL's topology XML, as a system for a scenario");
  import_verb->add_option("FILE", imports->file, "What the node said")->required();
  import_verb->add_option("--gpu", imports->gpu, "Its GPU in the catalogue: h100-sxm")->required();
  import_verb->add_option("--name", imports->name, "Of the system")->capture_default_str();
  import_verb->add_option("--nic-bandwidth", imports->nic_bandwidth,
                          "Of one card, one direction: \"400 Gb/s\"");
  import_verb->add_option("-o,--output", imports->output, "Write to a file")->type_name("FILE");
  return {verb, [options, imports, import_verb] {
            return import_verb->parsed() ? import(*imports) : show(*options);
          }};
}

}  // namespace flopcast
