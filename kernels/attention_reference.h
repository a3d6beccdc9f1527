#pragma once

// Attention on the host, a row at a time: what the fused kernels are checked against. Only for
// sources of this folder.

#include <cstdint>
#include <vector>

#include "kernels/measurement_case.h"

namespace flopcast {

/// Arrays by their seed of random_value; all are bf16, [batch, heads, sequence, head_dim].
enum class AttentionArray : std::uint8_t { q = 10, k, v, gradient };

/// One head's scores, outputs and gradients:
///   P = softmax(Q K^T / sqrt(d)), causal: of keys up to the query's place; O = P V
///   dV = P^T dO; dP = dO V^T; dS = P * (dP - rowsum(dO * O)); dQ = dS K / sqrt(d); dK = dS^T Q /
///   sqrt(d). Keys and values serve heads / kv_heads query heads, whose dK and dV add up.
class AttentionReference {
 public:
  explicit AttentionReference(const AttentionCase& attention) : attention_(attention) {}

  /// head_dim values each, of one query of one query head.
  std::vector<double> output(std::int64_t batch, std::int64_t head, std::int64_t query) const;
  std::vector<double> query_gradient(std::int64_t batch, std::int64_t head,
                                     std::int64_t query) const;

  /// Element of an array as it lies in memory.
  double element(AttentionArray array, std::int64_t batch, std::int64_t head, std::int64_t token,
                 std::int64_t dim) const;

 private:
  std::int64_t kv_head(std::int64_t head) const {
    return head / (attention_.heads / attention_.kv_heads);
  }
  std::int64_t visible(std::int64_t query) const {
    return attention_.causal ? query + 1 : attention_.sequence;
  }
  std::vector<double> probabilities(std::int64_t batch, std::int64_t head,
                                    std::int64_t query) const;
  /// Of one token's rows in two arrays.
  struct TokenRow {
    AttentionArray array;
    std::int64_t head;
    std::int64_t token;
  };
  double dot(std::int64_t batch, const TokenRow& a, const TokenRow& b) const;

  AttentionCase attention_;
};

}  // namespace flopcast
