#include "tests/attack/models.h"

#include <algorithm>

#include "tests/attack/traced_models.h"

namespace hetsynth::attack {
namespace {

using test::ProgramBuilder;

const Expr a = Expr::input(0), b = Expr::input(1);

Shape random_shape(Random& random, int64_t least_rank) {
  Shape shape;
  for (int64_t rank = least_rank + below(random, 2); rank > 0; --rank) shape.push_back(2 + below(random, 7));
  return shape;
}

std::string letters_of(const Shape& shape) { return std::string("abcd").substr(0, shape.size()); }

/// One tensor through a few functions of its elements, each of which may let partial tensors pass.
Program chain(Random& random) {
  ProgramBuilder p;
  const Shape shape = random_shape(random, 1);
  const std::string l = letters_of(shape), same = l + "->" + l;
  p.leaf("x", NodeKind::parameter, shape);
  std::string last = "x";
  for (int64_t i = 0, count = 1 + below(random, 3); i < count; ++i) {
    const Expr bodies[] = {a, a * 2.0, -a, tanh(a), maximum(a, 0.25), a * a};
    const std::string name = "t" + std::to_string(i);
    p.general(name, same, {last}, bodies[below(random, 6)]);
    last = name;
  }
  p.program.loss = p.general("loss", l + "->", {last}, a, chance(random, 80) ? FactorKind::sum : FactorKind::max);
  p.update("x", last);
  return p.program;
}

/// Products whose operands may each be left partial, over different axes too.
Program products(Random& random) {
  ProgramBuilder p;
  const int64_t rows = 2 + below(random, 5), inner = 2 + below(random, 7), columns = 2 + below(random, 5);
  p.leaf("x", NodeKind::input, {rows, inner});
  p.leaf("w", NodeKind::parameter, {inner, columns});
  p.leaf("u", NodeKind::parameter, {rows, inner});
  p.einsum("h", "bk,kn->bn", "x", "w");
  p.einsum("g", "bk,kn->bn", chance(random, 50) ? "u" : "x", "w");
  p.general("s", "bk->b", {"u"}, a, chance(random, 70) ? FactorKind::sum : FactorKind::max);
  const Expr bodies[] = {a * b, a + b, maximum(a, b), a - 2.0 * b};
  p.general("m", "bn,bn->bn", {"h", "g"}, bodies[below(random, 4)]);
  p.general("q", "bn,b->bn", {"m", "s"}, bodies[below(random, 4)]);
  p.program.loss = p.general("loss", "bn,bn->", {"q", "g"}, chance(random, 50) ? a * b : a);
  p.general("d_w", "bk,bn->kn", {"x", "q"}, a * b);
  p.general("w_new", "kn,kn->kn", {"w", "d_w"}, a - 0.1 * b);
  p.update("w", "w_new");
  return p.program;
}

/// The same computation twice, and copies of it: plans may read either.
Program twins(Random& random) {
  ProgramBuilder p;
  const int64_t rows = 2 + below(random, 5), inner = 2 + below(random, 7);
  p.leaf("x", NodeKind::input, {rows, inner});
  p.leaf("w", NodeKind::parameter, {inner, inner});
  for (const std::string n : {"1", "2"}) {
    p.einsum("h" + n, "bk,kn->bn", "x", "w");
    p.general("t" + n, "bn->bn", {"h" + n}, tanh(a));
  }
  p.general("copy", "bn->bn", {"h1"}, a);
  p.general("m", "bn,bn->bn", {"copy", chance(random, 50) ? "t2" : "h2"}, chance(random, 50) ? a * b : a - 2.0 * b);
  p.program.loss = p.general("loss", "bn,bn->", {"m", "t1"}, a * b);
  p.einsum("d_w", "bk,bn->kn", "x", "m");
  p.general("w_new", "kn,kn->kn", {"w", "d_w"}, a - 0.1 * b);
  p.update("w", "w_new");
  return p.program;
}

/// Windows that slide over rows, at one and at two rows per step, and the gradient of their weights.
Program windows(Random& random) {
  ProgramBuilder p;
  const int64_t height = 4 + 2 * below(random, 3), width = 1 + below(random, 3);
  p.leaf("x", NodeKind::input, {height, width});
  p.leaf("w", NodeKind::parameter, {3});
  const auto rows = [](int y, int k, int64_t stride) {
    return DimIndex{{IndexTerm{.factor = y, .stride = stride}, IndexTerm{k}}, -1};
  };
  const auto sliding = [&](int64_t steps, int64_t stride, bool weighted) {
    Space s;
    const int y = s.add_factor("y", steps, FactorKind::parallel), c = s.add_factor("c", width, FactorKind::parallel),
              k = s.add_factor("k", 3, weighted || chance(random, 50) ? FactorKind::sum : FactorKind::max);
    s.inputs = {{{rows(y, k, stride), index_by(c)}, true}};
    if (weighted) s.inputs.push_back({{index_by(k)}});
    s.output = {{index_by(y), index_by(c)}};
    return s;
  };
  p.custom("h", {"x", "w"}, sliding(height, 1, true), a * b, {height, width});
  p.custom("s", {"h"}, sliding(height / 2, 2, false), a, {height / 2, width});
  p.program.loss = p.general("loss", "yc->", {"s"}, a * a);
  Space gradient;
  const int k = gradient.add_factor("k", 3, FactorKind::parallel),
            y = gradient.add_factor("y", height, FactorKind::sum), c = gradient.add_factor("c", width, FactorKind::sum);
  gradient.inputs = {{{rows(y, k, 1), index_by(c)}, true}, {{index_by(y), index_by(c)}}};
  gradient.output = {{index_by(k)}};
  p.custom("d_w", {"x", "h"}, gradient, a * b, {3});
  p.general("w_new", "k,k->k", {"w", "d_w"}, a - 0.1 * b);
  p.update("w", "w_new");
  return p.program;
}

Model drawn(Random& random) {
  const int64_t draw = below(random, 100);
  if (draw < 22) return {"chain", chain(random)};
  if (draw < 38) return {"products", products(random)};
  if (draw < 44) return {"twins", twins(random)};
  if (draw < 52) return {"windows", windows(random)};
  if (draw < 72) return {"random program", test::random_program(random, 1 + int(below(random, 5)))};
  if (draw < 85) return any_of(random, operator_models());
  if (draw < 97) return any_of(random, loop_models());
  return any_of(random, training_models());
}

}  // namespace

Model random_model(Random& random) {
  Model model = drawn(random);
  const NodeId node = NodeId(below(random, int64_t(model.program.nodes.size())));
  const Node& shown = model.program[node];
  if (chance(random, 8) && !shown.leaf() && (shown.loop < 0 || stacked_dim(shown.space) >= 0))
    model.program.outputs.push_back({"shown", node});
  return model;
}

}  // namespace hetsynth::attack
