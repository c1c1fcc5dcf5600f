// Small models, written as a user would, traced in process.
#pragma once
#include <string>

#include "dsl/ir/program.h"

namespace hetsynth::testing {

/// Next byte from the bytes before it: embedding, two layers, cross-entropy, SGD with momentum. Batch 10, hidden
/// width 15.
Program small_mlp();

/// Convolutions of every kind, pools, batch and group normalisation over images of 11 x 10; SGD with momentum. Batch 7.
Program small_cnn();

/// One pre-norm transformer block of width 12 with 3 heads, dropout, tied embeddings; AdamW with clipping. Batch 5 of 6
/// bytes.
Program small_gpt();

/// An LSTM and a GRU that begins with its last cell state, over 5 bytes; AdamW with clipping. Batch 6, hidden width 10.
Program small_recurrent();

/// Tags for words of 5 tokens a sentence, with a mask, features of the sentence and labels of which -100 are ignored;
/// AdamW. Batch 6, hidden width 9. Inputs: words, mask, features, labels.
Program small_tagger();
/// A folder of npy files that fill them, with 20 sentences.
std::string tagger_files();

/// The same models as they are evaluated: without dropout, with running statistics.
Program small_gpt_evaluation();
Program small_cnn_evaluation();

/// The forward pass of small_gpt at batch 1, to its logits.
Program small_gpt_forward();

}  // namespace hetsynth::testing
