#include "kernels/record.h"

#include <fmt/core.h>
#include <fmt/format.h>

#include <cmath>
#include <fstream>
#include <iterator>
#include <string_view>
#include <system_error>

#include "sim/errors.h"

namespace flopcast {
namespace {

constexpr std::string_view kCaseKey = "{\"case\":\"";
constexpr std::string_view kFailureKey = "\"failure\":";

std::string json_text(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    // Control characters have no place in a device's name or a message.
    out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return out + '"';
}

std::string case_columns(const MeasurementCase& measured) {
  std::string out = fmt::format("{{\"case\":{}", json_text(key(measured)));
  for (const CaseField& field : fields(measured)) {
    const auto* text = std::get_if<std::string>(&field.value);
    out += fmt::format(",\"{}\":{}", field.name,
                       text != nullptr ? json_text(*text)
                                       : fmt::format("{}", std::get<std::int64_t>(field.value)));
  }
  return out;
}

// One value per sample, null where NVML was silent.
template <class F>
std::string column(std::string_view name, const std::vector<Sample>& samples, F value) {
  std::string out = fmt::format(",\"{}\":[", name);
  for (std::size_t i = 0; i < samples.size(); ++i) {
    if (i > 0) out += ',';
    out += value(samples[i]);
  }
  return out + ']';
}

template <class F>
std::string state_column(std::string_view name, const std::vector<Sample>& samples, F value) {
  return column(name, samples, [&](const Sample& sample) {
    return sample.state ? fmt::format("{}", value(*sample.state)) : std::string("null");
  });
}

std::string read_all(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) throw IoError(fmt::format("{}: cannot be read", file.string()));
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

// The key of a measured case's line; empty for any other.
std::string_view measured_key(std::string_view line) {
  if (!line.starts_with(kCaseKey) || line.find(kFailureKey) != std::string_view::npos) return {};
  line.remove_prefix(kCaseKey.size());
  return line.substr(0, line.find('"'));
}

}  // namespace

std::string environment_line(const RecordEnvironment& environment) {
  std::string out = "{\"flopcast_samples\":1";
  for (const auto& [name, value] : environment) {
    out += fmt::format(",{}:{}", json_text(name), json_text(value));
  }
  return out + '}';
}

std::string measurement_line(const MeasurementCase& measured, const Measurement& measurement,
                             const std::string& at) {
  const std::vector<Sample>& samples = measurement.samples;
  const std::vector<Seconds> times = counted(samples);
  const CaseWork least = work(measured);
  std::string out = case_columns(measured);
  out += fmt::format(",\"work_flop\":{},\"moved_bytes\":{},\"median_us\":{:.6g}", least.work.value,
                     least.moved.value, to_microseconds(median(times)));
  const double error = relative_error(times);
  out += std::isfinite(error) ? fmt::format(",\"relative_error\":{:.4g}", error)
                              : std::string(",\"relative_error\":null");
  out += fmt::format(",\"stopped\":\"{}\"", to_text(measurement.stopped));
  out += measurement.error_over_tolerance
             ? fmt::format(",\"error_over_tolerance\":{:.3g}", *measurement.error_over_tolerance)
             : std::string(",\"error_over_tolerance\":null");
  out += fmt::format(",\"at\":{}", json_text(at));
  out += column("time_us", samples,
                [](const Sample& s) { return fmt::format("{:.6g}", to_microseconds(s.time)); });
  out += state_column("throttled", samples, [](const GpuState& s) { return int{throttled(s)}; });
  out += state_column("slowdown_bits", samples, [](const GpuState& s) { return s.slowdown; });
  out += state_column("sm_clock_mhz", samples, [](const GpuState& s) { return s.sm_clock_mhz; });
  out += state_column("memory_clock_mhz", samples,
                      [](const GpuState& s) { return s.memory_clock_mhz; });
  out += state_column("temperature_c", samples, [](const GpuState& s) { return s.temperature_c; });
  out += state_column("power_w", samples, [](const GpuState& s) { return s.power_w; });
  return out + '}';
}

std::string failure_line(const MeasurementCase& failed, const CaseFailure& failure,
                         const std::string& at) {
  return case_columns(failed) +
         fmt::format(",{}{},\"at\":{}}}", kFailureKey, json_text(failure.reason), json_text(at));
}

Record::Record(std::filesystem::path file, const RecordEnvironment& environment)
    : file_(std::move(file)) {
  const std::string first = environment_line(environment);
  const std::string text = std::filesystem::exists(file_) ? read_all(file_) : std::string();
  const std::size_t whole = text.rfind('\n') == std::string::npos ? 0 : text.rfind('\n') + 1;
  if (whole == 0) {
    // Nothing, or the start of a first line: anything else is somebody's file.
    if (!first.starts_with(text)) {
      throw InputError(fmt::format("{}: is no record of samples", file_.string()));
    }
    std::ofstream(file_, std::ios::binary | std::ios::trunc).flush();
    append(first);
    return;
  }
  const std::string_view lines(text.data(), whole);
  const std::string_view header = lines.substr(0, lines.find('\n'));
  if (header != first) {
    throw InputError(fmt::format("{}:1:1: was recorded elsewhere; read {}, expected {}",
                                 file_.string(), header, first));
  }
  for (std::size_t at = 0; at < whole; at = lines.find('\n', at) + 1) {
    const std::string_view key_text = measured_key(lines.substr(at, lines.find('\n', at) - at));
    if (!key_text.empty()) done_.emplace(key_text);
  }
  std::error_code error;
  if (whole < text.size()) std::filesystem::resize_file(file_, whole, error);
  if (error) throw IoError(fmt::format("{}: {}", file_.string(), error.message()));
}

void Record::append(const std::string& line) {
  std::ofstream out(file_, std::ios::binary | std::ios::app);
  out << line << '\n';
  out.flush();
  if (!out) throw IoError(fmt::format("{}: cannot be written", file_.string()));
  if (const std::string_view key_text = measured_key(line); !key_text.empty()) {
    done_.emplace(key_text);
  }
}

}  // namespace flopcast
