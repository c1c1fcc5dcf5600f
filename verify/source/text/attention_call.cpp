#include "verify/source/text/attention_call.h"

#include <map>

#include "verify/source/text/each.h"
#include "verify/source/text/spelling.h"

namespace hetsynth::source {
namespace {

using A = AttentionArguments;
using Body = std::vector<Statement>;

/// Below all scores.
constexpr double no_score = -1e300;

class Attention {
 public:
  Attention(const Statement& call, Function& function, const std::vector<int64_t>& sizes,
            const std::vector<int64_t>& strides)
      : at_(call), x_(call.value.args), f_(function), sizes_(sizes), strides_(strides) {
    causal_ = x_[A::causal].integer_value != 0;
  }

  Statement forward() {
    const int largest = slot("largest"), total = slot("total"), sum = slot("sum");
    const Expression m = real_variable(largest), all = real_variable(total);
    Body row = {declare(largest, real(no_score)), by_keys(s_, {assign(m, seen(call("max_f32", {m, score()}), m))}),
                declare(total, real(0)), by_keys(s_, {assign(all, seen(exponential(m), zero()), true)})};
    if (x_[A::statistics].kind != Kind::integer)
      row.push_back(assign(row_of(A::statistics), plus(m, call("log_f32", {all}))));
    const Expression weight = seen(rounded(divide(exponential(m), all)), zero());
    row.push_back(loop(
        g_, value_features(),
        {declare(sum, zero()), by_keys(s_, {assign(real_variable(sum), times(weight, of_keys(A::v, 2, s_, g_)), true)}),
         assign(of_queries(A::o, 3, g_), real_variable(sum))}));
    return loop(b_, batch(), {loop(h_, heads(), {loop(t_, queries(), std::move(row))})});
  }

  Statement gradient() {
    const int sum = slot("sum");
    const Expression result = real_variable(sum);
    const auto add_up = [&](Expression term, Expression to, const auto& around) {
      Body turn = around({assign(result, std::move(term), true)});
      turn.insert(turn.begin(), declare(sum, zero()));
      turn.push_back(assign(std::move(to), result));
      return turn;
    };
    Body by_queries = dot();
    by_queries.push_back(
        loop(f_slot_, features(),
             add_up(times(by_score(), of_keys(A::k, 1, s_, f_slot_)), of_queries(A::q_gradient, 5, f_slot_),
                    [&](Body body) { return Body{by_keys(s_, with_gradient(std::move(body)))}; })));
    const auto over_rows = [&](Body body) { return Body{loop(r_, group(), {loop(t_, queries(), std::move(body))})}; };
    // Heads of queries that share a head of keys are r.
    const Expression own_head =
        sum_of(product(variable(kv_, Type::integer), number(group_size())), variable(r_, Type::integer));
    head_ = own_head, key_head_ = variable(kv_, Type::integer);
    Body by_values = add_up(times(seen(rounded(weight()), zero()), of_queries(A::o_gradient, 4, g_)),
                            of_keys(A::v_gradient, 7, s_, g_), [&](Body body) {
                              Body turn = with_score(std::move(body), s_);
                              turn.insert(turn.begin(), read_statistics());
                              return over_rows(std::move(turn));
                            });
    Body by_keys_body =
        add_up(times(by_score(), of_queries(A::q, 0, f_slot_)), of_keys(A::k_gradient, 6, s_, f_slot_), [&](Body body) {
          Body turn = dot();
          Body inner = with_gradient(with_score(std::move(body), s_));
          turn.insert(turn.end(), inner.begin(), inner.end());
          return over_rows(std::move(turn));
        });
    const auto over_keys = [&](int features_slot, Expression count, Body body) {
      return loop(
          b_, batch(),
          {loop(kv_, key_heads(), {loop(s_, keys(), {loop(features_slot, std::move(count), std::move(body))})})});
    };
    Statement first = loop(b_, batch(), {loop(h_, heads(), {loop(t_, queries(), std::move(by_queries))})});
    return loop(slot("all"), number(1),
                {std::move(first), over_keys(g_, value_features(), std::move(by_values)),
                 over_keys(f_slot_, features(), std::move(by_keys_body))});
  }

 private:
  int slot(const std::string& name) {
    f_.slots.push_back(name);
    return int(f_.slots.size()) - 1;
  }
  Expression batch() const { return number(sizes_[0]); }
  Expression heads() const { return number(sizes_[1]); }
  Expression key_heads() const { return number(sizes_[2]); }
  Expression queries() const { return number(sizes_[3]); }
  Expression keys() const { return number(sizes_[4]); }
  Expression features() const { return number(sizes_[5]); }
  Expression value_features() const { return number(sizes_[6]); }
  int64_t group_size() const { return sizes_[2] > 0 ? sizes_[1] / sizes_[2] : 1; }
  Expression group() const { return number(group_size()); }

  static Expression real_variable(int slot) { return variable(slot, Type::real); }
  static Expression sum_of(Expression a, Expression b) { return hetsynth::source::sum(std::move(a), std::move(b)); }
  static Expression divide(Expression a, Expression b) {
    return binary(Kind::div, Type::real, std::move(a), std::move(b));
  }
  static Expression minus(Expression a, Expression b) {
    return binary(Kind::sub, Type::real, std::move(a), std::move(b));
  }
  static Expression rounded(Expression e) { return call("round_bf16", {std::move(e)}); }

  Statement loop(int slot, Expression limit, Body body) const {
    Statement out = statement_like(at_, Statement::Kind::loop);
    out.slot = slot;
    out.value = number(0);
    out.limit = std::move(limit);
    out.body = std::move(body);
    return out;
  }
  Statement assign(Expression target, Expression value, bool accumulates = false) const {
    Statement out = statement_like(at_, Statement::Kind::assign);
    out.target = std::move(target);
    out.value = std::move(value);
    out.accumulates = accumulates;
    return out;
  }
  Statement declare(int slot, Expression value) const {
    Statement out = statement_like(at_, Statement::Kind::declare);
    out.slot = slot;
    out.type = Type::real;
    out.has_value = true;
    out.value = std::move(value);
    return out;
  }

  /// Element of an argument whose strides are the `tensor`th of the table.
  Expression place(size_t argument, size_t tensor, Expression head, int position, int feature) const {
    const auto step = [&](Expression counter, size_t dim) {
      return product(std::move(counter), number(strides_[3 * tensor + dim]));
    };
    return element(x_[argument],
                   sum_of(sum_of(step(variable(b_, Type::integer), 0), step(std::move(head), 1)),
                          sum_of(step(variable(position, Type::integer), 2), variable(feature, Type::integer))));
  }
  Expression of_queries(size_t argument, size_t tensor, int feature) const {
    return place(argument, tensor, head_, t_, feature);
  }
  Expression of_keys(size_t argument, size_t tensor, int position, int feature) const {
    return place(argument, tensor, key_head_, position, feature);
  }
  /// float32 [batch, heads, queries].
  Expression row_of(size_t argument) const {
    const Expression head = sum_of(product(variable(b_, Type::integer), heads()), head_);
    return element(x_[argument], sum_of(product(head, queries()), variable(t_, Type::integer)));
  }

  /// `value` where the row sees the column.
  Expression seen(Expression value, Expression otherwise) const {
    if (!causal_) return value;
    Expression out;
    out.kind = Kind::choose;
    out.type = Type::real;
    out.line = at_.line;
    out.args = {binary(Kind::less_equal, Type::integer, variable(key_, Type::integer), variable(t_, Type::integer)),
                std::move(value), std::move(otherwise)};
    return out;
  }

  Expression score() const { return times(real_variable(score_), x_[A::scale]); }
  Expression exponential(const Expression& largest) const { return call("exp_f32", {minus(score(), largest)}); }
  /// From the statistics that the forward call left.
  Expression weight() const { return exponential(real_variable(statistics_)); }
  /// Read once for a row: what lies there is computed whenever it is read.
  Statement read_statistics() const { return declare(statistics_, row_of(A::statistics)); }

  /// q k^T of the row and a column, before the body.
  Body with_score(Body body, int key) {
    key_ = key;
    Body out = {
        declare(score_, zero()),
        loop(inner_, features(),
             {assign(real_variable(score_), times(of_queries(A::q, 0, inner_), of_keys(A::k, 1, key, inner_)), true)})};
    out.insert(out.end(), std::make_move_iterator(body.begin()), std::make_move_iterator(body.end()));
    return out;
  }
  Statement by_keys(int key, Body body) { return loop(key, keys(), with_score(std::move(body), key)); }

  /// The weight's gradient: dy v^T, before the body.
  Body with_gradient(Body body) { return with_gradient(std::move(body), s_); }
  Body with_gradient(Body body, int key) {
    Body out = {declare(gradient_, zero()),
                loop(inner_, value_features(),
                     {assign(real_variable(gradient_),
                             times(of_queries(A::o_gradient, 4, inner_), of_keys(A::v, 2, key, inner_)), true)})};
    out.insert(out.end(), std::make_move_iterator(body.begin()), std::make_move_iterator(body.end()));
    return out;
  }

  /// Of the row: sum of weights times their gradients.
  Body dot() {
    const int before = key_;
    key_ = other_;
    const Expression term = seen(times(weight(), real_variable(gradient_)), zero());
    Body out = {read_statistics(), declare(dot_, zero()),
                by_keys(other_, with_gradient({assign(real_variable(dot_), term, true)}, other_))};
    key_ = before;
    return out;
  }
  Expression by_score() {
    return seen(rounded(times(times(weight(), minus(real_variable(gradient_), real_variable(dot_))), x_[A::scale])),
                zero());
  }

  const Statement& at_;
  const std::vector<Expression> x_;
  Function& f_;
  const std::vector<int64_t>&sizes_, &strides_;
  bool causal_ = false;
  // Counters: batch, head, row, column, another column, features of values and of queries, those within, head of keys,
  // head within its group.
  const int b_ = slot("b"), h_ = slot("h"), t_ = slot("t"), s_ = slot("s"), other_ = slot("s2"), g_ = slot("g"),
            f_slot_ = slot("f"), inner_ = slot("i"), kv_ = slot("kv"), r_ = slot("r");
  const int score_ = slot("score"), gradient_ = slot("gradient"), dot_ = slot("dot"), statistics_ = slot("statistics");
  int key_ = s_;  ///< column at hand
  Expression head_ = variable(h_, Type::integer);
  Expression key_head_ = binary(Kind::div, Type::integer, variable(h_, Type::integer), number(group_size()));
};

/// Gives every loop and declaration a slot of its own, as those of a parsed text have. The loops above share their
/// counters: what is known of a loop is known by its slot, so that two loops with one slot are taken for one.
/// `here`: the new slots of what is declared where the statement stands.
void give_own_slots(Statement& s, Function& function, std::map<int, int>& here) {
  const auto fresh = [&](int slot) {
    function.slots.push_back(function.slots[size_t(slot)]);
    return int(function.slots.size()) - 1;
  };
  each_expression_of(s, [&](Expression& e) {
    if (const auto found = here.find(e.slot); e.kind == Kind::variable && found != here.end()) e.slot = found->second;
  });
  if (s.kind == Statement::Kind::declare) {
    s.slot = here[s.slot] = fresh(s.slot);
    return;
  }
  std::map<int, int> inside = here;
  if (s.kind == Statement::Kind::loop) s.slot = inside[s.slot] = fresh(s.slot);
  for (Statement& inner : s.body) give_own_slots(inner, function, inside);
}

}  // namespace

void spell_attention(Statement& call, Function& function, const std::map<int, std::vector<int64_t>>& tables) {
  const std::vector<Expression>& x = call.value.args;
  const bool gradient = call.value.name == "hetsynth_attention_gradient";
  if (x.size() != (gradient ? size_t(A::its_count) : size_t(A::count))) return;
  const auto sizes = tables.find(x[A::sizes].slot), strides = tables.find(x[A::strides].slot);
  const bool known = x[A::sizes].kind == Kind::variable && x[A::strides].kind == Kind::variable &&
                     sizes != tables.end() && strides != tables.end() && sizes->second.size() == 7 &&
                     strides->second.size() == (gradient ? 24u : 12u) && x[A::causal].kind == Kind::integer;
  if (!known || sizes->second[2] <= 0 || sizes->second[1] % sizes->second[2] != 0) return;
  Attention attention(call, function, sizes->second, strides->second);
  Statement spelled = gradient ? attention.gradient() : attention.forward();
  std::map<int, int> none;
  give_own_slots(spelled, function, none);
  call = std::move(spelled);
}

}  // namespace hetsynth::source
