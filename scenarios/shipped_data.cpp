#include "scenarios/shipped_data.h"

#include "scenarios/read_profile.h"

namespace flopcast {

const Profile& ShippedData::profile(const std::filesystem::path& file) {
  const auto found = read_.find(file);
  if (found != read_.end()) return found->second;
  return read_.emplace(file, read_profile(Document::read(file))).first->second;
}

}  // namespace flopcast
