#pragma once

// The door to cuDNN's graph interface: tensors and operations in, one launch out. Only for sources
// of this folder, and only where cuDNN is found.

#include <cudnn_graph.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "kernels/cuda_call.h"

namespace flopcast {

/// Throws DeviceError("<call>: <cuDNN's text>") unless it is success.
void check_cudnn(cudnnStatus_t status, const char* call);

/// A descriptor of cuDNN's, set up by attributes and then finalised.
class CudnnDescriptor {
 public:
  explicit CudnnDescriptor(cudnnBackendDescriptorType_t type);
  ~CudnnDescriptor();
  CudnnDescriptor(const CudnnDescriptor&) = delete;
  CudnnDescriptor& operator=(const CudnnDescriptor&) = delete;

  void set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::int64_t count,
           const void* values);
  void set(cudnnBackendAttributeName_t name, const CudnnDescriptor& other);
  void finalise(const char* what);
  cudnnBackendDescriptor_t get() const { return descriptor_; }

 private:
  cudnnBackendDescriptor_t descriptor_ = nullptr;
};

/// Four dimensions and their strides.
struct TensorShape {
  std::int64_t dims[4];
  std::int64_t strides[4];
};
/// Packed, the last dimension dense.
TensorShape packed(std::int64_t a, std::int64_t b, std::int64_t c, std::int64_t d);
/// The last two dimensions change places: the same memory, seen transposed.
TensorShape transposed(const TensorShape& shape);

/// A graph under construction, then its plan. Tensors live as long as the graph.
class CudnnGraph {
 public:
  using Tensor = const CudnnDescriptor*;

  explicit CudnnGraph(cudaStream_t stream);
  ~CudnnGraph();
  CudnnGraph(const CudnnGraph&) = delete;
  CudnnGraph& operator=(const CudnnGraph&) = delete;

  /// In device memory at `address`.
  Tensor memory(cudnnDataType_t type, const TensorShape& shape, void* address);
  /// Inside the fused kernel alone.
  Tensor inside(cudnnDataType_t type, const TensorShape& shape);
  /// One number, handed over with the launch.
  Tensor number(float value);

  void multiply(Tensor a, Tensor b, Tensor c);                              // matrices: c = a b
  void pointwise(cudnnPointwiseMode_t mode, Tensor x, Tensor b, Tensor y);  // b may be nothing
  void select(Tensor condition, Tensor x, Tensor otherwise, Tensor y);
  void index(int axis, Tensor like, Tensor y);
  void reduce(cudnnReduceTensorOp_t op, Tensor x, Tensor y);
  void reshape(Tensor x, Tensor y);

  /// Takes the first engine that cuDNN's heuristic suggests and that supports the graph. Throws
  /// DeviceError where there is none.
  void plan();
  void launch() const;

 private:
  void bind();  // the plan to its tensors' memory
  CudnnDescriptor& tensor(cudnnDataType_t type, const TensorShape& shape);
  CudnnDescriptor& operation(cudnnBackendDescriptorType_t type);

  cudnnHandle_t handle_ = nullptr;
  std::deque<CudnnDescriptor> kept_;  // tensors and parts of operations
  std::deque<CudnnDescriptor> operations_;
  std::deque<float> numbers_;
  std::vector<std::int64_t> ids_;  // of tensors with an address
  std::vector<void*> addresses_;
  std::int64_t next_id_ = 1;
  std::unique_ptr<CudnnDescriptor> graph_;
  std::unique_ptr<CudnnDescriptor> engine_;
  std::unique_ptr<CudnnDescriptor> plan_;
  std::unique_ptr<CudnnDescriptor> pack_;
  std::unique_ptr<DeviceMemory> workspace_;
};

}  // namespace flopcast
