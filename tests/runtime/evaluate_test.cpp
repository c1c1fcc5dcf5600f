// The loss of a model that is being trained, by a program of its own that takes over its parameters.
#include "runtime/training/evaluate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <numeric>

#include "dsl/ir/interpreter.h"
#include "runtime/launch.h"
#include "runtime/processes/placement.h"
#include "tests/runtime/models.h"
#include "tests/runtime/plans.h"
#include "tests/runtime/process_runs.h"
#include "tests/runtime/temporary_folder.h"
#include "tests/support/error_of.h"
#include "verify/migration.h"

namespace hetsynth {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using namespace testing;  // NOLINT: fixtures of this folder
using testing_support::DoubleProcesses;

struct Case {
  const char* name;
  Program (*training)();
  Program (*evaluation)();
  bool text;
};

std::unique_ptr<BatchSource> data_of(const Program& program, bool text, const TemporaryFolder& folder, uint64_t seed) {
  if (!text) return open_data(program, {"", seed});
  std::string words;
  for (int i = 0; i < 400; ++i) words += char('a' + i * i % 23);
  folder.write("words.txt", words);
  return open_data(program, {folder.path("words.txt"), seed});
}

/// Parameters go from some division of the work to another one, whose ranks may run on other devices.
Migration between(const Program& training, const Plan& from, const Program& evaluation, const Plan& to) {
  std::vector<int> was(size_t(to.program.mesh.device_count()), -1);
  std::iota(was.begin(), was.begin() + std::min<long>(std::ssize(was), from.program.mesh.device_count()), 0);
  const SpmdProgram old_program = renumbered(from.program, training, evaluation);
  Migration out =
      migration_between(evaluation, old_program, to.program, was,
                        std::vector<int>(size_t(from.program.mesh.device_count())), std::vector<int>(was.size()));
  EXPECT_EQ(flaw_of_migration(evaluation, old_program, to.program, out), "");
  return out;
}

/// The mean of the batches' losses, by the interpreter in float64, with what training has now.
double expected_loss(const Program& evaluation, const Executor& training, const BatchSource& data, int64_t batches) {
  std::map<std::string, NodeId> nodes;
  for (const Node& node : training.reference().nodes)
    if (is_kept(node)) nodes[node.name] = node.id;
  double sum = 0;
  for (int64_t batch = 0; batch < batches; ++batch) {
    Bindings leaves = whole_batch(evaluation, data, batch);
    for (const Node& node : evaluation.nodes)
      if (is_kept(node)) leaves[node.id] = to_array(training.read(nodes.at(node.name)));
    sum += interpret(evaluation, leaves, {})[size_t(evaluation.loss)].values[0];
  }
  return sum / double(batches);
}

class Evaluate : public ::testing::TestWithParam<Case> {};

TEST_P(Evaluate, IsTheLossOfTheModelAsItIsTrainedAtThatMoment) {
  const Program training = GetParam().training(), evaluation = GetParam().evaluation();
  const TemporaryFolder folder;
  const auto seen = data_of(training, GetParam().text, folder, 3),
             other = data_of(evaluation, GetParam().text, folder, 9);
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Cluster three = cpu_cluster({1, 2, 4}),
                  few = cpu_cluster(seed % 2 ? std::vector<double>{3, 1} : std::vector<double>{1});
    const Plan plan = random_plan(training, three, {0.2, 0.5, 0.3}, seed);
    const Plan evaluated =
        random_plan(evaluation, few, seed % 2 ? std::vector<double>{0.6, 0.4} : std::vector<double>{1}, seed);
    const LaunchOptions launching{.executor = {.seed = 3, .threads = {1, false}}, .optimization = 0};
    const auto trained = launch(training, plan.program, three, launching);
    const auto executor = launch(evaluation, evaluated.program, few, launching);
    const Migration migration = between(training, plan, evaluation, evaluated);
    for (int64_t step = 0; step < 4; step += 2) {
      trained->step(step, *seen);
      trained->step(step + 1, *seen);
      executor->take_from(*trained, migration);
      const Evaluation found = evaluate(*executor, *other, 3);
      EXPECT_EQ(found.batches, 3);
      EXPECT_EQ(found.samples, 3 * evaluation.nodes[0].type.shape[0]);
      EXPECT_TRUE(found.complete);
      // Sums of some hundred float32 numbers, a few layers deep: 1e-5 leaves a factor of ten.
      EXPECT_NEAR(found.loss, expected_loss(evaluation, *trained, *other, 3), 1e-5 * found.loss);
      EXPECT_EQ(evaluate(*executor, *other, 3).loss, found.loss) << "the same data give the same bits";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Evaluate,
                         ::testing::Values(Case{"gpt", small_gpt, small_gpt_evaluation, true},
                                           Case{"cnn", small_cnn, small_cnn_evaluation, false}),
                         [](const auto& info) { return info.param.name; });

TEST(EvaluateInProcesses, IsTheSameAsInOne) {
  const Program training = small_gpt(), evaluation = small_gpt_evaluation();
  const TemporaryFolder folder;
  const auto data = data_of(training, true, folder, 3), other = data_of(evaluation, true, folder, 9);
  const Cluster three = cpu_cluster({1, 2, 4});
  const Plan plan = random_plan(training, three, {0.2, 0.5, 0.3}, 5);
  const Plan evaluated = random_plan(evaluation, three, {0.4, 0.4, 0.2}, 6);
  const auto losses = [&](Job* job) {
    LaunchOptions launching{.executor = {.seed = 3, .threads = {1, false}}, .optimization = 0};
    if (job) {
      launching.executor.job = job;
      launching.executor.process_of = place_ranks(three, 3);
    }
    const auto trained = launch(training, plan.program, three, launching);
    const auto executor = launch(evaluation, evaluated.program, three, launching);
    std::vector<double> out;
    for (int64_t step = 0; step < 3; ++step) {
      out.push_back(trained->step(step, *data).loss);
      executor->take_from(*trained, between(training, plan, evaluation, evaluated));
      out.push_back(evaluate(*executor, *other, 2).loss);
    }
    return out;
  };
  const std::vector<double> alone = losses(nullptr);
  DoubleProcesses network({"a", "a", "b"});
  std::vector<std::vector<double>> found(3);
  const std::vector<std::string> errors =
      in_processes(network, 3, {}, [&](Job& job) { found[size_t(job.process())] = losses(&job); });
  EXPECT_EQ(errors, std::vector<std::string>(3));
  for (const std::vector<double>& one : found) EXPECT_EQ(one, alone);
}

TEST(BatchesToEvaluate, AreWholeOnesOfTheData) {
  const Program evaluation = small_gpt_evaluation();
  const TemporaryFolder folder;
  const auto data = data_of(evaluation, true, folder, 1);
  const int64_t there = steps_of_epoch(evaluation, *data).value();
  EXPECT_GT(there, 2);
  EXPECT_EQ(batches_to_evaluate(evaluation, *data, 0), there);
  EXPECT_EQ(batches_to_evaluate(evaluation, *data, 2), 2);
  EXPECT_EQ(batches_to_evaluate(evaluation, *data, there + 1), there);
  const Program made_up = small_cnn_evaluation();
  EXPECT_EQ(batches_to_evaluate(made_up, *open_data(made_up, {"", 1}), 0), 16);
  EXPECT_EQ(batches_to_evaluate(made_up, *open_data(made_up, {"", 1}), 99), 99);
  folder.write("short.txt", "short text");
  const auto few = open_data(evaluation, {folder.path("short.txt"), 1});
  EXPECT_THAT(error_of([&] { batches_to_evaluate(evaluation, *few, 0); }),
              AllOf(HasSubstr("less samples than one batch"), HasSubstr("5 samples at least"), HasSubstr("--batch")));
}

}  // namespace
}  // namespace hetsynth
