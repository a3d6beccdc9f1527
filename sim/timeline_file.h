#pragma once

// A timeline on disk: written while the engine runs, in bounded memory, and read back record by
// record. The file holds plain records of this machine, to be rendered by the same program.

#include <cstdio>
#include <filesystem>
#include <memory>
#include <vector>

#include "sim/timeline.h"

namespace flopcast {

struct CloseFile {
  // NOLINTNEXTLINE(cppcoreguidelines-owning-memory): the one place where the handle lets go
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using FileHandle = std::unique_ptr<std::FILE, CloseFile>;

/// Writes each record as it comes, through a buffer of one MiB. Throws IoError with the reason.
class TimelineFile : public TimelineSink {
 public:
  explicit TimelineFile(std::filesystem::path path);

  void add(const Span& span) override;
  void add(const MemorySample& sample) override;
  void add(const LinkSample& sample) override;
  /// After the run: writes what is pending.
  void close();

 private:
  void write(char kind, const void* record, std::size_t size);
  void flush();

  std::filesystem::path path_;
  FileHandle file_;
  std::vector<char> pending_;
};

/// Hands the records of a closed TimelineFile to `sink`, in the order in which they were written.
void replay_timeline(const std::filesystem::path& path, TimelineSink& sink);

}  // namespace flopcast
