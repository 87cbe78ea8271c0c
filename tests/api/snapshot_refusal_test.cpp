// What a snapshot is refused for, and that a session which refuses one stays as it was, whatever the bytes are.
#include <catch2/catch_test_macros.hpp>
#include <limits>

#include "tests/api/hooked_backend.h"
#include "tests/api/scripted_model.h"
#include "tests/api/snapshots.h"
#include "tests/support/toy_weights.h"

namespace mote::test {
namespace {

using At = SnapshotPlaces;

template <class T>
Bytes with(Bytes bytes, size_t at, T value) {
  std::memcpy(bytes.data() + at, &value, sizeof value);
  return sealed(bytes);
}

// Empty when the session refused it with this status, in a sentence with this part, and stayed as it was.
std::string refusal(mote_session* session, const Bytes& snapshot, mote_status status, const std::string& part) {
  const Bytes before = take_snapshot(session);
  const Outcome said = try_restore(session, snapshot);
  if (said.status != status) return std::string(mote_status_name(said.status)) + ": " + said.sentence;
  if (!contains(said.sentence, part)) return said.sentence;
  if (take_snapshot(session) != before) return "the session is another one after the refusal";
  return {};
}

// A session with something in it, and a snapshot of another one.
struct Pair {
  Engine engine{"cpu"};
  Model model{engine, toy_llama(kSmallToy)};
  Session session{model, session_options(40, 8)};
  Bytes snapshot;

  Pair() {
    const Session other(model, session_options(40, 8));
    logits_after(other, some_tokens(10, 300));
    snapshot = take_snapshot(other);
    feed(session, some_tokens(7, 300, 2));
  }
};

TEST_CASE("A snapshot of another model is refused, and the sentence says what differs", "[api][snapshot]") {
  const Pair pair;
  const auto refused_by = [&](const GgufBuilder& file, const std::string& part) {
    const Model other(pair.engine, file);
    const Session session(other, session_options(40, 8));
    feed(session, {1, 2, 3});
    return refusal(session, pair.snapshot, MOTE_INVALID_ARGUMENT, part);
  };
  GgufBuilder same = toy_llama(kSmallToy), metadata = same, table = same, weights = same, vector = same, size = same;
  metadata.set_f32("llama.attention.layer_norm_rms_epsilon", 2e-5f);
  std::swap(table.tensor("blk.0.attn_k.weight").name, table.tensor("blk.0.attn_v.weight").name);
  weights.tensor("output.weight").data.back() ^= 1;
  vector.tensor("blk.1.ffn_norm.weight").data[5] ^= 1;
  size.set_string("general.description", "another one");
  CHECK(refused_by(metadata, "another metadata") == "");
  CHECK(refused_by(table, "another tensor table") == "");
  CHECK(refused_by(weights, "another weights") == "");
  CHECK(refused_by(vector, "another weights") == "");
  CHECK(refused_by(size, "its file has") == "");
  const Model twin(pair.engine, same);   // the same file once more is the same model
  const Session session(twin, session_options(40, 8));
  CHECK(try_restore(session, pair.snapshot).status == MOTE_OK);
}

TEST_CASE("A snapshot of another version, KV type, arithmetic or size is refused by name", "[api][snapshot]") {
  const Pair pair;
  CHECK(refusal(pair.session, with(pair.snapshot, At::kVersion, uint32_t{3}), MOTE_UNSUPPORTED,
                "version 3, this build reads version 2") == "");
  mote_session_options f32 = session_options(40, 8);
  f32.kv_type = MOTE_KV_F32;
  CHECK(refusal(Session(pair.model, f32), pair.snapshot, MOTE_UNSUPPORTED, "are f16, this session's f32") == "");
  CHECK(refusal(Session(pair.model, session_options(9, 8)), pair.snapshot, MOTE_CONTEXT_FULL,
                "10 tokens do not fit in a context of 9") == "");
  CHECK(try_restore(Session(pair.model, session_options(10, 8)), pair.snapshot).status == MOTE_OK);

  const Engine reference("reference");
  const Model other(reference, toy_llama(kSmallToy));
  CHECK(refusal(Session(other, session_options(40, 8)), pair.snapshot, MOTE_UNSUPPORTED,
                "the arithmetic canonical 1, this session runs reference 1") == "");
  HookedBackend hooked("cpu");
  hooked.version = 3;
  void* const extra[] = {static_cast<Backend*>(&hooked)};
  mote_engine_options engine_with = engine_options("hooked");
  engine_with.extra_backends = extra;
  engine_with.n_extra_backends = 1;
  const Engine newer(engine_with);
  const Model newer_model(newer, toy_llama(kSmallToy));
  CHECK(refusal(Session(newer_model, session_options(40, 8)), pair.snapshot, MOTE_UNSUPPORTED,
                "canonical 1, this session runs canonical 3") == "");
}

TEST_CASE("One token over a full context goes only where the context slides", "[api][snapshot]") {
  const Engine engine("cpu");
  const Model model(engine, toy_llama(kSmallToy));
  mote_session_options sliding = session_options(12, 8);
  sliding.on_full = MOTE_ON_FULL_SLIDE;
  const Session session(model, sliding);
  logits_after(session, some_tokens(12, 300));
  int32_t token = -1;
  REQUIRE(mote_sample(session, &token, nullptr) == MOTE_OK);
  const Bytes snapshot = take_snapshot(session);
  CHECK(refusal(Session(model, session_options(12, 8)), snapshot, MOTE_CONTEXT_FULL,
                "13 tokens do not fit in a context of 12") == "");
  CHECK(try_restore(Session(model, session_options(13, 8)), snapshot).status == MOTE_OK);
  CHECK(try_restore(Session(model, sliding), snapshot).status == MOTE_OK);
}

TEST_CASE("Text that may become a stop string goes only where that stop string is", "[api][snapshot]") {
  const Engine engine("reference");
  const Model model(engine, saying_llama("abcd"));
  const char* held_by[] = {"bcX"};
  mote_session_options options = session_options(32, 8);
  options.stops = held_by;
  options.n_stops = 1;
  const Session session(model, options);
  feed(session, {'a'});
  mote_text text{};
  text.struct_bytes = sizeof text;
  for (int i = 0; i < 2; ++i) REQUIRE(mote_text_next(session, &text, nullptr) == MOTE_OK);
  const Bytes snapshot = take_snapshot(session);
  const auto said = [&](std::vector<const char*> stops) {
    mote_session_options open_with = session_options(32, 8);
    open_with.stops = stops.data();
    open_with.n_stops = stops.size();
    return refusal(Session(model, open_with), snapshot, MOTE_INVALID_ARGUMENT, "2 bytes that do not begin a stop");
  };
  CHECK(said({}) == "");
  CHECK(said({"bX"}) == "");
  CHECK(said({"bc"}) == "");                           // it would have ended there
  CHECK(said({"bcX", "b"}) == "");                     // and there
  CHECK(said({"bcY", "c"}) == "MOTE_OK: untouched");   // c is complete, but something that began earlier may still come
  CHECK(said({"Z", "bcdef"}) == "MOTE_OK: untouched");
}

TEST_CASE("Every field that contradicts the session or itself is noticed", "[api][snapshot]") {
  const Pair pair;
  const size_t sequence = At::kText;
  const auto refused = [&](size_t at, uint32_t value, const char* part,
                           mote_status status = MOTE_INVALID_ARGUMENT) -> std::string {
    const std::string wrong = refusal(pair.session, with(pair.snapshot, at, value), status, part);
    return wrong.empty() ? "" : std::to_string(at) + ": " + wrong;
  };
  CHECK(refused(0, 0, "no snapshot") == "");
  CHECK(refused(12, 1, "must be 0") == "");
  CHECK(refused(148, 1, "must be 0") == "");
  CHECK(refused(At::kFinish, 4, "finish 4") == "");
  CHECK(refused(At::kCharacterBytes, 1, "unfinished character") == "");
  CHECK(refused(At::kCharacterBytes, 4, "unfinished character") == "");
  CHECK(refused(At::kCharacterBytes, UINT32_MAX, "does not fit into it") == "");
  CHECK(refused(At::kHeldBytes, 1, "do not begin a stop string") == "");
  CHECK(refused(At::kHeldBytes, UINT32_MAX, "does not fit into it") == "");
  CHECK(refused(sequence, 0x20202020, "arithmetic", MOTE_UNSUPPORTED) == "");
  CHECK(refused(sequence + At::kPlaces, 0, "other steps on other backends", MOTE_UNSUPPORTED) == "");
  CHECK(refused(sequence + At::kKvType, 1, "f32", MOTE_UNSUPPORTED) == "");
  CHECK(refused(sequence + At::kKvType, 77, "unknown type", MOTE_UNSUPPORTED) == "");
  CHECK(refused(sequence + At::kVocab, 321, "vocabulary of 321") == "");
  CHECK(refused(sequence + At::kStates, 3, "3 layers") == "");
  CHECK(refused(sequence + At::kHistory, 11, "contradicts itself") == "");   // logits of another token
  CHECK(refused(sequence + At::kHistory, UINT32_MAX, "do not fit", MOTE_CONTEXT_FULL) == "");
  CHECK(refused(sequence + At::kRun, 11, "contradicts itself") == "");
  CHECK(refused(sequence + At::kRun, 41, "do not fit", MOTE_CONTEXT_FULL) == "");
  CHECK(refused(sequence + At::kInput, 1, "input of 1 tokens is more than the 0", MOTE_CONTEXT_FULL) == "");
  CHECK(refused(sequence + At::kZero, 1, "must be 0") == "");
  CHECK(refused(sequence + At::kHasLogits, 2, "contradicts itself") == "");
  CHECK(refused(sequence + At::kHasLogits, 0, "bytes, it has") == "");
  CHECK(refused(sequence + At::kDropped + 4, 0x40000000, "contradicts itself") == "");
  for (size_t field = 0; field < 12; ++field)
    CHECK(refused(sequence + At::kStateShapes + 4 * field, 12345, "another shape") == "");
  const size_t tokens = sequence + At::kStateShapes + 2 * 24;
  CHECK(refused(tokens, 320, "token 320 at index 0") == "");
  CHECK(refused(tokens + 36, UINT32_MAX, "token -1 at index 9") == "");
  for (const size_t at : {At::kFileBytes, At::kMetadata, At::kTensors, At::kSamples})
    CHECK(refused(at, 7, "another model") == "");
  CHECK(try_restore(pair.session, with(pair.snapshot, tokens, 319)).status ==
        MOTE_OK);   // the tests' own seal is right
}

TEST_CASE("A snapshot cut anywhere, or with any byte changed, is refused", "[api][snapshot]") {
  const Pair pair;
  std::string wrong;
  for (size_t size = 0; size < pair.snapshot.size() && wrong.empty(); ++size) {
    const Bytes cut(pair.snapshot.begin(), pair.snapshot.begin() + static_cast<std::ptrdiff_t>(size));
    Bytes changed = pair.snapshot;
    changed[size] ^= static_cast<uint8_t>(1 + size % 255);
    for (const Bytes& bytes : {cut, changed}) {
      const Outcome said = try_restore(pair.session, bytes);
      const bool refused = said.status == MOTE_INVALID_ARGUMENT || said.status == MOTE_UNSUPPORTED;
      if (!refused) wrong = std::to_string(size) + " bytes: " + said.sentence;
    }
    const Outcome said = try_restore(pair.session, sealed(cut));   // as if it had been made so short
    if (said.status == MOTE_OK) wrong = std::to_string(size) + " bytes, sealed, were taken";
  }
  CHECK(wrong == "");
  Bytes longer = pair.snapshot;
  longer.push_back(0);
  CHECK(refusal(pair.session, longer, MOTE_INVALID_ARGUMENT, "were handed over") == "");
  CHECK(refusal(pair.session, sealed(longer), MOTE_INVALID_ARGUMENT, "bytes, it has") == "");
  Bytes damaged = pair.snapshot;
  damaged[damaged.size() / 2] ^= 4;
  CHECK(refusal(pair.session, damaged, MOTE_INVALID_ARGUMENT, "damaged") == "");
}

// A few bytes or words changed, a part cut out or doubled; the digest is right again.
Bytes mutant(Bytes bytes, uint64_t seed) {
  Random random(seed);
  constexpr uint32_t kBehind = At::kText + At::kStateShapes;
  const uint32_t changes = 1 + random.below(4);
  for (uint32_t i = 0; i < changes; ++i) {
    const auto size = static_cast<uint32_t>(bytes.size());
    const uint32_t at = random.below(random.below(4) == 0 ? size - 8 : 320);
    constexpr uint32_t kWords[] = {0, 1, 2, 40, 41, 0x7fffffff, 0x80000000, 0xffffffff, 0x7fc00000, 0xff800000};
    switch (random.below(6)) {
      case 0:
        bytes[at] = static_cast<uint8_t>(random.bits());
        break;
      case 1:
        std::memcpy(&bytes[at / 4 * 4], &kWords[random.below(std::size(kWords))], 4);
        break;
      case 2:
        bytes[at] = static_cast<uint8_t>(bytes[at] + (random.below(2) == 0 ? 1 : 255));
        break;
      case 3:
        if (at + 64 < size && size > 700) bytes.erase(bytes.begin() + at, bytes.begin() + at + 1 + random.below(64));
        break;
      case 4:
        bytes.insert(bytes.begin() + at, bytes.begin(), bytes.begin() + 1 + random.below(64));
        break;
      default:   // what is behind the numbers: tokens, states, logits
        for (uint32_t n = random.below(64); n > 0; --n)
          bytes[kBehind + random.below(size - kBehind - 32)] = static_cast<uint8_t>(random.bits());
    }
  }
  return sealed(bytes);
}

TEST_CASE("2,000 forged snapshots are refused and change nothing, or are taken and the session goes on",
          "[api][snapshot]") {
  for (const char* backend : {"cpu", "reference"}) {
    const Engine engine(backend);
    const Model model(engine, toy_llama(kSmallToy));
    const char* stops[] = {"the end", "in"};
    mote_session_options options = session_options(40, 8);
    options.on_full = MOTE_ON_FULL_SLIDE;
    options.stops = stops;
    options.n_stops = 2;
    const Session session(model, options), other(model, options);
    logits_after(other, some_tokens(10, 300));
    const Bytes snapshot = take_snapshot(other);
    feed(session, some_tokens(7, 300, 2));
    const Bytes before = take_snapshot(session);
    size_t n_taken = 0, n_changed = 0, n_lost = 0;
    for (uint64_t seed = 0; seed < 1000; ++seed) {
      if (try_restore(session, mutant(snapshot, seed)).status != MOTE_OK) {
        if (take_snapshot(session) != before) ++n_changed;
        continue;
      }
      ++n_taken;
      mote_text text{};
      text.struct_bytes = sizeof text;
      for (int i = 0; i < 3; ++i) {
        const mote_status said = mote_text_next(session, &text, nullptr);
        if (said != MOTE_OK && said != MOTE_NOT_FINITE && said != MOTE_WRONG_STATE) ++n_lost;
      }
      restore(session, before);   // good bytes make it a good session again
      if (take_snapshot(session) != before) ++n_lost;
    }
    CAPTURE(backend);
    CHECK(n_changed == 0);
    CHECK(n_lost == 0);
    CHECK(n_taken > 50);
    CHECK(n_taken < 700);
  }
}

}   // namespace
}   // namespace mote::test
