#include "tools/output.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <system_error>

#include "sim/errors.h"

namespace flopcast {
namespace {

[[noreturn]] void fail(std::string_view name) {
  const std::error_code reason(errno != 0 ? errno : EIO, std::generic_category());
  throw IoError(fmt::format("cannot write {}: {}", name, reason.message()));
}

void write_all(std::FILE* file, std::string_view name, std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), file) != text.size()) fail(name);
  if (std::fflush(file) != 0) fail(name);
}

struct Closer {
  // NOLINTNEXTLINE(cppcoreguidelines-owning-memory): this is the owner
  void operator()(std::FILE* file) const { std::fclose(file); }
};

}  // namespace

bool terminal_shows_colour() {
  const char* no_colour = std::getenv("NO_COLOR");
  if (no_colour != nullptr && *no_colour != '\0') return false;
  const char* terminal = std::getenv("TERM");
  if (terminal == nullptr || std::string_view(terminal) == "dumb") return false;
  return isatty(STDOUT_FILENO) == 1;
}

void write_output(const std::optional<std::string>& file, std::string_view text) {
  errno = 0;
  if (!file) return write_all(stdout, "standard output", text);
  const std::unique_ptr<std::FILE, Closer> out(std::fopen(file->c_str(), "wb"));
  if (!out) fail(*file);
  write_all(out.get(), *file, text);
}

}  // namespace flopcast
