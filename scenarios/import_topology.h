#pragma once

// Reads what a node says of its own wiring, and gives it as a system that a scenario can hold in
// "cluster.system": the text of `nvidia-smi topo -m`, and the XML that NCCL writes
// (NCCL_TOPO_DUMP_FILE) or is given (NCCL_TOPO_FILE).

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "sim/units.h"
#include "topology/system.h"

namespace flopcast {

/// A network card and how data of one GPU reaches it. Words of nvidia-smi: PIX through one PCIe
/// switch, PXB through several, PHB through the host bridge, NODE and SYS beyond it.
struct CardPath {
  std::string card;  // "mlx5_0"
  std::string path;  // "PIX"
};

struct ImportedSystem {
  System system;                    // without the name of its GPU
  std::vector<CardPath> nearest{};  // card of each GPU
};

/// nvidia-smi's matrix where the text begins with one, else NCCL's XML. The matrix does not say how
/// fast cards are: `nic_bandwidth` does, and it wins over what the XML says. Throws InputError with
/// file, line and column.
ImportedSystem import_topology(const std::filesystem::path& file,
                               std::optional<BytesPerSecond> nic_bandwidth);
/// The same for text already read; `name` stands for the file in messages.
ImportedSystem parse_topology(const std::string& text, const std::string& name,
                              std::optional<BytesPerSecond> nic_bandwidth);

/// The object for "cluster.system", with the catalogue's name of its GPU.
std::string system_json(const ImportedSystem& imported, const std::string& gpu);

}  // namespace flopcast
