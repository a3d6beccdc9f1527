#include <algorithm>

#include "scenarios/scenario_parts.h"

namespace flopcast {
namespace {

constexpr double kLargestSigma = 1;
constexpr std::int64_t kLargestSeed = std::int64_t{1} << 53;
constexpr int kMostSteps = 100'000;
constexpr int kMostClasses = 1 << 20;
constexpr double kLeastSpeed = 1e-3;

void read_slow_steps(const Node& node, StepJitter& jitter) {
  jitter.slow_probability = node.at("probability").fraction();
  jitter.slow_speed = node.at("speed").fraction(kLeastSpeed);
}

void read_kernel_sigma(const Node& node, const Profile& profile, StepJitter& jitter) {
  if (!node.is_text() || node.text() != "profile") {
    jitter.kernel_sigma = node.fraction(0, kLargestSigma);
    return;
  }
  if (!profile.kernel_spread) {
    node.fail("profile " + profile.name + " has no kernel_spread; give a number such as 0.02");
  }
  jitter.kernel_sigma = profile.kernel_spread->sigma;
}

}  // namespace

std::optional<StepJitter> read_jitter(const std::optional<Node>& node, const Profile& profile) {
  if (!node) return std::nullopt;
  StepJitter jitter;
  if (const auto seed = node->find("seed")) {
    jitter.seed = static_cast<std::uint64_t>(seed->integer(0, kLargestSeed));
  }
  if (const auto sigma = node->find("kernel_sigma")) read_kernel_sigma(*sigma, profile, jitter);
  if (const auto sigma = node->find("rank_sigma")) {
    jitter.rank_sigma = sigma->fraction(0, kLargestSigma);
  }
  if (const auto sigma = node->find("step_sigma")) {
    jitter.step_sigma = sigma->fraction(0, kLargestSigma);
  }
  if (const auto slow = node->find("slow")) read_slow_steps(*slow, jitter);
  if (const auto steps = node->find("steps")) jitter.steps = steps->small_integer(1, kMostSteps);
  if (const auto classes = node->find("classes")) {
    jitter.classes = classes->small_integer(1, kMostClasses);
  }
  if (const auto evidence = node->find("evidence")) jitter.evidence = evidence->one_of(kEvidences);
  if (const auto source = node->find("source")) jitter.source = source->text();
  if (jitter.evidence != Evidence::assumed && jitter.source.empty()) {
    node->fail("what is not assumed has a \"source\"");
  }
  const double most = std::max(
      {jitter.kernel_sigma, jitter.rank_sigma, jitter.step_sigma, jitter.slow_probability});
  if (most == 0) {
    node->finish();  // a misspelt key is the likelier mistake
    node->fail("nothing varies; give kernel_sigma, rank_sigma, step_sigma or slow");
  }
  return jitter;
}

}  // namespace flopcast
