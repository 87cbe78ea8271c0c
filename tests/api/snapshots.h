// Taking, restoring and forging snapshots, for the tests of them.
#pragma once
#include <cstring>
#include <stdexcept>

#include "core/base/sha256.h"
#include "tests/api/kit.h"

namespace mote::test {

inline Bytes take_snapshot(mote_session* session) {
  mote_error error{};
  uint64_t bytes = 0, written = 0;
  must(mote_snapshot_bytes(session, &bytes, &error), error);
  Bytes taken(bytes);
  must(mote_snapshot(session, taken.data(), taken.size(), &written, &error), error);
  if (written != bytes) throw std::runtime_error("a snapshot has another size than was said");
  return taken;
}

inline Outcome try_restore(mote_session* session, const Bytes& snapshot) {
  return outcome([&](mote_error* e) { return mote_restore(session, snapshot.data(), snapshot.size(), e); });
}

inline void restore(mote_session* session, const Bytes& snapshot) {
  const Outcome said = try_restore(session, snapshot);
  if (said.status != MOTE_OK) throw std::runtime_error(said.sentence);
}

// Puts the right length and digest onto bytes that were changed.
inline Bytes sealed(Bytes snapshot) {
  if (snapshot.size() < 64) return snapshot;
  const uint64_t total = snapshot.size();
  std::memcpy(snapshot.data() + 16, &total, sizeof total);
  const Sha256Digest digest =
      sha256({reinterpret_cast<const char*>(snapshot.data()), snapshot.size() - sizeof(Sha256Digest)});
  std::memcpy(snapshot.data() + snapshot.size() - digest.size(), digest.data(), digest.size());
  return snapshot;
}

// Goes on from wherever the session is: the logits of everything that follows, and the tokens it chooses.
struct Onward {
  std::vector<float> logits;
  Tokens tokens;
};
inline Onward go_on(mote_session* session, size_t count = 8) {
  Onward onward;
  if (history(session).empty()) feed(session, {3});
  for (size_t i = 0; i < count; ++i) {
    for (const float logit : step(session)) onward.logits.push_back(logit);
    onward.tokens.push_back(next(session));
  }
  return onward;
}

// Where a snapshot's parts begin; the layout is written down in core/api_snapshot.cpp and core/pipeline/snapshot.h.
struct SnapshotPlaces {
  static constexpr size_t kVersion = 8, kFileBytes = 24, kMetadata = 32, kTensors = 64, kSamples = 96, kSeed = 128,
                          kFinish = 136, kCharacterBytes = 140, kHeldBytes = 144, kText = 152;
  // From the start of the sequence's part, which is at kText while no text is held back.
  static constexpr size_t kPlaces = 48, kKvType = 80, kVocab = 84, kStates = 88, kHistory = 92, kRun = 96,
                          kHasLogits = 100, kDropped = 104, kInput = 112, kZero = 116, kStateShapes = 120;
};

}   // namespace mote::test
