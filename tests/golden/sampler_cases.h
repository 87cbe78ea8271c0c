// The sampler goldens (cases.jsonl, inputs.json): reading them, making their generated inputs, running a case.
#pragma once
#include <cstdint>
#include <fstream>
#include <limits>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/sampler/sampler.h"

namespace mote::test {

struct SamplerCase {
  std::string id, input;
  std::vector<int32_t> history;
  std::vector<SamplerStage> chain;
  // What is expected.
  uint32_t n_kept = 0;
  bool ties = false;   // equal probabilities: which of them stay and their order is not compared
  std::vector<int32_t> ids;
  std::vector<double> probs;
  int64_t sum_of_kept_ids = -1;   // -1: not given
};

struct SamplerInputs {
  std::map<std::string, std::vector<float>> logits;
  std::vector<SamplerCase> cases;
};

struct SamplerAnswer {
  uint32_t n_kept = 0;
  std::vector<int32_t> ids;   // as many as the case lists
  std::vector<double> probs;
  int64_t sum_of_kept_ids = 0;
};

// float32(((a + b + c + d) / 2^24 - 2) scale), a ... d the top 24 bits of successive splitmix64 outputs, and 6 more
// (before rounding) where i 2654435761 mod 2^32 < spikes 2^20.
inline std::vector<float> generated_logits(uint64_t seed, size_t n, double scale, uint64_t spikes) {
  const auto next = [&seed] {
    uint64_t z = seed += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return static_cast<double>((z ^ (z >> 31)) >> 40);
  };
  std::vector<float> logits(n);
  for (size_t i = 0; i < n; ++i) {
    double sum = 0;
    for (int k = 0; k < 4; ++k) sum += next();
    double x = (sum / 16777216.0 - 2.0) * scale;
    if (static_cast<uint32_t>(i * 2654435761u) < spikes << 20) x += 6.0;
    logits[i] = static_cast<float>(x);
  }
  return logits;
}

inline SamplerStage stage_from_golden(const std::string& name, const nlohmann::json& value) {
  static const std::map<std::string, SamplerKind> kinds = {{"temperature", SamplerKind::temperature},
                                                           {"top_k", SamplerKind::top_k},
                                                           {"top_p", SamplerKind::top_p},
                                                           {"min_p", SamplerKind::min_p},
                                                           {"typical_p", SamplerKind::typical_p},
                                                           {"epsilon", SamplerKind::epsilon},
                                                           {"eta", SamplerKind::eta},
                                                           {"no_repeat_ngram", SamplerKind::no_repeat_ngram},
                                                           {"repetition_penalty", SamplerKind::repetition_penalty},
                                                           {"frequency_presence", SamplerKind::frequency_presence}};
  SamplerStage stage{kinds.at(name)};
  if (stage.kind == SamplerKind::top_k || stage.kind == SamplerKind::no_repeat_ngram) {
    stage.count = value;
  } else if (stage.kind == SamplerKind::frequency_presence) {
    stage.value = value[0];
    stage.value2 = value[1];
  } else {
    stage.value = value;
  }
  return stage;
}

inline SamplerInputs read_sampler_inputs(const std::string& folder) {
  SamplerInputs result;
  std::ifstream inputs(folder + "/inputs.json"), cases(folder + "/cases.jsonl");
  if (!inputs || !cases) throw std::runtime_error("inputs.json or cases.jsonl is not in " + folder);
  // Python writes -Infinity, which is no JSON.
  std::string text((std::istreambuf_iterator<char>(inputs)), {});
  for (size_t at = 0; (at = text.find("-Infinity", at)) != std::string::npos;) text.replace(at, 9, "\"-inf\"");
  const auto all = nlohmann::json::parse(text);
  for (const auto& [name, input] : all.at("inputs").items()) {
    std::vector<float>& logits = result.logits[name];
    if (input.contains("generator")) {
      const auto& g = input["generator"];
      logits = generated_logits(g.at("seed"), input.at("n"), g.at("scale"), g.at("spikes"));
    } else {
      for (const auto& v : input.at("values"))
        logits.push_back(v.is_string() ? -std::numeric_limits<float>::infinity() : v.get<float>());
    }
    for (size_t i = 0; i < input.at("first").size(); ++i)
      if (input["first"][i].is_number() && input["first"][i].get<float>() != logits.at(i))
        throw std::runtime_error("input " + name + " does not begin as inputs.json says");
  }
  for (std::string line; std::getline(cases, line);) {
    const auto j = nlohmann::json::parse(line);
    SamplerCase c{j.at("id"),  j.at("input"),  j.at("history"),
                  {},          j.at("n_kept"), false,
                  j.at("ids"), j.at("probs"),  j.value("sum_of_kept_ids", int64_t{-1})};
    for (const auto& stage : j.at("chain")) c.chain.push_back(stage_from_golden(stage.at(0), stage.at(1)));
    c.ties = !j.value("distinct", true) || j.value("note", "").find("equal logits") != std::string::npos;
    result.cases.push_back(c);
  }
  return result;
}

// A sampler with memory of its own, of exactly the size that its layout measures.
class OwnSampler {
 public:
  explicit OwnSampler(const SamplerShape& shape) {
    Arena measure;
    Sampler().layout(measure, shape);
    memory_.reset(static_cast<std::byte*>(::operator new(measure.used_bytes(), std::align_val_t(kArenaAlignment))));
    Arena arena(memory_.get(), measure.used_bytes());
    sampler_.layout(arena, shape);
    if (const Status status = arena.status("the sampler"); !status.ok()) throw std::runtime_error(status.c_str());
  }
  Sampler& operator*() { return sampler_; }
  Sampler* operator->() { return &sampler_; }

 private:
  struct Free {
    void operator()(std::byte* p) const { ::operator delete(p, std::align_val_t(kArenaAlignment)); }
  };
  std::unique_ptr<std::byte, Free> memory_;
  Sampler sampler_;
};

inline SamplerAnswer run_sampler_case(const SamplerInputs& inputs, const SamplerCase& test) {
  const std::vector<float>& logits = inputs.logits.at(test.input);
  OwnSampler sampler({static_cast<uint32_t>(logits.size()), 0});
  if (const Status s = sampler->set(test.chain, {}); !s.ok()) throw std::runtime_error(test.id + ": " + s.c_str());
  if (const Status s = sampler->apply(logits, test.history, 0); !s.ok())
    throw std::runtime_error(test.id + ": " + s.c_str());
  std::vector<Candidate> all(sampler->candidate_count());
  SamplerAnswer answer;
  answer.n_kept = sampler->candidates(all);
  for (const Candidate& c : all) answer.sum_of_kept_ids += c.token;
  for (size_t i = 0; i < std::min(all.size(), test.ids.size()); ++i) {
    answer.ids.push_back(all[i].token);
    answer.probs.push_back(all[i].probability);
  }
  return answer;
}

}   // namespace mote::test
