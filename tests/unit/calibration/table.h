#pragma once

// Rows of a CSV fixture in tests/data, and the median of what is compared with them.

#include <algorithm>
#include <fstream>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "scenarios/read_profile.h"

namespace flopcast {

using Row = std::map<std::string, std::string>;

inline std::vector<std::string> fields(const std::string& line) {
  std::vector<std::string> out;
  std::stringstream stream(line);
  for (std::string field; std::getline(stream, field, ',');) {
    out.push_back(field);
  }
  return out;
}

inline std::vector<Row> read_table(const std::string& name) {
  std::ifstream file(std::string(FLOPCAST_TEST_DATA) + "/" + name);
  if (!file) {
    throw std::runtime_error("no fixture " + name);
  }
  std::vector<std::string> names;
  std::vector<Row> rows;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line.front() == '#') {
      continue;
    }
    if (names.empty()) {
      names = fields(line);
      continue;
    }
    const std::vector<std::string> values = fields(line);
    Row& row = rows.emplace_back();
    for (std::size_t i = 0; i < names.size(); ++i) {
      row[names[i]] = values.at(i);
    }
  }
  return rows;
}

inline double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.at(values.size() / 2);
}

inline Profile shipped_profile(const std::string& name) {
  return read_profile(
      Document::read(std::string(FLOPCAST_SOURCE_DIR) + "/calibration/profiles/" + name + ".json"));
}

}  // namespace flopcast
