#include "kernels/nccl_id.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <optional>
#include <thread>

#include "sim/errors.h"

namespace flopcast {
namespace {

std::optional<IdBytes> read_id(const std::filesystem::path& file, const std::string& job) {
  std::ifstream in(file, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  IdBytes id{};
  if (text.size() != job.size() + 1 + id.size() || !text.starts_with(job + '\n')) return {};
  std::copy_n(text.end() - static_cast<std::ptrdiff_t>(id.size()), id.size(), id.begin());
  return id;
}

}  // namespace

std::filesystem::path id_file(const std::string& job) {
  if (const char* path = std::getenv("FLOPCAST_NCCL_ID_FILE"); path != nullptr) return path;
  std::string name = ".flopcast-nccl-id-" + job;
  std::replace(name.begin(), name.end(), '/', '-');
  return name;
}

void leave_id(const std::filesystem::path& file, const std::string& job, const IdBytes& id) {
  const std::filesystem::path draft = file.string() + ".new";
  std::ofstream out(draft, std::ios::binary);
  out << job << '\n';
  out.write(id.data(), static_cast<std::streamsize>(id.size()));
  out.close();
  std::error_code error;
  if (out) std::filesystem::rename(draft, file, error);
  if (!out || error) throw IoError(fmt::format("{}: cannot be written", file.string()));
}

IdBytes find_id(const std::filesystem::path& file, const std::string& job, Seconds patience) {
  const auto begin = std::chrono::steady_clock::now();
  for (;;) {
    if (const std::optional<IdBytes> id = read_id(file, job)) return *id;
    if (std::chrono::steady_clock::now() - begin > std::chrono::duration<double>(patience.value)) {
      throw IoError(
          fmt::format("{}: the first rank left no id here in {}; set FLOPCAST_NCCL_ID_FILE to a "
                      "path that every node sees",
                      file.string(), to_text(patience)));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

}  // namespace flopcast
