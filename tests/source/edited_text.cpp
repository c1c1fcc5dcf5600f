#include "tests/source/edited_text.h"

#include "codegen/device_program.h"
#include "dsl/base/error.h"
#include "runtime/generated_check.h"
#include "tests/support/plan_builder.h"

namespace hetsynth::test {
namespace {

struct Example {
  const Program program = two_layers();
  const SpmdProgram plan = data_parallel(program);
  const DeviceProgram device = generate(program, plan, local_cluster(2), 0);
};

const Example& example() {
  static const Example example;
  return example;
}

}  // namespace

const std::string& text_to_edit() { return example().device.files.front().text; }

Verdict check_edited_text(std::string_view text) {
  RankSource source = rank_source(example().device);
  source.text = text;
  SourceOptions options = source_options();
  options.work_per_kernel = 1'000'000;
  const SourceCheck result = check_source(example().program, example().plan, source, options);
  HETSYNTH_CHECK(result.verdict == Verdict::proved || !result.summary.empty(), "an answer has a reason");
  return result.verdict;
}

}  // namespace hetsynth::test
