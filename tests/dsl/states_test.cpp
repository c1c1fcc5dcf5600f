// What a model keeps, tells and draws besides its parameters: states, metrics, random tensors, constants.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>

#include "dsl/transform/differentiate.h"
#include "dsl/transform/turns.h"
#include "tests/dsl/evaluation.h"

namespace hetsynth {
namespace {

using ::testing::AllOf;
using ::testing::DoubleNear;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pointwise;
using Settings = std::map<std::string, std::string>;

Program program_of(const std::function<void()>& builder, const Settings& settings = {}) {
  Trace trace("model.cpp", settings);
  run_builder(trace, builder);
  return differentiate(trace);
}

/// Values of all nodes by name in the steps of a run; inputs are sin(element + 10 step), labels count up.
struct TrainingRun {
  TrainingRun(const Program& program, int steps) : program(program), leaves(initial_values(program, 7)) {
    for (int step = 0; step < steps; ++step) {
      for (const Node& node : program.nodes) {
        if (node.kind != NodeKind::input) continue;
        Array array(node.type.shape);
        const int64_t first = node.micro_batch.first_sample * element_count(node.type.shape) / sample_count(node);
        for (size_t i = 0; i < array.values.size(); ++i) {
          const double at = double(first) + double(i);
          array.values[i] =
              node.type.dtype == DType::i32 ? std::fmod(at, double(node.data.classes)) : std::sin(at + 10 * step);
        }
        leaves[node.id] = array;
      }
      values = interpret(program, leaves, {3, step});
      for (const Update& update : program.updates) leaves[update.target] = values[size_t(update.value)];
    }
  }
  Values leaf(const std::string& name) const {
    for (const Node& node : program.nodes)
      if (node.name == name) return leaves.at(node.id).values;
    ADD_FAILURE() << "no leaf " << name;
    return {};
  }
  double metric(const std::string& name) const {
    for (const NamedOutput& output : program.outputs)
      if (output.name == name && output.metric) return values[size_t(output.node)].values[0];
    ADD_FAILURE() << "no metric " << name;
    return 0;
  }
  const Program& program;
  Bindings leaves;
  std::vector<Array> values;  ///< of the last step
};

/// A classifier with an average of its weights and a count of steps, and what a user wants to know of it.
void classifier(int64_t batch) {
  auto [x, labels] = synthetic_batch(batch, 3, 4);
  Tensor w = parameter("w", {3, 4}, normal(0.5));
  Tensor average = state("average", w), steps = state("steps", {}, zeros());
  update(average, 0.75 * average + 0.25 * w);
  update(steps, steps + 1.0);
  Tensor logits = matmul(x, w);
  metric("accuracy", mean(argmax(logits, -1) == labels));
  metric("squares", {sum(square(logits)), sum(full({batch}, 2.0))});
  minimize(cross_entropy(logits, labels), SGD{.learning_rate = 0.5, .momentum = 0});
}

TEST(States, FollowWhatTheyAreUpdatedWith) {
  const Program program = program_of([] { classifier(4); });
  Values average = TrainingRun(program, 0).leaf("w");
  EXPECT_EQ(TrainingRun(program, 0).leaf("average"), average) << "it starts with the numbers of the parameter";
  EXPECT_THAT(average, ::testing::Contains(::testing::Ne(0)));
  for (int steps = 0; steps < 3; ++steps) {
    const Values w = TrainingRun(program, steps).leaf("w");
    for (size_t i = 0; i < w.size(); ++i) average[i] = 0.75 * average[i] + 0.25 * w[i];
    EXPECT_THAT(TrainingRun(program, steps + 1).leaf("average"), Pointwise(DoubleNear(exact), average));
    EXPECT_THAT(TrainingRun(program, steps + 1).leaf("steps"), ElementsAre(steps + 1));
  }
}

TEST(States, GetNoGradient) {
  const Program program = program_of([] {
    Tensor w = parameter("w", {3}, ones()), target = state("target", {3}, ones());
    Tensor loss = sum(square(w - target));
    update(target, 0.5 * target);
    minimize(loss, SGD{.learning_rate = 0.25, .momentum = 0});
  });
  // w - 0.25 * 2 (w - target), while the target is halved in every step.
  EXPECT_THAT(TrainingRun(program, 1).leaf("w"), Each(1));
  EXPECT_THAT(TrainingRun(program, 2).leaf("w"), Each(0.75));
  EXPECT_THAT(TrainingRun(program, 2).leaf("target"), Each(0.25));
}

TEST(States, GoOnFromMicroBatchToMicroBatch) {
  const Program program = program_of([] { classifier(2); }, {{"micro_batches", "3"}});
  EXPECT_THAT(TrainingRun(program, 2).leaf("steps"), ElementsAre(6));
  EXPECT_EQ(program.updates.size(), 3u) << "one of each state, and of w";
}

TEST(Metrics, AreMeansOverTheStepAsTheLossIs) {
  const Program large = program_of([] { classifier(6); });
  const TrainingRun whole(large, 1);
  const Program small = program_of([] { classifier(2); }, {{"micro_batches", "3"}});
  const TrainingRun parts(small, 1);
  for (const char* name : {"accuracy", "squares"}) EXPECT_NEAR(whole.metric(name), parts.metric(name), exact) << name;
  EXPECT_GE(whole.metric("accuracy"), 0);
  EXPECT_LE(whole.metric("accuracy"), 1);
}

TEST(Metrics, AreThoseOfTheStepInTurns) {
  const Program whole = program_of([] { classifier(6); });
  const Turns turns = take_turns(whole, {.turns = 3});
  ASSERT_TRUE(turns.program) << turns.refusal.why;
  Bindings leaves = TrainingRun(whole, 0).leaves;
  const TrainingRun one(whole, 1);
  std::map<std::string, Array> by_name;
  for (const auto& [node, value] : TrainingRun(whole, 1).leaves)
    if (whole[node].kind == NodeKind::input) by_name[whole[node].name] = value;
  Bindings of_turns = initial_values(*turns.program, 7);
  for (const Node& node : turns.program->nodes)
    if (node.kind == NodeKind::input) {
      of_turns[node.id] = by_name.at(node.name);
      of_turns[node.id].shape = node.type.shape;
    }
  const std::vector<Array> values = interpret(*turns.program, of_turns, {3, 0});
  int metrics = 0;
  for (const NamedOutput& output : turns.program->outputs) {
    if (!output.metric) continue;
    ++metrics;
    EXPECT_NEAR(values[size_t(output.node)].values[0], one.metric(output.name), exact) << output.name;
  }
  EXPECT_EQ(metrics, 2);
}

TEST(Metrics, AreReadByNameLikeOutputs) {
  const Program accuracy = restrict_to_output(program_of([] { classifier(4); }), "accuracy");
  EXPECT_TRUE(accuracy.outputs.at(0).metric);
  EXPECT_EQ(accuracy.loss, -1);
}

class StateErrors : public ::testing::Test {
 protected:
  Trace trace{"model.cpp"};
  Tensor w = parameter("w", {3}, zeros());
};

TEST_F(StateErrors, SayWhatAStateIs) {
  Tensor s = state("s", {3}, zeros());
  EXPECT_THAT(error_of([&] { state("", {3}, zeros()); }), HasSubstr("[state] a state needs a name"));
  EXPECT_THAT(error_of([&] { state("t", w * 2.0); }),
              AllOf(HasSubstr("states_test.cpp"), HasSubstr("[state] there is nothing that t could start as"),
                    HasSubstr("a parameter"), HasSubstr("state(\"t\", x.shape(), zeros())")));
  EXPECT_THAT(error_of([&] { update(w, w); }),
              AllOf(HasSubstr("[update] w is no state of the model's own"), HasSubstr("what state(name, ...) gave"),
                    HasSubstr("minimize() changes parameters")));
  EXPECT_THAT(error_of([&] { update(s, sum(w)); }), AllOf(HasSubstr("[update] the new value of s has another shape"),
                                                          HasSubstr("f32[3]"), HasSubstr("f32[]")));
  EXPECT_THAT(error_of([&] { update(s, to_int(w)); }), HasSubstr("the new value of s has another type"));
  EXPECT_THAT(error_of([&] { update(s, Tensor()); }), HasSubstr("a default-constructed Tensor"));
  update(s, w);
  EXPECT_THAT(error_of([&] { update(s, w); }),
              AllOf(HasSubstr("[update] s is updated a second time"), HasSubstr("update once")));
  EXPECT_THAT(error_of([&] { state("s", {3}, zeros()); }),
              AllOf(HasSubstr("[state] a second parameter or state is called s"), HasSubstr("call state() once")));
  EXPECT_THAT(error_of([&] { state("w", w); }), HasSubstr("[state] a second parameter or state is called w"));
}

TEST_F(StateErrors, InAScan) {
  Tensor s = state("s", {2, 3}, zeros());
  EXPECT_THAT(error_of([&] {
                scan_steps(4, {full({2, 3}, 0.0)}, [&](const std::vector<Tensor>& before, const std::vector<Tensor>&) {
                  Tensor h = before[0] + w;
                  update(s, h);
                  return ScanStep{{h}, h};
                });
              }),
              AllOf(HasSubstr("[update] a state cannot change from one step of a scan to the next"),
                    HasSubstr("let the scan carry a state")));
}

TEST_F(StateErrors, OfMetrics) {
  EXPECT_THAT(error_of([&] { metric("norm", w); }), AllOf(HasSubstr("[metric] a metric must be a scalar"),
                                                          HasSubstr("f32[3]"), HasSubstr("take the mean of it")));
  EXPECT_THAT(error_of([&] { metric("", sum(w)); }), HasSubstr("[metric] a metric needs a name"));
  metric("norm", sum(w));
  EXPECT_THAT(error_of([&] { metric("norm", sum(w)); }),
              HasSubstr("[metric] there are two metrics or outputs named norm"));
  EXPECT_THAT(error_of([&] { output("norm", w); }), HasSubstr("[output] there are two outputs named norm"));
}

TEST(RandomTensors, HaveTheirDistributionAndChangeFromStepToStep) {
  Evaluation value;
  Tensor normal = random_normal({200, 50}), uniform = random_uniform({100, 100}, -1, 3);
  const Values first = value(normal, {5, 0}), second = value(normal, {5, 1});
  EXPECT_EQ(first, value(normal, {5, 0}));
  EXPECT_NE(first, second);
  double sum = 0, squares = 0, fourth = 0;
  for (double v : first) sum += v, squares += v * v, fourth += v * v * v * v;
  // Of 10,000 draws: a mean is off by 0.01, a variance by 0.014, a fourth moment by 0.1 (one standard deviation).
  EXPECT_NEAR(sum / 1e4, 0, 0.05);
  EXPECT_NEAR(squares / 1e4, 1, 0.07);
  EXPECT_NEAR(fourth / 1e4, 3, 0.5);
  double total = 0;
  for (double v : value(uniform, {5, 0})) {
    EXPECT_GE(v, -1);
    EXPECT_LT(v, 3);
    total += v;
  }
  EXPECT_NEAR(total / 1e4, 1, 0.06);
  EXPECT_NE(value(random_normal({4}), {5, 0}), value(random_normal({4}), {5, 0})) << "every call draws its own";
}

TEST(RandomTensors, AreDrawnInTurnsAsInTheStep) {
  const Program whole = program_of([] {
    auto [x, labels] = synthetic_batch(6, 3, 2);
    Tensor noisy = x + random_normal(x.shape()) * parameter("w", {3}, ones());
    minimize(mean(square(noisy - one_hot(labels, 3))), SGD{.learning_rate = 0.1, .momentum = 0});
  });
  const Turns turns = take_turns(whole, {.turns = 3});
  ASSERT_TRUE(turns.program) << turns.refusal.why;
  const TrainingRun one(whole, 1);
  Bindings leaves = initial_values(*turns.program, 7);
  for (const Node& node : turns.program->nodes)
    for (const Node& same : whole.nodes)
      if (node.kind == NodeKind::input && same.kind == NodeKind::input && same.name == node.name) {
        leaves[node.id] = one.leaves.at(same.id);
        leaves[node.id].shape = node.type.shape;
      }
  const std::vector<Array> values = interpret(*turns.program, leaves, {3, 0});
  EXPECT_NEAR(values[size_t(turns.program->loss)].values[0], one.values[size_t(whole.loss)].values[0], exact);
}

TEST(RandomTensors, WrongBoundsAreTold) {
  Trace trace("model.cpp");
  EXPECT_THAT(
      error_of([] { random_uniform({3}, 2, 2); }),
      AllOf(HasSubstr("states_test.cpp"), HasSubstr("[random_uniform] there is no number to draw between these"),
            HasSubstr("low < high"), HasSubstr("low 2 and high 2"), HasSubstr("full(shape, value)")));
  EXPECT_THAT(error_of([] { random_normal({3, 0}); }), HasSubstr("[random_normal] the result has an impossible shape"));
}

/// A file of NumPy, version 1.
void write_npy(const std::string& path, const std::string& descr, const std::string& shape, const void* data,
               size_t bytes) {
  std::string header = "{'descr': '" + descr + "', 'fortran_order': False, 'shape': " + shape + ", }\n";
  std::ofstream out(path, std::ios::binary);
  out << std::string("\x93NUMPY\x01\x00", 8) << char(header.size() % 256) << char(header.size() / 256) << header;
  out.write(static_cast<const char*>(data), std::streamsize(bytes));
}

class Constants : public ::testing::Test {
 protected:
  Constants() {
    std::filesystem::create_directories(folder);
    trace = std::make_unique<Trace>(folder + "/model.cpp");
  }
  ~Constants() override { std::filesystem::remove_all(folder); }
  Values value(Tensor t) {
    return interpret(trace->program, initial_values(trace->program, 0), {})[size_t(t.node())].values;
  }

  const std::string folder = ::testing::TempDir() + "/hetsynth_constants_" + std::to_string(::getpid());
  std::unique_ptr<Trace> trace;
};

TEST_F(Constants, OfListsAndVectors) {
  Tensor index = constant({2, 0, 1}), table = constant({{0.5, 1}, {-2, 3}}), shaped = constant({1, 2, 3, 4.0}, {2, 2});
  EXPECT_EQ(index.dtype(), DType::i32);
  EXPECT_EQ(index.shape(), (Dims{3}));
  EXPECT_THAT(value(index), ElementsAre(2, 0, 1));
  EXPECT_EQ(table.dtype(), DType::f32);
  EXPECT_EQ(table.shape(), (Dims{2, 2}));
  EXPECT_THAT(value(table), ElementsAre(0.5, 1, -2, 3));
  EXPECT_EQ(shaped.shape(), (Dims{2, 2}));
  EXPECT_THAT(value(embedding(constant({{1.0, 2.0}, {3.0, 4.0}, {5.0, 6.0}}), index)), ElementsAre(5, 6, 1, 2, 3, 4));
  Tensor third = constant(std::vector<double>{1.0 / 3});
  EXPECT_THAT(value(third), ElementsAre(double(1.0f / 3))) << "float32 as on every device";
  EXPECT_EQ(third.shape(), (Dims{1}));
  EXPECT_EQ(constant(std::vector<int64_t>{7, 8}, {2, 1}).dtype(), DType::i32);
  EXPECT_EQ(constant(2.5).rank(), 0) << "a number alone is a scalar";
  EXPECT_EQ(constant(0).rank(), 0);
  EXPECT_EQ(constant({5}).shape(), (Dims{1}));
}

TEST_F(Constants, OfFilesBesideTheModel) {
  const float reals[] = {0.25f, -1, 2, 3, 4, 5};
  const int64_t whole[] = {3, -1, 0};
  write_npy(folder + "/reals.npy", "<f4", "(2, 3)", reals, sizeof(reals));
  write_npy(folder + "/whole.npy", "<i8", "(3,)", whole, sizeof(whole));
  Tensor r = constant("reals.npy"), w = constant(folder + "/whole.npy");
  EXPECT_EQ(r.shape(), (Dims{2, 3}));
  EXPECT_THAT(value(r), ElementsAre(0.25, -1, 2, 3, 4, 5));
  EXPECT_EQ(w.dtype(), DType::i32);
  EXPECT_THAT(value(w), ElementsAre(3, -1, 0));
}

TEST_F(Constants, AreDataOfTheProgramAndNotTrained) {
  const auto program = [&](double number) {
    trace.reset();
    Trace own("model.cpp");
    Tensor mask = constant({number, 0.0});
    Tensor w = parameter("mask", {2}, ones());
    minimize(sum(square(mask * w)), SGD{});
    return differentiate(own);
  };
  const Program one = program(1), same = program(1), other = program(2);
  EXPECT_EQ(hash_text(one), hash_text(same));
  EXPECT_NE(hash_text(one), hash_text(other)) << "a plan belongs to the data, too";
  int constants = 0;
  for (const Node& node : one.nodes) constants += is_constant_data(node) ? 1 : 0;
  EXPECT_EQ(constants, 1);
  for (const Update& update : one.updates) EXPECT_FALSE(is_constant_data(one[update.target]));
}

TEST_F(Constants, WrongOnesAreTold) {
  EXPECT_THAT(error_of([] {
                constant({1, 2, 3}, {2, 2});
              }),
              AllOf(HasSubstr("states_test.cpp"), HasSubstr("[constant] 3 numbers do not fill [2,2]"),
                    HasSubstr("4 numbers"), HasSubstr("row by row")));
  EXPECT_THAT(error_of([] {
                constant({{1, 2}, {3, 4, 5}});
              }),
              HasSubstr("[constant] row 1 has another length than row 0"));
  EXPECT_THAT(error_of([] { constant(std::vector<double>{}); }), HasSubstr("[constant] there is no number"));
  EXPECT_THAT(
      error_of([] {
        constant({1.0, -INFINITY});
      }),
      AllOf(HasSubstr("[constant] element 1 is no number that float32 holds"), HasSubstr("-inf"), HasSubstr("-1e9")));
  EXPECT_THAT(error_of([] { constant(std::vector<int64_t>{int64_t(1) << 40}); }),
              AllOf(HasSubstr("element 0 is no number that int32 holds"), HasSubstr("with a decimal point")));
  EXPECT_THAT(error_of([] { constant("absent.npy"); }),
              AllOf(HasSubstr("absent.npy"), HasSubstr("[constant]"), HasSubstr("the model asks for this file here")));
  write_npy(folder + "/cut.npy", "<f8", "(5,)", "12345678", 8);
  EXPECT_THAT(error_of([] { constant("cut.npy"); }), HasSubstr("[constant] the array does not fit the file"));
  Tensor index = constant({0, 7}), table = parameter("table", {4, 2}, zeros());
  EXPECT_THAT(error_of([&] { embedding(table, index); }), HasSubstr("8"));
  EXPECT_THAT(error_of([&] { update(index, index); }), HasSubstr("is no state of the model's own"));
}

}  // namespace
}  // namespace hetsynth
