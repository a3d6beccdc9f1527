#include "kernels/attention_reference.h"

#include <cmath>

#include "kernels/random_value.h"
#include "kernels/small_float.h"

namespace flopcast {

double AttentionReference::element(AttentionArray array, std::int64_t batch, std::int64_t head,
                                   std::int64_t token, std::int64_t dim) const {
  const bool of_queries = array == AttentionArray::q || array == AttentionArray::gradient;
  const std::int64_t heads = of_queries ? attention_.heads : attention_.kv_heads;
  const std::int64_t index =
      ((batch * heads + head) * attention_.sequence + token) * attention_.head_dim + dim;
  return round_to_bf16(static_cast<double>(
      random_value(static_cast<std::uint64_t>(array), static_cast<std::uint64_t>(index))));
}

double AttentionReference::dot(std::int64_t batch, const TokenRow& a, const TokenRow& b) const {
  double sum = 0;
  for (std::int64_t d = 0; d < attention_.head_dim; ++d) {
    sum +=
        element(a.array, batch, a.head, a.token, d) * element(b.array, batch, b.head, b.token, d);
  }
  return sum;
}

std::vector<double> AttentionReference::probabilities(std::int64_t batch, std::int64_t head,
                                                      std::int64_t query) const {
  const double scale = 1 / std::sqrt(static_cast<double>(attention_.head_dim));
  std::vector<double> p(static_cast<std::size_t>(visible(query)));
  double sum = 0;
  for (std::size_t key = 0; key < p.size(); ++key) {
    // Scores are a few units at most: no shift is needed in double precision.
    p[key] =
        std::exp(scale * dot(batch, {AttentionArray::q, head, query},
                             {AttentionArray::k, kv_head(head), static_cast<std::int64_t>(key)}));
    sum += p[key];
  }
  for (double& one : p) one /= sum;
  return p;
}

std::vector<double> AttentionReference::output(std::int64_t batch, std::int64_t head,
                                               std::int64_t query) const {
  const std::vector<double> p = probabilities(batch, head, query);
  std::vector<double> o(static_cast<std::size_t>(attention_.head_dim));
  for (std::size_t key = 0; key < p.size(); ++key) {
    for (std::size_t d = 0; d < o.size(); ++d) {
      o[d] += p[key] * element(AttentionArray::v, batch, kv_head(head),
                               static_cast<std::int64_t>(key), static_cast<std::int64_t>(d));
    }
  }
  return o;
}

std::vector<double> AttentionReference::query_gradient(std::int64_t batch, std::int64_t head,
                                                       std::int64_t query) const {
  const double scale = 1 / std::sqrt(static_cast<double>(attention_.head_dim));
  const std::vector<double> p = probabilities(batch, head, query);
  const std::vector<double> o = output(batch, head, query);
  double along = 0;  // dO . O
  for (std::size_t d = 0; d < o.size(); ++d) {
    along +=
        o[d] * element(AttentionArray::gradient, batch, head, query, static_cast<std::int64_t>(d));
  }
  std::vector<double> dq(o.size());
  for (std::size_t at = 0; at < p.size(); ++at) {
    const auto key = static_cast<std::int64_t>(at);
    const double dp = dot(batch, {AttentionArray::gradient, head, query},
                          {AttentionArray::v, kv_head(head), key});
    const double ds = p[at] * (dp - along) * scale;
    for (std::size_t d = 0; d < dq.size(); ++d) {
      dq[d] +=
          ds * element(AttentionArray::k, batch, kv_head(head), key, static_cast<std::int64_t>(d));
    }
  }
  return dq;
}

}  // namespace flopcast
