// Input: which of some good snapshots, then changes of its bytes: a length cut off, or a place and up to 8 bytes. Its
// size and checksum are made right again, so that the fields are what is attacked. A refused one must leave the session
// as it was; one that is taken is fed 20 tokens and steps.
#include <algorithm>
#include <array>

#include "core/base/bytes.h"
#include "core/base/sha256.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/toy_model.h"

namespace mote::fuzz {
namespace {

using Bytes = std::vector<uint8_t>;

constexpr size_t kChecksumBytes = 32, kTotalBytesEnd = 24;

Bytes snapshot_of(mote_session* session) {
  mote_error error{};
  uint64_t bytes = 0;
  if (mote_snapshot_bytes(session, &bytes, &error) != MOTE_OK) wrong(error.message);
  Bytes snapshot(static_cast<size_t>(bytes));
  if (mote_snapshot(session, snapshot.data(), bytes, &bytes, &error) != MOTE_OK) wrong(error.message);
  if (bytes != snapshot.size()) wrong("a snapshot of another size than was said");
  return snapshot;
}

void restore(mote_session* session, const Bytes& snapshot) {
  mote_error error{};
  if (mote_restore(session, snapshot.data(), snapshot.size(), &error) != MOTE_OK) wrong(error.message);
}

void feed(mote_session* session, size_t n) {
  int32_t ids[32];
  for (size_t i = 0; i < n; ++i) ids[i] = static_cast<int32_t>(i * 7 + n);
  mote_error error{};
  size_t done = 0;
  fine(mote_feed(session, ids, n, &done, &error), error);
}

// One session, and snapshots of it at several places.
struct Bench {
  test::Bytes model_bytes;
  mote_session* session = nullptr;
  std::array<Bytes, 4> snapshots;

  Bench() {
    model_bytes =
        test::toy_t5({.n_layers = 1, .d_model = 32, .n_heads = 2, .n_kv_heads = 1, .d_ff = 32, .n_vocab = 320}).bytes();
    mote_source source{};
    source.struct_bytes = sizeof source;
    source.data = model_bytes.data();
    source.data_bytes = model_bytes.size();
    mote_model* model = nullptr;
    mote_error error{};
    if (mote_model_open(engine(), &source, nullptr, {}, &model, &error) != MOTE_OK) wrong(error.message);
    static const char* const stops[] = {"the end", "in"};
    mote_session_options options{};
    options.struct_bytes = sizeof options;
    options.context = 40;
    options.max_batch = 8;
    options.on_full = MOTE_ON_FULL_SLIDE;
    options.stops = stops;
    options.n_stops = 2;
    if (mote_session_open(model, &options, {}, &session, &error) != MOTE_OK) wrong(error.message);
    snapshots[0] = snapshot_of(session);
    const int32_t input[] = {3, 1, 4, 1, 5};
    if (mote_encode(session, input, 5, &error) != MOTE_OK) wrong(error.message);
    feed(session, 9);
    snapshots[1] = snapshot_of(session);
    fine(mote_step(session, &error), error);
    snapshots[2] = snapshot_of(session);
    mote_text text{};
    text.struct_bytes = sizeof text;
    for (int i = 0; i < 40; ++i)
      if (!fine(mote_text_next(session, &text, &error), error) || text.finish != MOTE_FINISH_NONE) break;
    snapshots[3] = snapshot_of(session);
  }
};

Bytes forged(Cursor input, const Bench& bench) {
  Bytes snapshot = bench.snapshots[input.byte() % bench.snapshots.size()];
  snapshot.resize(snapshot.size() - kChecksumBytes);
  while (!input.empty()) {
    const size_t place = input.byte() | static_cast<size_t>(input.byte()) << 8;
    const uint8_t count = input.byte() % 16;
    if (count > 8) {
      snapshot.resize(std::min(snapshot.size(), place));
      continue;
    }
    const Input with = input.take(count);
    for (size_t i = 0; i < with.size() && place + i < snapshot.size(); ++i) snapshot[place + i] = with[i];
  }
  const uint64_t total_bytes = snapshot.size() + kChecksumBytes;
  if (snapshot.size() >= kTotalBytesEnd) store_le(snapshot.data() + kTotalBytesEnd - sizeof total_bytes, total_bytes);
  const Sha256Digest digest = sha256(std::string_view(reinterpret_cast<const char*>(snapshot.data()), snapshot.size()));
  snapshot.insert(snapshot.end(), digest.begin(), digest.end());
  return snapshot;
}

void run(const Bytes& forgery, const Bench& bench) {
  restore(bench.session, bench.snapshots[1]);
  mote_error error{};
  if (!fine(mote_restore(bench.session, forgery.data(), forgery.size(), &error), error)) {
    if (snapshot_of(bench.session) != bench.snapshots[1]) wrong("a refused snapshot changed the session");
    return;
  }
  feed(bench.session, 20);
  int32_t token = 0;
  for (int i = 0; i < 3; ++i) fine(mote_next(bench.session, &token, &error), error);
}

}   // namespace
}   // namespace mote::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  using namespace mote::fuzz;
  static const Bench bench;
  const auto forgery = forged(Cursor({data, bytes}), bench);
  const WorkBound bound(forgery.size(), 2000, 4000000);
  run(forgery, bench);
  return 0;
}
