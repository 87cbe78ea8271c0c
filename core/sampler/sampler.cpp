#include "core/sampler/sampler.h"

#include <algorithm>

#include "core/base/math.h"
#include "core/base/sort.h"
#include "core/sampler/philox.h"
#include "core/sampler/select.h"

namespace mote {
namespace {

bool is_finite(double x) { return x - x == 0; }

// Passed over where the largest score is asked for: cutting never changes which that is meant to be, and scaling
// could only round two scores to the same.
bool keeps_order(SamplerKind kind) { return kind >= SamplerKind::temperature && kind <= SamplerKind::eta; }

bool is_greedy(const SamplerStage& stage) {
  return stage.kind == SamplerKind::greedy || (stage.kind == SamplerKind::temperature && stage.value == 0);
}

}   // namespace

void Sampler::layout(Arena& arena, const SamplerShape& shape) {
  n_vocab_ = shape.n_vocab;
  score_ = arena.take<double>(shape.n_vocab);
  token_ = arena.take<int32_t>(shape.n_vocab);
  seen_ = arena.take<uint32_t>(shape.n_vocab);
  bias_ = arena.take<TokenBias>(shape.max_biases);
  std::fill(seen_.begin(), seen_.end(), 0u);
  stage_count_ = bias_count_ = count_ = 0;
  greedy_ = false;
}

Status Sampler::check(std::span<const SamplerStage> stages, const Listing<TokenBias>& biases) const {
  if (stages.size() > kMaxSamplerStages)
    return Status::error(Code::invalid_argument, "the sampler chain has {} stages, at most {} are allowed",
                         stages.size(), kMaxSamplerStages);
  for (size_t i = 0; i < stages.size(); ++i) MOTE_RETURN_IF_ERROR(check(i, stages[i]));
  for (size_t i = 0; i < biases.size(); ++i) {
    const TokenBias bias = biases[i];
    if (bias.token < 0 || static_cast<uint32_t>(bias.token) >= n_vocab_)
      return Status::error(Code::invalid_argument, "logit bias {} is on token {}, the vocabulary has tokens 0 to {}", i,
                           bias.token, n_vocab_ - 1);
    if (bias.bias != bias.bias || bias.bias > 3.4028235e38f)
      return Status::error(Code::invalid_argument, "logit bias {} on token {} is {}, it must be finite or -inf", i,
                           bias.token, static_cast<double>(bias.bias));
  }
  return {};
}

Status Sampler::set(std::span<const SamplerStage> stages, const Listing<TokenBias>& biases) {
  MOTE_RETURN_IF_ERROR(check(stages, biases));
  if (biases.size() > bias_.size())
    return Status::error(Code::invalid_argument, "{} logit biases were given, the session was opened for {}",
                         biases.size(), bias_.size());
  std::copy(stages.begin(), stages.end(), stages_);
  stage_count_ = static_cast<uint32_t>(stages.size());
  greedy_ = std::any_of(stages.begin(), stages.end(), is_greedy);
  for (size_t i = 0; i < biases.size(); ++i) bias_[i] = biases[i];
  bias_count_ = static_cast<uint32_t>(biases.size());
  return {};
}

Status Sampler::check(size_t index, const SamplerStage& stage) const {
  // The comparisons are false for a NaN, which is what refuses it.
  const auto in_range = [&](const char* name, double value, bool good, const char* allowed) -> Status {
    if (good && is_finite(value)) return {};
    return Status::error(Code::invalid_argument, "sampler stage {}: {} is {}, allowed is {}", index, name, value,
                         allowed);
  };
  const auto window = [&]() -> Status {
    if (stage.count >= 0) return {};
    return Status::error(Code::invalid_argument,
                         "sampler stage {}: the window is {} tokens, allowed is 0 (all) or more", index, stage.count);
  };
  const double v = stage.value;
  switch (stage.kind) {
    case SamplerKind::temperature:
      return in_range("temperature", v, v >= 0, "0 or more");
    case SamplerKind::top_k:
      return {};
    case SamplerKind::top_p:
      return in_range("top_p", v, v >= 0 && v <= 1, "0 to 1");
    case SamplerKind::min_p:
      return in_range("min_p", v, v >= 0 && v <= 1, "0 to 1");
    case SamplerKind::typical_p:
      return in_range("typical_p", v, v > 0 && v <= 1, "above 0, up to 1");
    case SamplerKind::epsilon:
      return in_range("epsilon", v, v >= 0 && v < 1, "0 to below 1");
    case SamplerKind::eta:
      return in_range("eta", v, v >= 0 && v < 1, "0 to below 1");
    case SamplerKind::no_repeat_ngram:
      if (stage.count >= 0 && stage.count <= kMaxNgram) return {};
      return Status::error(Code::invalid_argument, "sampler stage {}: no_repeat_ngram is {}, allowed is 0 to {}", index,
                           stage.count, kMaxNgram);
    case SamplerKind::repetition_penalty:
      MOTE_RETURN_IF_ERROR(in_range("repetition_penalty", v, v > 0, "above 0"));
      return window();
    case SamplerKind::frequency_presence:
      MOTE_RETURN_IF_ERROR(in_range("frequency", v, true, "a finite number"));
      MOTE_RETURN_IF_ERROR(in_range("presence", stage.value2, true, "a finite number"));
      return window();
    case SamplerKind::logit_bias:
    case SamplerKind::greedy:
      return {};
  }
  return Status::error(Code::invalid_argument, "sampler stage {} is of kind {}, known are 1 to 12", index,
                       static_cast<int32_t>(stage.kind));
}

Status Sampler::load(std::span<const float> logits, uint64_t position) {
  if (n_vocab_ == 0 || logits.size() != n_vocab_ || seen_.size() != n_vocab_)
    return Status::error(Code::invalid_argument, "{} logits were given to a sampler for {}", logits.size(), n_vocab_);
  uint32_t count = 0;
  count_ = 0;   // until all is well
  for (uint32_t token = 0; token < n_vocab_; ++token) {
    const float logit = logits[token];
    if (logit - logit == 0) {
      score_[count] = static_cast<double>(logit);
      token_[count++] = static_cast<int32_t>(token);
    } else if (!(logit < 0)) {   // NaN or +infinity
      return Status::error(Code::not_finite, "the logit of token {} at position {} is {}", token, position,
                           static_cast<double>(logit));
    }
  }
  count_ = count;
  if (count != 0) return {};
  return Status::error(Code::not_finite, "all {} logits at position {} are -inf, the first is that of token 0",
                       n_vocab_, position);
}

Status Sampler::apply(std::span<const float> logits, std::span<const int32_t> history, uint64_t position) {
  MOTE_RETURN_IF_ERROR(load(logits, position));
  for (uint32_t i = 0; i < stage_count_; ++i)
    if (!greedy_ || !keeps_order(stages_[i].kind)) run(stages_[i], history);
  if (greedy_) keep_only(best());
  sum_ = weight_sum();
  return {};
}

void Sampler::run(const SamplerStage& stage, std::span<const int32_t> history) {
  const auto window = static_cast<size_t>(stage.count);
  const auto last = window == 0 || window >= history.size() ? history : history.last(window);
  switch (stage.kind) {
    case SamplerKind::temperature:
      return temperature(stage.value);
    case SamplerKind::top_k:
      return top_k(stage.count);
    case SamplerKind::top_p:
      return top_p(stage.value);
    case SamplerKind::min_p:
      return min_p(stage.value);
    case SamplerKind::typical_p:
      return typical_p(stage.value);
    case SamplerKind::epsilon:
      return epsilon(stage.value);
    case SamplerKind::eta:
      return eta(stage.value);
    case SamplerKind::no_repeat_ngram:
      return no_repeat_ngram(stage.count, history);
    case SamplerKind::repetition_penalty:
      return repetition_penalty(stage.value, last);
    case SamplerKind::frequency_presence:
      return frequency_presence(stage.value, stage.value2, last);
    case SamplerKind::logit_bias:
      return logit_bias();
    case SamplerKind::greedy:
      return;   // `apply` does it, after the last stage
  }
}

int32_t Sampler::draw(uint64_t seed, uint64_t position) const {
  if (count_ == 0) return -1;
  const double target = philox_uniform(seed, position) * sum_;
  const double* score = score_.data();
  const auto distance = [score, largest = largest_](uint32_t i) { return largest - score[i]; };
  const Crossing crossing = find_crossing(count_, target, Passes::above, distance,
                                          [distance](uint32_t i) { return exp_lane_f64(-distance(i)); });
  uint32_t rank = 0;
  for (uint32_t i = 0; i < count_; ++i)
    if (distance(i) == crossing.key && rank++ == crossing.rank) return token_[i];
  return token_[best()];   // not reached: the crossing is one of the candidates
}

uint32_t Sampler::candidates(std::span<Candidate> out) const {
  const auto wanted = static_cast<uint32_t>(std::min<size_t>(out.size(), count_));
  if (wanted == 0) return 0;
  const double* score = score_.data();
  const auto distance = [score, largest = largest_](uint32_t i) { return largest - score[i]; };
  // The first `wanted` by (distance, id): all nearer than the last of them, and of its equals as many as fit.
  const Crossing last =
      find_crossing(count_, static_cast<double>(wanted), Passes::at_or_above, distance, [](uint32_t) { return 1.0; });
  uint32_t written = 0, equal = 0;
  for (uint32_t i = 0; i < count_; ++i) {
    const double d = distance(i);
    const bool chosen = d < last.key || (d == last.key && equal++ <= last.rank);
    if (chosen && written < wanted) out[written++] = {static_cast<int32_t>(i), d};   // a distance until sorted
  }
  const auto nearest = out.first(written);
  heap_sort(nearest, [](const Candidate& a, const Candidate& b) {
    return a.probability != b.probability ? a.probability < b.probability : a.token < b.token;
  });
  for (Candidate& candidate : nearest) {
    const auto index = static_cast<uint32_t>(candidate.token);
    candidate = {token_[index], exp_lane_f64(-candidate.probability) / sum_};
  }
  return written;
}

Result<int32_t> Sampler::sample(std::span<const float> logits, std::span<const int32_t> history, uint64_t seed,
                                uint64_t position) {
  MOTE_RETURN_IF_ERROR(apply(logits, history, position));
  return draw(seed, position);
}

}   // namespace mote
