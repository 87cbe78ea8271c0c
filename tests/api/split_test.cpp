// Models in several files: the bits of the whole one, quotes that say what is taken, and a sentence that names the part
// for everything that is no whole set of parts.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <filesystem>
#include <list>
#include <random>

#include "tests/api/sources.h"
#include "tests/support/toy_model.h"

namespace mote::test {
namespace {

// Sources in a chain; stays where it is.
class Chain {
 public:
  explicit Chain(const std::vector<Bytes>& parts) {
    for (const Bytes& part : parts) sources_.push_back(source_of(part));
    link();
  }
  // Some of the parts from files: load[i] < 0: from memory, else a mote_load.
  Chain(const std::vector<Bytes>& parts, const std::vector<int32_t>& load) : Chain(parts) {
    for (size_t i = 0; i < parts.size(); ++i) {
      if (load[i % load.size()] < 0) continue;
      files_.emplace_back(parts[i]);
      sources_[i] = empty_source();
      sources_[i].path = files_.back().path();
      sources_[i].load = load[i % load.size()];
    }
    link();
  }
  Chain(const Chain&) = delete;
  Chain& operator=(const Chain&) = delete;
  mote_source& operator[](size_t i) { return sources_[i]; }
  const mote_source* first() const { return sources_.data(); }

 private:
  void link() {
    for (size_t i = 0; i + 1 < sources_.size(); ++i) sources_[i].next = &sources_[i + 1];
  }
  std::vector<mote_source> sources_;
  std::list<TemporaryFile> files_;
};

std::vector<Bytes> bytes_of(const std::vector<GgufBuilder>& files) {
  std::vector<Bytes> list;
  for (const GgufBuilder& file : files) list.push_back(file.bytes());
  return list;
}

Outcome open_chain(mote_engine* engine, const mote_source* first) {
  mote_model* model = nullptr;
  const Outcome said = outcome([&](mote_error* e) { return mote_model_open(engine, first, nullptr, {}, &model, e); });
  mote_model_close(model, nullptr);
  return said;
}

// Of this process, where the system tells them.
size_t open_descriptors() {
  std::error_code error;
  const std::filesystem::directory_iterator all("/proc/self/fd", error), end;
  return static_cast<size_t>(std::distance(all, end));
}

TEST_CASE("A split model gives the bits of the whole one, in memory of exactly its quote", "[api][source][split]") {
  const Engine engine("cpu");
  const GgufBuilder model = toy_llama({.n_layers = 2});
  GgufBuilder one_file = model;
  one_file.set("split.count", Type::uint16, uint16_t{0});   // says so
  const Bytes whole = one_file.bytes();
  const size_t open_before = open_descriptors();
  const Opened expected = open_and_run(engine, source_of(whole), [] {});
  for (const size_t n_parts : {size_t{1}, size_t{2}, size_t{3}, size_t{7}})
    for (const bool tensors_in_first : {true, false}) {
      if (n_parts == 1 && !tensors_in_first) continue;
      const std::vector<Bytes> parts = bytes_of(model.split(n_parts, tensors_in_first));
      const std::vector<int32_t> loads[] = {
          {-1}, {MOTE_LOAD_MAP}, {MOTE_LOAD_COPY}, {MOTE_LOAD_COPY, -1, MOTE_LOAD_PREFAULT}};
      for (const std::vector<int32_t>& load : loads) {
        Chain chain(parts, load);
        CAPTURE(n_parts, tensors_in_first, load);
        const Opened opened = open_and_run(engine, *chain.first(), [] {});
        CHECK(bit_difference(opened.logits, expected.logits) == "");
        uint64_t lent = 0;
        for (size_t i = 0; i < parts.size(); ++i)
          if (load[i % load.size()] != MOTE_LOAD_COPY) lent += parts[i].size();
        CHECK(opened.quote.file_bytes == lent);
        CHECK(sum_of_kinds(opened.quote) == opened.quote.total_bytes);
      }
    }
  CHECK(open_descriptors() == open_before);
}

TEST_CASE("What a split model says of itself is of all its parts", "[api][source][split]") {
  const Engine engine("cpu");
  const GgufBuilder model = toy_llama({.n_layers = 2});
  const std::vector<Bytes> parts = bytes_of(model.split(3));
  const Chain chain(parts);
  mote_error error{};
  mote_model* opened = nullptr;
  must(mote_model_open(engine, chain.first(), nullptr, {}, &opened, &error), error);
  mote_model_info info{};
  info.struct_bytes = sizeof info;
  must(mote_model_get_info(opened, &info, &error), error);
  CHECK(info.n_tensors == model.parts.size());
  CHECK(info.file_bytes == parts[0].size() + parts[1].size() + parts[2].size());
  uint64_t end = 0;
  for (uint32_t i = 0; i < info.n_tensors; ++i) {
    mote_tensor tensor{};
    tensor.struct_bytes = sizeof tensor;
    must(mote_model_tensor(opened, i, &tensor, &error), error);
    CHECK(std::string(tensor.name, tensor.name_bytes) == model.parts[i].name);
    CHECK(tensor.offset_bytes >= end);
    end = tensor.offset_bytes + tensor.bytes;
    Bytes there(tensor.bytes);   // at its offset in the parts laid end to end
    uint64_t part_offset = 0;
    for (const Bytes& part : parts) {
      if (tensor.offset_bytes >= part_offset && end <= part_offset + part.size())
        std::copy_n(part.begin() + static_cast<std::ptrdiff_t>(tensor.offset_bytes - part_offset), there.size(),
                    there.begin());
      part_offset += part.size();
    }
    CHECK(there == model.parts[i].data);
  }
  CHECK(mote_model_close(opened, nullptr) == MOTE_OK);
}

TEST_CASE("Parts that are no whole model are refused with a sentence that names the part", "[api][source][split]") {
  const Engine engine("cpu");
  const GgufBuilder model = toy_llama({.n_layers = 1});
  const auto split = model.split(3);
  const auto two = model.split(2);
  const auto changed = [&](size_t part, auto change) {
    auto files = split;
    change(files[part]);
    return bytes_of(files);
  };
  const std::vector<Bytes> good = bytes_of(split), of_two = bytes_of(two);
  Bytes cut = good[2];
  cut.pop_back();
  struct Row {
    std::vector<Bytes> parts;
    std::string sentence;
    mote_status status = MOTE_BAD_MODEL;
  };
  const std::string all = std::to_string(model.parts.size());
  const Row rows[] = {
      {{good[0]},
       "the file is part 1 of 3 of a split model (split.no, split.count), and none but this one was given",
       MOTE_UNSUPPORTED},
      {{good[1]},
       "the file is part 2 of 3 of a split model (split.no, split.count), and none but this one was given",
       MOTE_UNSUPPORTED},
      {{good[0], good[1]}, "part 1 of 2: it says that there are 3 parts (split.count)"},
      {{good[0], good[1], good[1]}, "part 3 of 3: it says that it is part 2 (split.no 1)"},
      {{good[0], good[2], good[1]}, "part 2 of 3: it says that it is part 3 (split.no 2)"},
      {{good[1], good[0], good[2]}, "part 1 of 3: it says that it is part 2 (split.no 1)"},
      {{good[0], good[1], good[2], good[2]}, "part 1 of 4: it says that there are 3 parts (split.count)"},
      {{good[0], of_two[1], good[2]}, "part 2 of 3: it says that there are 2 parts (split.count)"},
      {{model.bytes(), good[1]}, "part 1 of 2: it says that there are 1 parts (split.count)"},
      {{good[0], good[1], cut}, "part 3 of 3: tensor "},
      {{good[0], Bytes(100, 'x'), good[2]}, "part 2 of 3: "},
      {{good[0], good[1], Bytes(3, 'G')}, "part 3 of 3: "},
      {changed(1, [](GgufBuilder& part) { part.parts.pop_back(); }),
       "part 1 of 3: it says that the model has " + all + " tensors (split.tensors.count), the parts have "},
      {changed(2, [](GgufBuilder& part) { part.set("split.tensors.count", Type::int32, int32_t{7}); }),
       "part 3 of 3: it says that the model has 7 tensors (split.tensors.count), the parts have " + all},
      {changed(1, [](GgufBuilder& part) { part.remove("split.tensors.count"); }),
       "part 2 of 3: the file has no split.tensors.count"},
      {changed(1, [](GgufBuilder& part) { part.set("split.tensors.count", Type::int32, int32_t{-1}); }),
       "part 2 of 3: split.tensors.count is -1"},
      {changed(2, [&](GgufBuilder& part) { part.parts.back().name = split[0].parts.front().name; }), " is there twice"},
      {changed(2, [](GgufBuilder& part) { part.set_string("split.no", "2"); }),
       "part 3 of 3: split.no is of type string"},
  };
  for (const Row& row : rows)
    for (const int32_t load : {-1, int32_t{MOTE_LOAD_COPY}}) {
      Chain chain(row.parts, {load});
      const Outcome refused = open_chain(engine, chain.first());
      CAPTURE(row.sentence, refused.sentence, load);
      CHECK(refused.status == row.status);
      CHECK(contains(refused.sentence, row.sentence));
    }
  Chain chain(good);
  chain[2] = empty_source();
  chain[2].path = "/no/such/part";
  CHECK(contains(open_chain(engine, chain.first()).sentence, "part 3 of 3: file /no/such/part"));
  chain[2].data = good[2].data();
  CHECK(contains(open_chain(engine, chain.first()).sentence, "part 3 of 3: mote_source must give exactly one"));
  std::vector<mote_source> many(1025, chain[0]);   // each says that it is the first of 3
  for (size_t i = 0; i + 1 < many.size(); ++i) many[i].next = &many[i + 1];
  many.back().next = nullptr;
  CHECK(contains(open_chain(engine, many.data()).sentence, "at most 1024 parts"));
  CHECK(contains(open_chain(engine, &many[1]).sentence, "part 1 of 1024: it says that there are 3 parts"));
  chain[2].next = &chain[0];   // a chain without end
  const Outcome endless = open_chain(engine, chain.first());
  CHECK(endless.status == MOTE_INVALID_ARGUMENT);
  CHECK(contains(endless.sentence, "at most 1024 parts"));
}

TEST_CASE("A snapshot of a split model is bound to all its parts", "[api][source][split]") {
  const Engine engine("cpu");
  const GgufBuilder builder = toy_llama({.n_layers = 1});
  std::vector<GgufBuilder> files = builder.split(2);
  std::vector<uint8_t> snapshot;
  mote_error error{};
  const auto restore_into = [&](const std::vector<Bytes>& parts) {
    const Chain chain(parts);
    mote_model* model = nullptr;
    must(mote_model_open(engine, chain.first(), nullptr, {}, &model, &error), error);
    Outcome said;
    {
      const Session session(model, session_options(16, 8));
      if (snapshot.empty()) {
        feed(session, {1, 2, 3});
        uint64_t bytes = 0;
        must(mote_snapshot_bytes(session, &bytes, &error), error);
        snapshot.resize(bytes);
        must(mote_snapshot(session, snapshot.data(), bytes, &bytes, &error), error);
      }
      said = outcome([&](mote_error* e) { return mote_restore(session, snapshot.data(), snapshot.size(), e); });
    }
    CHECK(mote_model_close(model, nullptr) == MOTE_OK);
    return said;
  };
  CHECK(restore_into(bytes_of(files)).status == MOTE_OK);
  CHECK(restore_into(bytes_of(files)).status == MOTE_OK);
  files[1].parts.back().data[0] ^= 1;
  CHECK(contains(restore_into(bytes_of(files)).sentence, "another weights"));
  CHECK(contains(restore_into(bytes_of(builder.split(3))).sentence, "another model"));
}

TEST_CASE("Damaged parts are refused with a sentence or run", "[api][source][split][hostile]") {
  const Engine engine("cpu");
  const std::vector<Bytes> good = bytes_of(toy_llama({.n_layers = 1}).split(2));
  std::mt19937 random(7);
  int n_opened = 0, n_refused = 0;
  for (int round = 0; round < 600; ++round) {
    std::vector<Bytes> parts = good;
    Bytes& part = parts[random() % 2];
    const size_t head = 400 + random() % 600;
    for (auto n = 1 + random() % 3; n > 0; --n)
      part[random() % std::min(head, part.size())] = static_cast<uint8_t>(random());
    if (random() % 8 == 0) part.resize(random() % part.size());
    // The end of each part is the end of readable memory.
    const GuardedMemory first(parts[0].size(), 1, Guard::pages, 0), second(parts[1].size(), 1, Guard::pages, 0);
    std::copy(parts[0].begin(), parts[0].end(), reinterpret_cast<uint8_t*>(first.data()));
    std::copy(parts[1].begin(), parts[1].end(), reinterpret_cast<uint8_t*>(second.data()));
    Chain chain(parts);
    chain[0].data = first.data();
    chain[1].data = second.data();
    mote_model* model = nullptr;
    const Outcome said =
        outcome([&](mote_error* e) { return mote_model_open(engine, chain.first(), nullptr, {}, &model, e); });
    if (said.status != MOTE_OK) {
      ++n_refused;
      if (said.sentence.empty()) FAIL("no sentence");
      continue;
    }
    ++n_opened;
    mote_session* session = nullptr;
    const mote_session_options options = session_options(16, 8);
    const int32_t tokens[] = {1, 2, 3};
    if (mote_session_open(model, &options, {}, &session, nullptr) == MOTE_OK &&
        mote_feed(session, tokens, 3, nullptr, nullptr) == MOTE_OK)
      static_cast<void>(mote_step(session, nullptr));
    mote_session_close(session, nullptr);
    mote_model_close(model, nullptr);
  }
  CHECK(n_opened > 5);
  CHECK(n_refused > 200);
}

}   // namespace
}   // namespace mote::test
