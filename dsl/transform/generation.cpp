#include "dsl/transform/generation.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "dsl/base/unique_name.h"
#include "dsl/ir/attention.h"
#include "dsl/transform/at_position.h"
#include "dsl/transform/set_operator.h"

namespace hetsynth {
namespace {

/// Why a program cannot be computed position by position.
struct NotByPosition {
  std::string reason;
};

std::string described(const Node& node) {
  return node.where.known() ? fmt::format("{} ({})", node.name, node.where.text()) : node.name;
}

/// The number of a position, or of a block of several.
Node number_input(const std::string& name, int64_t numbers) {
  Node number;
  number.kind = NodeKind::input;
  number.type = {{}, DType::i32};
  number.name = name;
  number.data.kind = DataSource::Kind::named;
  number.data.classes = numbers;
  number.data.lowest = 0;
  number.data.highest = double(numbers - 1);
  return number;
}

/// Walks twice over the forward pass: from the logits back, finding in which forms every tensor is wanted (whole, at
/// the position of a dimension, remembered), then forth, writing them. "At the position" stands for a block of `block`
/// positions where that is more than one.
class PositionProgram {
 public:
  PositionProgram(const Program& forward, bool remembers, int64_t block = 1)
      : in_(forward),
        model_(language_model(forward)),
        remembers_(remembers),
        block_(block),
        wanted_(forward.nodes.size()) {
    find_dependence();
    if (!remembers) return;
    for (const Attention& a : find_attention(in_)) {
      if (!a.causal) continue;
      for (const NodeId hidden : a.hidden_forward()) rows_[hidden] = a.row;
      allow(a, a.scores);
      allow(a, a.mixed);
    }
  }

  GenerationProgram run() {
    if (!in_.loops.empty()) throw NotByPosition{"it has a loop over time steps"};
    want_position(model_.logits, model_.position_dim, in_[model_.logits]);
    for (NodeId id = NodeId(in_.nodes.size()) - 1; id >= 0; --id) plan(id);
    for (const Node& node : in_.nodes) names_.insert(node.name);
    write();
    return finish();
  }

 private:
  /// In which forms a tensor is wanted.
  struct Forms {
    bool whole = false;
    std::set<int> remembered;     ///< along these dimensions
    std::map<int, bool> at_dims;  ///< at the position of these; true: picked from the whole
  };
  /// The tensors of the program that is written which have these forms of a tensor.
  struct Made {
    NodeId whole = -1;
    std::map<int, NodeId> remembered, at;
  };

  void find_dependence() {
    depends_.assign(in_.nodes.size(), false);
    for (const Node& node : in_.nodes) {
      depends_[size_t(node.id)] = node.kind == NodeKind::input;
      for (const NodeId input : node.inputs)
        if (depends_[size_t(input)]) depends_[size_t(node.id)] = true;
    }
  }

  /// The operand of one of an attention's products that runs over its columns and not over its rows: keys, or values.
  /// It is wanted at all columns, of which those beyond the row count for nothing.
  void allow(const Attention& a, NodeId product) {
    const Node& node = in_[product];
    const NodeId hidden = product == a.scores ? a.scores : (a.after.empty() ? a.weights : a.after.back());
    for (size_t j = 0; j < node.inputs.size(); ++j) {
      if (node.inputs[j] == hidden) continue;
      const Access& seen_by = product == a.scores ? node.space.output : node.space.inputs[1 - j];
      const std::vector<int> dims = dims_of_factors(node.space, seen_by, in_[hidden].type.shape);
      int column = -1, row = -1;
      for (size_t f = 0; f < dims.size(); ++f) {
        if (dims[f] == a.column) column = int(f);
        if (dims[f] == a.row) row = int(f);
      }
      if (column < 0 || row < 0 || mentions_factor(node.space.inputs[j], row)) continue;
      const OperandAtFactor at = operand_at(node, j, in_[node.inputs[j]].type.shape, column);
      if (at.readable && at.dim >= 0) memory_[{product, j}] = at.dim;
    }
  }

  void want_position(NodeId id, int dim, const Node& reader) {
    const auto row = rows_.find(id);
    if ((row != rows_.end() && row->second != dim) || (id == model_.tokens && dim != 1))
      throw NotByPosition{fmt::format("{} mixes up positions of {}", described(reader), in_[id].name)};
    wanted_[size_t(id)].at_dims[dim] = false;
  }

  void want_whole(NodeId id, const Node& reader) {
    if (remembers_ && depends_[size_t(id)])
      throw NotByPosition{fmt::format("{} reads other positions of {}", described(reader), in_[id].name)};
    wanted_[size_t(id)].whole = true;
  }

  /// What has to be there for the forms in which a tensor is wanted.
  void plan(NodeId id) {
    const Node& node = in_[id];
    Forms& forms = wanted_[size_t(id)];
    for (const int dim : forms.remembered) want_position(id, dim, node);
    for (auto& [dim, picked] : forms.at_dims) {
      if (id == model_.tokens && remembers_) continue;
      // What is computed whole for others is not computed again.
      picked = (forms.whole && node.type.dtype == DType::f32) || !plan_at(node, dim);
      if (!picked) continue;
      if (node.type.dtype != DType::f32)
        throw NotByPosition{fmt::format("{} cannot be computed for one position", described(node))};
      if (remembers_ && depends_[size_t(id)])
        throw NotByPosition{fmt::format("{} is not computed position by position", described(node))};
      forms.whole = true;
    }
    if (forms.whole)
      for (const NodeId input : node.inputs) want_whole(input, node);
  }

  /// Whether a tensor can be had at one position: a leaf is picked from, which pick_position does for float32 alone.
  bool can_be_at_position(const Node& node) const {
    return !node.leaf() || node.type.dtype == DType::f32 || (remembers_ && node.id == model_.tokens);
  }

  /// False: the tensor has to be computed whole.
  bool plan_at(const Node& node, int dim) {
    const int factor = factor_of_dim(node, dim);
    if (factor < 0) return false;
    for (size_t j = 0; j < node.inputs.size(); ++j) {
      const OperandAtFactor at = operand_at(node, j, in_[node.inputs[j]].type.shape, factor);
      if (!at.readable || (at.dim >= 0 && !can_be_at_position(in_[node.inputs[j]]))) return false;
    }
    for (size_t j = 0; j < node.inputs.size(); ++j) {
      const int at = operand_at(node, j, in_[node.inputs[j]].type.shape, factor).dim;
      if (at >= 0)
        want_position(node.inputs[j], at, node);
      else if (const auto memory = memory_.find({node.id, j}); memory != memory_.end())
        wanted_[size_t(node.inputs[j])].remembered.insert(memory->second);
      else
        want_whole(node.inputs[j], node);
    }
    return true;
  }

  void write() {
    out_.model_file = in_.model_file;
    out_.options = in_.options;
    made_.resize(in_.nodes.size());
    Node position = number_input(block_ == 1 ? "position" : "block", model_.length / block_);
    position.name = unique_name(names_, position.name);
    position_ = append(std::move(position));
    for (const Node& node : in_.nodes) write(node);
  }

  void write(const Node& node) {
    const Forms& forms = wanted_[size_t(node.id)];
    Made& made = made_[size_t(node.id)];
    if (forms.whole) {
      Node copy = node;
      for (NodeId& input : copy.inputs) input = made_[size_t(input)].whole;
      made.whole = append(std::move(copy));
    }
    for (const auto& [dim, picked] : forms.at_dims) {
      if (node.id == model_.tokens && remembers_)
        made.at[dim] = token_of(node);
      else if (picked)
        made.at[dim] = append_op(node, unique_name(names_, node.name + ".at_position"),
                                 pick_positions(node.type.shape, dim, block_), {made.whole, position_});
      else
        made.at[dim] = write_at(node, dim, forms.whole || forms.at_dims.size() > 1);
    }
    for (const int dim : forms.remembered) {
      Node state;
      state.kind = NodeKind::state;
      state.type = node.type;
      state.where = node.where;
      state.name = unique_name(names_, node.name + ".remembered");
      const NodeId before = append(std::move(state));
      made.remembered[dim] = append_op(node, unique_name(names_, node.name + ".so_far"),
                                       put_positions(node.type, dim, block_), {before, made.at.at(dim), position_});
      out_.updates.push_back({before, made.remembered[dim]});
    }
  }

  NodeId write_at(const Node& node, int dim, bool beside_others) {
    const OperatorAtPosition at = operator_at(node, dim, block_);
    const int factor = factor_of_dim(node, dim);
    std::vector<NodeId> inputs;
    for (size_t j = 0; j < node.inputs.size(); ++j) {
      const Made& operand = made_[size_t(node.inputs[j])];
      const int read = operand_at(node, j, in_[node.inputs[j]].type.shape, factor).dim;
      const auto memory = memory_.find({node.id, j});
      inputs.push_back(read >= 0                 ? operand.at.at(read)
                       : memory != memory_.end() ? operand.remembered.at(memory->second)
                                                 : operand.whole);
    }
    if (at.reads_position) inputs.push_back(position_);
    return append_op(node, beside_others ? unique_name(names_, node.name + ".at_position") : node.name, at.op, inputs);
  }

  NodeId token_of(const Node& tokens) {
    Node token = tokens;
    token.type.shape[1] = block_;
    token.data.length = block_;
    return append(std::move(token));
  }

  GenerationProgram finish() {
    GenerationProgram done;
    done.model = model_;
    done.reads_window = !remembers_;
    done.block = block_;
    if (block_ == 1)
      out_.outputs = {{std::string(logits_output), made_[size_t(model_.logits)].at.at(model_.position_dim)}};
    std::vector<std::string> remembered;
    for (const Update& update : out_.updates) remembered.push_back(out_[update.target].name);
    const std::string position = out_[position_].name;
    done.program = simplify(out_);
    if (block_ == 1) done.logits = done.program.outputs.front().node;
    for (const Node& node : done.program.nodes) {
      if (node.kind == NodeKind::input) (node.name == position ? done.position : done.tokens) = node.id;
      if (std::ranges::find(remembered, node.name) != remembered.end()) done.remembered.push_back(node.id);
    }
    return done;
  }

  NodeId append(Node node) {
    node.id = NodeId(out_.nodes.size());
    out_.nodes.push_back(std::move(node));
    return out_.nodes.back().id;
  }

  NodeId append_op(const Node& like, std::string name, std::shared_ptr<const Operator> op, std::vector<NodeId> inputs) {
    Node made;
    made.name = std::move(name);
    made.where = like.where;
    made.inputs = std::move(inputs);
    set_operator(made, std::move(op), out_);
    return append(std::move(made));
  }

  const Program& in_;
  const LanguageModel model_;
  const bool remembers_;
  const int64_t block_;
  std::vector<bool> depends_;                        ///< by node: on the tokens
  std::map<NodeId, int> rows_;                       ///< of tensors inside of causal attention: their queries
  std::map<std::pair<NodeId, size_t>, int> memory_;  ///< keys and values, by product and operand: their positions
  std::vector<Forms> wanted_;
  std::vector<Made> made_;
  std::set<std::string> names_;
  Program out_;
  NodeId position_ = -1;
};

/// All of the forward pass, and of its logits one position's.
GenerationProgram picked_program(const Program& forward) {
  GenerationProgram out{.program = forward, .model = language_model(forward)};
  out.tokens = out.model.tokens;
  out.logits = out.model.logits;
  if (out.model.position_dim < 0) return out;
  Program& program = out.program;
  Node position = number_input("position", out.model.length);
  position.id = out.position = NodeId(program.nodes.size());
  std::set<std::string> names;
  for (const Node& node : program.nodes) names.insert(node.name);
  position.name = unique_name(names, position.name);
  program.nodes.push_back(std::move(position));
  const Node& all = program[out.model.logits];
  Node picked;
  picked.id = NodeId(program.nodes.size());
  picked.name = all.name + ".at_position";
  picked.where = all.where;
  picked.inputs = {out.logits, out.position};
  set_operator(picked, pick_positions(all.type.shape, out.model.position_dim, 1), program);
  program.outputs.front().node = out.logits = picked.id;
  program.nodes.push_back(std::move(picked));
  return out;
}

}  // namespace

GenerationProgram window_program(const Program& forward) {
  if (language_model(forward).position_dim >= 0) {
    try {
      return PositionProgram(forward, false).run();
    } catch (const NotByPosition&) {
      // Then all positions are computed.
    }
  }
  return picked_program(forward);
}

RememberingProgram remembering_program(const Program& forward) {
  if (language_model(forward).position_dim < 0) return {{}, "its logits are of the token after a whole window alone"};
  try {
    return {PositionProgram(forward, true).run()};
  } catch (const NotByPosition& why) {
    return {{}, why.reason};
  }
}

GenerationProgram filling_program(const Program& forward, int64_t block) {
  HETSYNTH_CHECK(block > 1 && language_model(forward).length % block == 0, "blocks divide the window evenly");
  return PositionProgram(forward, true, block).run();
}

int64_t filling_block(int64_t length) {
  for (int64_t block = std::min(length, largest_filling_block); block > 1; --block)
    if (length % block == 0) return block;
  return 1;
}

}  // namespace hetsynth
