#include "tests/peers/cases.h"

#include "hetsynth/hetsynth.h"

namespace hetsynth::peers {
namespace {

using In = const std::vector<Tensor>&;

LstmWeights lstm_of(In x) { return {x[1], x[2], x[3]}; }
GruWeights gru_of(In x) { return {x[1], x[2], x[3], x[4]}; }

}  // namespace

const std::vector<Case>& cases() {
  const Argument wide{{3, 5}}, row{{5}}, positive{{3, 5}, 0, 0.3, 3}, cube{{2, 3, 4}}, image{{2, 4, 7, 5}};
  static const std::vector<Case> all = {
      {"add", {wide, row}, [](In x) { return x[0] + x[1]; }, "x0 + x1"},
      {"sub", {wide, row}, [](In x) { return x[0] - x[1]; }, "x0 - x1"},
      {"mul", {wide, {{3, 1}}}, [](In x) { return x[0] * x[1]; }, "x0 * x1"},
      {"div", {wide, positive}, [](In x) { return x[0] / x[1]; }, "x0 / x1"},
      {"neg", {wide}, [](In x) { return -x[0]; }, "-x0"},
      {"exp", {wide}, [](In x) { return exp(x[0]); }, "torch.exp(x0)"},
      {"log", {positive}, [](In x) { return log(x[0]); }, "torch.log(x0)"},
      {"sqrt", {positive}, [](In x) { return sqrt(x[0]); }, "torch.sqrt(x0)"},
      {"tanh", {wide}, [](In x) { return tanh(x[0]); }, "torch.tanh(x0)"},
      {"sigmoid", {wide}, [](In x) { return sigmoid(x[0]); }, "torch.sigmoid(x0)"},
      {"relu", {wide}, [](In x) { return relu(x[0]); }, "F.relu(x0)"},
      {"gelu", {wide}, [](In x) { return gelu(x[0]); }, "F.gelu(x0, approximate='tanh')"},
      {"maximum", {wide, row}, [](In x) { return maximum(x[0], x[1]); }, "torch.maximum(x0, x1)"},
      {"minimum", {wide, row}, [](In x) { return minimum(x[0], x[1]); }, "torch.minimum(x0, x1)"},
      {"sum",
       {cube},
       [](In x) {
         return sum(x[0], {0, 2});
       },
       "x0.sum((0, 2))"},
      {"mean", {cube}, [](In x) { return mean(x[0], -1, true); }, "x0.mean(-1, keepdim=True)"},
      {"max", {cube}, [](In x) { return max(x[0], 1); }, "x0.amax(1)"},
      {"matmul", {cube, {{2, 4, 5}}}, [](In x) { return matmul(x[0], x[1]); }, "x0 @ x1"},
      {"matmul shared", {cube, {{4, 5}}}, [](In x) { return matmul(x[0], x[1]); }, "x0 @ x1"},
      {"einsum",
       {{{2, 3, 4, 5}}, {{2, 6, 4, 5}}},
       [](In x) { return einsum("bthd,bshd->bhts", x[0], x[1]); },
       "torch.einsum('bthd,bshd->bhts', x0, x1)"},
      {"softmax", {cube}, [](In x) { return softmax(x[0], 1); }, "F.softmax(x0, 1)"},
      {"log_softmax", {cube}, [](In x) { return log_softmax(x[0], -1); }, "F.log_softmax(x0, -1)"},
      {"layernorm",
       {cube, {{4}}, {{4}}},
       [](In x) { return layernorm(x[0], x[1], x[2]); },
       "F.layer_norm(x0, (4,), x1, x2)"},
      {"cross_entropy",
       {{{6, 5}}, {{6}, 5}},
       [](In x) { return cross_entropy(x[0], x[1]); },
       "F.cross_entropy(x0, x1)"},
      {"pick", {{{6, 5}}, {{6}, 5}}, [](In x) { return pick(x[0], x[1]); }, "x0.gather(-1, x1[:, None])[:, 0]"},
      {"embedding", {{{7, 4}}, {{2, 3}, 7}}, [](In x) { return embedding(x[0], x[1]); }, "F.embedding(x1, x0)"},
      {"causal_mask",
       {{{2, 4, 4}}},
       [](In x) { return softmax(causal_mask(x[0]), -1); },
       "F.softmax(x0.masked_fill(torch.ones(4, 4).triu(1).bool(), -torch.inf), -1)"},
      {"transpose",
       {cube},
       [](In x) {
         return transpose(x[0], {2, 0, 1});
       },
       "x0.permute(2, 0, 1)"},
      {"reshape",
       {cube},
       [](In x) {
         return reshape(x[0], {4, 6});
       },
       "x0.reshape(4, 6)"},
      {"broadcast",
       {row},
       [](In x) {
         return broadcast(x[0], {3, 5});
       },
       "x0.broadcast_to(3, 5)"},
      {"slice", {cube}, [](In x) { return slice(x[0], 1, 1, 3); }, "x0[:, 1:3]"},
      {"concat",
       {cube, {{2, 2, 4}}},
       [](In x) {
         return concat({x[0], x[1]}, 1);
       },
       "torch.cat([x0, x1], 1)"},
      {"pad", {cube}, [](In x) { return pad(x[0], 1, 2, 1); }, "F.pad(x0, (0, 0, 2, 1))"},
      {"abs", {wide}, [](In x) { return abs(x[0]); }, "x0.abs()"},
      {"adaptive_avg_pool2d",
       {image},
       [](In x) {
         return adaptive_avg_pool2d(x[0], {3, 2});
       },
       "F.adaptive_avg_pool2d(x0, (3, 2))"},
      {"avg_pool2d",
       {image},
       [](In x) { return avg_pool2d(x[0], 3, {.stride = 2, .padding = 1}); },
       "F.avg_pool2d(x0, 3, 2, 1)"},
      {"max_pool2d",
       {image},
       [](In x) { return max_pool2d(x[0], 3, {.stride = 2, .padding = 1}); },
       "F.max_pool2d(x0, 3, 2, 1)"},
      {"conv2d",
       {image, {{6, 4, 3, 3}}},
       [](In x) { return conv2d(x[0], x[1], {.stride = 2, .padding = 1}); },
       "F.conv2d(x0, x1, stride=2, padding=1)"},
      {"conv2d grouped, dilated",
       {image, {{6, 2, 3, 2}}},
       [](In x) {
         return conv2d(x[0], x[1], {.padding = {2, 1}, .dilation = {2, 1}, .groups = 2});
       },
       "F.conv2d(x0, x1, padding=(2, 1), dilation=(2, 1), groups=2)"},
      {"conv_transpose2d",
       {image, {{4, 3, 3, 3}}},
       [](In x) { return conv_transpose2d(x[0], x[1], {.stride = 2, .padding = 1, .output_padding = 1}); },
       "F.conv_transpose2d(x0, x1, stride=2, padding=1, output_padding=1)"},
      {"batchnorm",
       {image, {{4}}, {{4}}},
       [](In x) { return batchnorm(x[0], x[1], x[2]); },
       "F.batch_norm(x0, None, None, x1, x2, training=True)"},
      {"groupnorm",
       {image, {{4}}, {{4}}},
       [](In x) { return groupnorm(x[0], 2, x[1], x[2]); },
       "F.group_norm(x0, 2, x1, x2)"},
      {"rms_norm", {cube, {{4}}}, [](In x) { return rms_norm(x[0], x[1]); }, "F.rms_norm(x0, (4,), x1, eps=1e-5)"},
      {"clamp", {wide}, [](In x) { return clamp(x[0], -1, 0.5); }, "x0.clamp(-1, 0.5)"},
      {"compare", {wide, row}, [](In x) { return less(x[0], x[1]) * x[0]; }, "(x0 < x1) * x0"},
      {"compare equal", {{{3, 4}, 3}, {{4}, 3}}, [](In x) { return equal(x[0], x[1]); }, "(x0 == x1).double()"},
      {"cos", {wide}, [](In x) { return cos(x[0]); }, "torch.cos(x0)"},
      {"sin", {wide}, [](In x) { return sin(x[0]); }, "torch.sin(x0)"},
      {"erf", {wide}, [](In x) { return erf(x[0]); }, "torch.erf(x0)"},
      {"gelu erf", {wide}, [](In x) { return gelu_erf(x[0]); }, "F.gelu(x0)"},
      {"flip", {cube}, [](In x) { return flip(x[0], 1); }, "x0.flip(1)"},
      {"leaky_relu", {wide}, [](In x) { return leaky_relu(x[0], 0.2); }, "F.leaky_relu(x0, 0.2)"},
      {"one_hot", {{{3, 4}, 5}}, [](In x) { return one_hot(x[0], 5); }, "F.one_hot(x0, 5).double()"},
      {"pow", {positive, row}, [](In x) { return pow(x[0], x[1]); }, "x0 ** x1"},
      {"rsqrt", {positive}, [](In x) { return rsqrt(x[0]); }, "torch.rsqrt(x0)"},
      {"silu", {wide}, [](In x) { return silu(x[0]); }, "F.silu(x0)"},
      {"softplus", {wide}, [](In x) { return softplus(x[0]); }, "F.softplus(x0)"},
      {"square", {wide}, [](In x) { return square(x[0]); }, "x0 * x0"},
      {"to_float", {{{3, 4}, 5}}, [](In x) { return to_float(x[0]); }, "x0.double()"},
      {"where",
       {wide, wide, row},
       [](In x) { return where(less(x[0], 0.1), x[1], x[2]); },
       "torch.where(x0 < 0.1, x1, x2)"},
      {"rotary", {{{2, 5, 3, 4}}}, [](In x) { return rotary(x[0], 1); }, "rotary(x0)"},
      {"lstm",
       {{{2, 6, 3}}, {{3, 4, 5}}, {{5, 4, 5}}, {{4, 5}}, {{2, 5}}, {{2, 5}}},
       [](In x) {
         return lstm(x[0], lstm_of(x), {x[4], x[5]});
       },
       "recurrent(torch.nn.LSTM, x0, x1, x2, x3, None, (x4, x5))"},
      {"lstm from zeros",
       {{{2, 6, 3}}, {{3, 4, 5}}, {{5, 4, 5}}, {{4, 5}}},
       [](In x) { return lstm(x[0], lstm_of(x)); },
       "recurrent(torch.nn.LSTM, x0, x1, x2, x3, None, None)"},
      {"lstm_cell",
       {{{2, 3}}, {{3, 4, 5}}, {{5, 4, 5}}, {{4, 5}}, {{2, 5}}, {{2, 5}}},
       [](In x) {
         return lstm_cell(x[0], {x[4], x[5]}, lstm_of(x)).h;
       },
       "recurrent(torch.nn.LSTM, x0[:, None], x1, x2, x3, None, (x4, x5))[:, 0]"},
      {"gru",
       {{{2, 6, 3}}, {{3, 3, 5}}, {{5, 3, 5}}, {{3, 5}}, {{5}}, {{2, 5}}},
       [](In x) { return gru(x[0], gru_of(x), x[5]); },
       "recurrent(torch.nn.GRU, x0, x1, x2, x3, x4, x5)"},
      {"gru_cell",
       {{{2, 3}}, {{3, 3, 5}}, {{5, 3, 5}}, {{3, 5}}, {{5}}, {{2, 5}}},
       [](In x) { return gru_cell(x[0], x[5], gru_of(x)); },
       "recurrent(torch.nn.GRU, x0[:, None], x1, x2, x3, x4, x5)[:, 0]"},
      {"scan",
       {{{2, 4, 3}}, {{2, 3}}},
       [](In x) {
         return scan(x[0], {x[1]},
                     [](const std::vector<Tensor>& state, Tensor now, int64_t) {
                       Tensor next = tanh(state[0] * now);
                       return ScanStep{{next}, next};
                     })
             .outputs;
       },
       "scan(lambda h, x: torch.tanh(h * x), x1, x0)"},
  };
  return all;
}

const std::vector<OptimizerCase>& optimizer_cases() {
  static const std::vector<OptimizerCase> all = {
      {"sgd", [](Tensor loss) { minimize(loss, SGD{.learning_rate = 0.05, .momentum = 0.9}); },
       "torch.optim.SGD(p, lr=0.05, momentum=0.9)"},
      {"adamw", [](Tensor loss) { minimize(loss, AdamW{.learning_rate = 0.05, .weight_decay = 0.1}); },
       "torch.optim.AdamW(p, lr=0.05, weight_decay=0.1)"},
      {"clip_by_global_norm",
       [](Tensor loss) { minimize(loss, SGD{.learning_rate = 0.05, .momentum = 0, .clip_norm = 0.5}); },
       "torch.optim.SGD(p, lr=0.05)", 0.5},
  };
  return all;
}

}  // namespace hetsynth::peers
