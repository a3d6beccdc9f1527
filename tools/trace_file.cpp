#include "tools/trace_file.h"

#include <fmt/format.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "sim/errors.h"

namespace flopcast {
namespace {

constexpr std::size_t kPieceSize = 1U << 20U;  // bytes; one call of zlib each

std::string_view open_mode(const std::filesystem::path& path) {
  // 'T': zlib writes the text as it is, so that both kinds of file take the same way.
  return path.extension() == ".gz" ? "wb6" : "wbT";
}

}  // namespace

TraceFile::TraceFile(std::filesystem::path path) : path_(std::move(path)) {
  errno = 0;
  file_.reset(gzopen(path_.c_str(), open_mode(path_).data()));
  if (!file_) fail();
}

void TraceFile::write(std::string_view text) {
  pending_ += text;
  if (pending_.size() >= kPieceSize) flush();
}

void TraceFile::close() {
  flush();
  errno = 0;
  if (gzclose(file_.release()) != Z_OK) fail();
}

void TraceFile::flush() {
  if (pending_.empty()) return;
  errno = 0;
  if (gzwrite(file_.get(), pending_.data(), static_cast<unsigned>(pending_.size())) == 0) fail();
  pending_.clear();
}

void TraceFile::fail() const {
  const std::error_code reason(errno != 0 ? errno : EIO, std::generic_category());
  throw IoError(fmt::format("cannot write {}: {}", path_.string(), reason.message()));
}

}  // namespace flopcast
