// Runs a model on a backend of its own, and prints the tokens that follow. Where the backend is told to fail, cpu takes
// over; with --stop a session does not want that:
//   skeleton_backend MODEL.gguf [--fail compile|open|run] [--stop] ID...
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "core/mote.h"
#include "examples/skeleton_backend/skeleton_backend.h"

namespace {

skeleton::FailAt fail_at(std::string_view word) {
  if (word == "compile") return skeleton::FailAt::compile;
  if (word == "open") return skeleton::FailAt::open;
  if (word == "run") return skeleton::FailAt::run;
  std::fprintf(stderr, "--fail takes compile, open or run\n");
  std::exit(2);
}

// Everything that was opened, closed in the right order.
struct Opened {
  mote_engine* engine = nullptr;
  mote_model* model = nullptr;
  mote_session* session = nullptr;
  ~Opened() {
    mote_session_close(session, nullptr);
    mote_model_close(model, nullptr);
    mote_engine_close(engine, nullptr);
  }
};

mote_status generate(const char* path, skeleton::Backend* backend, bool stop, const std::vector<int32_t>& prompt,
                     mote_error* error) {
  Opened opened;
  void* const extra[] = {static_cast<mote::Backend*>(backend)};
  mote_engine_options engine_options = {};
  engine_options.struct_bytes = sizeof engine_options;
  engine_options.backends = "skeleton,cpu";   // steps that skeleton does not take run on cpu
  engine_options.log = [](void*, const char* line) { std::fprintf(stderr, "%s\n", line); };
  engine_options.extra_backends = extra;
  engine_options.n_extra_backends = 1;
  mote_status status = mote_engine_open(&engine_options, {}, &opened.engine, error);
  if (status != MOTE_OK) return status;

  mote_source source = {};
  source.struct_bytes = sizeof source;
  source.path = path;
  mote_session_options session_options = {};
  session_options.struct_bytes = sizeof session_options;
  session_options.on_backend_failure = stop ? MOTE_ON_BACKEND_FAILURE_STOP : MOTE_ON_BACKEND_FAILURE_GO_ON;
  status = mote_model_open(opened.engine, &source, nullptr, {}, &opened.model, error);
  if (status == MOTE_OK) status = mote_session_open(opened.model, &session_options, {}, &opened.session, error);
  if (status == MOTE_OK) status = mote_feed(opened.session, prompt.data(), prompt.size(), nullptr, error);
  for (int i = 0; i < 8 && status == MOTE_OK; ++i) {
    int32_t token = -1;
    status = mote_next(opened.session, &token, error);
    if (status == MOTE_OK) std::printf("%s%d", i == 0 ? "" : " ", token);
  }
  return status;
}

}   // namespace

int main(int argc, char** argv) {
  skeleton::FailAt failure = skeleton::FailAt::never;
  const char* model = nullptr;
  bool stop = false;
  std::vector<int32_t> prompt;
  for (int i = 1; i < argc; ++i) {
    if (std::string_view(argv[i]) == "--fail" && i + 1 < argc) {
      failure = fail_at(argv[++i]);
    } else if (std::string_view(argv[i]) == "--stop") {
      stop = true;
    } else if (model == nullptr) {
      model = argv[i];
    } else {
      prompt.push_back(std::atoi(argv[i]));
    }
  }
  if (model == nullptr || prompt.empty()) {
    std::fprintf(stderr, "usage: skeleton_backend MODEL.gguf [--fail compile|open|run] [--stop] ID...\n");
    return 2;
  }
  skeleton::Backend backend(failure);
  mote_error error = {};
  if (generate(model, &backend, stop, prompt, &error) != MOTE_OK) {
    std::fprintf(stderr, "%s\n", error.message);
    return 1;
  }
  std::printf("\n");
  return 0;
}
