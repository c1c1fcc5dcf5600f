// Training through the interface beside `hetsynth run`: the same model, data, seed and cluster give the same losses,
// bit for bit, whoever hands over the samples.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "api/impl.h"
#include "hetsynth/api.h"
#include "hetsynth/hetsynth.h"
#include "runtime/data/batch_source.h"
#include "runtime/rank/host_tensor.h"
#include "tests/api/fixture.h"

namespace hetsynth::testing {
namespace {

using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr int steps = 4;

/// The samples of a step as the command's data have them, by input.
struct StepSamples {
  std::map<std::string, std::vector<float>> floats;
  std::map<std::string, std::vector<int32_t>> integers;

  api::Batch batch() const {
    api::Batch out;
    for (const auto& [name, values] : floats) out.set(name, values);
    for (const auto& [name, values] : integers) out.set(name, values);
    return out;
  }
};

std::unique_ptr<BatchSource> data_of_run(const Program& reference) {
  DataOptions options;
  options.seed = 5;
  return open_data(reference, options);
}

/// Asks a source for every micro-batch and turn of a step, one behind the other.
StepSamples samples_of(const Program& reference, const BatchSource& data, int64_t step) {
  StepSamples out;
  for (const Node& node : reference.nodes) {
    if (node.kind != NodeKind::input) continue;
    HostTensor part(node.type);
    std::vector<Range> all;
    for (const int64_t extent : node.type.shape) all.push_back({0, extent});
    data.fill(node, all, step, part.bytes);
    if (node.type.dtype == DType::i32) {
      std::vector<int32_t>& values = out.integers[data_name(node)];
      values.insert(values.end(), part.as<int32_t>().begin(), part.as<int32_t>().end());
    } else {
      std::vector<float>& values = out.floats[data_name(node)];
      values.insert(values.end(), part.as<float>().begin(), part.as<float>().end());
    }
  }
  return out;
}

class EmbeddedTraining : public ApiTest {
 protected:
  /// The losses of `hetsynth run`, as its log has them.
  std::vector<double> losses_of_run(const std::string& options) {
    const Outcome run = place.run("run model.cpp --cluster c.toml --seed 5 --log-json log.json " + options);
    EXPECT_EQ(run.code, 0) << run.err;
    std::vector<double> out;
    std::istringstream lines(place.read("log.json"));
    for (std::string line; std::getline(lines, line);)
      if (const auto record = nlohmann::json::parse(line); record.contains("loss")) out.push_back(record["loss"]);
    return out;
  }

  /// The losses of a training to which the program hands over what the command's data would be.
  std::vector<double> losses_of_own_data(const api::Settings& settings) {
    const api::Plan plan = api::plan(model(settings), cluster());
    api::Training training(plan, {.seed = 5});
    const Program& reference = plan.impl()->compilation.reference;
    const std::unique_ptr<BatchSource> data = data_of_run(reference);
    std::vector<double> out;
    for (int64_t step = 0; step < steps; ++step)
      out.push_back(training.step(samples_of(reference, *data, step).batch()).loss);
    return out;
  }
};

TEST_F(EmbeddedTraining, HasTheLossesOfTheCommand) {
  const std::vector<double> expected = losses_of_run("--steps 4");
  ASSERT_THAT(expected, SizeIs(steps));
  const api::Plan plan = this->plan();
  api::Training training(plan, {.seed = 5});
  std::vector<double> found;
  for (int i = 0; i < steps; ++i) found.push_back(training.step().loss);
  EXPECT_EQ(found, expected);
  EXPECT_EQ(losses_of_own_data({}), expected) << "with data of the program";
}

TEST_F(EmbeddedTraining, TakesMicroBatchesAndTurnsOneBehindTheOther) {
  EXPECT_EQ(losses_of_own_data({{"micro_batches", "3"}}), losses_of_run("--steps 4 --accumulate 3"));
  place.write("log.json", "");
  EXPECT_EQ(losses_of_own_data({{"turns", "2"}}), losses_of_run("--steps 4 --turns 2"));
}

/// The same network as the file model.cpp, with variables named as there.
void small_model_of_program() {
  const int64_t batch = option("batch", 12, "samples per step");
  auto [x, labels] = synthetic_batch(batch, 6, 3);
  const Tensor w1 = parameter("w1", {6, 16}, normal(0.3));
  const Tensor h = relu(matmul(x, w1));
  const Tensor w2 = parameter("w2", {16, 3}, normal(0.3));
  minimize(cross_entropy(matmul(h, w2), labels), SGD{.learning_rate = 0.1});
}

TEST_F(EmbeddedTraining, OfAFunctionIsThatOfTheFile) {
  const std::vector<double> expected = losses_of_run("--steps 4 --batch 24");
  const api::Model own = api::Model::from_function(small_model_of_program, {{"batch", "24"}});
  ASSERT_THAT(own.inputs(), SizeIs(2));
  EXPECT_THAT(own.inputs()[0].shape, ElementsAreArray({24, 6}));
  EXPECT_TRUE(own.inputs()[1].integer);
  ASSERT_THAT(own.parameters(), SizeIs(2));
  api::Training training(api::plan(own, cluster()), {.seed = 5});
  std::vector<double> found;
  for (int i = 0; i < steps; ++i) found.push_back(training.step().loss);
  EXPECT_EQ(found, expected);
}

/// A source says what is asked for; samples are numbered through the run, and go on where a checkpoint stood.
TEST_F(EmbeddedTraining, AsksASourceForTheSamplesOfTheRun) {
  std::vector<std::string> asked;
  const api::SampleSource source = [&](const api::SampleRequest& request) {
    asked.push_back(request.input + " " + std::to_string(request.first) + " " + std::to_string(request.count));
    for (size_t i = 0; i < request.floats.size(); ++i)
      request.floats[i] = float((request.first * 6 + int64_t(i)) % 17) / 17;
    for (size_t i = 0; i < request.integers.size(); ++i) request.integers[i] = int32_t(request.first + int64_t(i)) % 3;
  };
  const api::Plan plan = this->plan();
  api::Training training(plan, {.seed = 5});
  const std::string x = model().inputs()[0].name, labels = model().inputs()[1].name;
  training.step(source);
  training.step(source);
  EXPECT_THAT(asked, ElementsAreArray({x + " 0 12", labels + " 0 12", x + " 12 12", labels + " 12 12"}));
  training.save(path("point"));
  const double next = training.step(source).loss;

  asked.clear();
  api::Training other(plan, {.seed = 99});
  other.load(path("point"));
  EXPECT_EQ(other.next_step(), 2);
  EXPECT_EQ(other.step(source).loss, next);
  EXPECT_THAT(asked, ElementsAreArray({x + " 24 12", labels + " 24 12"}));
}

/// The same samples as of a source that is asked when the step begins; asked for a step ahead, on another thread.
TEST_F(EmbeddedTraining, AsksASourceOfItsOwnBesideTheStepBefore) {
  std::mutex mutex;
  std::vector<std::string> asked;
  std::set<std::thread::id> threads;
  int64_t broken = -1;
  const api::SampleSource source = [&](const api::SampleRequest& request) {
    const std::lock_guard lock(mutex);
    asked.push_back(request.input + " " + std::to_string(request.first));
    threads.insert(std::this_thread::get_id());
    if (request.first == broken) throw std::runtime_error("the sensor is gone");
    for (size_t i = 0; i < request.floats.size(); ++i)
      request.floats[i] = float((request.first * 6 + int64_t(i)) % 17) / 17;
    for (size_t i = 0; i < request.integers.size(); ++i) request.integers[i] = int32_t(request.first + int64_t(i)) % 3;
  };
  const api::Plan plan = this->plan();
  std::vector<double> expected, found;
  {
    api::Training training(plan, {.seed = 5});
    for (int i = 0; i < steps; ++i) expected.push_back(training.step(source).loss);
  }
  asked.clear();
  {
    api::Training training(plan, {.seed = 5, .source = source});
    for (int i = 0; i < steps; ++i) found.push_back(training.step().loss);
    training.save(path("point"));
  }
  EXPECT_EQ(found, expected);
  EXPECT_THAT(asked, SizeIs(2 * (steps + 1))) << "each input once a step, and for one step more than were taken";
  EXPECT_GT(threads.size(), 1u);

  asked.clear();
  {
    api::Training other(plan, {.seed = 5, .source = source});
    other.step();
    other.load(path("point"));
    other.step();
    EXPECT_EQ(asked.at(4), model().inputs()[0].name + " 48") << "after those of the first two steps";
    broken = 12 * 6;
    other.step();
    EXPECT_THROW(other.step(), std::runtime_error) << "in the step that needs it";
    broken = -1;
    EXPECT_EQ(other.step().step, 6) << "and the training is as it was";
  }
  EXPECT_THAT(error_of([&] { api::Training(plan, {.data = "c.toml", .source = source}); }), HasSubstr("two places"));
}

/// As `hetsynth evaluate` measures it, on data of the command and of the program, and training is not disturbed.
TEST_F(EmbeddedTraining, MeasuresTheLossOnOtherData) {
  place.write("model.cpp", everywhere(small_model, "Tensor loss",
                                      "h = dropout(h, 0.5); metric(\"half\", mean(h)); "
                                      "Tensor loss"));
  const api::Plan plan = this->plan();
  std::vector<double> expected;
  {
    api::Training training(plan, {.seed = 5});
    for (int i = 0; i < steps; ++i) expected.push_back(training.step().loss);
  }
  api::Training training(plan, {.seed = 5});
  std::vector<double> found;
  for (int i = 0; i < 2; ++i) found.push_back(training.step().loss);
  const api::EvaluationResult measured = training.evaluate("synthetic", 3);
  training.save(path("point"));
  const Outcome command = place.run("evaluate model.cpp point --cluster c.toml --data synthetic --batches 3 --json");
  ASSERT_EQ(command.code, 0) << command.err;
  const auto told = nlohmann::json::parse(command.out);
  EXPECT_EQ(measured.loss, told.at("loss"));
  EXPECT_EQ(measured.metrics.at("half"), told.at("metrics").at("half"));
  EXPECT_EQ(measured.samples, 36);
  EXPECT_EQ(measured.batches, 3);
  // The same samples, handed over by the program.
  const Program& reference = plan.impl()->compilation.reference;
  const std::unique_ptr<BatchSource> data = data_of_run(reference);
  const api::SampleSource source = [&](const api::SampleRequest& request) {
    const StepSamples samples = samples_of(reference, *data, request.first / request.count);
    if (!request.floats.empty()) std::ranges::copy(samples.floats.at(request.input), request.floats.begin());
    if (!request.integers.empty()) std::ranges::copy(samples.integers.at(request.input), request.integers.begin());
  };
  EXPECT_EQ(training.evaluate(source, 3).loss, measured.loss);
  EXPECT_THAT(error_of([&] { training.evaluate(source, 0); }), HasSubstr("how many batches"));
  EXPECT_THAT(error_of([&] { training.evaluate(path("absent.npz")); }), HasSubstr("absent.npz"));
  for (int i = 2; i < steps; ++i) found.push_back(training.step().loss);
  EXPECT_EQ(found, expected);
  EXPECT_NE(training.evaluate(source, 3).loss, measured.loss) << "of the parameters as they are now";
}

TEST_F(EmbeddedTraining, SharesCheckpointsWithTheCommand) {
  const api::Plan plan = this->plan();
  api::Training training(plan, {.seed = 5});
  training.step();
  training.step();
  training.save(path("point"));
  EXPECT_THAT(losses_of_run("--steps 4"), ::testing::Contains(training.step().loss));
  place.write("log.json", "");
  const Outcome resumed =
      place.run("run model.cpp --cluster c.toml --steps 1 --resume point --checkpoint later --log-json log.json");
  EXPECT_EQ(resumed.code, 0) << resumed.err;
  training.load(path("later"));
  EXPECT_EQ(training.next_step(), 3);
}

TEST_F(EmbeddedTraining, ReadsAndSetsTensors) {
  const api::Plan plan = this->plan();
  api::Training training(plan, {.seed = 5});
  const api::TensorValues before = training.tensor("w1");
  EXPECT_THAT(before.info.shape, ElementsAreArray({6, 16}));
  ASSERT_THAT(before.floats, SizeIs(96));
  const double first = training.step().loss;
  EXPECT_NE(training.tensor("w1").floats, before.floats);
  EXPECT_THAT(error_of([&] { training.tensor("w3"); }), HasSubstr("no parameter, state or output \"w3\""));
  EXPECT_THAT(error_of([&] { training.set_tensor("w1", std::vector<float>(95)); }), HasSubstr("96 values of float32"));

  api::Training again(plan, {.seed = 6});
  again.set_tensor("w1", before.floats);
  again.set_tensor("w2", api::Training(plan, {.seed = 5}).tensor("w2").floats);
  const std::unique_ptr<BatchSource> data = data_of_run(plan.impl()->compilation.reference);
  EXPECT_EQ(again.step(samples_of(plan.impl()->compilation.reference, *data, 0).batch()).loss, first);
}

/// As a metric would tell it: what the parameter was in the step, beside what the step made of it.
TEST_F(EmbeddedTraining, ReadsOutputsAsTheyWereInTheStep) {
  place.write("model.cpp", everywhere(small_model, "Tensor h =", "output(\"kept\", w1); Tensor h ="));
  api::Training training(plan(), {.seed = 5});
  const std::vector<float> before = training.tensor("w1").floats;
  training.step();
  EXPECT_EQ(training.tensor("kept").floats, before);
  EXPECT_NE(training.tensor("w1").floats, before);
}

TEST_F(EmbeddedTraining, RefusesDataThatDoNotFitAndGoesOn) {
  const api::Plan plan = this->plan();
  api::Training training(plan, {.seed = 5});
  const Program& reference = plan.impl()->compilation.reference;
  const std::unique_ptr<BatchSource> data = data_of_run(reference);
  const StepSamples right = samples_of(reference, *data, 0);
  const std::string x = model().inputs()[0].name, labels = model().inputs()[1].name;

  const auto refusal = [&](StepSamples samples) { return error_of([&] { training.step(samples.batch()); }); };
  StepSamples wrong = right;
  wrong.floats.erase(x);
  EXPECT_THAT(refusal(wrong), HasSubstr("input " + x + " has no values in the batch of the program"));
  wrong = right;
  wrong.floats[x].pop_back();
  EXPECT_THAT(refusal(wrong), ::testing::AllOf(HasSubstr("expected: 72 values of float32"),
                                               HasSubstr("found:    71 values of float32")));
  wrong = right;
  wrong.floats["y"] = {};
  EXPECT_THAT(refusal(wrong), HasSubstr("the model has no input \"y\""));
  wrong = right;
  wrong.integers[labels][7] = 3;
  EXPECT_THAT(refusal(wrong), ::testing::AllOf(HasSubstr("sample 7 of the run is no input for " + labels),
                                               HasSubstr("indices from 0 to 2")));
  wrong = right;
  wrong.floats[x][3] = NAN;
  EXPECT_THAT(refusal(wrong), HasSubstr("finite numbers"));
  wrong = right;
  wrong.floats[labels] = std::vector<float>(12);
  EXPECT_THAT(refusal(wrong), HasSubstr("found:    12 values of float32"));

  EXPECT_EQ(training.next_step(), 0);
  EXPECT_EQ(training.step(right.batch()).loss, losses_of_run("--steps 1").front());
}

}  // namespace
}  // namespace hetsynth::testing
