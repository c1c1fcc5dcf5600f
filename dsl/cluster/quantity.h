// Quantities with units, as people write them in a cluster file: "16 GiB", "10 Gb/s", "15.7 TFLOP/s", "20 us".
#pragma once
#include <string>
#include <string_view>

namespace hetsynth {

enum class Dimension { memory, bandwidth, compute, time };

/// Unit of plain numbers: "bytes", "bytes per second", "FLOP/s", "seconds".
std::string_view base_unit(Dimension dimension);

/// A way to write it, for messages: "16 GiB".
std::string_view example(Dimension dimension);

/// The value in base units, or why the text is none. b is a bit, B a byte; k, M, G, T, P, E are powers of 1000, Ki, Mi,
/// Gi, Ti powers of 1024. Strict: one decimal number, one unit, nothing else; no sign, no infinity.
struct ParsedQuantity {
  bool ok = false;
  double value = 0;
  std::string problem;  ///< one sentence, if not ok
  std::string mend;
};
ParsedQuantity parse_quantity(std::string_view text, Dimension dimension);

/// The shortest text with at most 4 significant digits: "16 GiB", "1.25 GB/s", "15.7 TFLOP/s", "20 us". For people, not
/// to be parsed exactly.
std::string quantity_text(double value, Dimension dimension);

}  // namespace hetsynth
