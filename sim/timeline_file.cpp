#include "sim/timeline_file.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <system_error>
#include <type_traits>
#include <utility>

#include "sim/errors.h"

namespace flopcast {
namespace {

constexpr std::size_t kBufferSize = std::size_t{1} << 20U;  // bytes

constexpr char kSpan = 's';
constexpr char kMemory = 'm';
constexpr char kLink = 'l';

static_assert(std::is_trivially_copyable_v<Span> && std::is_trivially_copyable_v<MemorySample> &&
              std::is_trivially_copyable_v<LinkSample>);

[[noreturn]] void fail(const char* what, const std::filesystem::path& path) {
  const std::error_code reason(errno != 0 ? errno : EIO, std::generic_category());
  throw IoError(fmt::format("cannot {} {}: {}", what, path.string(), reason.message()));
}

FileHandle open(const std::filesystem::path& path, const char* mode, const char* what) {
  errno = 0;
  FileHandle file(std::fopen(path.c_str(), mode));
  if (!file) fail(what, path);
  return file;
}

template <class Record>
void read_into(TimelineSink& sink, std::FILE* file, const std::filesystem::path& path) {
  Record record;
  if (std::fread(&record, sizeof record, 1, file) != 1) fail("read", path);
  sink.add(record);
}

}  // namespace

TimelineFile::TimelineFile(std::filesystem::path path)
    : path_(std::move(path)), file_(open(path_, "wb", "write")) {
  pending_.reserve(kBufferSize);
}

void TimelineFile::add(const Span& span) { write(kSpan, &span, sizeof span); }
void TimelineFile::add(const MemorySample& sample) { write(kMemory, &sample, sizeof sample); }
void TimelineFile::add(const LinkSample& sample) { write(kLink, &sample, sizeof sample); }

void TimelineFile::write(char kind, const void* record, std::size_t size) {
  if (pending_.size() + 1 + size > kBufferSize) flush();
  const std::size_t begin = pending_.size();
  pending_.resize(begin + 1 + size);
  pending_[begin] = kind;
  std::memcpy(pending_.data() + begin + 1, record, size);
}

void TimelineFile::flush() {
  errno = 0;
  const std::size_t size = pending_.size();
  if (std::fwrite(pending_.data(), 1, size, file_.get()) != size) fail("write", path_);
  pending_.clear();
}

void TimelineFile::close() {
  flush();
  errno = 0;
  if (std::fclose(file_.release()) != 0) fail("write", path_);
}

void replay_timeline(const std::filesystem::path& path, TimelineSink& sink) {
  const FileHandle file = open(path, "rb", "read");
  errno = 0;
  for (int kind = std::fgetc(file.get()); kind != EOF; kind = std::fgetc(file.get())) {
    switch (kind) {
      case kSpan: read_into<Span>(sink, file.get(), path); break;
      case kMemory: read_into<MemorySample>(sink, file.get(), path); break;
      case kLink: read_into<LinkSample>(sink, file.get(), path); break;
      default: throw IoError(fmt::format("cannot read {}: not a timeline", path.string()));
    }
  }
  if (std::ferror(file.get()) != 0) fail("read", path);
}

}  // namespace flopcast
