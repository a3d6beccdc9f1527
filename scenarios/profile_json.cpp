#include "scenarios/profile_json.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>

namespace flopcast {

double with_digits(double value, int digits) {
  return std::stod(fmt::format("{:.{}g}", value, digits));
}

void add_provenance(nlohmann::ordered_json& json, const Provenance& provenance) {
  constexpr int kDigits = 4;
  json["evidence"] = to_text(provenance.evidence);
  json["source"] = provenance.source;
  json["median_error"] = with_digits(provenance.median_error, kDigits);
  json["p90_error"] = with_digits(provenance.p90_error, kDigits);
}

}  // namespace flopcast
