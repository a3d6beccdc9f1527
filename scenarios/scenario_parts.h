#pragma once

// The parts of a scenario, each read from its object. Internal to the reader; the catalogue's rows
// are read by the same functions as what a user writes in their place.

#include <string>
#include <vector>

#include "models/training.h"
#include "scenarios/catalogue.h"
#include "scenarios/document.h"
#include "scenarios/scenario.h"
#include "scenarios/shipped_data.h"
#include "topology/cluster.h"

namespace flopcast {

/// What is read as a slip beyond.
inline constexpr std::int64_t kMostLayers = 10'000;
inline constexpr int kMostNodes = 1 << 20;

/// A catalogue name, or an object: a whole GPU, or "base" and what differs from it.
Gpu read_gpu(const Node& node, Catalogue& catalogue);
System read_system(const Node& node, Catalogue& catalogue);
/// The same, or the path of a Hugging Face config.json, relative to the file that names it.
Transformer read_model(const Node& node, Catalogue& catalogue);

ClusterSpec read_cluster(const Node& node, Catalogue& catalogue);
/// "cluster.fabric", once system and size are read.
void read_fabric(const std::optional<Node>& node, ClusterSpec& spec);
/// "cluster.missing_nics", "cluster.slow" and "cluster.degraded", once size and fabric are read.
void read_missing_nics(const std::optional<Node>& node, ClusterSpec& spec);
void read_slow(const std::optional<Node>& node, ClusterSpec& spec);
void read_degraded(const std::optional<Node>& node, ClusterSpec& spec);
/// "cluster.other_nodes", once the rest of the cluster is read.
void read_other_nodes(const std::optional<Node>& node, ClusterSpec& spec, Catalogue& catalogue);

/// "parallel" may be missing. dp "auto" takes the GPUs that tp, cp and pp leave.
Layout read_parallel(const std::optional<Node>& node, int gpus);
/// "training": what it says of the schedule goes into the layout.
Training read_training(const Node& node, Layout& layout);
/// "training.lora" and "training.documents", once sequence and layout are read.
void read_fine_tuning(const Node& node, const Layout& layout, Training& training);
/// "training.offload", once cluster and layout are read: its host must be known.
void read_offload(const Node& node, ClusterSpec& cluster, Training& training);
/// "training.routing", once the model is read.
TokenRouting read_routing(const Node& node, const Transformer& model);
Framework read_framework(const std::optional<Node>& node);

/// A shipped profile by name, a file, or an object {"name", "level"}; without a word of it the
/// shipped one that is named like the GPU. `root` is where its absence is reported.
Profile choose_profile(const std::optional<Node>& node, const Node& root, const Gpu& gpu,
                       ShippedData& data);
/// "jitter" may be missing; the profile knows how kernels vary, if it was measured.
std::optional<StepJitter> read_jitter(const std::optional<Node>& node, const Profile& profile);
/// "reliability" may be missing. Of one GPU's failures the whole job has `gpus` times as many.
std::optional<Reliability> read_reliability(const std::optional<Node>& node, int gpus);
std::vector<Expectation> read_expectations(const std::optional<Node>& node);
/// "source", a text, and "sources", a list of them.
std::vector<std::string> read_sources(const Node& node);

/// Whether a text of the user means a file and not a name.
bool is_file_path(const std::string& text);

/// The whole file, its overrides applied. Asks the document for every key that it knows.
Scenario read_scenario_document(const Document& document, ShippedData& data);

}  // namespace flopcast
