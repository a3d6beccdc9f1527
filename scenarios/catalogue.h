#pragma once

// The shipped tables of GPUs, systems and models, by name. A file is read when it is first asked
// for, and of it only the rows that are wanted.

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/transformer.h"
#include "scenarios/document.h"
#include "topology/system.h"

namespace flopcast {

class Catalogue {
 public:
  /// `folder` holds gpus.json, systems.json and models.json.
  explicit Catalogue(std::filesystem::path folder);

  /// The row whose name the node holds. Throws InputError at the node where there is none.
  Gpu gpu(const Node& name);
  System system(const Node& name);
  Transformer model(const Node& name);

  // for lists
  std::vector<Gpu> gpus();
  std::vector<System> systems();
  std::vector<Transformer> models();

 private:
  struct Shelf {
    std::string_view file;  // "gpus.json"
    std::string_view list;  // "gpus": key of its rows
    std::string_view kind;  // "GPU", for messages
    std::optional<Document> document;
  };

  std::vector<Node> rows(Shelf& shelf);
  Node row(Shelf& shelf, const Node& name);
  Gpu gpu_of(const Node& row);
  System system_of(const Node& row);
  /// Rows name their sources by short keys, which the file spells out once.
  void spell_out(Shelf& shelf, std::vector<std::string>& sources);

  std::filesystem::path folder_;
  Shelf gpus_{"gpus.json", "gpus", "GPU", {}};
  Shelf systems_{"systems.json", "systems", "system", {}};
  Shelf models_{"models.json", "models", "model", {}};
};

}  // namespace flopcast
