#pragma once

// The program as a user starts it: its arguments, exit code, streams and files.

#include <filesystem>
#include <string>

namespace cli {

inline const std::string kExample = "scenarios/examples/llama3-8b-8-h100.json";

std::string contents(const std::filesystem::path& file);

/// A folder of its own, removed at the end.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

struct Outcome {
  int code = -1;
  std::string out;
  std::string err;
};

/// Runs `flopcast <arguments>` in the source folder; the shell reads the arguments.
Outcome flopcast(const std::string& arguments, const std::string& environment = "");

}  // namespace cli
