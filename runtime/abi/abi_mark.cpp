// The mark of codegen/interface/abi.h, handed to the rank's trace.
#include "codegen/interface/abi.h"
#include "runtime/rank/step_trace.h"

extern "C" void hetsynth_mark(HetsynthContext* context, int work, int64_t turn) {
  if (context->trace) static_cast<hetsynth::StepTrace*>(context->trace)->mark({work, turn});
}
