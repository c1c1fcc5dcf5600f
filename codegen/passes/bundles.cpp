#include "codegen/passes/bundles.h"

#include <algorithm>
#include <set>

#include "dsl/base/error.h"
#include "dsl/spmd/buckets.h"

namespace hetsynth::codegen {
namespace {

/// Buffers that a group reads and writes.
struct Touched {
  std::set<ValueId> read, written;
};

Touched touched_by(const LocalProgram& program, const Group& group, const Layouts& layouts) {
  Touched out;
  const bool always = group.kind != Group::Kind::loops && group.kind != Group::Kind::attention;
  for (const Member& member : group.members) {
    const LocalOp& op = program.ops[size_t(member.op)];
    if (always || member.stored) out.written.insert(layouts.of[size_t(op.result)].buffer);
    for (size_t j = 0; j < op.inputs.size(); ++j)
      if (member.source.empty() || member.source[j] < 0) out.read.insert(layouts.of[size_t(op.inputs[j].value)].buffer);
  }
  return out;
}

bool meet(const std::set<ValueId>& a, const std::set<ValueId>& b) {
  return std::ranges::any_of(a, [&](ValueId value) { return b.contains(value); });
}

}  // namespace

std::vector<Bundle> bundles(const LocalProgram& program, const std::vector<Group>& groups, const Layouts& layouts,
                            const std::vector<int>& bucket_of) {
  std::vector<Bundle> out;
  struct Open {
    size_t bundle;
    Touched touched;
  };
  std::vector<Open> under_way;
  const auto end = [&](auto open, int before) {
    out[open->bundle].ends_before = before;
    return under_way.erase(open);
  };
  int last_bucket = -1;
  for (int g = 0; g < int(groups.size()); ++g) {
    const Group& group = groups[size_t(g)];
    const LocalOp& op = program.ops[size_t(group.op())];
    const Touched touched = touched_by(program, group, layouts);
    const int bucket = group.kind == Group::Kind::collective ? bucket_of[size_t(op.result)] : -1;
    const bool begins = bucket >= 0, joins = begins && bucket == last_bucket;
    for (auto open = under_way.begin(); open != under_way.end();) {
      const bool own = joins && open + 1 == under_way.end();
      const bool waits = op.loop >= 0 || meet(touched.read, open->touched.written) ||
                         meet(touched.written, open->touched.written) || meet(touched.written, open->touched.read);
      HETSYNTH_CHECK(!(own && waits), "members of a bucket do not depend on each other");
      // What a later member needs is waited for before the first one: nothing stands between them.
      open = waits ? end(open, joins ? out.back().groups.front() : g) : open + 1;
    }
    last_bucket = bucket;
    if (!begins) continue;
    if (!joins) {
      while (int(under_way.size()) >= most_under_way) end(under_way.begin(), g);
      under_way.push_back({out.size(), {}});
      out.push_back({{}, int(groups.size())});
    }
    out.back().groups.push_back(g);
    Touched& all = under_way.back().touched;
    all.read.insert(touched.read.begin(), touched.read.end());
    all.written.insert(touched.written.begin(), touched.written.end());
  }
  return out;
}

}  // namespace hetsynth::codegen
