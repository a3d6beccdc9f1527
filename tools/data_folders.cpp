#include "tools/data_folders.h"

#include <fmt/format.h>

#include <array>
#include <cstdlib>
#include <filesystem>

#include "build_info.h"
#include "sim/errors.h"

namespace flopcast {
namespace {

namespace fs = std::filesystem;

/// The data of a root, laid out as in the source tree or flat.
std::optional<DataFolders> data_in(const fs::path& root) {
  const std::array layouts{DataFolders{root / "scenarios/catalogue", root / "calibration/profiles",
                                       root / "calibration/data"},
                           DataFolders{root / "catalogue", root / "profiles", root / "measured"}};
  std::error_code ignored;
  for (const DataFolders& folders : layouts) {
    if (fs::is_directory(folders.catalogue, ignored) &&
        fs::is_directory(folders.profiles, ignored)) {
      return folders;
    }
  }
  return std::nullopt;
}

DataFolders data_in_named(const fs::path& root, std::string_view who_named_it) {
  if (const auto folders = data_in(root)) return *folders;
  throw InputError(fmt::format("{}: {} holds no catalogue/ and profiles/", who_named_it,
                               root.empty() ? "(empty)" : root.string()));
}

fs::path program_folder() {
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  return error ? fs::path{} : program.parent_path();
}

}  // namespace

DataFolders find_data_folders(const std::optional<std::string>& chosen) {
  if (chosen) return data_in_named(*chosen, "--data");
  if (const char* named = std::getenv("FLOPCAST_DATA")) {
    return data_in_named(named, "FLOPCAST_DATA");
  }
  const std::array roots{program_folder() / kInstalledData, fs::path(kSourceData)};
  for (const fs::path& root : roots) {
    if (const auto folders = data_in(root)) return *folders;
  }
  throw InputError(
      "the catalogue and the profiles were not found: give --data DIR or FLOPCAST_DATA");
}

}  // namespace flopcast
