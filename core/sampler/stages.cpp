// What each stage of the chain does to the candidates (the meanings are in sampler.h).
#include <algorithm>

#include "core/base/math.h"
#include "core/sampler/sampler.h"
#include "core/sampler/select.h"

namespace mote {
namespace {

// Scores stay finite and far from the ends of double, so that a difference of two is finite too.
constexpr double kLargestScore = 1e300;
double bounded(double score) {
  return score > kLargestScore ? kLargestScore : score < -kLargestScore ? -kLargestScore : score;
}

}   // namespace

// ---------------------------------------------------------------- candidates

// Keeps candidates by keep(index), their order unchanged; if none is to stay, the largest score does.
template <class Keep>
void Sampler::keep_if(Keep keep) {
  uint32_t kept = 0;
  for (uint32_t i = 0; i < count_; ++i) {
    if (!keep(i)) continue;
    score_[kept] = score_[i];
    token_[kept++] = token_[i];
  }
  if (kept == 0) return keep_only(best());   // nothing has been moved
  count_ = kept;
}

void Sampler::keep_only(uint32_t index) {
  score_[0] = score_[index];
  token_[0] = token_[index];
  count_ = 1;
}

uint32_t Sampler::best() const {
  uint32_t best = 0;
  for (uint32_t i = 1; i < count_; ++i)
    if (score_[i] > score_[best]) best = i;
  return best;
}

uint32_t Sampler::find(int32_t token) const {
  if (token < 0 || static_cast<uint32_t>(token) >= n_vocab_) return kNotThere;
  const auto candidates = token_.first(count_);
  if (count_ == n_vocab_) return static_cast<uint32_t>(token);
  const auto at = std::lower_bound(candidates.begin(), candidates.end(), token);
  return at == candidates.end() || *at != token ? kNotThere : static_cast<uint32_t>(at - candidates.begin());
}

// Sets largest_. Weights are e^(score - largest_), made in runs that a compiler can vectorise; the sum is taken in
// rising order all the same.
double Sampler::weight_sum() {
  constexpr uint32_t kRun = 64;
  largest_ = score_[best()];
  const double largest = largest_;
  const double* score = score_.data();
  double weights[kRun], sum = 0;
  uint32_t i = 0;
  for (; i + kRun <= count_; i += kRun) {
    for (uint32_t j = 0; j < kRun; ++j) weights[j] = exp_lane_f64(score[i + j] - largest);
    for (const double weight : weights) sum += weight;
  }
  for (; i < count_; ++i) sum += exp_lane_f64(score[i] - largest);
  return sum;
}

// Keeps weights of at least `least`, and the largest. The exponential is only asked for where its logarithm leaves
// a doubt.
void Sampler::keep_weights(double least) {
  const double border = log_f64(least);
  keep_if([&](uint32_t i) {
    const double d = score_[i] - largest_;
    if (d < border - 1e-6) return d == 0;
    return d > border + 1e-6 || d == 0 || exp_lane_f64(d) >= least;
  });
}

// ---------------------------------------------------------------- stages that cut

void Sampler::top_k(int32_t k) {
  if (k <= 0 || static_cast<uint32_t>(k) >= count_) return;
  const Crossing last = find_crossing(
      count_, static_cast<double>(k), Passes::at_or_above, [&](uint32_t i) { return -score_[i]; },
      [](uint32_t) { return 1.0; });
  keep_if([&](uint32_t i) { return -score_[i] <= last.key; });
}

void Sampler::top_p(double p) {
  if (p >= 1) return;
  const double sum = weight_sum();
  const double* score = score_.data();
  const auto closeness = [score, largest = largest_](uint32_t i) { return score[i] - largest; };
  const auto weight = [closeness](uint32_t i) { return exp_lane_f64(closeness(i)); };
  // From the least probable up: the first with which the running sum is above 1 - p stays.
  const Crossing first = find_crossing(count_, (1.0 - p) * sum, Passes::above, closeness, weight);
  uint32_t equal = 0;
  for (uint32_t i = 0; i < count_; ++i) equal += closeness(i) == first.key ? 1 : 0;
  // Among the equals at the border the highest ids go.
  uint32_t staying = equal - first.rank;
  keep_if([&](uint32_t i) {
    const double c = closeness(i);
    if (c != first.key) return c > first.key;
    if (staying == 0) return false;
    --staying;
    return true;
  });
}

void Sampler::min_p(double p) {
  if (p <= 0) return;
  largest_ = score_[best()];
  keep_weights(p);
}

// In nats, of the candidates as they are; `sum` is that of their weights.
double Sampler::entropy(double sum) const {
  double mean = 0;
  for (uint32_t i = 0; i < count_; ++i) mean += exp_lane_f64(score_[i] - largest_) * (largest_ - score_[i]);
  return mean / sum + log_f64(sum);
}

void Sampler::typical_p(double mass) {
  if (mass >= 1) return;
  const double sum = weight_sum(), log_sum = log_f64(sum), mean = entropy(sum);
  const double* score = score_.data();
  const auto weight = [score, largest = largest_](uint32_t i) { return exp_lane_f64(score[i] - largest); };
  const auto oddness = [score, log_sum, mean, largest = largest_](uint32_t i) {
    const double difference = (largest - score[i]) + log_sum - mean;
    return difference < 0 ? -difference : difference;
  };
  const Crossing last = find_crossing(count_, mass * sum, Passes::at_or_above, oddness, weight);
  keep_if([&](uint32_t i) { return oddness(i) <= last.key; });
}

void Sampler::epsilon(double limit) {
  if (limit <= 0) return;
  keep_weights(limit * weight_sum());
}

void Sampler::eta(double limit) {
  if (limit <= 0) return;
  const double sum = weight_sum();
  keep_weights(std::min(limit, sqrt_f64(limit) * exp_f64(-entropy(sum))) * sum);
}

// ---------------------------------------------------------------- stages that change scores or ban

void Sampler::temperature(double value) {
  if (value == 1) return;
  double size = 0;
  for (uint32_t i = 0; i < count_; ++i) size = std::max(size, score_[i] < 0 ? -score_[i] : score_[i]);
  // Quotients that do not fit would all become one number; distances from the largest do not.
  const double base = size / value > kLargestScore ? score_[best()] : 0.0;
  for (uint32_t i = 0; i < count_; ++i) score_[i] = bounded((score_[i] - base) / value);
}

// Marks in `seen_` the tokens that may not come next, then drops them.
void Sampler::no_repeat_ngram(int32_t n, std::span<const int32_t> history) {
  const auto length = static_cast<size_t>(n);
  if (n <= 0 || history.size() < length) return;
  const auto tail = history.last(length - 1);
  const size_t starts = history.size() - length + 1;
  const auto next_banned = [&](size_t start) {
    const auto run = history.subspan(start, length);
    if (run[length - 1] < 0 || static_cast<uint32_t>(run[length - 1]) >= n_vocab_) return kNotThere;
    // The last token differs most often between runs of a loop, so compare from the back.
    for (size_t i = length - 1; i-- > 0;)
      if (run[i] != tail[i]) return kNotThere;
    return static_cast<uint32_t>(run[length - 1]);
  };
  for (size_t start = 0; start < starts; ++start)
    if (const uint32_t token = next_banned(start); token != kNotThere) seen_[token] = 1;
  keep_if([&](uint32_t i) { return seen_[static_cast<uint32_t>(token_[i])] == 0; });
  for (size_t start = 0; start < starts; ++start)
    if (const int32_t token = history[start + length - 1]; token >= 0 && static_cast<uint32_t>(token) < n_vocab_)
      seen_[static_cast<uint32_t>(token)] = 0;
}

// change(score, occurrences) for each candidate that occurs in the window, once. Counting and clearing walk the
// window, never the vocabulary.
template <class Change>
void Sampler::change_seen(std::span<const int32_t> window, Change change) {
  const auto slot = [&](int32_t token) -> uint32_t* {
    return token >= 0 && static_cast<uint32_t>(token) < n_vocab_ ? &seen_[static_cast<uint32_t>(token)] : nullptr;
  };
  for (const int32_t token : window)
    if (uint32_t* count = slot(token)) ++*count;
  for (const int32_t token : window) {
    uint32_t* count = slot(token);
    if (count == nullptr || *count == 0) continue;
    if (const uint32_t at = find(token); at != kNotThere) score_[at] = bounded(change(score_[at], *count));
    *count = 0;
  }
}

void Sampler::repetition_penalty(double penalty, std::span<const int32_t> window) {
  if (penalty == 1) return;
  change_seen(window, [&](double score, uint32_t) { return score < 0 ? score * penalty : score / penalty; });
}

void Sampler::frequency_presence(double frequency, double presence, std::span<const int32_t> window) {
  if (frequency == 0 && presence == 0) return;
  change_seen(window, [&](double score, uint32_t count) {
    return score - bounded(static_cast<double>(count) * frequency + presence);
  });
}

void Sampler::logit_bias() {
  bool bans = false;
  for (const TokenBias& bias : bias_.first(bias_count_)) {
    const uint32_t at = find(bias.token);
    if (at == kNotThere) continue;
    if (bias.bias - bias.bias == 0) {
      score_[at] = bounded(score_[at] + static_cast<double>(bias.bias));
    } else {   // checked when set: -infinity
      seen_[static_cast<uint32_t>(bias.token)] = 1;
      bans = true;
    }
  }
  if (!bans) return;
  keep_if([&](uint32_t i) { return seen_[static_cast<uint32_t>(token_[i])] == 0; });
  for (const TokenBias& bias : bias_.first(bias_count_)) seen_[static_cast<uint32_t>(bias.token)] = 0;
}

}   // namespace mote
