// One life of an engine, a model and a session, made of every call of mote.h that may ask the system for something.
// A call that is refused is checked (a status that fits, a sentence, nothing left behind) and made again without
// faults, in the very engine, model or session that saw it fail.
#pragma once
#include <string>
#include <vector>

#include "examples/skeleton_backend/skeleton_backend.h"
#include "tests/api/kit.h"
#include "tests/faults/system_calls.h"

namespace mote::test {

struct Life {
  std::vector<float> logits;
  Tokens tokens;   // the text's, the chat's and those generated
  std::string text;
  std::vector<uint64_t> quotes;
  bool operator==(const Life&) const = default;
};

struct Told {
  Life life;
  uint32_t n_refused = 0;
  std::string first_sentence;   // of the first refusal
  std::string problems;         // empty: nothing is wrong
};

struct Scenario {
  const char* name = "";
  mote_source source{};
  std::string source_words;   // what a sentence about the file must hold
  uint32_t threads = 3;
  const char* backends = "auto";
  skeleton::FailAt fail_at = skeleton::FailAt::never;   // of the skeleton, where `backends` names it
};

// Runs it with the faults that are set. All it opened is closed again, whatever happened.
Told live(const Scenario& scenario);

}   // namespace mote::test
