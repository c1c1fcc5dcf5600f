#include "verify/refute/instance.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <random>
#include <set>

#include "dsl/spmd/nested_cut.h"
#include "verify/rules/digits.h"
#include "verify/rules/normalised_plan.h"

namespace hetsynth {

namespace {

/// Which side of an access one element is picked from: a dimension of the tensor at one position, or the factor that
/// runs past a dimension of one element.
enum Picked { of_none, of_tensor, of_factor };

Picked picked_dimension(const Space& space, const DimIndex& index, int64_t extent) {
  if (index.terms.size() != 1 || !index.terms[0].plain() || index.terms[0].stride != 1 || index.per_turn != 0)
    return of_none;
  const int64_t size = space.factors[index.terms[0].factor].size;
  if (size == 1 && extent > 1 && index.offset >= 0 && index.offset < extent) return of_tensor;
  if (extent == 1 && size > 1 && index.offset <= 0 && -index.offset < size) return of_factor;
  return of_none;
}

/// The element that stands for element `at` of `extent` where there are `size`: the first, the last, or one between.
int64_t picked_element(int64_t at, int64_t extent, int64_t size) {
  return at == 0 ? 0 : at + 1 == extent ? size - 1 : at % size;
}

/// Extents that must change together, as classes of dimensions and factors, and what ties classes to each other.
class Extents {
 public:
  explicit Extents(const Program& program) : p_(program) {
    for (const Node& node : p_.nodes) {
      dim_.push_back(add_all(node.type.shape));
      Shape sizes;
      for (const Factor& f : node.space.factors) sizes.push_back(f.size);
      factor_.push_back(add_all(sizes));
    }
    for (const Node& node : p_.nodes) {
      if (node.leaf()) continue;
      relate(node, node.space.output, node.id);
      for (size_t j = 0; j < node.inputs.size() && j < node.space.inputs.size(); ++j)
        relate(node, node.space.inputs[j], node.inputs[j]);
    }
    for (const TurnLoop& loop : p_.loops)
      for (const TurnLoop::Carry& c : loop.carries) relate_types(c.carry, c.next);
    for (const Update& update : p_.updates) relate_types(update.target, update.value);
    while (unite_digits()) {
    }
  }

  int dim(NodeId node, int d) { return root(dim_[node][d]); }
  int factor(NodeId node, int f) { return root(factor_[node][f]); }
  int64_t original(int c) const { return size_[c]; }

  /// The class whose size decides where this one may be cut: its outermost factor, if it is a product.
  int leading(int c) {
    for (;;) {
      const Product* p = product_of(root(c));
      if (!p || p->parts.empty()) return root(c);
      c = p->parts[0];
    }
  }

  /// Classes free to take any size.
  std::vector<int> free_classes() {
    std::vector<int> out;
    for (int c = 0; c < int(size_.size()); ++c)
      if (root(c) == c && !fixed_.count(c) && !product_of(c)) out.push_back(c);
    return out;
  }

  void fix(int c) { fixed_.insert(root(c)); }

  /// Dimensions of which single elements are picked keep their size where devices hold parts of them: which part has
  /// the element is what the plan goes by.
  void fix_picked(const std::set<int>& cut) {
    std::set<int> roots;
    for (int c : cut) roots.insert({root(c), leading(c)});
    for (int c : picked_)
      if (roots.count(root(c))) fixed_.insert(root(c));
  }

  /// Sizes of all classes given those of the free ones. Classes whose ties cannot be met keep their size.
  std::vector<int64_t> solve(const std::map<int, int64_t>& chosen) {
    for (;;) {
      std::vector<int64_t> sizes(size_.size(), 0);
      for (size_t c = 0; c < size_.size(); ++c) solved(int(c), chosen, sizes);
      bool consistent = true;
      for (const Product& p : products_) {
        int64_t product = p.constant;
        for (int part : p.parts) product *= sizes[part];
        if (product == sizes[p.whole]) continue;
        consistent = false;
        fixed_.insert(root(p.whole));
        for (int part : p.parts) fixed_.insert(root(part));
      }
      if (consistent) return sizes;
    }
  }

 private:
  struct Product {
    int whole;
    int64_t constant;
    std::vector<int> parts;
  };

  std::vector<int> add_all(const Shape& sizes) {
    std::vector<int> classes;
    for (int64_t size : sizes) classes.push_back(add(size));
    return classes;
  }

  int add(int64_t size) {
    parent_.push_back(int(parent_.size()));
    size_.push_back(size);
    if (size <= 1) fixed_.insert(parent_.back());
    return parent_.back();
  }

  int root(int c) {
    while (parent_[c] != c) c = parent_[c] = parent_[parent_[c]];
    return c;
  }

  void unite(int a, int b) {
    a = root(a), b = root(b);
    if (a == b) return;
    if (b < a) std::swap(a, b);
    parent_[b] = a;
    if (fixed_.erase(b)) fixed_.insert(a);
  }

  /// One takes over the other.
  void relate_types(NodeId to, NodeId from) {
    for (size_t d = 0; d < dim_[to].size() && d < dim_[from].size(); ++d) unite(dim_[to][d], dim_[from][d]);
  }

  void relate(const Node& node, const Access& access, NodeId tensor) {
    const Shape& shape = p_[tensor].type.shape;
    for (size_t d = 0; d < access.dims.size() && d < shape.size(); ++d)
      relate_dim(node, access.dims[d], dim_[tensor][d], shape[d]);
  }

  void relate_dim(const Node& node, const DimIndex& index, int dim, int64_t extent) {
    const std::vector<int>& factor = factor_[node.id];
    if (are_digits(node.space, index, extent)) {
      std::vector<int> parts;
      for (const IndexTerm& t : index.terms)
        if (node.space.factors[t.factor].size > 1) parts.push_back(factor[t.factor]);
      if (parts.size() == 1) unite(dim, parts[0]);
      if (parts.size() > 1) products_.push_back({dim, 1, parts});
      return;
    }
    if (index.terms.size() == 1 && index.terms[0].plain() && index.terms[0].stride == 1) {
      // A slice, or a part of a concatenation: everything is a multiple of a common block.
      int f = factor[index.terms[0].factor];
      int64_t block = std::gcd(std::gcd(extent, size_[f]), index.offset);
      if (block > 1) {
        int common = size_[f] == block ? f : add(block);
        if (common != f) products_.push_back({f, size_[f] / block, {common}});
        if (extent == block) unite(dim, common);
        if (extent != block) products_.push_back({dim, extent / block, {common}});
        return;
      }
    }
    if (const int whole = picked_from(node, index, dim, extent); whole >= 0) {
      picked_.insert(whole);
      return;
    }
    fixed_.insert(root(dim));
    for (const IndexTerm& t : index.terms) fixed_.insert(root(factor[t.factor]));
  }

  /// The class of the dimension of which one element is read or, in a gradient, written: at any size there is an
  /// element to be picked. -1: this is no such access.
  int picked_from(const Node& node, const DimIndex& index, int dim, int64_t extent) {
    const int picked = picked_dimension(node.space, index, extent);
    return picked == of_factor ? factor_[node.id][index.terms[0].factor] : picked == of_tensor ? dim : -1;
  }

  /// What is merged and taken apart again into parts of the same sizes has the same parts: as the proof takes it, and
  /// as a model that names its sizes once means it. False if nothing new was found.
  bool unite_digits() {
    std::map<std::vector<int64_t>, const Product*> first;  // by class and the parts' sizes
    bool united = false;
    for (const Product& p : products_) {
      std::vector<int64_t> key{root(p.whole), p.constant};
      for (int part : p.parts) key.push_back(size_[part]);
      const Product& same = *first.try_emplace(std::move(key), &p).first->second;
      for (size_t i = 0; i < p.parts.size(); ++i) {
        united = united || root(p.parts[i]) != root(same.parts[i]);
        unite(p.parts[i], same.parts[i]);
      }
    }
    return united;
  }

  /// The first product that a class is; the others must agree with it.
  const Product* product_of(int root_class) {
    if (product_index_.empty())
      for (size_t i = 0; i < products_.size(); ++i) product_index_.try_emplace(root(products_[i].whole), i);
    auto found = product_index_.find(root_class);
    return found == product_index_.end() ? nullptr : &products_[found->second];
  }

  /// Fills in the size of a class and of what it is made of. Parts are smaller than their product, so this ends.
  int64_t solved(int c, const std::map<int, int64_t>& chosen, std::vector<int64_t>& sizes) {
    int r = root(c);
    if (sizes[r] == 0) {
      const Product* p = fixed_.count(r) ? nullptr : product_of(r);
      auto found = chosen.find(r);
      int64_t size = fixed_.count(r) || found == chosen.end() ? size_[r] : found->second;
      if (p) {
        size = p->constant;
        for (int part : p->parts) size *= solved(part, chosen, sizes);
      }
      sizes[r] = size;
    }
    return sizes[c] = sizes[r];
  }

  const Program& p_;
  std::vector<int> parent_;
  std::vector<int64_t> size_;  ///< original
  std::set<int> fixed_, picked_;
  std::vector<Product> products_;
  std::map<int, size_t> product_index_;  ///< by class; made at the first use, when all ties are known
  std::vector<std::vector<int>> dim_, factor_;
};

class Shrink {
 public:
  Shrink(const Program& reference, const SpmdProgram& program, uint64_t seed, bool smallest)
      : in_{reference, program},
        subject_(make_subject(reference, program)),
        extents_(reference),
        seed_(seed),
        smallest_(smallest),
        random_(seed) {}

  Instance run() {
    collect_cuts();
    std::set<int> cut;
    for (const auto& [table, classes] : cuts_) cut.insert(classes.begin(), classes.end());
    extents_.fix_picked(cut);
    sizes_ = extents_.solve(choose());
    Instance out = in_;
    for (Node& node : out.reference.nodes) resize(node);
    // Axes whose coordinates the plan tells apart keep them all.
    const std::set<int> staged = axes_of_stages(in_.program);
    for (size_t a = 0; a < out.program.mesh.axes.size(); ++a) {
      Mesh::Axis& axis = out.program.mesh.axes[a];
      if (axis.size > 1 && !staged.count(int(a))) axis.size = axis.size > 2 && below(3) == 0 ? 3 : 2;
    }
    // Other devices lie on no hosts; what a collective computes is the same.
    out.program.hosts.clear();
    for (Instruction& i : out.program.instructions) {
      // What the other fields of a compute instruction say means nothing, and was not checked.
      if (i.opcode != Opcode::compute) i.root %= out.program.mesh.axes[size_t(i.axis)].size;
      if (i.realisation == Realisation::hierarchical) i.realisation = Realisation::native;
    }
    cut_tables(out.program);
    return out;
  }

 private:
  int64_t below(int64_t n) { return int64_t(random_() % uint64_t(n)); }

  void note_cut(int table, int extent_class) {
    const BoundaryTable& t = in_.program.tables[table];
    if (extents_.original(extent_class) % t.extent == 0) cuts_[subject_.table_of[table]].insert(extent_class);
  }

  void note_dim(NodeId node, int dim, int table) {
    if (dim >= 0 && dim < int(in_.reference[node].type.shape.size())) note_cut(table, extents_.dim(node, dim));
  }

  /// Which classes each table cuts anywhere in the plan.
  void collect_cuts() {
    for (const Value& value : in_.program.values)
      for (const Placement& p : value.placements) {
        if (p.kind != Placement::Kind::sharded) continue;
        note_dim(value.node, p.dim, p.table);
        // How far a halo reaches is a number, and so is the extent for the proof.
        if (p.overlaps()) extents_.fix(extents_.dim(value.node, p.dim));
      }
    for (const Instruction& i : in_.program.instructions) {
      for (const Split& s : i.splits)
        if (i.opcode == Opcode::compute && s.factor >= 0) note_cut(s.table, extents_.factor(i.node, s.factor));
      if (i.opcode == Opcode::compute || i.operands.empty()) continue;
      NodeId node = in_.program.values[i.operands[0]].node;
      if (i.table >= 0 && i.table < int(in_.program.tables.size())) note_dim(node, i.dim, i.table);
      if (i.to_table >= 0 && i.to_table < int(in_.program.tables.size())) note_dim(node, i.to_dim, i.to_table);
    }
  }

  /// Classes that one table cuts, directly or through others, become multiples of one number of units; sizes differ
  /// where they can.
  std::map<int, int64_t> choose() {
    std::map<int, int> group;  // leading class -> group
    int groups = 0;
    for (const auto& [table, classes] : cuts_) {
      std::set<int> members;
      for (int c : classes) members.insert(extents_.leading(c));
      int mine = groups++;
      for (int c : members)
        if (group.count(c))
          for (auto& [other, g] : group)
            if (g == group[c] && other != c) g = mine;
      for (int c : members) group[c] = mine;
    }
    std::vector<int64_t> units{3, 4, 5, 6, 7}, plain{2, 3, 5, 4, 7, 6};
    if (smallest_) units = {2, 3}, plain = {2, 3};
    std::shuffle(units.begin(), units.end(), random_);
    std::shuffle(plain.begin(), plain.end(), random_);
    std::map<int, int64_t> chosen, multiple;
    std::map<int, size_t> number_of_group;
    size_t next = 0;
    for (int c : extents_.free_classes()) {
      auto found = group.find(c);
      if (found == group.end()) {
        chosen[c] = plain[next++ % plain.size()];
        continue;
      }
      size_t number = number_of_group.try_emplace(found->second, number_of_group.size()).first->second;
      chosen[c] = units[number % units.size()] * (smallest_ ? 1 : 1 + multiple[found->second]++ % 2);
    }
    return chosen;
  }

  void resize(Node& node) {
    const Node& old = in_.reference[node.id];
    for (size_t d = 0; d < node.type.shape.size(); ++d) node.type.shape[d] = sizes_[extents_.dim(node.id, int(d))];
    for (size_t f = 0; f < node.space.factors.size(); ++f)
      node.space.factors[f].size = sizes_[extents_.factor(node.id, int(f))];
    if (node.leaf()) return;
    reindex(node.space, old.space, node.space.output, old.type.shape, node.id);
    for (size_t j = 0; j < node.inputs.size() && j < node.space.inputs.size(); ++j)
      reindex(node.space, old.space, node.space.inputs[j], in_.reference[node.inputs[j]].type.shape, node.inputs[j]);
  }

  /// Strides and offsets for the new sizes.
  void reindex(const Space& space, const Space& old, Access& access, const Shape& old_shape, NodeId tensor) {
    for (size_t d = 0; d < access.dims.size() && d < old_shape.size(); ++d) {
      DimIndex& index = access.dims[d];
      if (are_digits(old, index, old_shape[d])) {
        int64_t stride = 1;
        for (size_t t = index.terms.size(); t-- > 0;) {
          index.terms[t].stride = stride;
          stride *= space.factors[index.terms[t].factor].size;
        }
      } else if (const Picked picked = picked_dimension(old, index, old_shape[d]); picked == of_tensor) {
        index.offset = picked_element(index.offset, old_shape[d], sizes_[extents_.dim(tensor, int(d))]);
      } else if (picked == of_factor) {
        const int f = index.terms[0].factor;
        index.offset = -picked_element(-index.offset, old.factors[f].size, space.factors[f].size);
      } else if (index.terms.size() == 1 && index.offset != 0) {
        int f = index.terms[0].factor;
        index.offset = index.offset / old.factors[f].size * space.factors[f].size +
                       index.offset % old.factors[f].size * space.factors[f].size / old.factors[f].size;
      }
    }
  }

  void cut_tables(SpmdProgram& program) {
    std::map<int, BoundaryTable> made;
    for (int same : subject_.table_of)  // before those that divide their parts
      if (!nests(in_.program.tables[same]) && !made.count(same)) made[same] = cut(same, program.mesh);
    for (size_t t = 0; t < program.tables.size(); ++t) {
      BoundaryTable& table = program.tables[t];
      int same = subject_.table_of[t];
      if (!made.count(same)) made[same] = cut_parts(same, made, program.mesh);
      table.extent = made[same].extent;
      table.by = made[same].by;
      table.bounds = made[same].bounds;
      table.rows = made[same].rows;
    }
  }

  BoundaryTable cut(int table, const Mesh& mesh) {
    const BoundaryTable& old = in_.program.tables[table];
    const int devices = mesh.axes[old.axis].size;
    BoundaryTable out;
    for (int c : cuts_[table]) out.extent = std::gcd(out.extent, sizes_[c]);
    if (out.extent == 0) out.extent = devices;
    out.by = varies_along(old);
    if (out.by < 0) out.bounds = random_bounds(out.extent, devices);
    for (int row = 0; out.by >= 0 && row < mesh.axes[out.by].size; ++row)
      out.rows.push_back(random_bounds(out.extent, devices));
    return out;
  }

  /// A table that divides the parts of another one further.
  BoundaryTable cut_parts(int table, const std::map<int, BoundaryTable>& made, const Mesh& mesh) {
    const BoundaryTable& old = in_.program.tables[table];
    std::vector<int> together(in_.program.mesh.axes.size(), -1);
    together[old.axis] = table;
    for (size_t t = 0; t < in_.program.tables.size(); ++t) {  // of tables that cut alike, one may have rows, equal ones
      const auto known = made.find(subject_.table_of[t]);
      together[old.by] = in_.program.tables[t].axis == old.by ? int(t) : -1;
      if (together[old.by] < 0 || known == made.end() || !why_not_cut_by(in_.program, together).empty()) continue;
      const BoundaryTable& outer = known->second;
      BoundaryTable out;
      out.by = old.by;
      for (int c : cuts_[table]) out.extent = std::gcd(out.extent, sizes_[c]);
      if (out.extent == 0) out.extent = outer.extent;
      const int64_t units = out.extent / outer.extent;
      for (size_t j = 0; j + 1 < outer.bounds.size(); ++j) {
        const int64_t lo = units * outer.bounds[j], hi = units * outer.bounds[j + 1];
        out.rows.push_back(random_bounds(hi - lo, mesh.axes[old.axis].size));
        for (int64_t& bound : out.rows.back()) bound += lo;
      }
      return out;
    }
    return cut(table, mesh);  // of no use to the plan
  }

  std::vector<int64_t> random_bounds(int64_t extent, int devices) {
    std::vector<int64_t> bounds(size_t(devices) + 1, 0);
    if (extent == 0) return bounds;
    bounds.back() = extent;
    if (seed_ % 3 == 2) {  // an empty share, the others at random
      for (int i = 1; i < devices; ++i) bounds[i] = below(2) ? extent : 0;
    } else {
      for (int i = 1; i < devices; ++i) bounds[i] = extent > 1 ? 1 + below(extent - 1) : below(2);
      bool even = devices == 2 && 2 * bounds[1] == extent;
      if (even && extent > 2) ++bounds[1];
    }
    std::sort(bounds.begin(), bounds.end());
    return bounds;
  }

  Instance in_;
  Subject subject_;
  Extents extents_;
  uint64_t seed_;
  bool smallest_;
  std::mt19937_64 random_;
  std::map<int, std::set<int>> cuts_;  ///< by table: classes it cuts
  std::vector<int64_t> sizes_;         ///< new, by class
};

}  // namespace

Instance shrink(const Program& reference, const SpmdProgram& program, uint64_t seed, bool smallest) {
  return Shrink(reference, program, seed, smallest).run();
}

}  // namespace hetsynth
