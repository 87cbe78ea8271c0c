#include "core/sampler/sampler.h"

#include <algorithm>
#include <limits>

#include "core/base/math.h"
#include "core/base/sort.h"
#include "core/sampler/philox.h"
#include "core/sampler/select.h"

namespace mote {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

bool is_finite(double x) { return x - x == 0; }

// Passed over where the largest score is asked for: cutting never changes which that is meant to be, and scaling
// could only round two scores to the same.
bool keeps_order(SamplerKind kind) { return kind >= SamplerKind::temperature && kind <= SamplerKind::eta; }

bool is_greedy(const SamplerStage& stage) {
  return stage.kind == SamplerKind::greedy || (stage.kind == SamplerKind::temperature && stage.value == 0);
}

// What a penalty looks at.
std::span<const int32_t> window_of(const SamplerStage& stage, std::span<const int32_t> history) {
  const auto window = static_cast<size_t>(stage.count);
  return window == 0 || window >= history.size() ? history : history.last(window);
}

}   // namespace

void Sampler::layout(Arena& arena, const SamplerShape& shape) {
  n_vocab_ = shape.n_vocab;
  score_ = arena.take<double>(shape.n_vocab);
  token_ = arena.take<int32_t>(shape.n_vocab);
  seen_ = arena.take<uint32_t>(shape.n_vocab);
  bias_ = arena.take<TokenBias>(shape.max_biases);
  scan_.layout(arena, shape.n_vocab);
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

// True of a stage that changes nothing, whatever the candidates are.
bool Sampler::is_passed_over(const SamplerStage& stage) const {
  if (greedy_ && keeps_order(stage.kind)) return true;
  switch (stage.kind) {
    case SamplerKind::temperature:
    case SamplerKind::repetition_penalty:
      return stage.value == 1;
    case SamplerKind::top_k:
    case SamplerKind::no_repeat_ngram:
      return stage.count <= 0;
    case SamplerKind::top_p:
    case SamplerKind::typical_p:
      return stage.value >= 1;
    case SamplerKind::min_p:
    case SamplerKind::epsilon:
    case SamplerKind::eta:
      return stage.value <= 0;
    case SamplerKind::frequency_presence:
      return stage.value == 0 && stage.value2 == 0;
    case SamplerKind::logit_bias:
      return bias_count_ == 0;
    case SamplerKind::greedy:
      return true;   // `apply` does it, after the last stage
  }
  return false;
}

// The first stage that cuts, if it is top_k or min_p; behind all others, if the chain is greedy. Before it, penalties,
// biases and bans change few tokens, and temperatures keep distinct logits distinct, in their order, as long as the
// quotients stay far from the ends of double.
Sampler::FirstCut Sampler::first_cut() const {
  FirstCut cut;
  for (uint32_t i = 0; i < stage_count_; ++i) {
    const SamplerStage& stage = stages_[i];
    if (is_passed_over(stage) || stage.kind >= SamplerKind::no_repeat_ngram) continue;
    if (stage.kind == SamplerKind::temperature) {
      cut.scale *= stage.value;
      if (!(cut.scale >= 1e-150 && cut.scale <= 1e150)) return {};
      continue;
    }
    if (stage.kind == SamplerKind::top_k || stage.kind == SamplerKind::min_p) cut.stage = i;
    return cut;
  }
  if (greedy_) cut.stage = stage_count_;
  return cut;
}

// Marks the tokens whose score or presence the first stages may change.
void Sampler::mark_changed(uint32_t n_stages, std::span<const int32_t> history) {
  for (uint32_t i = 0; i < n_stages; ++i) {
    const SamplerStage& stage = stages_[i];
    if (is_passed_over(stage) || stage.kind < SamplerKind::no_repeat_ngram) continue;
    if (stage.kind == SamplerKind::logit_bias) {
      for (const TokenBias& bias : bias_.first(bias_count_)) scan_.mark(static_cast<uint32_t>(bias.token));
      continue;
    }
    const bool is_ngram = stage.kind == SamplerKind::no_repeat_ngram;
    for (const int32_t token : is_ngram ? history : window_of(stage, history))
      if (token >= 0 && static_cast<uint32_t>(token) < n_vocab_) scan_.mark(static_cast<uint32_t>(token));
  }
}

// The least logit of a token that no stage changes with which it may survive the first cut.
float Sampler::least_wanted(const FirstCut& cut) const {
  if (cut.stage == kNotThere) return RowScan::kAll;
  if (cut.stage == stage_count_) return scan_.reached_by(1);
  const SamplerStage& stage = stages_[cut.stage];
  if (stage.kind == SamplerKind::top_k) return scan_.reached_by(static_cast<uint32_t>(stage.count));
  // min_p: less than this below the largest, and a little further down for what rounding may do.
  const auto largest = static_cast<double>(scan_.largest());
  if (!is_finite(largest)) return RowScan::kAll;
  const double reach = cut.scale * (1e-5 - log_f64(stage.value));
  const double least = largest - reach - 1e-6 * (reach + (largest < 0 ? -largest : largest)) - 1e-44;
  return least > static_cast<double>(RowScan::kAll) ? static_cast<float>(least) : RowScan::kAll;
}

// The candidates: all that can still be chosen behind the first cut.
Status Sampler::load(std::span<const float> logits, uint64_t position, const FirstCut& cut,
                     std::span<const int32_t> history) {
  count_ = 0;   // until all is well
  if (cut.stage != kNotThere) mark_changed(cut.stage, history);
  if (!scan_.run(logits)) {
    for (uint32_t token = 0; token < n_vocab_; ++token) {
      if (logits[token] < kInfinity) continue;   // not so for a NaN
      return Status::error(Code::not_finite, "the logit of token {} at position {} is {}", token, position,
                           static_cast<double>(logits[token]));
    }
  }
  count_ = scan_.gather(logits, least_wanted(cut), score_, token_);
  if (count_ != 0) return {};
  return Status::error(Code::not_finite, "all {} logits at position {} are -inf, the first is that of token 0",
                       n_vocab_, position);
}

// False: a temperature has left the range in which distinct logits stay distinct, before the first cut; all candidates
// are needed.
bool Sampler::run_chain(const FirstCut& cut, std::span<const int32_t> history) {
  is_rebased_ = false;
  for (uint32_t i = 0; i < stage_count_; ++i) {
    if (!is_passed_over(stages_[i])) run(stages_[i], history);
    if (is_rebased_ && cut.stage != kNotThere && i < cut.stage) return false;
  }
  return true;
}

Status Sampler::apply(std::span<const float> logits, std::span<const int32_t> history, uint64_t position) {
  count_ = 0;
  if (n_vocab_ == 0 || logits.size() != n_vocab_ || seen_.size() != n_vocab_)
    return Status::error(Code::invalid_argument, "{} logits were given to a sampler for {}", logits.size(), n_vocab_);
  const FirstCut cut = first_cut();
  MOTE_RETURN_IF_ERROR(load(logits, position, cut, history));
  if (!run_chain(cut, history)) {
    MOTE_RETURN_IF_ERROR(load(logits, position, {}, history));
    static_cast<void>(run_chain({}, history));
  }
  if (greedy_) keep_only(best());
  largest_ = score_[best()];
  return {};
}

void Sampler::run(const SamplerStage& stage, std::span<const int32_t> history) {
  const auto last = window_of(stage, history);
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
  const double uniform = philox_uniform(seed, position);
  const double* score = score_.data();
  const auto distance = [score, largest = largest_](uint32_t i) { return largest - score[i]; };
  const Crossing crossing = find_crossing_of(
      count_, [uniform](double sum) { return uniform * sum; }, Passes::above, distance,
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
  const double sum = weights().sum;
  const auto nearest = out.first(written);
  heap_sort(nearest, [](const Candidate& a, const Candidate& b) {
    return a.probability != b.probability ? a.probability < b.probability : a.token < b.token;
  });
  for (Candidate& candidate : nearest) {
    const auto index = static_cast<uint32_t>(candidate.token);
    candidate = {token_[index], exp_lane_f64(-candidate.probability) / sum};
  }
  return written;
}

Result<int32_t> Sampler::sample(std::span<const float> logits, std::span<const int32_t> history, uint64_t seed,
                                uint64_t position) {
  MOTE_RETURN_IF_ERROR(apply(logits, history, position));
  return draw(seed, position);
}

}   // namespace mote
