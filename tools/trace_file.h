#pragma once

// A text file that is written in large pieces, compressed or not.

#include <zlib.h>

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

namespace flopcast {

/// gzip where the name ends in ".gz". Every call throws IoError where the file cannot be written.
class TraceFile {
 public:
  explicit TraceFile(std::filesystem::path path);

  void write(std::string_view text);
  /// Must be called at the end: only then is everything on its way to the disk.
  void close();

 private:
  void flush();
  [[noreturn]] void fail() const;

  struct Closer {
    void operator()(gzFile file) const { gzclose(file); }
  };

  std::filesystem::path path_;
  std::unique_ptr<gzFile_s, Closer> file_;
  std::string pending_;
};

}  // namespace flopcast
