// Generated text that somebody edited, by whatever bytes: the check answers, whatever stands there. Shared by the
// random-mutation test and the libFuzzer target.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "verify/source/check.h"

namespace hetsynth::test {

/// Right programs of one rank of two, to start from: of a cpu device, of a cuda device, and the kernels of that.
const std::vector<std::string>& texts_to_edit();

/// Throws, or fails a HETSYNTH_CHECK, if the check breaks a promise: an answer with a reason in bounded work.
Verdict check_edited_text(std::string_view text);

}  // namespace hetsynth::test
