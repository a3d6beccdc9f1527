#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

namespace flopcast {

/// The whole file. `kind` says what was expected, as "a JSON file". Throws InputError where there
/// is no such file, where it is a folder, cannot be read, or is larger than `most` bytes, which
/// stops endless devices.
std::string read_text_file(const std::filesystem::path& file, std::string_view kind,
                           std::size_t most = std::size_t{64} << 20U);

}  // namespace flopcast
