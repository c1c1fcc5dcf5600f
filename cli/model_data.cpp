#include "cli/model_data.h"

#include <algorithm>

namespace hetsynth::cli {

bool reads_text(const Program& program) {
  return std::any_of(program.nodes.begin(), program.nodes.end(), [](const Node& node) {
    return node.kind == NodeKind::input && node.data.kind >= DataSource::Kind::text_tokens &&
           node.data.kind <= DataSource::Kind::text_next;
  });
}

DataOptions with_default_data(const Program& program, DataOptions options) {
  if (options.path.empty() && reads_text(program)) options.path = default_text;
  return options;
}

}  // namespace hetsynth::cli
