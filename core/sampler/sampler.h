// Logits to token id. A chain of stages, in the caller's order, changes or removes candidates; what is left is
// drawn from with a number that is a function of (seed, position) alone.
//
// The stages mean exactly what the classes of the `transformers` library (4.57) mean, computed in double:
//   temperature         score / value; 0 means greedy
//   top_k               keeps the `count` largest and all that equal the last of them; count <= 0: off
//   top_p               drops, from the least probable up (of equal ones the highest id first), while the running
//                       sum is <= 1 - value; 1: off
//   min_p               drops what is less probable than value times the most probable; 0: off
//   typical_p           keeps the fewest candidates by |surprise - entropy| whose probability reaches value, and
//                       all that equal the last of them (Meister et al., "Locally typical sampling", 2022); 1: off
//   epsilon             drops probabilities below value, never the largest; 0: off
//   eta                 epsilon with min(value, sqrt(value) e^-entropy) (Hewitt et al., "Truncation sampling as
//                       language model desmoothing", 2022); 0: off
//   no_repeat_ngram     bans each token that would repeat a run of `count` tokens of the history; 0: off
//   repetition_penalty  for each distinct token among the last `count` of the history (0: all of it): a negative
//                       score is multiplied by value, another one divided; 1 changes no bit
//   frequency_presence  score - (occurrences x value + value2 if it occurred), over the last `count` tokens (0: all)
//   logit_bias          adds the session's biases; -infinity bans the token
//   greedy              the largest score, lowest id among equals
// A greedy stage or a temperature of 0, anywhere in the chain, decides whatever else is set: temperatures and
// stages that only cut (top_k ... eta) are then passed over, while bans, penalties and biases still count, in their
// order. A temperature too small for double is taken as its limit: all goes to the largest scores. No stage
// removes the last candidate: one that would leave none leaves the largest score. Candidates start as all tokens
// whose logit is not -infinity.
#pragma once
#include <cstdint>
#include <span>

#include "core/base/arena.h"
#include "core/base/listing.h"
#include "core/base/result.h"
#include "core/sampler/row_scan.h"

namespace mote {

// The numbers of `mote_sampler.kind` in mote.h.
enum class SamplerKind : int32_t {
  temperature = 1,
  top_k = 2,
  top_p = 3,
  min_p = 4,
  typical_p = 5,
  epsilon = 6,
  eta = 7,
  no_repeat_ngram = 8,
  repetition_penalty = 9,
  frequency_presence = 10,
  logit_bias = 11,
  greedy = 12,
};

struct SamplerStage {
  SamplerKind kind;
  int32_t count = 0;   // top_k: k; no_repeat_ngram: n; penalties: window in tokens, 0 = the whole history
  double value = 0;    // temperature, p, epsilon, penalty, frequency
  double value2 = 0;   // presence
};

struct TokenBias {
  int32_t token;
  float bias;
};

struct SamplerShape {
  uint32_t n_vocab = 0;   // logits per call, at least 1
  uint32_t max_biases = 0;
};

// What Sampler::candidates lists.
struct Candidate {
  int32_t token;
  double probability;
};

inline constexpr uint32_t kMaxSamplerStages = 16;
inline constexpr int32_t kMaxNgram = 64;   // bounds no_repeat_ngram to 64 comparisons per token of the history

class Sampler {
 public:
  // Takes (or, with a measuring arena, counts) 16 bytes per token of the vocabulary, what RowScan takes and 8 per bias.
  // The arena's memory must outlive the sampler. The chain is empty afterwards: probabilities as the logits have them.
  void layout(Arena& arena, const SamplerShape& shape);

  // What `set` would say but for the room for biases: also while measuring, when there is none yet.
  Status check(std::span<const SamplerStage> stages, const Listing<TokenBias>& biases) const;

  // Checks every parameter and, only if all are good, puts the chain and the biases in place of the old ones.
  // invalid_argument names the stage, what was found and what is allowed. Both lists are copied.
  Status set(std::span<const SamplerStage> stages, const Listing<TokenBias>& biases);

  // Runs the chain. `logits` [n_vocab]; `history`: the session's tokens so far, oldest first, which the penalties
  // look at. `position` only serves messages: not_finite names it and the first token whose logit is NaN or
  // +infinity; so do logits that are all -infinity.
  Status apply(std::span<const float> logits, std::span<const int32_t> history, uint64_t position);

  // After a successful `apply`: the candidate drawn: the first, by falling probability and, among equals, rising id,
  // whose running sum passes a uniform number made of seed and position. Without one: -1.
  int32_t draw(uint64_t seed, uint64_t position) const;

  // What is left after a successful `apply` (at least 1; without one 0), for the tests alone, golden ones among them: a
  // draw says too little about a chain. The most probable candidates by falling probability, equal ones by rising id,
  // at most out.size() of them; their probabilities are shares of all that are left. Returns how many were written.
  uint32_t candidate_count() const { return count_; }
  uint32_t candidates(std::span<Candidate> out) const;

  // `apply`, then `draw`.
  Result<int32_t> sample(std::span<const float> logits, std::span<const int32_t> history, uint64_t seed,
                         uint64_t position);

 private:
  static constexpr uint32_t kNotThere = UINT32_MAX;

  Status check(size_t index, const SamplerStage& stage) const;
  // Where the first stage that cuts keeps few candidates whatever the other ones are, those alone are looked at.
  struct FirstCut {
    uint32_t stage = kNotThere;   // its place in the chain; kNotThere: all candidates matter
    double scale = 1;             // the product of the temperatures before it
  };
  FirstCut first_cut() const;
  bool is_passed_over(const SamplerStage& stage) const;
  void mark_changed(uint32_t n_stages, std::span<const int32_t> history);
  float least_wanted(const FirstCut& cut) const;
  Status load(std::span<const float> logits, uint64_t position, const FirstCut& cut, std::span<const int32_t> history);
  bool run_chain(const FirstCut& cut, std::span<const int32_t> history);
  void run(const SamplerStage& stage, std::span<const int32_t> history);
  template <class Keep>
  void keep_if(Keep keep);
  void keep_only(uint32_t index);
  uint32_t best() const;                // index of the largest score, lowest id among equals
  uint32_t find(int32_t token) const;   // index of a candidate, or kNotThere
  struct Weights {
    double sum, entropy;   // in nats, of the candidates as they are
  };
  Weights weights() const;   // largest_ is set
  void keep_weights(double least);

  void temperature(double value);
  void top_k(int32_t k);
  void top_p(double p);
  void min_p(double p);
  void typical_p(double mass);
  void epsilon(double limit);
  void eta(double limit);
  void no_repeat_ngram(int32_t n, std::span<const int32_t> history);
  void repetition_penalty(double penalty, std::span<const int32_t> window);
  void frequency_presence(double frequency, double presence, std::span<const int32_t> window);
  void logit_bias();
  template <class Change>
  void change_seen(std::span<const int32_t> window, Change change);

  SamplerStage stages_[kMaxSamplerStages] = {};
  uint32_t stage_count_ = 0;
  bool greedy_ = false, is_rebased_ = false;
  uint32_t n_vocab_ = 0, count_ = 0, bias_count_ = 0;
  double largest_ = 0;   // of the candidates that are left, once `apply` is done; stages set it for themselves

  RowScan scan_;

  // Candidates by rising id. A score is always finite.
  std::span<double> score_;     // [n_vocab]
  std::span<int32_t> token_;    // [n_vocab]
  std::span<uint32_t> seen_;    // [n_vocab] occurrences in a window; all zero between stages
  std::span<TokenBias> bias_;   // [max_biases]
};

}   // namespace mote
