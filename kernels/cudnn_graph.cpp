#include "kernels/cudnn_graph.h"

#include <fmt/core.h>

#include <algorithm>

#include "sim/errors.h"

namespace flopcast {

void check_cudnn(cudnnStatus_t status, const char* call) {
  if (status != CUDNN_STATUS_SUCCESS) {
    throw DeviceError(fmt::format("{}: {}", call, cudnnGetErrorString(status)));
  }
}

CudnnDescriptor::CudnnDescriptor(cudnnBackendDescriptorType_t type) {
  check_cudnn(cudnnBackendCreateDescriptor(type, &descriptor_), "cudnnBackendCreateDescriptor");
}

CudnnDescriptor::~CudnnDescriptor() { cudnnBackendDestroyDescriptor(descriptor_); }

void CudnnDescriptor::set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                          std::int64_t count, const void* values) {
  check_cudnn(cudnnBackendSetAttribute(descriptor_, name, type, count, values),
              "cudnnBackendSetAttribute");
}

void CudnnDescriptor::set(cudnnBackendAttributeName_t name, const CudnnDescriptor& other) {
  const cudnnBackendDescriptor_t raw = other.get();
  set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &raw);
}

void CudnnDescriptor::finalise(const char* what) {
  check_cudnn(cudnnBackendFinalize(descriptor_), what);
}

TensorShape packed(std::int64_t a, std::int64_t b, std::int64_t c, std::int64_t d) {
  return {{a, b, c, d}, {b * c * d, c * d, d, 1}};
}

TensorShape transposed(const TensorShape& shape) {
  TensorShape other = shape;
  std::swap(other.dims[2], other.dims[3]);
  std::swap(other.strides[2], other.strides[3]);
  return other;
}

CudnnGraph::CudnnGraph(cudaStream_t stream) {
  check_cudnn(cudnnCreate(&handle_), "cudnnCreate");
  check_cudnn(cudnnSetStream(handle_, stream), "cudnnSetStream");
}

// Descriptors of the plan refer to the handle.
CudnnGraph::~CudnnGraph() {
  pack_.reset();
  plan_.reset();
  engine_.reset();
  graph_.reset();
  cudnnDestroy(handle_);
}

CudnnDescriptor& CudnnGraph::tensor(cudnnDataType_t type, const TensorShape& shape) {
  CudnnDescriptor& made = kept_.emplace_back(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  const std::int64_t alignment = 16;  // bytes; of our memory 256
  const std::int64_t id = next_id_++;
  made.set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
  made.set(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, &shape.dims[0]);
  made.set(CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, &shape.strides[0]);
  made.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment);
  made.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &id);
  return made;
}

CudnnGraph::Tensor CudnnGraph::memory(cudnnDataType_t type, const TensorShape& shape,
                                      void* address) {
  ids_.push_back(next_id_);
  addresses_.push_back(address);
  CudnnDescriptor& made = tensor(type, shape);
  made.finalise("cudnnBackendFinalize of a tensor");
  return &made;
}

CudnnGraph::Tensor CudnnGraph::inside(cudnnDataType_t type, const TensorShape& shape) {
  CudnnDescriptor& made = tensor(type, shape);
  const bool is_virtual = true;
  made.set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &is_virtual);
  made.finalise("cudnnBackendFinalize of a tensor");
  return &made;
}

CudnnGraph::Tensor CudnnGraph::number(float value) {
  ids_.push_back(next_id_);
  addresses_.push_back(&numbers_.emplace_back(value));
  CudnnDescriptor& made = tensor(CUDNN_DATA_FLOAT, packed(1, 1, 1, 1));
  const bool by_value = true;
  made.set(CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, &by_value);
  made.finalise("cudnnBackendFinalize of a tensor");
  return &made;
}

CudnnDescriptor& CudnnGraph::operation(cudnnBackendDescriptorType_t type) {
  return operations_.emplace_back(type);
}

void CudnnGraph::multiply(Tensor a, Tensor b, Tensor c) {
  const cudnnDataType_t precision = CUDNN_DATA_FLOAT;
  CudnnDescriptor& how = kept_.emplace_back(CUDNN_BACKEND_MATMUL_DESCRIPTOR);
  how.set(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &precision);
  how.finalise("cudnnBackendFinalize of a matmul");
  CudnnDescriptor& made = operation(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
  made.set(CUDNN_ATTR_OPERATION_MATMUL_ADESC, *a);
  made.set(CUDNN_ATTR_OPERATION_MATMUL_BDESC, *b);
  made.set(CUDNN_ATTR_OPERATION_MATMUL_CDESC, *c);
  made.set(CUDNN_ATTR_OPERATION_MATMUL_DESC, how);
  made.finalise("cudnnBackendFinalize of a matmul");
}

namespace {

void describe_pointwise(CudnnDescriptor& how, cudnnPointwiseMode_t mode,
                        cudnnDataType_t precision) {
  how.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
  how.set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &precision);
}

}  // namespace

void CudnnGraph::pointwise(cudnnPointwiseMode_t mode, Tensor x, Tensor b, Tensor y) {
  CudnnDescriptor& how = kept_.emplace_back(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  const bool compares = mode == CUDNN_POINTWISE_CMP_GE;
  describe_pointwise(how, mode, compares ? CUDNN_DATA_BOOLEAN : CUDNN_DATA_FLOAT);
  how.finalise("cudnnBackendFinalize of a pointwise operation");
  CudnnDescriptor& made = operation(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  made.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, how);
  made.set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, *x);
  if (b != nullptr) made.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, *b);
  made.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, *y);
  made.finalise("cudnnBackendFinalize of a pointwise operation");
}

void CudnnGraph::select(Tensor condition, Tensor x, Tensor otherwise, Tensor y) {
  CudnnDescriptor& how = kept_.emplace_back(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  describe_pointwise(how, CUDNN_POINTWISE_BINARY_SELECT, CUDNN_DATA_FLOAT);
  how.finalise("cudnnBackendFinalize of a selection");
  CudnnDescriptor& made = operation(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  made.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, how);
  made.set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, *x);
  made.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, *otherwise);
  made.set(CUDNN_ATTR_OPERATION_POINTWISE_TDESC, *condition);
  made.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, *y);
  made.finalise("cudnnBackendFinalize of a selection");
}

void CudnnGraph::index(int axis, Tensor like, Tensor y) {
  const std::int64_t along = axis;
  CudnnDescriptor& how = kept_.emplace_back(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  describe_pointwise(how, CUDNN_POINTWISE_GEN_INDEX, CUDNN_DATA_INT32);
  how.set(CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, 1, &along);
  how.finalise("cudnnBackendFinalize of an index");
  CudnnDescriptor& made = operation(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  made.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, how);
  made.set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, *like);
  made.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, *y);
  made.finalise("cudnnBackendFinalize of an index");
}

void CudnnGraph::reduce(cudnnReduceTensorOp_t op, Tensor x, Tensor y) {
  const cudnnDataType_t precision = CUDNN_DATA_FLOAT;
  CudnnDescriptor& how = kept_.emplace_back(CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
  how.set(CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, &op);
  how.set(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &precision);
  how.finalise("cudnnBackendFinalize of a reduction");
  CudnnDescriptor& made = operation(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
  made.set(CUDNN_ATTR_OPERATION_REDUCTION_DESC, how);
  made.set(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, *x);
  made.set(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, *y);
  made.finalise("cudnnBackendFinalize of a reduction");
}

void CudnnGraph::reshape(Tensor x, Tensor y) {
  CudnnDescriptor& made = operation(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
  made.set(CUDNN_ATTR_OPERATION_RESHAPE_XDESC, *x);
  made.set(CUDNN_ATTR_OPERATION_RESHAPE_YDESC, *y);
  made.finalise("cudnnBackendFinalize of a reshape");
}

void CudnnGraph::plan() {
  std::vector<cudnnBackendDescriptor_t> raw;
  raw.reserve(operations_.size());
  for (const CudnnDescriptor& one : operations_) raw.push_back(one.get());
  graph_ = std::make_unique<CudnnDescriptor>(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  graph_->set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle_);
  graph_->set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
              static_cast<std::int64_t>(raw.size()), raw.data());
  graph_->finalise("cudnnBackendFinalize of the graph");

  CudnnDescriptor heuristic(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  const cudnnBackendHeurMode_t mode = CUDNN_HEUR_MODE_A;
  heuristic.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, *graph_);
  heuristic.set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
  heuristic.finalise("cudnnBackendFinalize of the heuristic");
  std::int64_t suggestions = 0;
  check_cudnn(cudnnBackendGetAttribute(heuristic.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                       CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, &suggestions, nullptr),
              "cudnnBackendGetAttribute(ENGINEHEUR_RESULTS)");
  // cuDNN fills descriptors that are there already, in the order of its preference.
  std::deque<CudnnDescriptor> engines;
  std::vector<cudnnBackendDescriptor_t> raw_engines;
  raw_engines.reserve(static_cast<std::size_t>(suggestions));
  for (std::int64_t i = 0; i < suggestions; ++i) {
    raw_engines.push_back(engines.emplace_back(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR).get());
  }
  std::int64_t filled = 0;
  check_cudnn(cudnnBackendGetAttribute(heuristic.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                       CUDNN_TYPE_BACKEND_DESCRIPTOR, suggestions, &filled,
                                       raw_engines.data()),
              "cudnnBackendGetAttribute(ENGINEHEUR_RESULTS)");
  for (std::int64_t i = 0; i < filled && !plan_; ++i) {
    auto plan = std::make_unique<CudnnDescriptor>(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    plan->set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle_);
    plan->set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, engines[static_cast<std::size_t>(i)]);
    if (cudnnBackendFinalize(plan->get()) == CUDNN_STATUS_SUCCESS) plan_ = std::move(plan);
  }
  if (!plan_) throw DeviceError("cudnnBackendFinalize: no engine runs this graph on this GPU");
  bind();
}

void CudnnGraph::bind() {
  std::int64_t size = 0;
  std::int64_t count = 0;
  check_cudnn(cudnnBackendGetAttribute(plan_->get(), CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                       CUDNN_TYPE_INT64, 1, &count, &size),
              "cudnnBackendGetAttribute(WORKSPACE_SIZE)");
  workspace_ =
      std::make_unique<DeviceMemory>(static_cast<std::size_t>(std::max<std::int64_t>(size, 16)));
  void* workspace = workspace_->as<void>();
  pack_ = std::make_unique<CudnnDescriptor>(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  const auto tensors = static_cast<std::int64_t>(ids_.size());
  pack_->set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, tensors, ids_.data());
  pack_->set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, tensors,
             addresses_.data());
  pack_->set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace);
  pack_->finalise("cudnnBackendFinalize of the variant pack");
}

void CudnnGraph::launch() const {
  check_cudnn(cudnnBackendExecute(handle_, plan_->get(), pack_->get()), "cudnnBackendExecute");
}

}  // namespace flopcast
