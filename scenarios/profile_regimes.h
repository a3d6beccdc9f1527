#pragma once

// The part of a profile that a fit to collective logs writes and reads back: "regimes" of
// "network", and "curves". Internal to the profile reader, but for the writer.

#include <string>
#include <string_view>
#include <vector>

#include "calibration/profile.h"
#include "scenarios/document.h"

namespace flopcast {

Provenance read_provenance(const Node& node);

ProtocolRegimes read_regimes(const Node& node);

/// What a fit learned, to be put into a profile.
struct NetworkUpdate {
  std::string name;  // of the new profile
  ProtocolRegimes regimes;
  std::vector<CollectiveCurve> curves;
};

/// The text of profile `base` with the update. Its regimes are replaced, and so are its curves of
/// the kinds that were fitted, inside a node or across nodes: they are of another machine. `base`
/// must be a valid profile.
std::string updated_profile(std::string_view base, const NetworkUpdate& update);

}  // namespace flopcast
