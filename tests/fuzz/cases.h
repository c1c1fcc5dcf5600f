// What must hold for any bytes in a cluster or plan file: they are refused with a UserError, or what they give is
// sound. Shared by the random-mutation test and the libFuzzer targets.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace hetsynth::testing {

/// Throws, or fails a HETSYNTH_CHECK, if the reader's promises are broken. true: the bytes were taken.
bool check_cluster_bytes(std::string_view bytes);
bool check_plan_bytes(std::string_view bytes);

/// Correct files to start from.
std::vector<std::string> cluster_seeds();
std::vector<std::string> plan_seeds();

/// Whether the bytes are a certificate that was not changed. What is taken must write itself the same.
bool check_certificate_bytes(std::string_view bytes);
std::vector<std::string> certificate_seeds();

/// A tokenizer.json that is taken encodes texts to ids that it has, and decodes them.
bool check_tokenizer_bytes(std::string_view bytes);
std::vector<std::string> tokenizer_seeds();

}  // namespace hetsynth::testing
