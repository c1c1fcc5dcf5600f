// The mark of codegen/interface/abi.h, handed to the rank's trace, and to the columns that it leaves out.
#include "codegen/interface/abi.h"
#include "runtime/rank/left_out.h"
#include "runtime/rank/step_trace.h"

extern "C" void hetsynth_mark(HetsynthContext* context, int work, int64_t turn) {
  if (context->trace) static_cast<hetsynth::StepTrace*>(context->trace)->mark({work, turn});
  if (hetsynth::LeftOutColumns* columns = hetsynth::LeftOutColumns::of_this_thread()) columns->begin(work);
}
