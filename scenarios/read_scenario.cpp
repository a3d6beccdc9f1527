#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "models/activation_offload.h"
#include "scenarios/scenario.h"
#include "scenarios/scenario_parts.h"
#include "sim/errors.h"

namespace flopcast {
namespace {

constexpr Choice<NetworkDetail> kNetworks[] = {{"fluid", NetworkDetail::fluid},
                                               {"steps", NetworkDetail::steps}};
constexpr Choice<Mark> kMarks[] = {{"fit", Mark::fit}, {"test", Mark::test}};

/// The node that a dotted key such as "parallel.tp" names, or the nearest one above it.
Node node_of(const Node& root, std::string_view key) {
  Node node = root;
  while (!key.empty()) {
    const auto dot = key.find('.');
    if (!node.is_object()) return node;
    const auto next = node.find(key.substr(0, dot));
    if (!next) return node;
    node = *next;
    key = dot == std::string_view::npos ? std::string_view() : key.substr(dot + 1);
  }
  return node;
}

/// Where dp is "auto" and the other dimensions do not divide the GPUs, dp is no number yet, and
/// what depends on it is no mistake of the user's.
bool depends_on_dp(const std::string& key) {
  return !(key == "parallel.tp" || key == "parallel.cp" || key == "parallel.pp" ||
           key == "parallel.vpp" || key == "parallel.layers_per_stage" ||
           key == "training.sequence" || key == "training.recompute" ||
           key == "training.schedule" || key.starts_with("training.offload"));
}

std::string advice_of(const LayoutViolation& violation) {
  if (violation.nearest.empty()) return {};
  const std::string name = violation.key.substr(violation.key.rfind('.') + 1);
  return fmt::format("; nearest legal {}: {}", name, fmt::join(violation.nearest, ", "));
}

/// All broken rules in one message, each at its key; the advice once for each key.
void check_layout(const Node& root, const Scenario& scenario, int gpus) {
  const Job& job = scenario.job;
  const ParallelGrid& grid = job.layout.grid;
  const bool dp_is_open = !node_of(root, "parallel.dp").is_number() &&
                          gpus % (std::int64_t{grid.tp} * grid.cp * grid.pp) != 0;
  std::vector<std::string> problems;
  std::vector<std::string> advised;
  std::vector<LayoutViolation> violations =
      layout_violations(job.model, job.layout, job.training.batch, gpus);
  std::ranges::copy(activation_offload_violations(job), std::back_inserter(violations));
  for (const LayoutViolation& violation : violations) {
    if (dp_is_open && depends_on_dp(violation.key)) continue;
    const bool first = std::find(advised.begin(), advised.end(), violation.key) == advised.end();
    advised.push_back(violation.key);
    problems.push_back(fmt::format("{}: {}{}", node_of(root, violation.key).place(),
                                   violation.problem, first ? advice_of(violation) : ""));
  }
  if (!problems.empty()) throw InputError(fmt::format("{}", fmt::join(problems, "\n")));
}

void check_precision(const Node& root, const Gpu& gpu, DataType type) {
  if (gpu.peak(type)) return;
  std::vector<std::string_view> known;
  for (const DataType other : kDataTypes) {
    if (gpu.peak(other)) known.push_back(to_text(other));
  }
  node_of(root, "training.precision")
      .fail(
          fmt::format("{} has no {}; it has {}", gpu.name, to_text(type), fmt::join(known, ", ")));
}

/// Whether the GPUs have the training type at all.
void check_precision(const Node& root, const Scenario& scenario) {
  const DataType type = scenario.job.training.precision;
  check_precision(root, scenario.cluster.system.gpu, type);
  for (const OtherNodes& other : scenario.cluster.others) {
    check_precision(root, other.system.gpu, type);
  }
}

/// One for each kind of the cluster's other nodes.
std::vector<Profile> other_profiles(const Node& root, const ClusterSpec& cluster,
                                    ShippedData& data) {
  std::vector<Profile> profiles;
  if (cluster.others.empty()) return profiles;
  const std::vector<Node> rows = root.at("cluster").at("other_nodes").items();
  for (std::size_t kind = 0; kind < rows.size(); ++kind) {
    const Gpu& gpu = cluster.others[kind].system.gpu;
    profiles.push_back(choose_profile(rows[kind].find("profile"), rows[kind], gpu, data));
  }
  return profiles;
}

void check_attention(const Node& root, const Scenario& scenario) {
  const auto type = root.at("training").find("attention_dtype");
  if (!type || !scenario.job.training.attention_dtype) return;
  if (!scenario.job.training.framework.fused_attention) {
    type->fail("only fused attention has operands in 8 bits");
  }
}

/// Whether the model has the experts whose exchange is set up.
void check_experts(const Node& root, const Scenario& scenario) {
  if (scenario.job.model.moe) return;
  constexpr std::string_view kProblem = "the model has no experts";
  const Layout& layout = scenario.job.layout;
  if (layout.overlap_expert_exchange) {
    node_of(root, "training.overlap_expert_exchange").fail(kProblem);
  }
  if (layout.dispatcher != TokenDispatcher::all_to_all) {
    node_of(root, "parallel.dispatcher").fail(kProblem);
  }
}

/// Sizes that are each in range, but not what they make together.
void check_volume(const Node& root, const Scenario& scenario) {
  const Transformer& model = scenario.job.model;
  const BatchShape& batch = scenario.job.training.batch;
  constexpr double kMostBytes = 1e17;  // of one micro-batch, far below what an int64 holds
  constexpr double kPerElement = 100;  // bytes kept per token, layer and element of the widest row
  const auto tokens = static_cast<double>(batch.sequence) * static_cast<double>(batch.micro_batch);
  const auto widest = static_cast<double>(std::max(model.hidden, model.ffn));
  double bytes = kPerElement * tokens * widest * static_cast<double>(model.layers);
  if (!scenario.job.training.framework.fused_attention) {
    bytes += kPerElement * tokens * static_cast<double>(batch.sequence) *
             static_cast<double>(model.heads) * static_cast<double>(model.layers);
  }
  if (bytes > kMostBytes) {
    node_of(root, "training.sequence")
        .fail("the activations of a micro-batch are beyond 10^17 bytes");
  }
}

std::string stem(const std::string& file) { return std::filesystem::path(file).stem().string(); }

}  // namespace

Scenario read_scenario_document(const Document& document, ShippedData& data) {
  const Node root = document.root();
  if (!root.is_object()) root.expected("an object");
  Catalogue& catalogue = data.catalogue();
  Scenario scenario;
  scenario.file = document.name();
  root.find("$schema");  // for the user's editor
  const auto name = root.find("name");
  scenario.name = name ? name->text() : stem(scenario.file);
  if (const auto text = root.find("description")) scenario.description = text->text();
  scenario.sources = read_sources(root);
  if (const auto list = root.find("assumptions")) {
    for (const Node& assumption : list->items()) scenario.assumptions.push_back(assumption.text());
  }
  if (const auto mark = root.find("mark")) scenario.mark = mark->one_of(kMarks);
  scenario.job.model = read_model(root.at("model"), catalogue);
  scenario.cluster = read_cluster(root.at("cluster"), catalogue);
  const int gpus = scenario.cluster.nodes * scenario.cluster.system.gpus_per_node;
  scenario.job.layout = read_parallel(root.find("parallel"), gpus);
  scenario.job.training = read_training(root.at("training"), scenario.job.layout);
  if (const auto routing = root.at("training").find("routing")) {
    scenario.job.training.routing = read_routing(*routing, scenario.job.model);
  }
  if (const auto offload = root.at("training").find("offload")) {
    read_offload(*offload, scenario.cluster, scenario.job.training);
  }
  scenario.job.training.framework = read_framework(root.find("framework"));
  scenario.expect = read_expectations(root.find("expect"));
  scenario.profile = choose_profile(root.find("profile"), root, scenario.cluster.system.gpu, data);
  scenario.other_profiles = other_profiles(root, scenario.cluster, data);
  if (const auto network = root.find("network")) {
    scenario.job.network = network->at("model").one_of(kNetworks);
  }
  scenario.job.jitter = read_jitter(root.find("jitter"), scenario.profile);
  scenario.reliability = read_reliability(root.find("reliability"), gpus);
  root.finish();
  check_precision(root, scenario);
  check_attention(root, scenario);
  check_experts(root, scenario);
  check_volume(root, scenario);
  check_layout(root, scenario, gpus);
  return scenario;
}

Scenario read_scenario(const std::filesystem::path& file, const std::vector<Override>& overrides,
                       const DataFolders& data) {
  Document document = Document::read(file);
  for (const Override& override : overrides) document.set(override.path, override.value);
  ShippedData shipped(data);
  return read_scenario_document(document, shipped);
}

ClusterSpec read_cluster_alone(const std::optional<std::filesystem::path>& file,
                               const std::vector<Override>& overrides, const DataFolders& data) {
  Document document =
      file ? Document::read(*file) : Document::parse(R"({"cluster": {}})", "command line");
  for (const Override& override : overrides) document.set(override.path, override.value);
  Catalogue catalogue(data.catalogue);
  const Node cluster = document.root().at("cluster");
  ClusterSpec spec = read_cluster(cluster, catalogue);
  cluster.finish();
  return spec;
}

}  // namespace flopcast
