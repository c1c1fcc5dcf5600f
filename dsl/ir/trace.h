// Tracing: DSL functions called by the user's builder append nodes to the program being built.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <source_location>
#include <string>
#include <string_view>
#include <vector>

#include "dsl/ir/program.h"
#include "hetsynth/loss_scale.h"
#include "hetsynth/parameter_group.h"
#include "hetsynth/parameter_options.h"

namespace hetsynth {

/// Gradient of a composite function, given instead of differentiating the primitives it is made of.
using CustomVjp = std::function<std::vector<Tensor>(const VjpArguments&)>;

/// What `minimize` asked for; carried out by the stage `differentiate`.
using OptimizerStep = std::function<void(const std::vector<Tensor>& parameters, const std::vector<Tensor>& gradients)>;

/// Collects a program while alive; one per thread at a time. DSL functions find it through `current()`.
class Trace {
 public:
  /// `settings`: values for `option(...)`, as the command line gave them.
  explicit Trace(std::string model_file, std::map<std::string, std::string> settings = {});
  ~Trace();
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;
  /// The live trace. Throws UserError if a DSL function is called outside of one.
  static Trace& current();

  /// A leaf's name is unique: a repeated one gains a number.
  Tensor add_leaf(NodeKind kind, std::string name, TensorType type, const std::source_location& where);
  /// Infers, builds space and body, appends. A UserError from `infer` gains the place of the call and notes where the
  /// arguments were made.
  Tensor emit(std::shared_ptr<const Operator> op, std::vector<Tensor> inputs, const std::source_location& where);
  /// The error with what it lacks: the place of the call, and notes where its arguments were made.
  UserError at_call(const UserError& error, const std::vector<Tensor>& arguments, SourceLocation where) const;
  void set_name(Tensor tensor, const std::string& name, SourceLocation where);
  void set_custom_vjp(Tensor output, std::vector<Tensor> inputs, CustomVjp vjp);
  void stop_gradient(Tensor tensor);
  /// Traces the next micro-batch after the first: the same parameters, inputs and random streams of its own.
  void trace_next_micro_batch();

  Program program;
  std::map<std::string, std::string> settings;
  std::set<std::string> settings_used;
  struct CustomGradient {
    std::vector<Tensor> inputs;
    CustomVjp vjp;
  };
  std::map<NodeId, CustomGradient> custom_gradients;
  std::set<NodeId> stopped;
  std::set<std::string> leaf_names;
  double clip_norm = 0;               ///< 0: no clipping
  DType product_type = DType::f32;    ///< of operands of products (mixed_precision in model.h)
  bool precision_by_setting = false;  ///< see dsl/ir/precision_setting.h
  NodeId first_cast_operand = -1;     ///< of a product, cast to that type; -1: none yet
  double loss_scale = 1;              ///< the backward pass runs on the loss times this; gradients are divided by it
  struct DynamicScale {
    Tensor scale, good_steps;  ///< states
    DynamicLossScale rule;
    std::source_location where;  ///< the user's call
    Tensor magnitude = {};       ///< of the scaled gradients
  };
  std::optional<DynamicScale> dynamic_scale;  ///< instead of loss_scale
  Phase phase = Phase::forward;
  /// Parts of the forward pass, [first, last), whose values the backward pass makes again (checkpoint in model.h).
  struct Region {
    NodeId first, last;
  };
  std::vector<Region> recomputed;
  // Gradient accumulation: the builder runs once per micro-batch, on inputs of its own.
  std::function<void()> builder;      ///< as run_builder was given it
  int micro_batches = 1;              ///< of a step, each of the batch that the model declares
  int micro_batch = 0;                ///< the one being traced
  std::string turns = "1";            ///< in which the step is taken, as dsl/transform/turns.h writes them
  std::optional<Program> whole_step;  ///< if it is taken in several: the step of one, which `differentiate` leaves here
  /// total / count, or a mean over equally many if there is no count.
  struct MicroLoss {
    Tensor total, count;
  };
  /// A call of `minimize`: a loss, and what its gradients change.
  struct Minimized {
    ParameterGroup group;
    OptimizerStep optimizer;
    std::source_location where;     ///< the user's call
    std::vector<MicroLoss> losses;  ///< one per micro-batch traced
  };
  std::vector<Minimized> minimized;  ///< in the order of the calls; the first one's loss is told as the step's
  /// Scalars to be told beside the loss, each with its values of the micro-batches traced.
  struct Metric {
    std::string name;
    std::vector<MicroLoss> parts;
  };
  std::vector<Metric> metrics;
  std::map<NodeId, ParameterOptions> parameter_options;  ///< of the parameters for which the model said any
  std::string freeze;  ///< pattern over names of parameters that are not trained (dsl/transform/trained_parameters.h)
  bool tells_gradient_norm = false;  ///< it becomes a metric
  std::set<NodeId> own_states;       ///< made by `state`, which `update` may change
  std::vector<Tensor> parameters;    ///< in the order in which the first micro-batch asked for them
  size_t next_parameter = 0;         ///< a further micro-batch asks for next
  NodeId backward_of = -1;           ///< node whose gradient is being emitted: names and lines derive from it
  int random_streams = 0;            ///< streams of random numbers given away so far; each call that draws takes one
  bool in_checkpoint = false;
  int loop = -1;         ///< of the program, to which what is emitted belongs
  SourceLocation scope;  ///< set by CallScope: where nodes made inside a composite function are said to come from

 private:
  void check_stays_in_loop(const Operator& reader, Tensor tensor, const SourceLocation& where) const;
  Tensor repeated_parameter(const std::string& name, const TensorType& type, const std::source_location& where);
};

/// Names stand in plans, in messages, on progress lines and as keys of checkpoints: text of one line. Returns what a
/// name has that cannot stand there, for a message; empty: nothing.
std::string unfit_name(const std::string& name);
constexpr std::string_view fit_names =
    "up to 200 bytes of UTF-8 without control characters, quotation marks and backslashes";

/// Placed at the top of a composite function: everything it emits is attributed to the user's call. The outermost scope
/// wins.
class CallScope {
 public:
  explicit CallScope(const std::source_location& where);
  ~CallScope();
  CallScope(const CallScope&) = delete;
  CallScope& operator=(const CallScope&) = delete;

 private:
  bool outermost_;
};

SourceLocation location(const std::source_location& where);

/// Appends an operator to the current trace.
Tensor emit(std::shared_ptr<const Operator> op, std::vector<Tensor> inputs,
            const std::source_location& where = std::source_location::current());

/// The operand as a tensor; a number becomes a scalar constant.
Tensor as_tensor(const Operand& operand);

/// Elementwise sum of two tensors of one shape, as differentiation adds up gradients (dsl/ops/add.cpp).
Tensor accumulate(Tensor a, Tensor b);

/// Runs the builder under a trace and gives the forward program (of the first micro-batch) with its request to
/// minimise. The settings "micro_batches", "turns", "freeze" and "gradient_norm" are not the model's: they say how
/// many micro-batches make a step, in how many turns it is taken, and which parameters are not trained.
/// Throws UserError for a setting no `option` asked for.
void run_builder(Trace& trace, const std::function<void()>& builder);

}  // namespace hetsynth
