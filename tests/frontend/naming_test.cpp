// Tensors carry the names and places of the user's variables.
#include <gmock/gmock.h>

#include "model_fixture.h"

namespace hetsynth {
namespace {
using ::testing::ElementsAre;

class Naming : public ModelTest {};

TEST_F(Naming, LocalVariables) {
  EXPECT_THAT(names_of("void model() {\n"
                       "  Tensor a = leaf({2});\n"
                       "  auto b = leaf({3}), c = leaf({4});\n"
                       "  const Tensor d = leaf({5});\n"
                       "  Tensor e(leaf({6}));\n"
                       "  Tensor f{leaf({7})};\n"
                       "  const Tensor& g = leaf({8});\n"
                       "}\n"),
              ElementsAre("a@4:10", "b@5:8", "c@5:23", "d@6:16", "e@7:10", "f@8:10", "g@9:17"));
}

TEST_F(Naming, ResultsOfOperatorsAndConditions) {
  EXPECT_THAT(names_of("void model() {\n"
                       "  Tensor a = leaf({2}), b = a % a;\n"
                       "  Tensor c = a.rank() == 1 ? product(a, b) : a;\n"
                       "  if (Tensor d = (a % c); d.defined()) Tensor e = d % d;\n"
                       "}\n"),
              ElementsAre("a@4:10", "b@4:25", "c@5:10", "d@6:14", "e@6:47"));
}

TEST_F(Naming, FunctionsTemplatesMethodsAndLambdas) {
  EXPECT_THAT(
      names_of("Tensor plain() {\n  Tensor in_function = leaf({2});\n  return in_function;\n}\n"
               "template <class T> Tensor many(T n) {\n  Tensor in_template = leaf({n});\n  return in_template;\n}\n"
               "struct Layer {\n  Tensor w;\n  Tensor operator()(int n) {\n    Tensor in_method = leaf({n});\n    "
               "return in_method;\n  }\n"
               "  template <class T> Tensor method(T n) { Tensor in_method_template = leaf({n}); return "
               "in_method_template; }\n};\n"
               "namespace nested { Tensor inner() { Tensor in_namespace = leaf({9}); return in_namespace; } }\n"
               "auto global = [] { Tensor in_global_lambda = leaf({10}); return in_global_lambda; };\n"
               "void model() {\n"
               "  plain(); many(3); many(4L);\n"
               "  Layer layer; layer(5); layer.method(5);\n"
               "  auto lambda = [&](int n) { Tensor in_lambda = leaf({n}); return in_lambda; };\n"
               "  auto generic = [](auto n) { Tensor in_generic = leaf({n}); return in_generic; };\n"
               "  lambda(6); generic(7); generic(8L);\n"
               "  struct Local { Tensor f() { Tensor in_local = leaf({8}); return in_local; } };\n"
               "  Local().f(); nested::inner(); global();\n"
               "}\n"),
      ElementsAre("in_function@4:10", "in_template@8:10", "in_template@8:10", "in_method@14:12",
                  "in_method_template@17:50", "in_lambda@24:37", "in_generic@25:38", "in_generic@25:38",
                  "in_local@27:38", "in_namespace@19:44", "in_global_lambda@20:27"));
}

TEST_F(Naming, Assignments) {
  EXPECT_THAT(names_of("struct Weights { Tensor w; };\n"
                       "void model() {\n"
                       "  Tensor x = leaf({2});\n"
                       "  x = x % x;\n"
                       "  Weights weights;\n"
                       "  weights.w = leaf({3});\n"
                       "  for (int i = 0; i < 2; ++i) x = product(x, x);\n"
                       "  Tensor y;\n"
                       "  y = x % x;\n"
                       "}\n"),
              ElementsAre("x@5:10", "x@6:3", "w@8:11", "x@9:31", "x@9:31", "y@11:3"));
}

TEST_F(Naming, StructuredBindings) {
  EXPECT_THAT(names_of("struct Two { Tensor left, right; };\n"
                       "Two two() { return {leaf({2}), leaf({3})}; }\n"
                       "std::pair<Tensor, int> pair() { return {leaf({4}), 1}; }\n"
                       "struct Owner { std::vector<int> destroyed; Tensor t; };\n"
                       "Owner owner() { return {{1, 2}, leaf({5})}; }\n"
                       "void model() {\n"
                       "  auto [a, b] = two();\n"
                       "  auto [c, n] = pair();\n"
                       "  auto [numbers, d] = owner();\n"
                       "  if (numbers.size() != 2) throw 1;\n"
                       "  auto f = [&] { auto [e, g] = two(); return g; };\n"
                       "  f();\n"
                       "}\n"),
              ElementsAre("a@9:9", "b@9:12", "c@10:9", "d@11:18", "e@13:24", "g@13:27"));
}

TEST_F(Naming, TheInnermostVariableNamesAndPassingOnDoesNot) {
  EXPECT_THAT(names_of("Tensor f() { Tensor inner = leaf({2}); return inner; }\n"
                       "Tensor g() { return leaf({3}); }\n"
                       "void model() {\n"
                       "  Tensor outer = f();\n"
                       "  Tensor copy = outer;\n"
                       "  Tensor made_here = g();\n"
                       "}\n"),
              ElementsAre("inner@3:21", "made_here@8:10"));
}

TEST_F(Naming, MacrosNameThePlaceOfTheirUse) {
  EXPECT_THAT(names_of("#define MAKE(n) Tensor n = leaf({2})\nvoid model() {\n  MAKE(first);\n}\n"),
              ElementsAre("first@5:3"));
}

TEST_F(Naming, HeadersOfTheUserAreNamedWithTheirOwnFile) {
  write("layers.h", "inline Tensor layer() {\n  Tensor in_header = leaf({2});\n  return in_header;\n}\n");
  auto model = load("#include \"layers.h\"\nvoid model() { layer(); }\n");
  auto trace = model->trace();
  ASSERT_EQ(trace->program.nodes.size(), 1u);
  EXPECT_EQ(trace->program.nodes[0].name, "in_header");
  EXPECT_EQ(trace->program.nodes[0].where.text(), "./layers.h:2:10");
}

TEST_F(Naming, OtherTypesCalledTensorAreLeftAlone) {
  EXPECT_THAT(names_of("namespace mine { struct Tensor { int value; }; Tensor make() { return {1}; } }\n"
                       "void model() { mine::Tensor t = mine::make(); hetsynth::Tensor u = leaf({t.value}); }\n"),
              ElementsAre("u@4:64"));
}

}  // namespace
}  // namespace hetsynth
