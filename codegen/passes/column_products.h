// Which calls of a rank's text multiply columns that may be left out.
#pragma once
#include "codegen/interface/device_program.h"
#include "codegen/passes/lower.h"

namespace hetsynth::codegen {

/// Fills in column_products and column_sets by the marks of the text. Products whose columns are spread over loops
/// around the call, as those that no stride can join, are left out.
void find_column_products(const Lowered& lowered, DeviceProgram& program);

}  // namespace hetsynth::codegen
