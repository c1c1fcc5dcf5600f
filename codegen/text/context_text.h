// The declaration of HetsynthContext in generated text, which includes nothing.
#pragma once
#include <string>

namespace hetsynth::codegen {

/// The structure of codegen/interface/abi.h. `cuda`: with the members that programs of cuda devices read; they come
/// last.
inline std::string context_declaration(bool cuda) {
  std::string out =
      "struct HetsynthContext {\n"
      "  char* arena;\n"
      "  long step;\n"
      "  unsigned long seed;\n"
      "  void* communicator;\n"
      "  void* stream;\n"
      "  void* communication_stream;\n";
  if (cuda)
    out +=
        "  void* device;\n"
        "  const void* clock;\n"
        "  void* trace;\n"
        "  void* rising_stream;\n"
        "  void* falling_stream;\n";
  return out + "};\n";
}

}  // namespace hetsynth::codegen
