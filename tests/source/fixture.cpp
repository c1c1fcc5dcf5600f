#include "tests/source/fixture.h"

#include <gtest/gtest.h>

#include "codegen/cpu/step_text.h"
#include "codegen/passes/lower.h"
#include "dsl/transform/differentiate.h"
#include "hetsynth/hetsynth.h"
#include "tests/codegen/harness.h"

namespace hetsynth::test {

Generated generated(Program reference, SpmdProgram plan, const Cluster& cluster, bool attention_in_blocks) {
  Generated out{std::move(reference), std::move(plan), {}};
  for (int rank = 0; rank < out.plan.mesh.device_count(); ++rank) {
    const codegen::Lowered lowered =
        codegen::lower(out.reference, out.plan, rank, {.fuse_attention = attention_in_blocks});
    out.devices.push_back(codegen::describe(lowered, cluster));
    out.devices.back().files.push_back({"rank" + std::to_string(rank) + ".cpp", codegen::cpu_source(lowered, cluster)});
  }
  return out;
}

Program attention_program(int64_t queries, int64_t keys, bool causal, int64_t features, const std::string& precision) {
  Trace trace("attention.cpp");
  run_builder(trace, [&] {
    mixed_precision(precision);
    Tensor q = parameter("q", {1, queries, 2, features}, normal(1));
    Tensor k = parameter("k", {1, keys, 2, features}, normal(1)), v = parameter("v", {1, keys, 2, features}, normal(1));
    Tensor scores = einsum("bthd,bshd->bhts", q, k);
    if (causal) scores = causal_mask(scores);
    Tensor mixed = einsum("bhts,bshd->bthd", dropout(softmax(scores, -1), 0.1), v);
    minimize(sum(mixed * mixed), SGD{.learning_rate = 0.5, .momentum = 0});
  });
  return differentiate(trace);
}

SourceCheck check(const Generated& g, int rank) { return check(g, rank, g.devices[size_t(rank)].files.front().text); }

SourceCheck check(const Generated& g, int rank, const std::string& text) {
  RankSource source = rank_source(g.devices[size_t(rank)]);
  source.text = text;
  SourceOptions options = source_options();
  return check_source(g.reference, g.plan, source, options);
}

SourceCheck check_kernels(const Generated& g, int rank, const std::string& kernels) {
  RankSource source = rank_source(g.devices[size_t(rank)]);
  source.kernels = kernels;
  return check_source(g.reference, g.plan, source, source_options());
}

Cluster cuda_devices(const std::vector<double>& speeds) {
  Cluster cluster = unequal_cluster(speeds);
  for (Device& device : cluster.devices) {
    device.kind = DeviceKind::cuda;
    device.architecture = "sm_80";
  }
  return cluster;
}

Generated generated_for_cuda(const Program& program, const SpmdProgram& plan, const Cluster& cluster) {
  Generated out{program, plan, {}};
  for (int rank = 0; rank < plan.mesh.device_count(); ++rank)
    out.devices.push_back(generate(out.reference, out.plan, cluster, rank));
  return out;
}

std::string replaced(const std::string& text, const std::string& after, const std::string& from,
                     const std::string& to) {
  const size_t begin = text.find(after), at = text.find(from, begin);
  EXPECT_TRUE(begin != std::string::npos && at != std::string::npos) << "not in the text: " << from << "\n" << text;
  if (begin == std::string::npos || at == std::string::npos) return text;
  return text.substr(0, at) + to + text.substr(at + from.size());
}

std::string edited(const std::string& text, const std::string& from, const std::string& to) {
  size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << "not in the text: " << from;
  if (at == std::string::npos) return text;
  EXPECT_EQ(text.find(from, at + 1), std::string::npos) << "more than once in the text: " << from;
  return text.substr(0, at) + to + text.substr(at + from.size());
}

}  // namespace hetsynth::test
