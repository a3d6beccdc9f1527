#pragma once

// The catalogue and the profiles, each file read once for any number of scenarios.

#include <filesystem>
#include <map>

#include "calibration/profile.h"
#include "scenarios/catalogue.h"
#include "scenarios/scenario.h"

namespace flopcast {

/// Not for two threads at once: reading remembers what was asked for.
class ShippedData {
 public:
  explicit ShippedData(const DataFolders& folders)
      : profiles_(folders.profiles), catalogue_(folders.catalogue) {}

  Catalogue& catalogue() { return catalogue_; }
  const std::filesystem::path& profiles() const { return profiles_; }
  /// The profile in the file, a shipped one or a user's.
  const Profile& profile(const std::filesystem::path& file);

 private:
  std::filesystem::path profiles_;
  Catalogue catalogue_;
  std::map<std::filesystem::path, Profile> read_;
};

}  // namespace flopcast
