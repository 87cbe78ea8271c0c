// generate MODEL|toy BACKENDS THREADS PROMPT NEXT: opens, then between two writes feeds PROMPT tokens and takes NEXT
// more, so that whoever traces it sees what mote asks of the system there. Last line: anonymous bytes of the process,
// and the bytes that the quotes had promised.
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "tests/api/kit.h"

using namespace mote::test;

namespace {

// Without the heap: the number behind "RssAnon:" in /proc/self/status, in bytes.
uint64_t anonymous_bytes() {
  static char text[8192];
  const int file = open("/proc/self/status", O_RDONLY);
  const ssize_t n = read(file, text, sizeof text - 1);
  close(file);
  text[n > 0 ? n : 0] = 0;
  const char* at = std::strstr(text, "RssAnon:");
  return at == nullptr ? 0 : std::strtoull(at + 8, nullptr, 10) * 1024;
}

void mark(const char* line) {
  if (write(1, line, std::strlen(line)) < 0) std::exit(1);
}

void run(const std::string& path, const char* backends, uint32_t threads, size_t n_prompt, size_t n_next) {
  const mote_engine_options engine_with = engine_options(backends, threads);
  const Engine engine(engine_with);
  // Toy bytes are on the heap: the anonymous memory means something for a file alone.
  const Bytes toy = path == "toy" ? toy_llama().bytes() : Bytes();
  mote_source source = source_of(toy);
  if (path != "toy") source.data = nullptr, source.data_bytes = 0, source.path = path.c_str();
  const mote_session_options options = session_options(512, 64);
  mote_quote model_quote{}, session_quote{};
  model_quote.struct_bytes = session_quote.struct_bytes = sizeof(mote_quote);
  mote_error error{};
  must(mote_model_quote(engine, &source, nullptr, &options, &model_quote, &session_quote, &error), error);
  mote_model* model = nullptr;
  must(mote_model_open(engine, &source, nullptr, {}, &model, &error), error);
  const uint64_t promised = quote_engine(engine_with).total_bytes + model_quote.total_bytes + session_quote.total_bytes;
  uint64_t anonymous = 0;
  {
    const Session session(model, options);
    anonymous = anonymous_bytes();
    const Tokens prompt = some_tokens(n_prompt, 256);
    size_t done = 0;
    int32_t token = 0;
    mote_text text{};
    text.struct_bytes = sizeof text;
    mark("begin\n");
    mote_status status = mote_feed(session, prompt.data(), prompt.size(), &done, &error);
    for (size_t i = 0; i < n_next && status == MOTE_OK; ++i) {
      if (i % 2 == 0)
        status = mote_next(session, &token, &error);
      else
        status = text.finish != MOTE_FINISH_NONE ? mote_next(session, &token, &error)
                                                 : mote_text_next(session, &text, &error);
    }
    mark("end\n");
    must(status, error);
    if (const uint64_t now = anonymous_bytes(); now > anonymous) anonymous = now;
  }
  must(mote_model_close(model, &error), error);
  std::printf("%llu %llu\n", static_cast<unsigned long long>(anonymous), static_cast<unsigned long long>(promised));
}

}   // namespace

int main(int argc, char** argv) {
  if (argc != 6) return std::fputs("generate MODEL|toy BACKENDS THREADS PROMPT NEXT\n", stderr), 2;
  try {
    run(argv[1], argv[2], static_cast<uint32_t>(std::atoi(argv[3])), std::strtoul(argv[4], nullptr, 10),
        std::strtoul(argv[5], nullptr, 10));
  } catch (const std::exception& failure) {
    return std::fprintf(stderr, "%s\n", failure.what()), 1;
  }
}
