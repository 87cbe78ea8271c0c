// Every variant of the kernels of attention, over the cache of KvState, against the order written once more.
#include <algorithm>
#include <bit>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <limits>
#include <string>

#include "backends/cpu/attention/attention.h"
#include "backends/cpu/attention/kv_state.h"
#include "core/base/half.h"
#include "platform/cpu_features.h"
#include "tests/backends/cpu/canonical.h"
#include "tests/conformance/random.h"
#include "tests/support/guarded_memory.h"

namespace mote::test {
namespace {

// Memory of 0xFF; whoever touches what lies behind it ends the process.
GuardedMemory dirty(uint64_t bytes) { return {bytes, 64, Guard::pages, uint8_t{0xFF}}; }

// A cache in memory of 0xFF, and what it must hold.
struct Cache {
  StateInfo info;
  SessionShape shape;
  GuardedMemory memory;
  KvState state;
  std::vector<float> keys, values;   // [positions, n_kv_heads * dim], as kept

  Cache(const StateInfo& state_info, uint32_t context, uint32_t max_batch, KvType type) : info(state_info) {
    shape.context = context, shape.max_batch = max_batch, shape.kv_type = type;
    Arena measuring;
    KvState().take(info, shape, measuring);
    memory = dirty(measuring.used_bytes());
    Arena arena(memory.data(), measuring.used_bytes());
    state.take(info, shape, arena);
    REQUIRE(arena.used_bytes() == measuring.used_bytes());
  }
  float kept(float value) const {
    if (std::isnan(value)) return 0;
    const float limit = shape.kv_type == KvType::f16 ? 65504.0F : std::numeric_limits<float>::max();
    value = std::clamp(value, -limit, limit);
    return shape.kv_type == KvType::f16 ? f16_to_f32(f32_to_f16(value)) : value;
  }
  void append(uint32_t first, uint32_t rows, CaseRandom& random, double size) {
    state.enter(first, rows);
    for (uint32_t row = 0; row < rows; ++row) {
      const std::vector<float> k = random.normals(info.n_kv_heads * info.key_dim, size),
                               v = random.normals(info.n_kv_heads * info.value_dim);
      keys.resize((size_t{first} + row) * k.size()), values.resize((size_t{first} + row) * v.size());
      for (const float value : k) keys.push_back(kept(value));
      for (const float value : v) values.push_back(kept(value));
      state.write_row(first + row, k.data(), v.data());
    }
  }
  std::vector<float> head(const std::vector<float>& all, uint32_t dim, uint32_t kv_head) const {
    std::vector<float> made;
    for (size_t at = size_t{kv_head} * dim; at < all.size(); at += size_t{info.n_kv_heads} * dim)
      made.insert(made.end(), all.begin() + static_cast<std::ptrdiff_t>(at),
                  all.begin() + static_cast<std::ptrdiff_t>(at + dim));
    return made;
  }
};

// Those that this machine can run.
std::vector<AttentionVariant> usable_variants() {
  std::vector<AttentionVariant> usable;
  for (const AttentionVariant& variant : attention_variants())
    if ((variant.required & ~isa_bits(probe_cpu_features())) == 0) usable.push_back(variant);
  return usable;
}

struct Query {
  std::vector<float> q;
  uint32_t position, last;   // its own, and the last that it sees
};

enum class Way { attend, split, weigh };   // split: chunk by chunk, then merged

// The kernel's outputs for queries of one KV head in calls of `tile` rows.
std::vector<float> kernel_outputs(const Cache& cache, const AttentionTable& table, uint32_t kv_head, float scale,
                                  float softcap, const std::vector<Query>& queries, uint32_t tile, Way way,
                                  const std::vector<float>& bias = {}) {
  const StateInfo& info = cache.info;
  const GuardedMemory scratch = dirty(attention_scratch_floats(info.key_dim, info.value_dim) * 4);
  const uint32_t record = attention_record_floats(info.value_dim);
  const auto positions = static_cast<uint32_t>(cache.keys.size() / (info.n_kv_heads * info.key_dim));
  const uint32_t columns = way == Way::weigh ? positions : info.value_dim;
  std::vector<float> y(queries.size() * columns, NAN), records(size_t{8} * record, NAN);
  for (uint32_t first = 0; first < queries.size(); first += tile) {
    AttentionJob job = {};
    job.keys = cache.state.keys(kv_head), job.values = cache.state.values(kv_head);
    job.key_dim = info.key_dim, job.value_dim = info.value_dim, job.capacity = cache.state.capacity(),
    job.window = info.window;
    job.scale = scale, job.softcap = softcap, job.scratch = reinterpret_cast<float*>(scratch.data());
    job.items = std::min(tile, static_cast<uint32_t>(queries.size()) - first);
    uint32_t low = UINT32_MAX, high = 0;
    for (uint32_t i = 0; i < job.items; ++i) {
      const uint32_t position = queries[first + i].last;
      job.q[i] = queries[first + i].q.data(), job.position[i] = position;
      job.own_position[i] = queries[first + i].position;
      job.bias[i] = bias.empty() ? nullptr : bias.data();
      job.max_distance = static_cast<uint32_t>(bias.size() / 2);
      job.y[i] = &y[size_t{first + i} * columns];
      low = std::min(low, info.window == 0 || position < info.window ? 0 : position - info.window + 1);
      high = std::max(high, position);
    }
    const bool is_half = cache.shape.kv_type == KvType::f16;
    const auto run = way == Way::weigh ? (is_half ? table.weigh_f16 : table.weigh_f32)
                                       : (is_half ? table.attend_f16 : table.attend_f32);
    job.n_positions = positions;
    job.first_chunk = low / kAttentionChunk, job.end_chunk = high / kAttentionChunk + 1;
    if (way != Way::split) {
      run(job);
      continue;
    }
    const uint32_t begin = job.first_chunk, chunks = job.end_chunk - begin;
    for (uint32_t chunk = chunks; chunk-- > 0;) {   // in any order
      job.first_chunk = begin + chunk, job.end_chunk = begin + chunk + 1;
      job.record[0] = &records[size_t{chunk} * record];
      run(job);
    }
    table.merge(records.data(), chunks, info.value_dim, job.y[0]);
  }
  return y;
}

struct Shape {
  uint32_t key_dim, value_dim, window, positions;
  KvType type;
  float softcap;
  double size;
  bool sees_all = false;
  uint32_t max_distance = 0;   // 0: no bias
};

// All ways of calling every kernel for queries at the last positions; gives what differs.
std::string check(const Shape& shape, uint64_t seed, uint32_t* compared) {
  CaseRandom random(seed);
  Cache cache({0, 2, shape.key_dim, shape.value_dim, shape.window}, shape.positions, 24, shape.type);
  for (uint32_t first = 0; first < shape.positions; first += 24)
    cache.append(first, std::min(24U, shape.positions - first), random, shape.size);
  const float scale = static_cast<float>(1 / std::sqrt(double{static_cast<float>(shape.key_dim)}));
  std::string wrong;
  for (const uint32_t kv_head : {0U, 1U}) {
    const std::vector<float> keys = cache.head(cache.keys, shape.key_dim, kv_head),
                             values = cache.head(cache.values, shape.value_dim, kv_head);
    std::vector<float> bias;
    if (shape.max_distance != 0) bias = random.normals(2 * size_t{shape.max_distance} + 1, 2);
    const AttentionInput input = {
        shape.key_dim,     shape.value_dim, shape.window,  scale,
        shape.softcap,     keys.data(),     values.data(), bias.empty() ? nullptr : bias.data(),
        shape.max_distance};
    std::vector<Query> queries;
    std::vector<float> expected, weights;
    for (uint32_t back = std::min(shape.positions, 24U); back-- > 0;) {
      const uint32_t position = shape.positions - 1 - back;
      queries.push_back(
          {random.normals(shape.key_dim, shape.size), position, shape.sees_all ? shape.positions - 1 : position});
      const std::vector<float> row = canonical_attention(input, queries.back().q.data(), position, queries.back().last);
      expected.insert(expected.end(), row.begin(), row.end());
      const std::vector<float> weights_row =
          canonical_weights(input, queries.back().q.data(), position, queries.back().last, shape.positions);
      weights.insert(weights.end(), weights_row.begin(), weights_row.end());
    }
    for (const AttentionVariant& variant : usable_variants()) {
      struct Call {
        uint32_t tile;
        Way way;
      };
      for (const auto [tile, way] : {Call{1, Way::attend}, Call{2, Way::attend}, Call{3, Way::attend},
                                     Call{5, Way::attend}, Call{8, Way::attend}, Call{24, Way::attend},
                                     Call{1, Way::split}, Call{1, Way::weigh}, Call{5, Way::weigh}}) {
        const std::string sentence = compare_floats(
            way == Way::weigh ? weights : expected,
            kernel_outputs(cache, *variant.table, kv_head, scale, shape.softcap, queries, tile, way, bias));
        if (!sentence.empty())
          wrong += std::string("\n") + variant.name + ", dims " + std::to_string(shape.key_dim) + " and " +
                   std::to_string(shape.value_dim) + ", window " + std::to_string(shape.window) + ", " +
                   std::to_string(shape.positions) + " positions, tile " + std::to_string(tile) +
                   (way == Way::weigh ? ", weights: " : ": ") + sentence;
        ++*compared;
      }
    }
  }
  return wrong;
}

}   // namespace

TEST_CASE("every attention kernel has the bits of the canonical order, whatever shares a call", "[cpu][attention]") {
  constexpr KvType f16 = KvType::f16, f32 = KvType::f32;
  const Shape shapes[] = {
      {64, 64, 0, 1, f16, 0, 1},
      {64, 64, 0, 63, f16, 0, 1},
      {64, 64, 0, 64, f32, 0, 2},
      {64, 64, 0, 65, f16, 0, 3},
      {1, 1, 0, 70, f32, 0, 1},
      {7, 13, 0, 100, f16, 0, 1},
      {13, 33, 0, 40, f32, 0, 1},
      {128, 96, 0, 130, f16, 0, 1},
      {5, 13, 0, 64, f16, 0, 1},
      {5, 35, 0, 128, f32, 0, 1},
      {80, 100, 0, 88, f16, 0, 1},
      {24, 84, 70, 200, f32, 0, 2},
      {16, 72, 5, 139, f16, 0, 1},
      {9, 70, 30, 330, f16, 0, 1},
      {16, 16, 0, 1023, f16, 0, 1},
      {16, 16, 0, 1025, f16, 0, 1},
      {16, 16, 0, 1030, f32, 0, 20},
      {8, 8, 0, 2300, f16, 0, 3},
      {16, 16, 1, 90, f16, 0, 1},
      {16, 16, 64, 300, f16, 0, 1},
      {16, 20, 65, 300, f32, 0, 1},
      {16, 16, 100, 1100, f16, 0, 1},
      {8, 8, 1100, 2200, f32, 0, 1},
      {16, 16, 0, 150, f16, 30, 4},
      {16, 16, 40, 150, f32, 50, 9},
      {16, 16, 500, 90, f16, 0, 1},
      {16, 16, 0, 90, f16, 0, 1, true, 0},
      {8, 8, 0, 1100, f32, 0, 1, true, 128},
      {7, 13, 0, 130, f32, 30, 2, true, 5},
      {16, 16, 0, 150, f32, 0, 1, false, 128},
      {16, 16, 40, 150, f16, 20, 2, false, 3},
  };
  std::string wrong;
  uint32_t compared = 0;
  for (size_t i = 0; i < std::size(shapes); ++i) wrong += check(shapes[i], 100 + i, &compared);
  CHECK(compared >= std::size(shapes) * 8);
  CHECK(wrong == "");
}

TEST_CASE("what is appended is the nearest finite half", "[cpu][attention]") {
  constexpr uint32_t kDim = 16;
  Cache cache({0, 1, kDim, kDim, 0}, 64, 64, KvType::f16);
  cache.state.enter(0, 64);
  // Every half, the points half way to the next one and the floats beside these; both signs; then special values.
  std::vector<float> row, wrong;
  std::vector<uint16_t> kept(2 * kDim);
  uint32_t nans = 0, compared = 0;
  const auto compare_row = [&] {
    nans += !cache.state.write_row(5, row.data(), row.data() + kDim);
    cache.state.export_row(5, reinterpret_cast<uint8_t*>(kept.data()));
    for (size_t i = 0; i < row.size(); ++i, ++compared)
      if (kept[i] != f32_to_f16(cache.kept(row[i]))) wrong.push_back(row[i]);
    row.clear();
  };
  for (uint32_t half = 0; half < 0x7c00; ++half) {
    const uint32_t bits = std::bit_cast<uint32_t>(f16_to_f32(static_cast<uint16_t>(half))),
                   middle = std::bit_cast<uint32_t>(
                       (f16_to_f32(static_cast<uint16_t>(half)) +
                        (half == 0x7bff ? 65536.0F : f16_to_f32(static_cast<uint16_t>(half + 1)))) /
                       2);
    for (const uint32_t sign : {0U, 0x80000000U})
      for (const uint32_t value : {bits, middle - 1, middle, middle + 1})
        row.push_back(std::bit_cast<float>(value | sign));
    if (row.size() == 2 * size_t{kDim}) compare_row();
  }
  CHECK(compared == 0x7c00 * 8);
  CHECK(wrong == std::vector<float>());
  CHECK(nans == 0);
  for (const float value : {1e-45F, 1e-38F, 65536.0F, 3e38F, std::numeric_limits<float>::infinity(),
                            -std::numeric_limits<float>::infinity()})
    row.push_back(value);
  row.resize(2 * kDim, 0.0F);
  compare_row();
  CHECK(wrong == std::vector<float>());
  CHECK(nans == 0);
  for (const size_t at : {0U, 15U, 16U, 31U}) {
    row.assign(2 * kDim, 1.0F);
    row[at] = std::numeric_limits<float>::quiet_NaN();
    compare_row();
  }
  CHECK(wrong == std::vector<float>());
  CHECK(nans == 4);
}

TEST_CASE("what lies in hidden positions of a block changes no bit", "[cpu][attention]") {
  const std::vector<float> huge(16, std::numeric_limits<float>::infinity()),
      none(16, std::numeric_limits<float>::quiet_NaN());
  std::string wrong;
  for (const AttentionVariant& variant : usable_variants()) {
    CaseRandom random(7);
    Cache cache({0, 1, 16, 16, 0}, 128, 128, KvType::f32);
    cache.append(0, 70, random, 1);
    const std::vector<Query> queries = {{random.normals(16), 40, 40}, {random.normals(16, 30), 65, 65}};
    const std::vector<float> before = kernel_outputs(cache, *variant.table, 0, 0.25F, 0, queries, 2, Way::attend);
    for (uint32_t position = 66; position < 128; ++position)
      cache.state.write_row(position, position % 3 == 0 ? none.data() : huge.data(),
                            position % 2 == 0 ? huge.data() : none.data());
    wrong += compare_floats(before, kernel_outputs(cache, *variant.table, 0, 0.25F, 0, queries, 2, Way::attend));
  }
  CHECK(wrong == "");
}

TEST_CASE("hidden positions do not decide the sign of a zero", "[cpu][attention]") {
  // Block 0 holds negative values and small scores. Position 64 outweighs it so far that what it gave becomes -0, and
  // adds -0 itself; a hidden value of either sign would then make it +0 or leave it.
  constexpr uint32_t kDim = 83;   // whole Lanes, four and one at a time, and a rest
  Cache cache({0, 1, kDim, kDim, 0}, 128, 128, KvType::f16);
  cache.state.enter(0, 65);
  const std::vector<float> zero(kDim, 0.0F), minus_zero(kDim, -0.0F), one(kDim, 1.0F), minus_one(kDim, -1.0F);
  for (uint32_t position = 0; position < 64; ++position) cache.state.write_row(position, zero.data(), minus_one.data());
  cache.state.write_row(64, one.data(), minus_zero.data());
  const std::vector<Query> queries = {{std::vector<float>(kDim, 30.0F), 64, 64}};
  std::string wrong;
  for (const AttentionVariant& variant : usable_variants()) {
    for (const std::vector<float>& hidden : {zero, one, minus_one}) {
      for (uint32_t position = 65; position < 128; ++position)
        cache.state.write_row(position, zero.data(), hidden.data());
      wrong += compare_floats(zero, kernel_outputs(cache, *variant.table, 0, 1.0F, 0, queries, 1, Way::attend));
    }
  }
  CHECK(wrong == "");
}

TEST_CASE("a query of NaN or of an infinity gives NaN, not a number", "[cpu][attention][hostile]") {
  CaseRandom random(8);
  Cache cache({0, 1, 16, 16, 0}, 80, 80, KvType::f16);
  cache.append(0, 80, random, 1);
  std::vector<Query> queries;
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    queries.push_back({random.normals(16), 79, 79});
    queries.back().q[3] = bad;
  }
  int numbers = 0;
  for (const AttentionVariant& variant : usable_variants())
    for (const float value : kernel_outputs(cache, *variant.table, 0, 0.25F, 0, queries, 2, Way::attend))
      numbers += std::isfinite(value);
  CHECK(numbers == 0);
}

TEST_CASE("a score of NaN among capped ones gives NaN, not the text without it", "[cpu][attention][hostile]") {
  // The query is infinite in one dimension: every capped score is a number, but where the key is 0 there.
  CaseRandom random(9);
  std::string wrong;
  for (const uint32_t zero_key : {3U, 70U, 1050U}) {
    Cache cache({0, 1, 16, 16, 0}, 1100, 1100, KvType::f32);
    cache.append(0, 1100, random, 1);
    std::vector<Query> queries = {{random.normals(16), 1099, 1099}, {random.normals(16), zero_key - 1, zero_key - 1}};
    for (Query& query : queries) query.q[3] = std::numeric_limits<float>::infinity();
    cache.state.write_row(zero_key, std::vector<float>(16, 0.0F).data(), std::vector<float>(16, 1.0F).data());
    for (const AttentionVariant& variant : usable_variants()) {
      const std::vector<float> y = kernel_outputs(cache, *variant.table, 0, 0.25F, 30, queries, 2, Way::attend);
      for (size_t i = 0; i < y.size(); ++i)
        if (std::isnan(y[i]) != (i < 16)) wrong += std::string(variant.name) + " element " + std::to_string(i) + "; ";
    }
  }
  CHECK(wrong == "");
}

}   // namespace mote::test
