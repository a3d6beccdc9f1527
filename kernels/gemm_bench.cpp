#include "kernels/gemm_bench.h"

#include <cublasLt.h>
#include <cublas_v2.h>
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "kernels/fill.h"
#include "kernels/gemm_reference.h"
#include "kernels/memory_bench.h"
#include "kernels/memory_check.h"
#include "sim/errors.h"

namespace flopcast {
namespace {

constexpr std::size_t kWorkspace = 64UL << 20;
constexpr std::int64_t kCheckedElements = 64;

void check_cublas(cublasStatus_t status, const char* call) {
  if (status != CUBLAS_STATUS_SUCCESS) {
    throw DeviceError(fmt::format("{}: {}", call, cublasGetStatusString(status)));
  }
}

cudaDataType_t cuda_type(ArrayType type) {
  switch (type) {
    case ArrayType::bf16: return CUDA_R_16BF;
    case ArrayType::fp16: return CUDA_R_16F;
    case ArrayType::fp32: return CUDA_R_32F;
    case ArrayType::fp8_e4m3: return CUDA_R_8F_E4M3;
    case ArrayType::fp8_e5m2: return CUDA_R_8F_E5M2;
    case ArrayType::int32: return CUDA_R_32I;
  }
  return CUDA_R_32F;
}

std::size_t storage(ArrayType type, std::int64_t count) {
  return static_cast<std::size_t>(element_size(type).value) * static_cast<std::size_t>(count);
}

// A matrix as cuBLAS sees it, by columns.
struct Matrix {
  cudaDataType_t type{};
  std::int64_t rows = 0;
  std::int64_t columns = 0;
};

// B' and A' of gemm_reference.h, in this order cuBLAS's A and B.
Matrix left(const GemmCase& gemm, const GemmLayout& layout) {
  return layout.b_transposed ? Matrix{cuda_type(layout.b_type), gemm.k, gemm.n}
                             : Matrix{cuda_type(layout.b_type), gemm.n, gemm.k};
}
Matrix right(const GemmCase& gemm, const GemmLayout& layout) {
  return layout.a_transposed ? Matrix{cuda_type(layout.a_type), gemm.m, gemm.k}
                             : Matrix{cuda_type(layout.a_type), gemm.k, gemm.m};
}
cublasOperation_t operation(bool transposed) { return transposed ? CUBLAS_OP_T : CUBLAS_OP_N; }

class LtLayout {
 public:
  explicit LtLayout(const Matrix& m) {
    check_cublas(cublasLtMatrixLayoutCreate(&layout_, m.type, static_cast<std::uint64_t>(m.rows),
                                            static_cast<std::uint64_t>(m.columns), m.rows),
                 "cublasLtMatrixLayoutCreate");
  }
  ~LtLayout() { cublasLtMatrixLayoutDestroy(layout_); }
  LtLayout(const LtLayout&) = delete;
  LtLayout& operator=(const LtLayout&) = delete;
  cublasLtMatrixLayout_t get() const { return layout_; }

 private:
  cublasLtMatrixLayout_t layout_ = nullptr;
};

class LtHandle {
 public:
  LtHandle() { check_cublas(cublasLtCreate(&handle_), "cublasLtCreate"); }
  ~LtHandle() { cublasLtDestroy(handle_); }
  LtHandle(const LtHandle&) = delete;
  LtHandle& operator=(const LtHandle&) = delete;
  cublasLtHandle_t get() const { return handle_; }

 private:
  cublasLtHandle_t handle_ = nullptr;
};

class LtOperation {
 public:
  LtOperation(const GemmCase& gemm, const GemmLayout& layout) {
    const cublasComputeType_t compute =
        gemm.type == DataType::tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    check_cublas(cublasLtMatmulDescCreate(&operation_, compute, CUDA_R_32F),
                 "cublasLtMatmulDescCreate");
    // cuBLAS's A is transposed where B is stored along k.
    set(CUBLASLT_MATMUL_DESC_TRANSA, operation(layout.b_transposed));
    set(CUBLASLT_MATMUL_DESC_TRANSB, operation(layout.a_transposed));
    // Transformer Engine: sums of lower precision in the forward pass alone.
    const bool fast = gemm.type == DataType::fp8 && gemm.pass == GemmPass::forward;
    if (fast) set(CUBLASLT_MATMUL_DESC_FAST_ACCUM, std::int8_t{1});
  }
  ~LtOperation() { cublasLtMatmulDescDestroy(operation_); }
  LtOperation(const LtOperation&) = delete;
  LtOperation& operator=(const LtOperation&) = delete;
  cublasLtMatmulDesc_t get() const { return operation_; }

 private:
  template <class T>
  void set(cublasLtMatmulDescAttributes_t attribute, T value) {
    check_cublas(cublasLtMatmulDescSetAttribute(operation_, attribute, &value, sizeof value),
                 "cublasLtMatmulDescSetAttribute");
  }
  cublasLtMatmulDesc_t operation_ = nullptr;
};

cublasLtMatmulAlgo_t first_suggestion(const LtHandle& handle, const LtOperation& operation,
                                      const LtLayout& a, const LtLayout& b, const LtLayout& c) {
  cublasLtMatmulPreference_t preference = nullptr;
  check_cublas(cublasLtMatmulPreferenceCreate(&preference), "cublasLtMatmulPreferenceCreate");
  cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                       &kWorkspace, sizeof kWorkspace);
  cublasLtMatmulHeuristicResult_t suggestion{};
  int found = 0;
  const cublasStatus_t status =
      cublasLtMatmulAlgoGetHeuristic(handle.get(), operation.get(), a.get(), b.get(), c.get(),
                                     c.get(), preference, 1, &suggestion, &found);
  cublasLtMatmulPreferenceDestroy(preference);
  check_cublas(status, "cublasLtMatmulAlgoGetHeuristic");
  if (found == 0) throw DeviceError("cublasLtMatmulAlgoGetHeuristic: no such GEMM on this GPU");
  return suggestion.algo;
}

}  // namespace

// What a call needs beside its operands. Abstract over the two interfaces.
struct GemmWork::Call {
  Call() = default;
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;
  virtual ~Call() = default;
  virtual void launch(const GemmWork& work) = 0;
};

namespace {

void upload(void* to, const void* from, std::size_t size) {
  check_cuda(cudaMemcpy(to, from, size, cudaMemcpyHostToDevice), "cudaMemcpy");
}

}  // namespace

// Through cuBLASLt.
struct GemmWork::LtCall final : Call {
  LtCall(const GemmCase& of, const GemmLayout& how)
      : operation(of, how),
        a(left(of, how)),
        b(right(of, how)),
        c({cuda_type(how.c_type), of.n, of.m}),
        algorithm(first_suggestion(handle, operation, a, b, c)),
        beta(how.accumulate ? 1.0F : 0.0F) {}
  void launch(const GemmWork& work) override {
    const float alpha = 1;
    check_cublas(cublasLtMatmul(handle.get(), operation.get(), &alpha, work.b_.as<void>(), a.get(),
                                work.a_.as<void>(), b.get(), &beta, work.c_.as<void>(), c.get(),
                                work.c_.as<void>(), c.get(), &algorithm, work.workspace_.as<void>(),
                                kWorkspace, work.stream_),
                 "cublasLtMatmul");
  }
  LtHandle handle;
  LtOperation operation;
  LtLayout a;
  LtLayout b;
  LtLayout c;
  cublasLtMatmulAlgo_t algorithm;
  float beta;
};

// One group of `groups` products of one shape.
struct GemmWork::GroupedCall final : Call {
  GroupedCall(const GemmWork& work, const GemmLayout& how)
      : layout(how),
        groups(static_cast<std::size_t>(work.gemm_.groups)),
        addresses(3 * groups * sizeof(void*)) {
    check_cublas(cublasCreate(&handle), "cublasCreate");
    check_cublas(cublasSetStream(handle, work.stream_), "cublasSetStream");
    const GemmCase& of = work.gemm_;
    std::vector<std::byte*> all;
    all.reserve(3 * groups);
    const auto add = [&](const DeviceMemory& memory, ArrayType type, std::int64_t size) {
      for (std::size_t g = 0; g < groups; ++g) {
        all.push_back(memory.as<std::byte>() + g * storage(type, size));
      }
    };
    add(work.b_, how.b_type, of.k * of.n);
    add(work.a_, how.a_type, of.m * of.k);
    add(work.c_, how.c_type, of.m * of.n);
    upload(addresses.as<void>(), all.data(), addresses.size());
  }
  ~GroupedCall() override { cublasDestroy(handle); }
  GroupedCall(const GroupedCall&) = delete;
  GroupedCall& operator=(const GroupedCall&) = delete;
  void launch(const GemmWork& work) override {
    const GemmCase& of = work.gemm_;
    const Matrix l = left(of, layout);
    const Matrix r = right(of, layout);
    const cublasOperation_t of_left = operation(layout.b_transposed);
    const cublasOperation_t of_right = operation(layout.a_transposed);
    const int m = static_cast<int>(of.n);
    const int n = static_cast<int>(of.m);
    const int k = static_cast<int>(of.k);
    const int left_rows = static_cast<int>(l.rows);
    const int right_rows = static_cast<int>(r.rows);
    const int size = static_cast<int>(groups);
    const float alpha = 1;
    const float beta = layout.accumulate ? 1 : 0;
    void* const* at = addresses.as<void*>();
    check_cublas(cublasGemmGroupedBatchedEx(handle, &of_left, &of_right, &m, &n, &k, &alpha, at,
                                            l.type, &left_rows, at + groups, r.type, &right_rows,
                                            &beta, at + 2 * groups, cuda_type(layout.c_type), &m, 1,
                                            &size, CUBLAS_COMPUTE_32F),
                 "cublasGemmGroupedBatchedEx");
  }
  GemmLayout layout;
  std::size_t groups;
  DeviceMemory addresses;
  cublasHandle_t handle = nullptr;
};

GemmWork::GemmWork(const GemmCase& gemm, cudaStream_t stream)
    : gemm_(gemm),
      stream_(stream),
      a_(storage(gemm_layout(gemm).a_type, gemm.groups * gemm.m * gemm.k)),
      b_(storage(gemm_layout(gemm).b_type, gemm.groups * gemm.k * gemm.n)),
      c_(storage(gemm_layout(gemm).c_type, gemm.groups * gemm.m * gemm.n)),
      workspace_(kWorkspace) {
  const GemmLayout layout = gemm_layout(gemm);
  fill_random(layout.a_type, kSeedA, gemm.groups * gemm.m * gemm.k, a_.as<void>(), stream);
  fill_random(layout.b_type, kSeedB, gemm.groups * gemm.k * gemm.n, b_.as<void>(), stream);
  fill_random(layout.c_type, kSeedC, gemm.groups * gemm.m * gemm.n, c_.as<void>(), stream);

  if (gemm.groups == 1) {
    call_ = std::make_unique<LtCall>(gemm, layout);
  } else {
    call_ = std::make_unique<GroupedCall>(*this, layout);
  }
}

GemmWork::~GemmWork() = default;

void GemmWork::launch() const { call_->launch(*this); }

// Corners first, then steps of a large prime through C.
double GemmWork::error_over_tolerance() const {
  const ArrayType type = gemm_layout(gemm_).c_type;
  const std::int64_t size = gemm_.m * gemm_.n;
  const std::size_t width = storage(type, 1);
  double worst = 0;
  for (std::int64_t i = 0; i < kCheckedElements; ++i) {
    const std::int64_t at = i == 1 ? size * gemm_.groups - 1 : i * 15485863 % (size * gemm_.groups);
    std::vector<std::byte> got(width);
    check_cuda(
        cudaMemcpyAsync(got.data(), c_.as<std::byte>() + static_cast<std::size_t>(at) * width,
                        width, cudaMemcpyDeviceToHost, stream_),
        "cudaMemcpyAsync");
    check_cuda(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
    const double expected = expected_element(gemm_, at / size, at % size / gemm_.n, at % gemm_.n);
    const double error =
        std::abs(decode(type, got).front() - expected) / gemm_tolerance(gemm_, expected);
    worst = std::isnan(error) ? std::numeric_limits<double>::infinity() : std::max(worst, error);
  }
  return worst;
}

Measurement measure_gemm(Bench& bench, const GemmCase& gemm, const StopRule& rule) {
  const GemmWork work(gemm, bench.stream());
  work.launch();
  const double error = work.error_over_tolerance();
  require_right(error, "GEMM");
  Measurement result = bench.time([&work] { work.launch(); }, rule);
  result.error_over_tolerance = error;
  return result;
}

std::string cublas_version() {
  const std::size_t code = cublasLtGetVersion();
  return fmt::format("{}.{}.{}", code / 10000, code / 100 % 100, code % 100);
}

}  // namespace flopcast
