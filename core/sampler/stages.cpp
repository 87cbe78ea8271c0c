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

// The largest of measure(score), at least `least`. Four at a time, or each would wait for the one before.
template <class Measure>
double largest_of(std::span<const double> scores, double least, Measure measure) {
  double found[4] = {least, least, least, least};
  size_t i = 0;
  for (; i + 4 <= scores.size(); i += 4)
    for (size_t j = 0; j < 4; ++j) found[j] = std::max(found[j], measure(scores[i + j]));
  for (; i < scores.size(); ++i) found[0] = std::max(found[0], measure(scores[i]));
  return std::max(std::max(found[0], found[1]), std::max(found[2], found[3]));
}

double magnitude(double x) {
  return __builtin_bit_cast(double, __builtin_bit_cast(uint64_t, x) & ~(uint64_t{1} << 63));
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
  const double largest = largest_of(score_.first(count_), score_[0], [](double score) { return score; });
  uint32_t best = 0;
  while (score_[best] != largest) ++best;
  return best;
}

uint32_t Sampler::find(int32_t token) const {
  if (token < 0 || static_cast<uint32_t>(token) >= n_vocab_) return kNotThere;
  const auto candidates = token_.first(count_);
  if (count_ == n_vocab_) return static_cast<uint32_t>(token);
  const auto at = std::lower_bound(candidates.begin(), candidates.end(), token);
  return at == candidates.end() || *at != token ? kNotThere : static_cast<uint32_t>(at - candidates.begin());
}

// Weights are e^(score - largest_), made in runs that a compiler can vectorise; the sums are taken in rising order all
// the same.
Sampler::Weights Sampler::weights() const {
  constexpr uint32_t kRun = 64;
  const double largest = largest_;
  double weights[kRun], sum = 0, mean = 0;
  for (uint32_t i = 0; i < count_; i += kRun) {
    const uint32_t n = std::min(kRun, count_ - i);
    const double* score = score_.data() + i;
    for (uint32_t j = 0; j < n; ++j) weights[j] = exp_lane_f64(score[j] - largest);
    for (uint32_t j = 0; j < n; ++j) sum += weights[j], mean += weights[j] * (largest - score[j]);
  }
  return {sum, mean / sum + log_f64(sum)};
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
  largest_ = score_[best()];
  const double* score = score_.data();
  const auto closeness = [score, largest = largest_](uint32_t i) { return score[i] - largest; };
  const auto weight = [closeness](uint32_t i) { return exp_lane_f64(closeness(i)); };
  // From the least probable up: the first with which the running sum is above 1 - p stays.
  const Crossing first =
      find_crossing_of(count_, [p](double sum) { return (1.0 - p) * sum; }, Passes::above, closeness, weight);
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

void Sampler::typical_p(double mass) {
  if (mass >= 1) return;
  largest_ = score_[best()];
  const auto [sum, mean] = weights();
  const double log_sum = log_f64(sum);
  const double* score = score_.data();
  const auto weight = [score, largest = largest_](uint32_t i) { return exp_lane_f64(score[i] - largest); };
  const auto oddness = [score, log_sum, usual = mean, largest = largest_](uint32_t i) {
    const double difference = (largest - score[i]) + log_sum - usual;
    return difference < 0 ? -difference : difference;
  };
  const Crossing last = find_crossing(count_, mass * sum, Passes::at_or_above, oddness, weight);
  keep_if([&](uint32_t i) { return oddness(i) <= last.key; });
}

void Sampler::epsilon(double limit) {
  if (limit <= 0) return;
  largest_ = score_[best()];
  keep_weights(limit * weights().sum);
}

void Sampler::eta(double limit) {
  if (limit <= 0) return;
  largest_ = score_[best()];
  const auto [sum, entropy] = weights();
  keep_weights(std::min(limit, sqrt_f64(limit) * exp_f64(-entropy)) * sum);
}

// ---------------------------------------------------------------- stages that change scores or ban

void Sampler::temperature(double value) {
  if (value == 1) return;
  const std::span<double> scores = score_.first(count_);
  const double largest_size = largest_of(scores, 0, magnitude);
  if (!(largest_size / value > kLargestScore)) {
    for (double& score : scores) score /= value;
    return;
  }
  // Quotients that do not fit would all become one number; distances from the largest do not.
  is_rebased_ = true;
  const double base = score_[best()];
  for (double& score : scores) score = bounded((score - base) / value);
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
// window; what to change is found from the shorter side, by halves from the window's.
template <class Change>
void Sampler::change_seen(std::span<const int32_t> window, Change change) {
  const auto slot = [&](int32_t token) -> uint32_t* {
    return token >= 0 && static_cast<uint32_t>(token) < n_vocab_ ? &seen_[static_cast<uint32_t>(token)] : nullptr;
  };
  for (const int32_t token : window)
    if (uint32_t* count = slot(token)) ++*count;
  const bool from_candidates = count_ / 8 < window.size();
  for (uint32_t i = 0; from_candidates && i < count_; ++i)
    if (const uint32_t count = seen_[static_cast<uint32_t>(token_[i])]; count != 0)
      score_[i] = bounded(change(score_[i], count));
  for (const int32_t token : window) {
    uint32_t* count = slot(token);
    if (count == nullptr || *count == 0) continue;
    const uint32_t at = from_candidates ? kNotThere : find(token);
    if (at != kNotThere) score_[at] = bounded(change(score_[at], *count));
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
