// logits_hash MODEL|toy|windows TOKENS THREADS DECODE_THREADS BATCH KV REWIND...: hashes of logits, one line each, for
// comparison with those of other processes that cut the same work differently.
//   every     after every token, by mote_evaluate
//   cold      after the last token and after 6 greedy ones, fed in one go
//   again     the same in a new session, where a thread of the pool had done nothing yet
//   N         the same after rewinding to N tokens and feeding the rest again
//   lanes     not a hash: the tasks that each thread of the pool has run
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "core/mote_dev.h"
#include "tests/api/kit.h"
#include "tests/support/hash.h"

using namespace mote::test;

namespace {

int32_t add_rows(void* hash, size_t, size_t rows, const float* logits, size_t n_vocab) {
  static_cast<Hash*>(hash)->add(logits, rows * n_vocab * sizeof(float));
  return 0;
}

void print_generation(mote_session* session, const char* what) {
  Hash hash;
  for (int i = 0; i < 6; ++i) {
    hash.add(step(session));
    const int32_t token = next(session);
    hash.add(&token, sizeof token);
  }
  hash.add(step(session));
  hash.print(what);
}

void run(const std::string& path, size_t n_tokens, const mote_engine_options& engine_with, mote_session_options options,
         const std::vector<size_t>& rewinds) {
  const Engine engine(engine_with);
  // Wide enough that one row of it is shared out to the threads.
  ToyOptions shape;
  shape.n_layers = 1;
  shape.d_model = shape.d_ff = 256;
  shape.context = 1200;
  shape.matrices = mote::Format::q8_0;
  const bool is_toy = path == "toy" || path == "windows";
  const Bytes toy = !is_toy ? Bytes() : path == "toy" ? toy_llama(shape).bytes() : toy_gemma3(shape).bytes();
  mote_source source = source_of(toy);
  if (!is_toy) source.data = nullptr, source.data_bytes = 0, source.path = path.c_str();
  mote_error error{};
  mote_model* model = nullptr;
  must(mote_model_open(engine, &source, nullptr, {}, &model, &error), error);
  mote_model_info info{};
  info.struct_bytes = sizeof info;
  must(mote_model_get_info(model, &info, &error), error);
  const Tokens tokens = some_tokens(n_tokens, info.n_vocab);
  options.context = static_cast<uint32_t>(n_tokens) + 16;
  if (is_toy) {   // n_tokens x n_vocab logits; too slow for a large model
    mote_session_options every_with = options;
    every_with.max_output_rows = options.max_batch;
    const Session session(model, every_with);
    Hash hash;
    must(mote_evaluate(session, tokens.data(), tokens.size(), add_rows, &hash, nullptr, &error), error);
    hash.print("every");
  }
  // Again until every thread has done some of it: on a busy machine one may come late.
  uint64_t tasks[64] = {};
  uint32_t lanes = 0, n_idle = 1;
  for (int round = 0; round < 50 && n_idle != 0; ++round) {
    const Session session(model, options);
    feed(session, tokens);
    print_generation(session, round == 0 ? "cold" : "again");
    lanes = mote_dev_lane_tasks(engine, tasks, 64);
    n_idle = 0;
    for (uint32_t lane = 0; lane < lanes && lanes > 1; ++lane) n_idle += tasks[lane] == 0 ? 1 : 0;
    if (round != 0) continue;
    for (const size_t rewind : rewinds) {
      if (rewind >= n_tokens) continue;
      must(mote_rewind(session, rewind, &error), error);
      feed(session, Tokens(tokens.begin() + static_cast<std::ptrdiff_t>(rewind), tokens.end()));
      print_generation(session, std::to_string(rewind).c_str());
    }
  }
  must(mote_model_close(model, &error), error);
  std::printf("lanes");
  for (uint32_t lane = 0; lane < lanes; ++lane) std::printf(" %llu", static_cast<unsigned long long>(tasks[lane]));
  std::printf("\n");
}

}   // namespace

int main(int argc, char** argv) {
  if (argc < 7)
    return std::fputs("logits_hash MODEL|toy|windows TOKENS THREADS DECODE_THREADS BATCH f16|f32 REWIND...\n", stderr),
           2;
  std::vector<size_t> rewinds;
  for (int i = 7; i < argc; ++i) rewinds.push_back(std::strtoul(argv[i], nullptr, 10));
  mote_session_options options = session_options(0, static_cast<uint32_t>(std::atoi(argv[5])));
  options.decode_threads = static_cast<uint32_t>(std::atoi(argv[4]));
  options.kv_type = std::strcmp(argv[6], "f32") == 0 ? MOTE_KV_F32 : MOTE_KV_F16;
  try {
    run(argv[1], std::strtoul(argv[2], nullptr, 10), engine_options("cpu", static_cast<uint32_t>(std::atoi(argv[3]))),
        options, rewinds);
  } catch (const std::exception& failure) {
    return std::fprintf(stderr, "%s\n", failure.what()), 1;
  }
}
