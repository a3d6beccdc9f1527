#include "scenarios/read_kernel_samples.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <fstream>

#include "sim/errors.h"

using Catch::Matchers::Contains;

namespace flopcast {
namespace {

namespace fs = std::filesystem;

/// A file with this text, removed at the end.
class TextFile {
 public:
  explicit TextFile(const std::string& text) {
    static int number = 0;
    path_ = fs::temp_directory_path() /
            ("flopcast-samples-" + std::to_string(getpid()) + "-" + std::to_string(number++));
    std::ofstream(path_) << text;
  }
  ~TextFile() { fs::remove(path_); }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

KernelSampleFiles read(const std::string& text, const SampleReading& reading = {}) {
  const TextFile file(text);
  const std::vector<fs::path> files{file.path()};
  return read_kernel_samples(files, reading);
}

}  // namespace

TEST_CASE("a table of GEMMs in the words of its source") {
  const KernelSampleFiles out = read(
      "# a comment\n"
      "framework,dtype,m,n,k,time_us,tflops\n"
      "trtllm 1.0,bfloat16,512,1024,2048,10,214\n"
      "vllm 0.1,bfloat16,512,1024,2048,9,238\n"
      "trtllm 1.0,int4,512,1024,2048,9,238\n"
      "trtllm 1.0,bfloat16,512,1024,4096,inf,0\n",
      {.where = {{"framework", "trtllm"}}, .assume = {{"quantise_bytes", "5"}}});
  REQUIRE(out.gpus.size() == 1);
  REQUIRE(out.gpus[0].gemm.size() == 1);
  const GemmSample& sample = out.gpus[0].gemm[0];
  CHECK(sample.type == DataType::bf16);
  CHECK(sample.shape.m == 512);
  CHECK(sample.shape.k == 2048);
  CHECK(sample.time.value == Approx(10e-6));
  CHECK(sample.quantise_traffic == bytes(5));
  CHECK(out.left_out.at("type int4") == 1);
  CHECK(out.left_out.at("no time") == 1);
}

TEST_CASE("attention, experts and memory kernels in one reading") {
  const KernelSampleFiles attention = read(
      "gpu,dtype,mask,batch,seq_q,seq_kv,heads,dim_qk,dim_v,window,pass,time_us\n"
      "NVIDIA H200,bfloat16,no_mask,2,4096,8192,32,192,128,,bwd,100\n"
      "NVIDIA H200,fp8,no_mask,2,4096,8192,32,192,128,,bwd,100\n");
  const AttentionSample& one = attention.gpus.at(0).attention.at(0);
  CHECK(attention.gpus[0].gpu == "NVIDIA H200");
  CHECK(one.pass == AttentionPass::backward);
  CHECK_FALSE(one.shape.causal);
  CHECK(one.shape.keys == 8192);
  CHECK(one.shape.v_dim == 128);
  CHECK(attention.left_out.size() == 1);

  const KernelSampleFiles norms =
      read("gpu,op,rows,cols,fwd_us,bwd_us,fwd_gbps,bwd_gbps\nx,rms_norm,8,8,10,20,1000,900\n");
  REQUIRE(norms.gpus.at(0).memory.size() == 2);
  CHECK(norms.gpus[0].memory[0].moved.value == Approx(1000e9 * 10e-6));
  CHECK(norms.gpus[0].memory[1].kernel == MemoryKernel::norm_backward);

  const KernelSampleFiles experts = read(
      "dtype,num_tokens,hidden_size,inter_size,topk,num_experts,moe_tp,moe_ep,distribution,time_"
      "us\n"
      "bfloat16,1024,4096,14336,2,8,1,4,balanced,500\n"
      "bfloat16,1024,4096,14336,2,8,1,4,power_law_1.2,500\n");
  REQUIRE(experts.gpus.at(0).experts.size() == 1);
  CHECK(experts.gpus[0].experts[0].shape.ep == 4);
}

TEST_CASE("a record of samples: kernels alone are taken") {
  const std::string line =
      R"("type":"bf16","pass":"wgrad","m":512,"n":512,"k":512,"groups":1,"moved_bytes":1,)"
      R"("median_us":12.5,"time_us":[12,13],"throttled":[0,0]})";
  const KernelSampleFiles out = read(
      "{\"flopcast_samples\":1,\"gpu\":\"NVIDIA H100\"}\n"
      "{\"case\":\"a\",\"op\":\"gemm\"," +
      line +
      "\n"
      "{\"case\":\"b\",\"op\":\"gemm\",\"beside_op\":\"all_reduce\"," +
      line +
      "\n"
      R"({"case":"c","op":"adam","rows":1,"columns":2,"moved_bytes":2e9,"median_us":1000})"
      "\n"
      R"({"case":"d","op":"launch","kernels":100,"median_us":200})"
      "\n");
  REQUIRE(out.gpus.size() == 1);
  CHECK(out.gpus[0].gpu == "NVIDIA H100");
  REQUIRE(out.gpus[0].gemm.size() == 1);
  CHECK(out.gpus[0].gemm[0].time.value == Approx(12.5e-6));
  CHECK(out.gpus[0].gemm[0].shape.result_traffic == bytes(8));
  REQUIRE(out.gpus[0].memory.size() == 1);
  CHECK(out.gpus[0].memory[0].kernel == MemoryKernel::optimizer);
  CHECK(out.left_out.at("no kernel alone") == 2);
}

TEST_CASE("a record of repeated kernels: the runs that were not throttled") {
  const std::string head = "{\"flopcast_samples\":1,\"gpu\":\"NVIDIA H100\"}\n";
  const KernelSampleFiles out = read(
      head +
      R"({"case":"op=gemm m=512 repeated=1","op":"gemm","type":"bf16","m":512,"n":512,"k":512,"repeated":1,)"
      R"("median_us":10,"time_us":[10,10.5,20,9.5],"throttled":[0,null,1,0]})"
      "\n"
      R"({"case":"hot","op":"rope","rows":4,"repeated":1,"median_us":10,"time_us":[10,11],"throttled":[1,1]})"
      "\n"
      R"({"case":"sum","op":"all_reduce","ranks_per_node":8,"nodes":1,"repeated":1,"median_us":10,"time_us":[1,2]})"
      "\n");
  REQUIRE(out.gpus.size() == 1);
  CHECK(out.gpus[0].gemm.empty());
  REQUIRE(out.gpus[0].repeated.size() == 2);
  const RepeatedSample& one = out.gpus[0].repeated[0];
  CHECK(one.kernel == "op=gemm m=512 repeated=1");
  REQUIRE(one.times.size() == 3);
  CHECK(one.times[1].value == Approx(10.5e-6));
  CHECK(one.times[2].value == Approx(9.5e-6));
  CHECK(out.gpus[0].repeated[1].times.size() == 2);
  CHECK(out.left_out.at("a collective: --system fits those alone") == 1);
  CHECK_THROWS_WITH(
      read(head + R"({"case":"a","op":"rope","repeated":1,"median_us":10,"time_us":[10,0]})"),
      Contains(":2:1: time_us: expected times above 0"));
}

TEST_CASE("a record of kernels beside collectives: each with its time alone") {
  const KernelSampleFiles out = read(
      "{\"flopcast_samples\":1,\"gpu\":\"NVIDIA H100\"}\n"
      R"({"case":"op=gemm m=8","op":"gemm","m":8,"n":8,"k":8,"median_us":95})"
      "\n"
      R"({"case":"op=gemm m=8 repeated=1","op":"gemm","m":8,"n":8,"k":8,"repeated":1,"median_us":90,"time_us":[90,90]})"
      "\n"
      R"({"case":"op=gemm m=8 beside_op=all_reduce beside_nodes=2","op":"gemm","m":8,"n":8,"k":8,)"
      R"("beside_op":"all_reduce","beside_ranks_per_node":8,"beside_nodes":2,"median_us":100})"
      "\n"
      R"({"case":"op=rope rows=8 beside_op=all_reduce","op":"rope","beside_op":"all_reduce",)"
      R"("beside_ranks_per_node":8,"beside_nodes":1,"median_us":100})"
      "\n"
      R"({"case":"op=all_reduce beside_op=gemm","op":"all_reduce","ranks_per_node":8,"beside_op":"gemm","median_us":5})"
      "\n");
  REQUIRE(out.gpus.at(0).beside.size() == 1);
  const BesideSample& one = out.gpus[0].beside[0];
  CHECK(one.across_domains);
  CHECK(one.alone.value == Approx(90e-6));  // warm and back to back, as beside the collective
  CHECK(one.beside.value == Approx(100e-6));
  CHECK(out.left_out.at("beside a collective, not timed alone") == 1);
  CHECK(out.left_out.at("a collective: --system fits those alone") == 1);
}

TEST_CASE("prefill tables say what the copy into their cache moves") {
  const KernelSampleFiles out = read(
      "batch,heads,seqlen,head_dim,time_us,cache_bytes\n"
      "1,32,4096,128,100,8e6\n"
      "1,32,4096,128,100,0\n");
  REQUIRE(out.gpus.at(0).attention.size() == 2);
  CHECK(out.gpus[0].attention[0].cached == megabytes(8));
  CHECK(out.gpus[0].attention[1].cached == bytes(0));
}

TEST_CASE("a trace of PyTorch's profiler: operators of known shape, with their kernels' time") {
  const std::string head =
      R"({"schemaVersion":1,"deviceProperties":[{"id":0,"name":"NVIDIA A100"}],"traceEvents":[)";
  const KernelSampleFiles out = read(
      head +
      R"({"ph":"X","cat":"cpu_op","name":"aten::addmm","ts":1,"dur":9,"args":{"External id":5,)"
      R"("Input Dims":[[768],[1024,512],[512,768],[],[]],"Input type":["c10::Half","c10::Half","c10::Half","Scalar",""]}},)"
      R"({"ph":"X","cat":"kernel","name":"gemm","ts":2,"dur":30.5,"args":{"External id":5}},)"
      R"({"ph":"X","cat":"kernel","name":"splitKreduce","ts":3,"dur":1.5,"args":{"External id":5}},)"
      R"({"ph":"X","cat":"cpu_op","name":"aten::_flash_attention_backward","ts":1,"dur":9,"args":{"External id":6,)"
      R"("Input Dims":[[2,1024,16,64],[2,1024,16,64],[2,2048,4,64]],"Input type":["c10::BFloat16"]}},)"
      R"({"ph":"X","cat":"kernel","name":"bwd","ts":3,"dur":80,"args":{"External id":6}},)"
      R"({"ph":"X","cat":"cpu_op","name":"aten::relu","ts":1,"dur":9,"args":{"External id":7,"Input Dims":[[4]]}},)"
      R"({"ph":"M","name":"process_name"}]})");
  REQUIRE(out.gpus.size() == 1);
  CHECK(out.gpus[0].gpu == "NVIDIA A100");
  REQUIRE(out.gpus[0].gemm.size() == 1);
  const GemmSample& gemm = out.gpus[0].gemm[0];
  CHECK(gemm.type == DataType::fp16);
  CHECK(gemm.shape.m == 1024);
  CHECK(gemm.shape.n == 768);
  CHECK(gemm.shape.k == 512);
  CHECK(gemm.time.value == Approx(32e-6));
  REQUIRE(out.gpus[0].attention.size() == 1);
  CHECK(out.gpus[0].attention[0].pass == AttentionPass::backward);
  CHECK(out.gpus[0].attention[0].shape.keys == 2048);
  CHECK_THROWS_WITH(read(head + "{\"ph\":\"M\"}]}"), Contains("record_shapes=True"));
}

TEST_CASE("what is wrong in a table is named with its place") {
  struct Case {
    std::string text;
    std::string message;
  };
  const auto item = GENERATE(values<Case>({
      {"m,n,k,time_us\n512,512,5x2,10\n", ":2:9: k: expected a number above 0, found \"5x2\""},
      {"m,n,k,time_us\n\n512,512,0,10\n", ":3:9: k: expected a number above 0"},
      {"m,n,k,time_us\n512.5,512,5,10\n", ":2:1: m: expected a whole number above 0"},
      {"m,n,k,time_us\n512,512,5\n", ":2:1: expected 4 fields as in the header, found 3"},
      {"m,n,k,time\n512,512,5,7\n", ":2:1: no \"time_us or median_us\"; did you mean \"time\"?"},
      {"a,b\n1,2\n", ":2:1: a table of no known kind"},
  }));
  CHECK_THROWS_WITH(read(item.text), Contains(item.message));
}

}  // namespace flopcast
