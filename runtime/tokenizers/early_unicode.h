// Two properties of code points by an earlier Unicode than categories.h: PyPI's tokenizers 0.23 asks libraries for them
// that stopped there.
#pragma once

namespace hetsynth {

/// Signs of ASCII, and what was punctuation in Unicode 8 (BERT's tokenization.py: _is_punctuation).
bool is_early_punctuation(char32_t code);

/// What was a combining mark in Unicode 9.
bool is_early_mark(char32_t code);

}  // namespace hetsynth
