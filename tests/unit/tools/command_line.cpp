#include "command_line.h"

#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>
#include <iterator>

namespace cli {

namespace fs = std::filesystem;

std::string contents(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

TemporaryFolder::TemporaryFolder() {
  std::string pattern = (fs::temp_directory_path() / "flopcast-cli-XXXXXX").string();
  REQUIRE(mkdtemp(pattern.data()) != nullptr);
  path_ = pattern;
}

TemporaryFolder::~TemporaryFolder() { fs::remove_all(path_); }

Outcome flopcast(const std::string& arguments, const std::string& environment) {
  const TemporaryFolder folder;
  const std::string command = std::string("cd '") + FLOPCAST_SOURCE_DIR +
                              "' && env -u FLOPCAST_DATA " + environment + " '" + FLOPCAST_PROGRAM +
                              "' " + arguments + " >'" + (folder / "out").string() + "' 2>'" +
                              (folder / "err").string() + "'";
  const int status = std::system(command.c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, contents(folder / "out"),
          contents(folder / "err")};
}

}  // namespace cli
