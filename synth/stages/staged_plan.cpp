#include "synth/stages/staged_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "dsl/base/error.h"
#include "synth/stages/cut_points.h"

namespace hetsynth::synth {
namespace {

constexpr int all_stages = -1;

/// Placements behind those of a new first axis.
Placements behind(const Placement& first, const Placements& placements) {
  Placements out{first};
  out.insert(out.end(), placements.begin(), placements.end());
  return out;
}

Placement on(int stage) { return stage == all_stages ? Placement::replicated() : Placement::stage(stage); }

class Spreading {
 public:
  Spreading(const Program& program, const SpmdProgram& group, const StagePositions& positions, const StageCuts& cuts)
      : p_(program),
        from_(group),
        positions_(positions),
        cuts_(cuts),
        forms_(group.values.size()),
        wanted_(group.values.size()) {
    out_.mesh.axes = {{"stage", cuts.stages()}};
    out_.mesh.axes.insert(out_.mesh.axes.end(), group.mesh.axes.begin(), group.mesh.axes.end());
    out_.tables = group.tables;
    for (BoundaryTable& table : out_.tables) {
      ++table.axis;
      if (table.by >= 0) ++table.by;
    }
  }

  SpmdProgram run() {
    number_regions();
    convert_late();
    find_wanted();
    for (const ValueId leaf : from_.leaves) bind(leaf);
    for (size_t i = 0; i < from_.instructions.size(); ++i)
      for (const auto& [stage, part] : places_of(int(i))) carry_out(int(i), stage, part);
    finish();
    return std::move(out_);
  }

 private:
  /// Where an instruction stands in the new program: what runs once before, in and behind each loop, and in the loop
  /// over samples its part.
  struct Place {
    int region = 0, part = 0;
    auto operator<=>(const Place&) const = default;
  };
  struct Form {
    ValueId value;
    Place made;
  };

  NodeId node_of(ValueId value) const { return from_.values[size_t(value)].node; }

  void number_regions() {
    const std::vector<LoopSpan> spans = loop_spans(p_, from_);
    region_.assign(from_.instructions.size(), 0);
    for (size_t s = 0; s < spans.size(); ++s) {
      for (int i = spans[s].first; i < spans[s].last; ++i) region_[size_t(i)] = int(2 * s + 1);
      const int next = s + 1 < spans.size() ? spans[s + 1].first : int(from_.instructions.size());
      for (int i = spans[s].last; i < next; ++i) region_[size_t(i)] = int(2 * s + 2);
      if (spans[s].loop == positions_.loop) overlapped_ = int(2 * s + 1);
    }
  }

  bool in_overlapped(int instruction) const { return region_[size_t(instruction)] == overlapped_; }

  /// What is converted for another segment alone is sent as it is and converted there: the whole of what is gathered
  /// would be sent by each device of a group, and beside a converted value its operand, if that is read there, too.
  void convert_late() {
    std::vector<std::vector<int>> readers(from_.values.size());
    for (size_t i = 0; i < from_.instructions.size(); ++i)
      for (const ValueId operand : from_.instructions[i].operands) readers[size_t(operand)].push_back(int(i));
    std::set<ValueId> kept;
    for (const auto& [unused, value] : from_.carried) kept.insert(value);
    for (const auto& [unused, value] : from_.finals) kept.insert(value);
    late_.assign(from_.instructions.size(), -1);
    for (size_t i = from_.instructions.size(); i-- > 0;) {  // readers before what they read
      const Instruction& conversion = from_.instructions[i];
      if (!converts_late(conversion.opcode) || !in_overlapped(int(i)) || kept.contains(conversion.result)) continue;
      const std::vector<int>& at = readers[size_t(conversion.result)];
      const auto segment = [&](int reader) {
        const NodeId node = placed_by(reader);
        const bool anywhere = positions_.of[size_t(node)] == any_position || !in_overlapped(reader);
        return anywhere ? -1 : segment_at(node);
      };
      if (at.empty() || segment(at[0]) < 0 || segment(int(i)) < 0) continue;
      if (!std::ranges::all_of(at, [&](int reader) { return segment(reader) == segment(at[0]); })) continue;
      const auto part = [&](int reader) { return part_at(reader, segment(reader)); };
      const int first = *std::ranges::min_element(at, {}, part);
      if (part(first) > part(int(i))) late_[i] = last_reader(first);
    }
  }
  /// Of a reader that is carried out late itself, the one at whose place.
  int last_reader(int reader) const { return late_[size_t(reader)] >= 0 ? late_[size_t(reader)] : reader; }
  /// The node whose position says where an instruction is carried out.
  NodeId placed_by(int i) const {
    const int reader = late_[size_t(i)];
    return node_of(from_.instructions[size_t(reader >= 0 ? reader : i)].result);
  }

  /// The part of the loop in which the instruction's node runs at its position.
  int part_at(int instruction, int segment) const {
    if (!in_overlapped(instruction)) return 0;
    const NodeId node = placed_by(instruction);
    return part_of_direction(positions_.again[size_t(node)], segment);
  }

  /// Sends stand in parts of odd numbers.
  int part_of_direction(bool again, int segment) const {
    return 2 * (again ? 2 * cuts_.segments() - 2 - segment : segment);
  }

  /// Who reads what can be computed anywhere: its stages, each with the first part that reads it.
  void find_wanted() {
    for (const auto& [carry, value] : from_.carried) want(value, stage_at(carry), part_of_segment(carry));
    for (const auto& [target, value] : from_.finals) want(value, stage_at(target), 0);
    if (from_.loss >= 0) want(from_.loss, all_stages, 0);
    for (const NamedOutput& output : p_.outputs)
      for (size_t v = 0; v < from_.values.size(); ++v)
        if (node_of(ValueId(v)) == output.node) want(ValueId(v), 0, 0);
    for (int i = int(from_.instructions.size()); i-- > 0;)
      for (const auto& [stage, part] : places_of(i))
        for (const ValueId operand : from_.instructions[size_t(i)].operands) want(operand, stage, part);
  }

  void want(ValueId value, int stage, int part) {
    const auto [it, fresh] = wanted_[size_t(value)].try_emplace(stage, part);
    if (!fresh) it->second = std::min(it->second, part);
  }

  int segment_at(NodeId node) const { return cuts_.segment_of(positions_.of[size_t(node)]); }
  int stage_at(NodeId node) const {
    return positions_.of[size_t(node)] == any_position ? all_stages : cuts_.stage[size_t(segment_at(node))];
  }
  int part_of_segment(NodeId node) const {
    const int segment = positions_.of[size_t(node)] == any_position ? 0 : segment_at(node);
    return part_of_direction(positions_.again[size_t(node)], segment);
  }

  /// The stages that carry an instruction out, with its part of the loop on each.
  std::map<int, int> places_of(int i) const {
    const Instruction& instruction = from_.instructions[size_t(i)];
    const NodeId node = placed_by(i);
    if (positions_.of[size_t(node)] != any_position)
      return {{cuts_.stage[size_t(segment_at(node))], part_at(i, segment_at(node))}};
    std::map<int, int> places = wanted_[size_t(instruction.result)];
    // What all read, and scalars, are computed by all.
    const bool cheap = region_[size_t(i)] % 2 == 0 && element_count(p_[node].type.shape) == 1;
    if (places.contains(all_stages) || (cheap && !places.empty())) return {{all_stages, 0}};
    if (!in_overlapped(i))
      for (auto& [stage, part] : places) part = 0;
    return places;
  }

  ValueId define(ValueId of, int stage, const std::string& suffix) {
    Value value = from_.values[size_t(of)];
    value.placements = behind(on(stage), value.placements);
    value.name += suffix;
    out_.values.push_back(std::move(value));
    return ValueId(out_.values.size()) - 1;
  }

  void bind(ValueId leaf) {
    const NodeId node = node_of(leaf);
    std::set<int> stages;
    if (positions_.of[size_t(node)] != any_position) {
      stages = {stage_at(node)};
    } else if (p_[node].kind != NodeKind::input) {
      stages = {all_stages};
    } else {
      for (const auto& [stage, part] : wanted_[size_t(leaf)]) stages.insert(stage);
      if (stages.contains(all_stages)) stages = {all_stages};
    }
    for (const int stage : stages) {
      const std::string suffix = stages.size() > 1 ? fmt::format("@stage{}", stage) : "";
      const ValueId value = define(leaf, stage, suffix);
      out_.leaves.push_back(value);
      forms_[size_t(leaf)][stage] = {value, {}};
    }
  }

  void add(Instruction instruction, Place place) { made_.push_back({place, std::move(instruction)}); }

  /// The value on a stage. One that lies on another is sent behind what makes it; `needed`: by whom.
  ValueId on_stage(ValueId value, int stage, Place needed) {
    std::map<int, Form>& forms = forms_[size_t(value)];
    for (const int place : {all_stages, stage})
      if (const auto it = forms.find(place); it != forms.end()) return it->second.value;
    HETSYNTH_CHECK(!forms.empty(), "what a stage reads is made before: " + from_.values[size_t(value)].name);
    const auto& [from, form] = *forms.begin();
    Instruction send;
    send.opcode = stage == all_stages ? Opcode::broadcast : Opcode::send;
    send.operands = {form.value};
    send.axis = 0;
    send.root = from;
    send.to = stage == all_stages ? 0 : stage;
    send.cause = stage == all_stages ? "every stage reads it" : "another stage reads it";
    send.result = define(value, stage, stage == all_stages ? "@all" : fmt::format("@stage{}", stage));
    Place place = form.made.region < needed.region || form.made.region == overlapped_ ? form.made : needed;
    if (place.region == overlapped_) place.part |= 1;
    forms[stage] = {send.result, place};
    const ValueId result = send.result;
    add(std::move(send), place);
    return result;
  }

  void carry_out(int i, int stage, int part) {
    Instruction made = from_.instructions[size_t(i)];
    const Place place{region_[size_t(i)], part};
    for (ValueId& operand : made.operands) operand = on_stage(operand, stage, place);
    if (made.opcode == Opcode::compute)
      made.splits.insert(made.splits.begin(), stage == all_stages ? Split{} : Split::on_stage(stage));
    else
      ++made.axis;
    std::map<int, Form>& forms = forms_[size_t(made.result)];
    const ValueId result = define(made.result, stage, forms.empty() ? "" : fmt::format("@stage{}", stage));
    forms[stage] = {result, place};
    made.result = result;
    add(std::move(made), place);
  }

  void finish() {
    const Place end{region_.empty() ? 0 : 2 * int(p_.loops.size()) + 2, 0};
    for (const auto& [carry, value] : from_.carried)
      out_.carried.push_back({carry, on_stage(value, stage_at(carry), {overlapped_, part_of_segment(carry)})});
    for (const auto& [target, value] : from_.finals)
      out_.finals.push_back({target, on_stage(value, stage_at(target), end)});
    if (from_.loss >= 0) out_.loss = on_stage(from_.loss, all_stages, end);
    std::ranges::stable_sort(made_, {}, &std::pair<Place, Instruction>::first);
    LoopSchedule schedule{positions_.loop, {}, {}};
    int part = -1;
    for (auto& [place, instruction] : made_) {
      if (place.region == overlapped_) {
        if (place.part != part) schedule.parts.push_back(0);
        part = place.part;
        ++schedule.parts.back();
      }
      out_.instructions.push_back(std::move(instruction));
    }
    for (int64_t turn = 0; turn < p_.loops[size_t(positions_.loop)].turns; ++turn)
      for (int number = 0; number < int(schedule.parts.size()); ++number) schedule.order.push_back({number, turn});
    out_.schedules = {std::move(schedule)};
  }

  const Program& p_;
  const SpmdProgram& from_;
  const StagePositions& positions_;
  const StageCuts& cuts_;
  std::vector<int> region_;                 ///< by instruction: odd in loops
  std::vector<int> late_;                   ///< by instruction: the reader at whose place it is carried out; -1: none
  int overlapped_ = -1;                     ///< the region of the loop over samples
  std::vector<std::map<int, Form>> forms_;  ///< by value of the group's plan: as stages have it
  std::vector<std::map<int, int>> wanted_;  ///< by value: see find_wanted
  std::vector<std::pair<Place, Instruction>> made_;
  SpmdProgram out_;
};

}  // namespace

int StageCuts::stages() const { return 1 + *std::ranges::max_element(stage); }

int StageCuts::segment_of(int position) const { return int(std::ranges::upper_bound(ends, position) - ends.begin()); }

SpmdProgram staged_plan(const Program& in_turns, const SpmdProgram& group, const StagePositions& positions,
                        const StageCuts& cuts) {
  return Spreading(in_turns, group, positions, cuts).run();
}

}  // namespace hetsynth::synth
