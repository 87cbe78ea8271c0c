// load_many --base bpe|spm|unigram|wordpiece|windows|bert|t5|rnn|classifier|transducer FILE: writes a small whole
// model, to be damaged.
// load_many FOLDER FIRST: for each line of FOLDER/list from line FIRST on, opens that model of FOLDER and uses it as an
// app would, in memory of exactly its quotes. Prints "name", before it begins, and then "accepted", or "rejected" and
// the sentence. What a mutant may do is fail with a sentence; a crash, a hang or a sanitizer's report ends the program.
#include <sys/time.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>

#include "tests/api/kit.h"
#include "tests/support/guarded_memory.h"

using namespace mote::test;

namespace {

constexpr uint64_t kMostBytes = uint64_t{1} << 30;   // a small file that asks for more is not harmless
// A mutant hangs when it computes for longer than the first, or sleeps for as long as the second: a loaded machine is
// no hang.
constexpr unsigned kComputingSeconds = 20, kSeconds = 300;

Bytes read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return Bytes(std::istreambuf_iterator<char>(file), {});
}

void check_sentence(const mote_error& error) {
  const size_t length = strnlen(error.message, sizeof error.message);
  bool printable = length > 0 && length < sizeof error.message;
  for (size_t i = 0; i < length; ++i) printable = printable && error.message[i] >= ' ' && error.message[i] <= '~';
  if (!printable) {
    std::printf("a failure without a proper sentence\n");
    std::abort();
  }
}

// Everything an app asks of an opened model; each call may fail, with a sentence.
void use(mote_model* model, mote_session* session) {
  mote_error error{};
  const auto keep = [&](mote_status status) {
    if (status != MOTE_OK) check_sentence(error);
    return status == MOTE_OK;
  };
  mote_model_info info{};
  info.struct_bytes = sizeof info;
  keep(mote_model_get_info(model, &info, &error));
  mote_metadata entry{};
  entry.struct_bytes = sizeof entry;
  mote_tensor tensor{};
  tensor.struct_bytes = sizeof tensor;
  for (uint32_t i = 0; i < info.n_metadata; ++i) keep(mote_model_metadata(model, i, &entry, &error));
  for (uint32_t i = 0; i < info.n_tensors; ++i) keep(mote_model_tensor(model, i, &tensor, &error));
  static int32_t ids[4096];
  static char text[16384];
  size_t n = 0;
  const std::string words = "hello the <|im_end|> and \xf0\x9f\x98\x80 \xff 00  in the end</s>";
  for (const uint32_t flags : {0u, 3u})
    if (keep(mote_tokenize(model, words.data(), words.size(), flags, {}, ids, 4096, &n, &error)))
      keep(mote_detokenize(model, ids, n, text, sizeof text, &n, &error));
  const mote_message message = {"user", "hello", 5};
  mote_chat_options options{};
  options.struct_bytes = sizeof options;
  for (const char* format : {static_cast<const char*>(nullptr), "chatml"}) {
    options.format = format;
    keep(mote_chat_tokens(model, &options, &message, 1, {}, ids, 4096, &n, &error));
  }
  for (uint32_t i = 0; mote_end_token(model, i) >= 0; ++i) mote_is_end_token(model, mote_end_token(model, i));
  if (session == nullptr) return;
  int32_t token = 0;
  for (int32_t i = 0; i < 20; ++i) ids[i] = i * 7;
  const float* vector = nullptr;
  size_t d_model = 0;
  keep(mote_encode(session, ids, 8, &error));
  keep(mote_hidden(session, &vector, &n, &d_model, &error));
  keep(mote_embedding(session, 0, &vector, &d_model, &error));
  if (!keep(mote_feed(session, ids, 20, &n, &error))) return;
  for (int i = 0; i < 3; ++i) keep(mote_next(session, &token, &error));
  mote_text piece{};
  piece.struct_bytes = sizeof piece;
  for (int i = 0; i < 12 && piece.finish == MOTE_FINISH_NONE; ++i)
    if (!keep(mote_text_next(session, &piece, &error))) break;
  keep(mote_text_flush(session, &piece, &error));
  keep(mote_rewind(session, 5, &error));
  keep(mote_step(session, &error));
}

bool load(mote_engine* engine, const Bytes& bytes, mote_error* error) {
  const mote_source source = source_of(bytes);
  const mote_session_options options = session_options(32, 8);
  mote_quote model_quote{}, session_quote{};
  model_quote.struct_bytes = session_quote.struct_bytes = sizeof(mote_quote);
  mote_status status = mote_model_quote(engine, &source, nullptr, &options, &model_quote, &session_quote, error);
  if (status != MOTE_OK) {
    mote_model* none = nullptr;
    mote_error again{};
    if (mote_model_open(engine, &source, nullptr, {}, &none, &again) == MOTE_OK) {
      std::printf("what could not be quoted was opened\n");
      std::abort();
    }
    return false;
  }
  if (model_quote.total_bytes > kMostBytes || session_quote.total_bytes > kMostBytes) {
    std::printf("quotes of %llu and %llu bytes\n", static_cast<unsigned long long>(model_quote.total_bytes),
                static_cast<unsigned long long>(session_quote.total_bytes));
    std::abort();
  }
  const GuardedMemory model_memory(model_quote.total_bytes, 64, Guard::pages, 0xFF);
  const GuardedMemory session_memory(session_quote.total_bytes, 64, Guard::pages, 0xFF);
  mote_model* model = nullptr;
  mote_session* session = nullptr;
  status = mote_model_open(engine, &source, nullptr, {model_memory.data(), model_memory.bytes()}, &model, error);
  if (status != MOTE_OK) return false;
  status = mote_session_open(model, &options, {session_memory.data(), session_memory.bytes()}, &session, error);
  use(model, session);
  mote_session_close(session, nullptr);
  mote_model_close(model, nullptr);
  return status == MOTE_OK;
}

int write_base(const std::string& kind, const char* path) {
  ToyOptions toy;
  toy.n_layers = 2;
  toy.d_model = 32;
  toy.n_heads = 2;
  toy.n_kv_heads = 1;
  toy.d_ff = 64;
  toy.matrices = mote::Format::q8_0;
  if (kind == "spm") {
    toy.tokenizer = ToyTokenizer::sentencepiece;
    toy.rope_scaling = "yarn";
    toy.original_context = 64;
    toy.rope_factors = std::vector<float>(8, 2.0f);
  }
  if (kind == "unigram") toy.tokenizer = ToyTokenizer::unigram;
  if (kind == "wordpiece") toy.tokenizer = ToyTokenizer::word_pieces;
  const std::pair<const char*, ToyModel> models[] = {{"windows", toy_gemma3},
                                                     {"bert", toy_bert},
                                                     {"t5", toy_t5},
                                                     {"rnn", toy_rnn},
                                                     {"classifier", toy_classifier},
                                                     {"transducer", toy_transducer}};
  ToyModel model = toy_llama;
  for (const auto& [name, made] : models)
    if (kind == name) model = made;
  const Bytes bytes = model(toy).bytes();
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  return file.good() ? 0 : 1;
}

}   // namespace

int main(int argc, char** argv) {
  if (argc == 4 && std::string(argv[1]) == "--base") return write_base(argv[2], argv[3]);
  if (argc != 3)
    return std::fputs(
               "load_many --base bpe|spm|unigram|wordpiece|windows|bert|t5|rnn|classifier|transducer FILE | FOLDER "
               "FIRST\n",
               stderr),
           2;
  const std::string folder = argv[1];
  std::ifstream list(folder + "/list");
  std::string name;
  for (long skip = std::atol(argv[2]); skip > 0 && std::getline(list, name); --skip) {
  }
  const Engine engine("cpu", 2);
  while (std::getline(list, name)) {
    std::printf("%s\n", name.c_str());
    std::fflush(stdout);
    alarm(kSeconds);
    const itimerval computing = {{0, 0}, {kComputingSeconds, 0}};
    setitimer(ITIMER_PROF, &computing, nullptr);
    mote_error error{};
    if (load(engine, read_file(folder + "/" + name), &error)) {
      std::printf("accepted\n");
    } else {
      check_sentence(error);
      std::printf("rejected %s\n", error.message);
    }
  }
}
