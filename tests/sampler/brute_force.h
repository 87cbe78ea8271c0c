// The sampler's stages written the obvious way: the whole vocabulary in long double, sorted where an order is needed.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <numeric>
#include <vector>

#include "core/sampler/philox.h"
#include "core/sampler/sampler.h"

namespace mote::test {

class BruteForce {
 public:
  struct Entry {
    int32_t token;
    long double score;
  };

  BruteForce(std::span<const float> logits, std::span<const int32_t> history, std::span<const SamplerStage> chain,
             std::span<const TokenBias> biases)
      : history_(history.begin(), history.end()), biases_(biases.begin(), biases.end()) {
    for (size_t i = 0; i < logits.size(); ++i)
      if (std::isfinite(logits[i])) entries_.push_back({static_cast<int32_t>(i), static_cast<long double>(logits[i])});
    bool greedy = false;
    for (const SamplerStage& s : chain)
      greedy |= s.kind == SamplerKind::greedy || (s.kind == SamplerKind::temperature && s.value == 0);
    for (const SamplerStage& s : chain) {
      const bool changes = s.kind >= SamplerKind::no_repeat_ngram && s.kind <= SamplerKind::logit_bias;
      if (!greedy || changes) apply(s);
      for (const Entry& a : entries_)   // equal in double, perhaps, but not here
        for (const Entry& b : entries_)
          doubtful_ |= a.score != b.score && std::fabs(a.score - b.score) < 1e-13L * std::fabs(a.score);
    }
    if (greedy) keep_best();
    const std::vector<long double> p = probabilities();
    for (size_t i = 0; i < entries_.size(); ++i) kept_.push_back({entries_[i].token, static_cast<double>(p[i])});
    // The sampler's order is that of the distance from the largest score, a double.
    std::vector<size_t> order = falling();
    const long double largest = entries_[order[0]].score;
    const auto distance = [&](size_t i) { return static_cast<double>(largest - entries_[i].score); };
    std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      return distance(a) != distance(b) ? distance(a) < distance(b) : entries_[a].token < entries_[b].token;
    });
    for (const size_t i : order) sorted_.push_back(kept_[i]);
  }

  // By falling probability, equal ones by rising id.
  const std::vector<Candidate>& sorted() const { return sorted_; }
  // A comparison was so close that another order of summing could have turned it.
  bool doubtful() const { return doubtful_; }

  int32_t draw(double uniform) {
    long double sum = 0;
    for (const Candidate& c : sorted_)
      if (above(sum += static_cast<long double>(c.probability), static_cast<long double>(uniform))) return c.token;
    return sorted_.back().token;
  }

 private:
  bool above(long double a, long double b) {
    doubtful_ |= a != b && std::fabs(a - b) < 1e-12L;
    return a > b;
  }

  std::vector<long double> probabilities() const {
    long double largest = entries_[0].score, sum = 0;
    for (const Entry& e : entries_) largest = std::max(largest, e.score);
    std::vector<long double> p;
    for (const Entry& e : entries_) p.push_back(std::exp(e.score - largest));
    for (const long double v : p) sum += v;
    for (long double& v : p) v /= sum;
    return p;
  }
  std::vector<size_t> falling() const {
    std::vector<size_t> order(entries_.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      return entries_[a].score != entries_[b].score ? entries_[a].score > entries_[b].score : a < b;
    });
    return order;
  }
  void keep(const std::vector<bool>& keep) {
    if (std::find(keep.begin(), keep.end(), true) == keep.end()) return keep_best();
    std::vector<Entry> left;
    for (size_t i = 0; i < entries_.size(); ++i)
      if (keep[i]) left.push_back(entries_[i]);
    entries_ = left;
  }
  void keep_best() { entries_ = {entries_[falling()[0]]}; }

  void apply(const SamplerStage& s) {
    const size_t n = s.count <= 0 ? history_.size() : std::min(history_.size(), static_cast<size_t>(s.count));
    const std::vector<int32_t> window(history_.end() - static_cast<std::ptrdiff_t>(n), history_.end());
    switch (s.kind) {
      case SamplerKind::temperature:
        for (Entry& e : entries_) e.score /= static_cast<long double>(s.value);
        return;
      case SamplerKind::top_k:
        return top_k(s.count);
      case SamplerKind::top_p:
        return top_p(s.value);
      case SamplerKind::min_p:
        return at_least(static_cast<long double>(s.value) * largest_probability(), false);
      case SamplerKind::typical_p:
        return typical_p(s.value);
      case SamplerKind::epsilon:
        return at_least(static_cast<long double>(s.value), true);
      case SamplerKind::eta: {
        const auto epsilon = static_cast<long double>(s.value);
        return at_least(std::min(epsilon, std::sqrt(epsilon) * std::exp(-entropy())), true);
      }
      case SamplerKind::no_repeat_ngram:
        return no_repeat(s.count);
      case SamplerKind::repetition_penalty:
        for (Entry& e : entries_)
          if (std::count(window.begin(), window.end(), e.token) > 0)
            e.score =
                e.score < 0 ? e.score * static_cast<long double>(s.value) : e.score / static_cast<long double>(s.value);
        return;
      case SamplerKind::frequency_presence:
        for (Entry& e : entries_)
          if (const auto seen = std::count(window.begin(), window.end(), e.token); seen > 0)
            e.score -=
                static_cast<long double>(seen) * static_cast<long double>(s.value) + static_cast<long double>(s.value2);
        return;
      case SamplerKind::logit_bias:
        return bias();
      case SamplerKind::greedy:
        return;
    }
  }
  void top_k(int32_t k) {
    if (k <= 0 || static_cast<size_t>(k) >= entries_.size()) return;
    const long double last = entries_[falling()[static_cast<size_t>(k) - 1]].score;
    std::vector<bool> stays;
    for (const Entry& e : entries_) stays.push_back(e.score >= last);
    keep(stays);
  }
  void top_p(double value) {
    if (value == 1) return;
    const std::vector<long double> p = probabilities();
    std::vector<size_t> order = falling();
    std::reverse(order.begin(), order.end());
    std::vector<bool> stays(entries_.size(), false);
    long double sum = 0;
    bool staying = false;
    for (const size_t i : order) {
      sum += p[i];
      staying = staying || above(sum, static_cast<long double>(1.0 - value)) || i == order.back();
      stays[i] = staying;
    }
    keep(stays);
  }
  long double largest_probability() const {
    const std::vector<long double> p = probabilities();
    return *std::max_element(p.begin(), p.end());
  }
  long double entropy() const {
    long double sum = 0;
    for (const long double p : probabilities()) sum -= p > 0 ? p * std::log(p) : 0;
    return sum;
  }
  void at_least(long double limit, bool and_best) {
    const std::vector<long double> p = probabilities();
    std::vector<bool> stays;
    for (const long double v : p) stays.push_back(!above(limit, v));
    if (and_best)
      for (size_t i = 0; i < p.size(); ++i) stays[i] = stays[i] || entries_[i].score == entries_[falling()[0]].score;
    keep(stays);
  }
  void typical_p(double mass) {
    if (mass == 1) return;
    const std::vector<long double> p = probabilities();
    const long double mean = entropy(), largest = entries_[falling()[0]].score,
                      log_largest = std::log(largest_probability());
    std::vector<long double> odd;
    for (const Entry& e : entries_) odd.push_back(std::fabs(largest - e.score - log_largest - mean));
    std::vector<size_t> order(odd.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::sort(order.begin(), order.end(),
              [&](size_t a, size_t b) { return odd[a] != odd[b] ? odd[a] < odd[b] : a < b; });
    for (size_t i = 1; i < order.size(); ++i)   // two that may be meant as equal, one on either side of the entropy
      doubtful_ |= odd[order[i]] != odd[order[i - 1]] && odd[order[i]] - odd[order[i - 1]] < 1e-12L;
    long double sum = 0, last = odd[order.back()];
    for (const size_t i : order)
      if (!above(static_cast<long double>(mass), sum += p[i])) {
        last = odd[i];
        break;
      }
    std::vector<bool> stays;
    for (const long double o : odd) stays.push_back(o <= last);
    keep(stays);
  }
  void no_repeat(int32_t n) {
    const auto length = static_cast<size_t>(n);
    if (n <= 0 || history_.size() < length) return;
    std::vector<bool> stays(entries_.size(), true);
    for (size_t start = 0; start + length <= history_.size(); ++start) {
      const std::vector<int32_t> before(history_.begin() + static_cast<std::ptrdiff_t>(start),
                                        history_.begin() + static_cast<std::ptrdiff_t>(start + length - 1));
      const std::vector<int32_t> tail(history_.end() - static_cast<std::ptrdiff_t>(length - 1), history_.end());
      if (before != tail) continue;
      for (size_t i = 0; i < entries_.size(); ++i)
        if (entries_[i].token == history_[start + length - 1]) stays[i] = false;
    }
    keep(stays);
  }
  void bias() {
    std::vector<bool> stays(entries_.size(), true);
    for (const TokenBias& b : biases_)
      for (size_t i = 0; i < entries_.size(); ++i) {
        if (entries_[i].token != b.token) continue;
        if (std::isinf(b.bias))
          stays[i] = false;
        else
          entries_[i].score += static_cast<long double>(b.bias);
      }
    keep(stays);
  }

  std::vector<int32_t> history_;
  std::vector<TokenBias> biases_;
  std::vector<Entry> entries_;
  std::vector<Candidate> kept_, sorted_;
  bool doubtful_ = false;
};

}   // namespace mote::test
