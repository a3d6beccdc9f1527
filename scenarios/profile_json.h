#pragma once

// What the writers of a profile's parts share.

#include <nlohmann/json_fwd.hpp>

#include "calibration/profile.h"

namespace flopcast {

/// To so many digits, six at most: a fit knows no more.
double with_digits(double value, int digits);

/// Evidence, source and errors, as read_provenance() reads them.
void add_provenance(nlohmann::ordered_json& json, const Provenance& provenance);

}  // namespace flopcast
