#include "tests/peers/cases.h"

#include "hetsynth/hetsynth.h"

namespace hetsynth::peers {
namespace {

using In = const std::vector<Tensor>&;

LstmWeights lstm_of(In x) { return {x[1], x[2], x[3]}; }
GruWeights gru_of(In x) { return {x[1], x[2], x[3], x[4]}; }

}  // namespace

const std::vector<Case>& cases() {
  const Argument wide{{3, 5}}, row{{5}}, positive{{3, 5}, 0, 0.3, 3}, cube{{2, 3, 4}}, image{{2, 4, 7, 5}},
      heads{{2, 5, 4, 4}}, share{{3, 5}, 0, 0.05, 0.95};
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
                     [](const std::vector<Tensor>& state, Tensor now) {
                       Tensor next = tanh(state[0] * now);
                       return ScanStep{{next}, next};
                     })
             .outputs;
       },
       "scan(lambda h, x: torch.tanh(h * x), x1, x0)"},
      {"argmax", {cube}, [](In x) { return to_float(argmax(x[0], 1)); }, "x0.argmax(1).double()"},
      {"argmax smallest", {cube}, [](In x) { return to_float(argmin(x[0], -1)); }, "x0.argmin(-1).double()"},
      {"attention",
       {heads, {{2, 5, 2, 4}}, {{2, 5, 2, 6}}},
       [](In x) { return attention(x[0], x[1], x[2], {.causal = true}); },
       "attention(x0, x1, x2, causal=True)"},
      {"attention biased",
       {heads, {{2, 7, 4, 4}}, {{2, 7, 4, 4}}, {{4, 5, 7}}},
       [](In x) { return attention(x[0], x[1], x[2], {.bias = x[3]}); },
       "attention(x0, x1, x2, x3)"},
      {"binary_cross_entropy",
       {share, share},
       [](In x) { return binary_cross_entropy(x[0], x[1]); },
       "F.binary_cross_entropy(x0, x1)"},
      {"binary_cross_entropy logits",
       {wide, share},
       [](In x) { return binary_cross_entropy_with_logits(x[0], x[1]); },
       "F.binary_cross_entropy_with_logits(x0, x1)"},
      {"cast", {wide}, [](In x) { return cast(cast(x[0], bf16), f32); }, "x0 + (x0.bfloat16().double() - x0).detach()"},
      {"cast fp16", {wide}, [](In x) { return cast(cast(x[0], fp16), f32); }, "x0 + (x0.half().double() - x0).detach()"},
      {"constant", {wide}, [](In x) { return x[0] * constant(3) + full({5}, 0.5); }, "x0 * 3 + torch.full((5,), 0.5)"},
      {"cross_entropy smoothed",
       {{{6, 5}}, {{6}, 5}},
       [](In x) { return cross_entropy(x[0], x[1], {.label_smoothing = 0.1, .ignored_label = 2}); },
       "F.cross_entropy(x0, x1, label_smoothing=0.1, ignore_index=2)"},
      {"cumsum", {cube}, [](In x) { return cumsum(x[0], 1); }, "x0.cumsum(1)"},
      {"cumsum exclusive", {cube}, [](In x) { return cumsum(x[0], 2, true); }, "x0.cumsum(2) - x0"},
      {"embedding_bag",
       {{{7, 4}}, {{2, 3}, 7}},
       [](In x) { return embedding_bag(x[0], x[1]); },
       "F.embedding_bag(x1, x0, mode='sum')"},
      {"embedding_bag mean",
       {{{7, 4}}, {{2, 3}, 7}},
       [](In x) { return embedding_bag(x[0], x[1], BagMode::mean); },
       "F.embedding_bag(x1, x0, mode='mean')"},
      {"expert_dispatch",
       {{{2, 6, 3}}, {{2, 6, 4}}},
       [](In x) { return expert_dispatch(x[0], top2_gating(x[1], 0.8)); },
       "queues(x0, x1, 2, 0.8)"},
      {"expert_combine",
       {{{2, 6, 3}}, {{2, 6, 4}}, {{4, 2, 1}}},
       [](In x) {
         const Routing routing = top2_gating(x[1], 0.8);
         return expert_combine(expert_dispatch(x[0], routing) * x[2], routing) + routing.balance_loss;
       },
       "mixture(x0, x1, x2, 2, 0.8)"},
      {"gating one expert",
       {{{2, 6, 3}}, {{2, 6, 4}}, {{4, 1, 1}}},
       [](In x) {
         const Routing routing = top1_gating(x[1], 1.0);
         return expert_combine(expert_dispatch(x[0], routing) * x[2], routing) + routing.balance_loss;
       },
       "mixture(x0, x1, x2, 1, 1.0)"},
      {"min", {cube}, [](In x) { return min(x[0], 1); }, "x0.amin(1)"},
      {"logsumexp",
       {cube},
       [](In x) {
         return logsumexp(x[0], {0, 2});
       },
       "x0.logsumexp((0, 2))"},
      {"cumprod", {cube}, [](In x) { return cumprod(x[0], 1); }, "x0.cumprod(1)"},
      {"sort", {cube}, [](In x) { return sort(x[0], 1).values; }, "x0.sort(1).values"},
      {"sort indices",
       {cube},
       [](In x) { return to_float(argsort(x[0], -1, true)); },
       "x0.argsort(-1, descending=True).double()"},
      {"stack",
       {cube, cube},
       [](In x) {
         return stack({x[0], x[1]}, 1);
       },
       "torch.stack((x0, x1), 1)"},
      {"conv1d",
       {{{2, 4, 9}}, {{6, 2, 3}}},
       [](In x) { return conv1d(x[0], x[1], {.stride = 2, .padding = 2, .dilation = 2, .groups = 2}); },
       "F.conv1d(x0, x1, stride=2, padding=2, dilation=2, groups=2)"},
      {"interpolate",
       {image},
       [](In x) {
         return interpolate(x[0], {14, 15});
       },
       "F.interpolate(x0, (14, 15))"},
      {"interpolate nearest to any size",
       {image},
       [](In x) {
         return interpolate(x[0], {10, 3});
       },
       "F.interpolate(x0, (10, 3))"},
      {"interpolate bilinear",
       {image},
       [](In x) { return upsample(x[0], {2, 3}, Interpolation::bilinear); },
       "F.interpolate(x0, (14, 15), mode='bilinear')"},
      {"interpolate bilinear to any size",
       {image},
       [](In x) {
         return interpolate(x[0], {10, 2}, Interpolation::bilinear);
       },
       "F.interpolate(x0, (10, 2), mode='bilinear')"},
      {"einsum three",
       {{{2, 3}}, {{3, 4}}, {{4, 5}}},
       [](In x) { return einsum("bi,ir,ro->bo", x[0], x[1], x[2]); },
       "torch.einsum('bi,ir,ro->bo', x0, x1, x2)"},
      {"add whole numbers",
       {{{3, 4}, 9}, {{4}, 5}},
       [](In x) { return to_float(where(x[0] > 4, x[0] + 2 * x[1], x[1] - 7)); },
       "torch.where(x0 > 4, x0 + 2 * x1, x1 - 7).double()"},
      {"gating three experts",
       {{{2, 6, 3}}, {{2, 6, 4}}, {{4, 3, 1}}},
       [](In x) {
         const Routing routing = top_k_gating(x[1], 3, 0.8);
         return expert_combine(expert_dispatch(x[0], routing) * x[2], routing) + routing.balance_loss;
       },
       "mixture(x0, x1, x2, 3, 0.8)"},
      {"gather", {cube, {{2, 5, 4}, 3}}, [](In x) { return gather(x[0], 1, x[1]); }, "x0.gather(1, x1)"},
      {"mean_squared_error", {wide, wide}, [](In x) { return mean_squared_error(x[0], x[1]); }, "F.mse_loss(x0, x1)"},
      {"positions",
       {wide},
       [](In x) {
         return x[0] * to_float(positions({3, 5}, 1));
       },
       "x0 * torch.arange(5)"},
      {"relative_position_bias",
       {{{8, 2}}},
       [](In x) { return relative_position_bias(x[0], 9, 12, {.max_distance = 10}); },
       "relative_position_bias(x0, 9, 12, max_distance=10)"},
      {"relative_position_bias decoder",
       {{{8, 2}}},
       [](In x) { return relative_position_bias(x[0], 12, 12, {.bidirectional = false, .max_distance = 11}); },
       "relative_position_bias(x0, 12, 12, False, 11)"},
      {"relative_position_bias windows",
       {{{25, 2}}},
       [](In x) { return window_position_bias(x[0], 3); },
       "window_position_bias(x0, 3)"},
      {"roll", {cube}, [](In x) { return roll(x[0], 2, 1); }, "x0.roll(2, 1)"},
      {"roll several dimensions",
       {cube},
       [](In x) {
         return roll(x[0], {2, -1}, {1, 2});
       },
       "x0.roll((2, -1), (1, 2))"},
      {"row_blocks convolved",
       {{{2, 4, 12, 5}}, {{6, 4, 3, 3}}},
       [](In x) {
         Tensor blocks = conv2d(split_rows(x[0], 3), x[1], {.stride = 2, .padding = 1, .row_blocks = 3});
         return join_rows(blocks, 3);
       },
       "F.conv2d(x0, x1, stride=2, padding=1)"},
      {"row_blocks pooled",
       {{{2, 4, 12, 5}}},
       [](In x) {
         return join_rows(max_pool2d(split_rows(x[0], 4), 3, {.stride = 1, .padding = 1, .row_blocks = 4}), 4);
       },
       "F.max_pool2d(x0, 3, 1, 1)"},
      {"scatter_add",
       {cube, {{2, 3, 4}, 5}},
       [](In x) { return scatter_add(x[0], 1, x[1], 5); },
       "torch.zeros(2, 5, 4).scatter_add(1, x1, x0)"},
      {"to_int", {wide}, [](In x) { return to_float(to_int(x[0])); }, "x0.detach().floor()"},
      {"top_k", {cube}, [](In x) { return top_k(x[0], 2).values; }, "x0.topk(2, -1).values"},
      {"top_k indices",
       {cube},
       [](In x) { return to_float(top_k(x[0], 2, 1).indices); },
       "x0.topk(2, 1).indices.double()"},
      {"windows", {{{2, 4, 6, 3}}}, [](In x) { return window_partition(x[0], 2); }, "window_partition(x0, 2)"},
      {"windows back",
       {{{2, 4, 6, 3}}},
       [](In x) { return window_reverse(window_partition(x[0], 2) * 2.0, 4, 6); },
       "x0 * 2"},
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
      {"sgd nesterov",
       [](Tensor loss) {
         minimize(loss, SGD{.learning_rate = 0.05, .momentum = 0.9, .nesterov = true, .weight_decay = 0.1});
       },
       "torch.optim.SGD(p, lr=0.05, momentum=0.9, nesterov=True, weight_decay=0.1)"},
      {"adam", [](Tensor loss) { minimize(loss, Adam{.learning_rate = 0.05, .weight_decay = 0.1}); },
       "torch.optim.Adam(p, lr=0.05, weight_decay=0.1)"},
      {"lamb", [](Tensor loss) { minimize(loss, LAMB{.learning_rate = 0.05, .weight_decay = 0.1}); },
       "Lamb(p, lr=0.05, weight_decay=0.1)"},
      {"adafactor", [](Tensor loss) { minimize(loss, Adafactor{}); },
       "torch.optim.Adafactor(p, lr=0.01, eps=(1e-30, 1e-3), weight_decay=0)"},
      {"learning_rate warm-up and cosine",
       [](Tensor loss) {
         minimize(loss, SGD{.learning_rate = 0.05, .warmup_steps = 2, .schedule = cosine_schedule(5, 0.1)});
       },
       "torch.optim.SGD(p, lr=0.05, momentum=0.9)", 0,
       "lambda s: (s + 1) / 2 if s < 2 else 0.1 + 0.9 * (1 + math.cos(math.pi * (s - 2) / 3)) / 2"},
      {"learning_rate steps",
       [](Tensor loss) { minimize(loss, SGD{.learning_rate = 0.05, .schedule = step_schedule(2, 0.5)}); },
       "torch.optim.SGD(p, lr=0.05, momentum=0.9)", 0, "lambda s: 0.5 ** (s // 2)"},
  };
  return all;
}

}  // namespace hetsynth::peers
