#include "scenarios/text_file.h"

#include <fmt/format.h>

#include <fstream>
#include <vector>

#include "sim/errors.h"

namespace flopcast {

std::string read_text_file(const std::filesystem::path& file, std::string_view kind,
                           std::size_t most) {
  std::error_code ignored;
  const auto status = std::filesystem::status(file, ignored);
  if (!std::filesystem::exists(status)) {
    throw InputError(fmt::format("{}: no such file", file.string()));
  }
  if (std::filesystem::is_directory(status)) {
    throw InputError(fmt::format("{}: a folder, expected {}", file.string(), kind));
  }
  std::ifstream stream(file, std::ios::binary);
  std::string text;
  std::vector<char> block(std::size_t{1} << 16U);
  while (stream && text.size() <= most) {
    stream.read(block.data(), static_cast<std::streamsize>(block.size()));
    text.append(block.data(), static_cast<std::size_t>(stream.gcount()));
  }
  if (!stream.eof()) {
    throw InputError(fmt::format("{}: cannot be read as {}", file.string(), kind));
  }
  return text;
}

}  // namespace flopcast
