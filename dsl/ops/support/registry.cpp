// The operator list, from the names in dsl/ops/CMakeLists.txt.
#include "dsl/ir/operator.h"

namespace hetsynth {

#define HETSYNTH_OPERATOR(name) OperatorInfo name##_info();
#include "hetsynth/operators.inc"
#undef HETSYNTH_OPERATOR

const std::vector<OperatorInfo>& operator_list() {
  static const std::vector<OperatorInfo> list = {
#define HETSYNTH_OPERATOR(name) name##_info(),
#include "hetsynth/operators.inc"
#undef HETSYNTH_OPERATOR
  };
  return list;
}

}  // namespace hetsynth
