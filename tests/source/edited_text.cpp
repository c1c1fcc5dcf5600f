#include "tests/source/edited_text.h"

#include "codegen/interface/device_program.h"
#include "dsl/base/error.h"
#include "runtime/training/generated_check.h"
#include "tests/support/plan_builder.h"

namespace hetsynth::test {
namespace {

struct Example {
  explicit Example(DeviceKind kind) {
    Cluster cluster = local_cluster(2);
    for (Device& device : cluster.devices) {
      device.kind = kind;
      if (kind == DeviceKind::cuda) device.architecture = "sm_80";
    }
    source = rank_source(generate(program, plan, cluster, 0));
  }
  const Program program = two_layers();
  const SpmdProgram plan = data_parallel(program);
  RankSource source;
};

const Example& for_cpu() {
  static const Example example(DeviceKind::cpu);
  return example;
}

const Example& for_cuda() {
  static const Example example(DeviceKind::cuda);
  return example;
}

bool has(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

}  // namespace

const std::vector<std::string>& texts_to_edit() {
  static const std::vector<std::string> texts{for_cpu().source.text, for_cuda().source.text, for_cuda().source.kernels};
  return texts;
}

Verdict check_edited_text(std::string_view text) {
  const bool kernels = has(text, "__global__");
  const Example& example = kernels || has(text, "hetsynth_launch(") ? for_cuda() : for_cpu();
  RankSource source = example.source;
  (kernels ? source.kernels : source.text) = text;
  SourceOptions options = source_options();
  options.work_per_kernel = 1'000'000;
  const SourceCheck result = check_source(example.program, example.plan, source, options);
  HETSYNTH_CHECK(result.verdict == Verdict::proved || !result.summary.empty(), "an answer has a reason");
  return result.verdict;
}

}  // namespace hetsynth::test
