#include "models/visited_places.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>

// Sums over all sets of top_k experts as coefficients of polynomials: an expert is the factor
// without + with x, a place the product of its experts', and the whole the coefficient of x^top_k
// in the product of places. Under a limit a second power counts the places that are chosen from. A
// place is visited by all but those sets that have none there, so that its factor is replaced by
// what is not seen there, between the product of the places before it and that of those after it.
// Cost: places * top_k^2 * limit^2, without a limit places * top_k^2.

namespace flopcast {
namespace {

constexpr double kAlways = 1 - 1e-9;  // from here on an expert is one of every token
constexpr int kRounds = 200;
constexpr double kPrecision = 1e-10;

using Polynomial = std::vector<double>;  // coefficients of x^0 to x^top_k

void multiply(Polynomial& polynomial, ExpertOdds factor) {
  for (std::size_t i = polynomial.size(); i-- > 0;) {
    polynomial[i] =
        polynomial[i] * factor.without + (i > 0 ? polynomial[i - 1] * factor.with : 0.0);
  }
}

Polynomial one(std::int64_t top_k) {
  Polynomial out(static_cast<std::size_t>(top_k) + 1);
  out[0] = 1;
  return out;
}

/// How often each expert is chosen: its weight times that of all choices of one fewer among others.
std::vector<double> chosen(std::span<const double> weights, std::int64_t top_k) {
  std::vector<Polynomial> before{one(top_k)};
  for (const double weight : weights) {
    before.push_back(before.back());
    multiply(before.back(), {1, weight});
  }
  const double all = before.back().back();
  Polynomial after = one(top_k);
  std::vector<double> out(weights.size());
  for (std::size_t i = weights.size(); i-- > 0;) {
    double others = 0;
    for (std::size_t j = 0; j + 1 < after.size(); ++j) {
      others += before[i][j] * after[after.size() - 2 - j];
    }
    out[i] = weights[i] * others / all;
    multiply(after, {1, weights[i]});
  }
  return out;
}

/// A product of places: by number of experts chosen, then by number of places chosen from.
class Choices {
 public:
  Choices(std::size_t experts, std::size_t most_places)
      : places_(most_places + 1), weights_((experts + 1) * places_) {
    weights_[0] = 1;
  }
  double& at(std::size_t experts, std::size_t places) {
    return weights_[experts * places_ + places];
  }
  double at(std::size_t experts, std::size_t places) const {
    return weights_[experts * places_ + places];
  }
  std::size_t most_places() const { return places_ - 1; }

  /// Without a limit places are not counted.
  Choices times(const Polynomial& place) const {
    Choices out(place.size() - 1, most_places());
    out.weights_[0] = 0;
    const std::size_t one_more = places_ > 1 ? 1 : 0;
    for (std::size_t own = 0; own < place.size(); ++own) {
      const std::size_t more = own > 0 ? one_more : 0;
      for (std::size_t others = 0; others + own < place.size(); ++others) {
        for (std::size_t m = 0; m + more < places_; ++m) {
          out.at(others + own, m + more) += place[own] * at(others, m);
        }
      }
    }
    return out;
  }

 private:
  std::size_t places_;
  std::vector<double> weights_;
};

/// Of choices from m places: picks of `limit` of all places that contain them.
std::vector<double> picks(std::size_t limit, std::size_t places) {
  std::vector<double> out(limit + 1, 1.0);
  for (std::size_t m = limit; m-- > 0;) {
    // C(n - m, limit - m) = C(n - m - 1, limit - m - 1) * (n - m) / (limit - m)
    out[m] = out[m + 1] * static_cast<double>(places - m) / static_cast<double>(limit - m);
  }
  return out;
}

/// Of choices before and after a place, together of top_k experts.
double joined(const Choices& before, const Choices& after, std::size_t top_k,
              std::span<const double> picks_of) {
  double sum = 0;
  for (std::size_t experts = 0; experts <= top_k; ++experts) {
    for (std::size_t m = 0; m < picks_of.size(); ++m) {
      const double left = before.at(experts, m);
      if (left == 0) continue;
      for (std::size_t n = 0; m + n < picks_of.size(); ++n) {
        sum += left * after.at(top_k - experts, n) * picks_of[m + n];
      }
    }
  }
  return sum;
}

}  // namespace

std::vector<ExpertOdds> expert_odds(std::span<const double> demand) {
  std::vector<double> wanted;
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < demand.size(); ++i) {
    if (demand[i] <= 0 || demand[i] >= kAlways) continue;
    wanted.push_back(demand[i]);
    places.push_back(i);
  }
  std::vector<ExpertOdds> out(demand.size());
  for (std::size_t i = 0; i < demand.size(); ++i) {
    if (demand[i] >= kAlways) out[i] = {0, 1};
  }
  const double sum = std::accumulate(wanted.begin(), wanted.end(), 0.0);
  const auto top_k = static_cast<std::int64_t>(std::llround(sum));
  if (top_k == 0) return out;
  std::vector<double> weights;
  weights.reserve(wanted.size());
  for (const double share : wanted) weights.push_back(share / (1 - share));
  double error = 1;
  for (int round = 0; round < kRounds && error > kPrecision; ++round) {
    const std::vector<double> now = chosen(weights, top_k);
    error = 0;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      error = std::max(error, std::abs(wanted[i] - now[i]));
      weights[i] *= wanted[i] / now[i];
    }
  }
  for (std::size_t i = 0; i < weights.size(); ++i) out[places[i]] = {1, weights[i]};
  return out;
}

std::vector<double> visited_places(std::span<const ExpertOdds> odds, std::span<const double> kept,
                                   std::int64_t top_k, TokenPlaces places) {
  const auto each = static_cast<std::size_t>(places.experts_each);
  const std::size_t count = (odds.size() + each - 1) / each;
  const auto limit = static_cast<std::size_t>(places.limit);
  const bool limited = limit > 0 && limit < count;
  std::vector<Polynomial> all(count, one(top_k));
  std::vector<Polynomial> unseen = all;  // nothing chosen there, or nothing kept
  for (std::size_t i = 0; i < odds.size(); ++i) {
    multiply(all[i / each], odds[i]);
    multiply(unseen[i / each], {odds[i].without, odds[i].with * (1 - kept[i])});
  }
  const std::size_t most = limited ? limit : 0;
  const auto experts = static_cast<std::size_t>(top_k);
  std::vector<Choices> before{Choices(experts, most)};
  for (const Polynomial& place : all) before.push_back(before.back().times(place));
  const std::vector<double> picks_of = limited ? picks(limit, count) : std::vector<double>{1.0};
  const double whole = joined(before.back(), Choices(experts, most), experts, picks_of);
  if (limited && whole <= 0) return visited_places(odds, kept, top_k, {places.experts_each, 0});
  Choices after(experts, most);
  std::vector<double> visited(count);
  for (std::size_t place = count; place-- > 0;) {
    const double missed = joined(before[place].times(unseen[place]), after, experts, picks_of);
    visited[place] = 1 - missed / whole;
    after = after.times(all[place]);
  }
  return visited;
}

}  // namespace flopcast
