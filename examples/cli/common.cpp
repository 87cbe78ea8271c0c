#include "examples/cli/common.h"

#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "examples/cli/numbers.h"
#include "examples/cli/stream.h"

namespace cli {

void check(mote_status status, const mote_error& error, int exit_code) {
  if (status == MOTE_OK) return;
  if (status == MOTE_CANCELLED) throw Failure{kInterrupted, "", status};
  if (status == MOTE_INVALID_ARGUMENT) exit_code = kWrongUsage;
  if (status == MOTE_UNSUPPORTED && exit_code == kFailed)
    exit_code = kModelRefused;   // not of the kind that the call is for
  throw Failure{exit_code, error.message[0] != 0 ? error.message : mote_status_name(status), status};
}

void add_model_option(CLI::App& command, CommonOptions& options) {
  command.add_option("-m,--model", options.model, "The GGUF file")->required();
}

void add_options_but_threads(CLI::App& command, CommonOptions& options) {
  add_model_option(command, options);
  command.add_option("--backend", options.backends, "Backends in order of preference, such as cpu,reference, or auto")
      ->check(not_empty())
      ->capture_default_str();
  command.add_option("-c,--context", options.context, "Positions of the session")->transform(decimal(1, 1u << 30));
  command.add_option("--kv-type", options.kv_type, "How keys and values are kept")
      ->check(CLI::IsMember({"f16", "f32"}));
  command
      .add_option(
          "--instruction-set", options.instruction_set,
          "auto: all that the processor has; baseline: what every one of its kind has; avx2, avx512, avx512vnni or "
          "dotprod, i8mm: up to that. The same bits at other speeds. "
          "Without it, MOTE_CPU_ISA of the environment, then auto")
      ->check(not_empty());
  command.add_flag("--prefault", options.prefault,
                   "Read the whole file before the first token, instead of what is needed as it is needed");
  command.add_flag("--verbose", options.verbose, "Tell what happens, on standard error");
}

void add_common_options(CLI::App& command, CommonOptions& options) {
  command.add_option("-t,--threads", options.threads, "Threads; without it, what affinity, quota and fast cores give")
      ->transform(decimal(1, 256));
  add_options_but_threads(command, options);
}

void add_decode_threads(CLI::App& command, CommonOptions& options) {
  command.add_option("--decode-threads", options.decode_threads, "How many of them decode; without it, all")
      ->transform(decimal(1, 256));
}

namespace {

// "-00001-of-00003.gguf" at the end of a name, as gguf-split writes it.
constexpr std::string_view kPartPattern = "-#####-of-#####.gguf";
constexpr size_t kNumberAt = 1, kCountAt = 10, kDigits = 5;

bool names_a_part(std::string_view path) {
  if (path.size() < kPartPattern.size()) return false;
  const std::string_view end = path.substr(path.size() - kPartPattern.size());
  for (size_t i = 0; i < end.size(); ++i)
    if (kPartPattern[i] == '#' ? end[i] < '0' || end[i] > '9' : end[i] != kPartPattern[i]) return false;
  return true;
}

std::string part_name(const std::string& path, size_t number) {
  char digits[24];
  std::snprintf(digits, sizeof digits, "%05zu", number);
  std::string name = path;
  return name.replace(path.size() - kPartPattern.size() + kNumberAt, kDigits, digits);
}

}   // namespace

Sources::Sources(const std::string& path, mote_load load) {
  size_t count = 1;
  if (names_a_part(path)) {
    const std::string end = path.substr(path.size() - kPartPattern.size());
    count = static_cast<size_t>(std::max(1, std::stoi(end.substr(kCountAt, kDigits))));
    if (count > 1 && std::stoi(end.substr(kNumberAt, kDigits)) != 1)
      throw Failure{kModelRefused,
                    path + " is named as a later part of a split model; give the first, " + part_name(path, 1)};
  }
  for (size_t i = 0; i < count; ++i) paths_.push_back(i == 0 ? path : part_name(path, i + 1));
  chain_.resize(count);
  for (size_t i = 0; i < count; ++i) {
    chain_[i].struct_bytes = sizeof chain_[i];
    chain_[i].path = paths_[i].c_str();
    chain_[i].load = load;
    chain_[i].next = i + 1 < count ? &chain_[i + 1] : nullptr;
  }
}

mote_model_info info_of(const mote_model* model) {
  mote_model_info info{};
  info.struct_bytes = sizeof info;
  mote_error error{};
  check(mote_model_get_info(model, &info, &error), error);
  return info;
}

const char* instruction_set_of(const CommonOptions& options) {
  if (!options.instruction_set.empty()) return options.instruction_set.c_str();
  const char* wanted = std::getenv("MOTE_CPU_ISA");
  if (wanted == nullptr || *wanted == 0) return "auto";
  return wanted;
}

mote_engine_options engine_options_of(const CommonOptions& options) {
  mote_engine_options engine_options{};
  engine_options.struct_bytes = sizeof engine_options;
  engine_options.backends = options.backends.c_str();
  engine_options.threads = options.threads;
  engine_options.instruction_set = instruction_set_of(options);
  return engine_options;
}

namespace {

// What the engine tells: while it opens, about this machine, for those who want to know; later, that a backend has
// failed and who goes on, for everybody.
std::atomic<bool> tells_all{false};

Engine open_engine(const CommonOptions& options) {
  mote_engine_options engine_options = engine_options_of(options);
  tells_all = options.verbose;
  engine_options.log = [](void*, const char* line) {
    if (tells_all) write_note(line);
  };
  mote_error error{};
  mote_engine* engine = nullptr;
  check(mote_engine_open(&engine_options, {nullptr, 0}, &engine, &error), error);
  tells_all = true;
  return Engine(engine);
}

int refusal_code(mote_status status) {
  return status == MOTE_IO || status == MOTE_BAD_MODEL || status == MOTE_UNSUPPORTED ? kModelRefused : kFailed;
}

Opened open_on(Engine engine, const Sources& sources, mote_model_options model_options) {
  Opened opened{std::move(engine), nullptr};
  model_options.struct_bytes = sizeof model_options;
  mote_error error{};
  mote_model* model = nullptr;
  const mote_status status =
      mote_model_open(opened.engine.get(), sources.first(), &model_options, {nullptr, 0}, &model, &error);
  check(status, error, refusal_code(status));
  opened.model.reset(model);
  opened.info = info_of(model);
  return opened;
}

}   // namespace

Opened open_model(const CommonOptions& options, const mote_model_options& model_options) {
  const Clock::time_point start = Clock::now();
  const Sources sources(options.model, options.prefault ? MOTE_LOAD_PREFAULT : MOTE_LOAD_MAP);
  Opened opened = open_on(open_engine(options), sources, model_options);
  opened.load_ms = milliseconds_since(start);
  if (options.verbose) {
    std::string backends;
    for (uint32_t i = 0; mote_dev_engine_backend(opened.engine.get(), i) != nullptr; ++i)
      backends += std::string(i == 0 ? "" : ", ") + mote_dev_engine_backend(opened.engine.get(), i);
    char line[256];
    std::snprintf(line, sizeof line, "loaded in %.1f ms; backends %s; %u threads", opened.load_ms, backends.c_str(),
                  mote_engine_threads(opened.engine.get()));
    write_note(line);
  }
  return opened;
}

Opened open_text_model(const CommonOptions& options) {
  Opened opened = open_model(options);
  if (opened.info.encodes != 0)
    throw Failure{kModelRefused, "the model has an encoder; this command is for models that continue a text"};
  return opened;
}

void check_decodes(const Opened& opened) {
  if (opened.info.encodes != 0 && opened.info.decodes == 0)
    throw Failure{kModelRefused, "the model only encodes: mote embed gives its vectors"};
}

int32_t decoder_start_of(const mote_model_info& info) {
  if (info.decoder_start_token >= 0) return info.decoder_start_token;
  if (info.bos_token >= 0) return info.bos_token;
  throw Failure{kFailed, "the model names no token that its decoder begins with (decoder_start_token_id)"};
}

Opened open_vocabulary(const std::string& path) {
  CommonOptions options;
  options.threads = 1;
  mote_model_options model_options{};
  model_options.vocabulary_only = 1;
  return open_on(open_engine(options), Sources(path), model_options);
}

mote_session_options session_options_of(const CommonOptions& options, mote_kv_type default_kv) {
  mote_session_options session{};
  session.struct_bytes = sizeof session;
  session.context = options.context;
  session.decode_threads = options.decode_threads;
  if (options.backends == "reference") default_kv = MOTE_KV_F32;
  session.kv_type = options.kv_type.empty() ? default_kv : options.kv_type == "f32" ? MOTE_KV_F32 : MOTE_KV_F16;
  return session;
}

uint32_t context_of(const mote_session_options& options, const mote_model_info& info) {
  return options.context != 0 ? options.context : std::min(info.trained_context, 4096u);
}

Session open_session(const Opened& opened, const mote_session_options& options) {
  if (opened.info.trained_context != 0 && options.context > opened.info.trained_context)
    write_note("warning: a context of " + std::to_string(options.context) + " is more than the " +
               std::to_string(opened.info.trained_context) + " positions the model was trained on");
  mote_error error{};
  mote_session* session = nullptr;
  check(mote_session_open(opened.model.get(), &options, {nullptr, 0}, &session, &error), error);
  return Session(session);
}

std::vector<std::string> backends_of(const mote_session* session) {
  std::vector<std::string> names;
  for (uint32_t i = 0; const char* name = mote_dev_session_backend(session, i); ++i)
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  return names;
}

void require_tokenizer(const mote_model* model) { tokenize(model, "", 0); }

std::vector<int32_t> tokenize(const mote_model* model, std::string_view text, uint32_t flags) {
  // A text seldom has more tokens than bytes; where it has, the needed number comes back.
  std::vector<int32_t> ids(text.size() + 8);
  size_t count = 0;
  mote_error error{};
  mote_status status = MOTE_BUFFER_TOO_SMALL;
  for (int attempt = 0; attempt < 2 && status == MOTE_BUFFER_TOO_SMALL; ++attempt) {
    ids.resize(std::max(ids.size(), count));
    status =
        mote_tokenize(model, text.data(), text.size(), flags, {nullptr, 0}, ids.data(), ids.size(), &count, &error);
  }
  check(status, error, refusal_code(status));
  ids.resize(count);
  return ids;
}

std::vector<int32_t> tokenize_beginning(const mote_model* model, std::string_view text) {
  std::vector<int32_t> ids = tokenize(model, text, MOTE_ADD_SPECIAL);
  // Around no text stand the start token and the end token, as far as the model adds them. Not told by the last id: it
  // may be the text's own, or the start token's.
  const size_t around = tokenize(model, "", MOTE_ADD_SPECIAL).size();
  const size_t before = info_of(model).adds_bos != 0 ? 1 : 0;
  const size_t after = around > before ? around - before : 0;
  ids.resize(ids.size() - std::min(after, ids.size()));
  return ids;
}

std::string detokenize(const mote_model* model, const std::vector<int32_t>& ids) {
  std::string text(ids.size() * 8 + 64, 0);
  size_t bytes = 0;
  mote_error error{};
  mote_status status = MOTE_BUFFER_TOO_SMALL;
  for (int attempt = 0; attempt < 2 && status == MOTE_BUFFER_TOO_SMALL; ++attempt) {
    text.resize(std::max(text.size(), bytes));
    status = mote_detokenize(model, ids.data(), ids.size(), text.data(), text.size(), &bytes, &error);
  }
  check(status, error, refusal_code(status));
  text.resize(bytes);
  return text;
}

void check_output_is_not_model(const std::string& output, const std::string& model) {
  struct stat of_output{}, of_part{};
  if (stat(output.c_str(), &of_output) != 0) return;
  const Sources sources(model);
  for (const std::string& part : sources.paths())
    if (stat(part.c_str(), &of_part) == 0 && of_part.st_dev == of_output.st_dev && of_part.st_ino == of_output.st_ino)
      throw Failure{kWrongUsage, "-o: the output would take the model's place"};
}

nlohmann::ordered_json quote_json(const mote_quote& quote) {
  return {{"total_bytes", quote.total_bytes},         {"tables_bytes", quote.tables_bytes},
          {"tokenizer_bytes", quote.tokenizer_bytes}, {"vectors_bytes", quote.vectors_bytes},
          {"plan_bytes", quote.plan_bytes},           {"packed_bytes", quote.packed_bytes},
          {"state_bytes", quote.state_bytes},         {"activation_bytes", quote.activation_bytes},
          {"scratch_bytes", quote.scratch_bytes},     {"sampler_bytes", quote.sampler_bytes},
          {"history_bytes", quote.history_bytes},     {"file_bytes", quote.file_bytes},
          {"device_bytes", quote.device_bytes},       {"stack_bytes", quote.stack_bytes},
          {"library_bytes", quote.library_bytes},     {"fallback_bytes", quote.fallback_bytes}};
}

nlohmann::ordered_json process_memory() {
  nlohmann::ordered_json memory = {
      {"anonymous_bytes", nullptr}, {"file_backed_bytes", nullptr}, {"peak_bytes", nullptr}};
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);) {
    unsigned long long kilobytes = 0;
    if (std::sscanf(line.c_str(), "RssAnon: %llu kB", &kilobytes) == 1) memory["anonymous_bytes"] = kilobytes * 1024;
    if (std::sscanf(line.c_str(), "RssFile: %llu kB", &kilobytes) == 1) memory["file_backed_bytes"] = kilobytes * 1024;
    if (std::sscanf(line.c_str(), "VmHWM: %llu kB", &kilobytes) == 1) memory["peak_bytes"] = kilobytes * 1024;
  }
  return memory;
}

nlohmann::ordered_json quoted_memory_json(const Opened& opened, const CommonOptions& options,
                                          const mote_session_options& session_options) {
  mote_quote engine{}, model{}, session{};
  engine.struct_bytes = model.struct_bytes = session.struct_bytes = sizeof(mote_quote);
  const mote_engine_options engine_options = engine_options_of(options);
  const Sources sources(options.model);
  mote_error error{};
  check(mote_engine_quote(&engine_options, &engine, &error), error);
  check(mote_model_quote(opened.engine.get(), sources.first(), nullptr, &session_options, &model, &session, &error),
        error);
  nlohmann::ordered_json memory = {{"engine_bytes", engine.total_bytes},
                                   {"model_bytes", model.total_bytes},
                                   {"session_bytes", session.total_bytes},
                                   {"file_bytes", model.file_bytes},
                                   {"stack_bytes", engine.stack_bytes},
                                   {"device_bytes", engine.device_bytes + model.device_bytes + session.device_bytes}};
  memory.update(process_memory());
  return memory;
}

std::string json_text(const nlohmann::ordered_json& json, int indent, bool ascii) {
  return json.dump(indent, ' ', ascii, nlohmann::ordered_json::error_handler_t::replace);
}

std::string human_bytes(uint64_t bytes) {
  const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 1024 && unit + 1 < std::size(units)) value /= 1024, ++unit;
  char text[32];
  std::snprintf(text, sizeof text, unit == 0 ? "%.0f %s" : "%.2f %s", value, units[unit]);
  return text;
}

}   // namespace cli
