// mote info: what a GGUF file is, what running it takes, and which backend takes which step.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <map>
#include <optional>
#include <string_view>

#include "examples/cli/common.h"
#include "examples/cli/printable.h"
#include "examples/cli/stream.h"

namespace cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kShownBytes = 72;   // of a text among the metadata, for people

struct InfoOptions {
  CommonOptions common;
  bool json = false;
};

template <class T>
T read_as(const void* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

// The double with the fewest digits that is this float: 1e-05, not 9.999999747378752e-06.
double shortest(float value) {
  char text[32];
  const std::to_chars_result end = std::to_chars(text, text + sizeof text, value);
  double result = value;
  std::from_chars(text, end.ptr, result);
  return result;
}

// One scalar or string of GGUF's types (0 uint8 ... 12 float64).
Json scalar_json(int32_t type, const void* at) {
  switch (type) {
    case 0:
      return read_as<uint8_t>(at);
    case 1:
      return read_as<int8_t>(at);
    case 2:
      return read_as<uint16_t>(at);
    case 3:
      return read_as<int16_t>(at);
    case 4:
      return read_as<uint32_t>(at);
    case 5:
      return read_as<int32_t>(at);
    case 6:
      return shortest(read_as<float>(at));
    case 7:
      return read_as<uint8_t>(at) != 0;
    case 8:
      return std::string(static_cast<const char*>(at) + 8, static_cast<size_t>(read_as<uint64_t>(at)));
    case 10:
      return read_as<uint64_t>(at);
    case 11:
      return read_as<int64_t>(at);
    case 12:
      return read_as<double>(at);
    default:
      return nullptr;
  }
}

const char* type_name(int32_t type) {
  static const char* const names[] = {"uint8", "int8",   "uint16", "int16",  "uint32", "int32",  "float32",
                                      "bool",  "string", "array",  "uint64", "int64",  "float64"};
  return type >= 0 && type <= 12 ? names[type] : "unknown";
}

Json metadata_json(const Opened& opened) {
  Json all = Json::object();
  for (uint32_t i = 0; i < opened.info.n_metadata; ++i) {
    mote_metadata entry{};
    entry.struct_bytes = sizeof entry;
    mote_error error{};
    check(mote_model_metadata(opened.model.get(), i, &entry, &error), error);
    Json& value = all[distinct_name({entry.key, entry.key_bytes})];
    if (entry.type == 9)
      value = {{"array_of", type_name(entry.element_type)}, {"count", entry.count}};
    else
      value = scalar_json(entry.type, entry.value);
  }
  return all;
}

// Tensors and their bytes by format, the largest share first.
Json formats_json(const Opened& opened) {
  std::map<std::string, std::pair<uint64_t, uint64_t>> found;
  for (uint32_t i = 0; i < opened.info.n_tensors; ++i) {
    mote_tensor tensor{};
    tensor.struct_bytes = sizeof tensor;
    mote_error error{};
    check(mote_model_tensor(opened.model.get(), i, &tensor, &error), error);
    auto& [tensors, bytes] = found[tensor.format];
    ++tensors;
    bytes += tensor.bytes;
  }
  Json list = Json::array();
  for (const auto& [name, what] : found)
    list.push_back({{"format", name}, {"tensors", what.first}, {"bytes", what.second}});
  std::sort(list.begin(), list.end(), [](const Json& a, const Json& b) { return a["bytes"] > b["bytes"]; });
  return list;
}

Json tensors_json(const Opened& opened) {
  Json list = Json::array();
  for (uint32_t i = 0; i < opened.info.n_tensors; ++i) {
    mote_tensor tensor{};
    tensor.struct_bytes = sizeof tensor;
    mote_error error{};
    check(mote_model_tensor(opened.model.get(), i, &tensor, &error), error);
    Json dimensions = Json::array();   // columns first, as GGUF has them
    for (uint32_t d = 0; d < tensor.n_dimensions; ++d) dimensions.push_back(tensor.dimensions[d]);
    list.push_back({{"name", distinct_name({tensor.name, tensor.name_bytes})},
                    {"format", tensor.format},
                    {"dimensions", dimensions},
                    {"bytes", tensor.bytes}});
  }
  return list;
}

// `runs`: what the plan and its numbers say was read; else it is null, not 0.
Json model_json(const Opened& opened, const Json& metadata, bool runs) {
  const mote_model_info& info = opened.info;
  auto text = [](const char* value) { return value == nullptr ? Json(nullptr) : Json(value); };
  auto token = [](int32_t value) { return value < 0 ? Json(nullptr) : Json(value); };
  auto read = [runs](Json value) { return runs ? value : Json(nullptr); };
  // In full out of the metadata: the information has a C string of bounded length.
  const auto named = metadata.find("general.architecture");
  const bool is_named = named != metadata.end() && named->is_string();
  return {{"architecture", is_named ? *named : text(info.architecture)},
          {"n_vocab", info.n_vocab},
          {"d_model", read(info.d_model)},
          {"n_layers", read(info.n_layers)},
          {"n_heads", read(info.n_heads)},
          {"n_kv_heads", read(info.n_kv_heads)},
          {"head_dim", read(info.head_dim)},
          {"d_ff", read(info.d_ff)},
          {"trained_context", read(info.trained_context)},
          {"n_parameters", info.n_parameters},
          {"file_bytes", info.file_bytes},
          {"weight_bytes", info.weight_bytes},
          {"n_tensors", info.n_tensors},
          {"bos_token", token(info.bos_token)},
          {"eos_token", token(info.eos_token)},
          {"adds_bos", info.adds_bos != 0},
          {"encodes", read(info.encodes != 0)},
          {"decodes", read(info.decodes != 0)},
          {"decoder_start_token", token(info.decoder_start_token)},
          {"chat_format", text(info.chat_format)},
          {"gguf_version", info.gguf_version}};
}

// The bytes of a session for 512 positions, 2048, and on by doubling up to the trained length; or for -c alone.
Json memory_json(const Opened& opened, const CommonOptions& common) {
  std::vector<uint32_t> contexts;
  const uint32_t trained = opened.info.trained_context;
  if (common.context != 0)
    contexts = {common.context};
  else
    for (uint64_t c = 512; c <= std::max(trained, 512u); c *= c == 512 ? 4 : 2)
      contexts.push_back(static_cast<uint32_t>(c));
  if (common.context == 0 && trained > contexts.back()) contexts.push_back(trained);
  Json memory = {{"model", nullptr}, {"sessions", Json::array()}};
  const Sources sources(common.model);
  for (uint32_t context : contexts) {
    mote_session_options options = session_options_of(common, MOTE_KV_F16);
    options.context = context;
    mote_quote model{}, session{};
    model.struct_bytes = session.struct_bytes = sizeof(mote_quote);
    mote_error error{};
    check(mote_model_quote(opened.engine.get(), sources.first(), nullptr, &options, &model, &session, &error), error);
    memory["model"] = quote_json(model);
    Json entry = {{"context", context}, {"kv_type", options.kv_type == MOTE_KV_F32 ? "f32" : "f16"}};
    entry.update(quote_json(session));
    memory["sessions"].push_back(entry);
  }
  return memory;
}

Json steps_json(const Opened& opened) {
  Json steps = Json::array();
  for (uint32_t i = 0; i < mote_dev_step_count(opened.model.get()); ++i) {
    mote_dev_step step{};
    mote_error error{};
    check(mote_dev_get_step(opened.model.get(), i, &step, &error), error);
    steps.push_back(
        {{"text", step.text}, {"op", step.op}, {"backend", step.backend}, {"weight_error", step.weight_error}});
  }
  return steps;
}

// What running weights otherwise than the file has them changes: null where no step does so.
Json requantised_json(const Json& steps) {
  size_t n = 0;
  double squares = 0, worst = 0;
  std::string worst_step;
  for (const Json& step : steps) {
    const double error = step["weight_error"].get<double>();
    if (error == 0) continue;
    ++n;
    squares += error * error;
    if (error > worst) worst = error, worst_step = step["text"].get<std::string>();
  }
  if (n == 0) return nullptr;
  return {{"steps", n},
          {"rms_error", std::sqrt(squares / static_cast<double>(n))},
          {"worst", worst},
          {"worst_step", worst_step}};
}

std::string percent(const Json& fraction) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f %%", 100 * fraction.get<double>());
  return text;
}

// For each op, the backends of this engine that run it on this model's most used format.
Json support_json(const Opened& opened, const Json& formats) {
  Json support = Json::object();
  const std::string format = formats.empty() ? "f32" : formats[0]["format"].get<std::string>();
  for (uint32_t i = 0; const char* op = mote_dev_op_name(i); ++i) {
    Json& backends = support[op] = Json::array();
    for (uint32_t b = 0; const char* backend = mote_dev_engine_backend(opened.engine.get(), b); ++b)
      if (mote_dev_supports(opened.engine.get(), backend, op, format.c_str()) == 1) backends.push_back(backend);
  }
  return support;
}

// A value as one line, not too long.
std::string shown(const Json& value) {
  if (!value.is_string())
    return value.is_object() ? value["array_of"].get<std::string>() + " x " + value["count"].dump() : value.dump();
  const std::string& text = value.get_ref<const std::string&>();
  const std::string_view beginning = beginning_of(text, kShownBytes);
  if (beginning.size() == text.size()) return text;
  return std::string(beginning) + "... (" + std::to_string(text.size()) + " bytes)";
}

// Names and values come out of the file: neither may steer the terminal.
std::string row(std::string_view name, std::string_view value) {
  const std::string left = printable(name);
  return "  " + left + std::string(left.size() < 40 ? 40 - left.size() : 1, ' ') + printable(value) + "\n";
}

std::string memory_text(const Json& memory) {
  std::string text = "Memory\n";
  text += row("model", human_bytes(memory["model"]["total_bytes"]) + ", and " +
                           human_bytes(memory["model"]["file_bytes"]) + " of the file where it lies");
  for (const Json& session : memory["sessions"])
    text +=
        row("session of " + session["context"].dump() + " positions (KV " + session["kv_type"].get<std::string>() + ")",
            human_bytes(session["total_bytes"]) + " (KV " + human_bytes(session["state_bytes"]) + ")");
  return text;
}

// Steps counted by op and backend; one by one with --verbose.
std::string steps_text(const Json& steps, bool all) {
  std::string text = "Steps\n";
  if (all) {
    for (const Json& step : steps) text += row(step["text"].get<std::string>(), step["backend"].get<std::string>());
    return text;
  }
  std::map<std::string, uint32_t> counts;
  std::vector<std::string> order;
  for (const Json& step : steps) {
    const std::string key = step["op"].get<std::string>() + "\t" + step["backend"].get<std::string>();
    if (counts[key]++ == 0) order.push_back(key);
  }
  for (const std::string& key : order) {
    const size_t tab = key.find('\t');
    text += row(key.substr(0, tab) + " x " + std::to_string(counts[key]), key.substr(tab + 1));
  }
  return text;
}

std::string requantised_text(const Json& requantised) {
  if (requantised.is_null()) return {};
  return "Weights run otherwise than the file has them\n" +
         row("relative error (RMS) in " + requantised["steps"].dump() + " steps", percent(requantised["rms_error"])) +
         row("worst", percent(requantised["worst"]) + " in " + requantised["worst_step"].get<std::string>());
}

std::string support_text(const Json& support, const Json& formats) {
  std::string text = "Backends by op";
  if (!formats.empty()) text += " (weights in " + formats[0]["format"].get<std::string>() + ")";
  text += "\n";
  for (const auto& [op, backends] : support.items()) {
    std::string names;
    for (const Json& name : backends) names += (names.empty() ? "" : ", ") + name.get<std::string>();
    text += row(op, names.empty() ? "none" : names);
  }
  return text;
}

std::string tensors_text(const Json& tensors) {
  std::string text = "Tensors\n";
  for (const Json& tensor : tensors)
    text += row(shown(tensor["name"]), tensor["format"].get<std::string>() + " " + tensor["dimensions"].dump());
  return text;
}

// The file as a whole model; one whose kind this build does not run, or that is a tokenizer alone, still has metadata.
Opened open_for_info(const InfoOptions& options, std::string* refusal) {
  try {
    return open_model(options.common);
  } catch (const Failure& failure) {
    if (failure.exit_code != kModelRefused) throw;
    *refusal = failure.message;
    std::optional<Opened> vocabulary;
    try {
      vocabulary = open_vocabulary(options.common.model);
    } catch (const Failure&) {   // the first refusal is the one that says why
    }
    if (!vocabulary || (failure.status != MOTE_UNSUPPORTED && vocabulary->info.n_tensors != 0)) throw;
    return std::move(*vocabulary);
  }
}

void run(const InfoOptions& options) {
  std::string refusal;
  const Opened opened = open_for_info(options, &refusal);
  const bool runs = refusal.empty();
  const Json formats = formats_json(opened);
  const Json metadata = metadata_json(opened);
  Json result = {{"model", model_json(opened, metadata, runs)},
                 {"runs", runs},
                 {"refusal", runs ? Json(nullptr) : Json(refusal)},
                 {"formats", formats},
                 {"memory", nullptr},
                 {"steps", Json::array()},
                 {"requantised", nullptr},
                 {"support", nullptr},
                 {"metadata", metadata},
                 {"tensors", tensors_json(opened)}};
  if (runs) {
    result["memory"] = memory_json(opened, options.common);
    result["steps"] = steps_json(opened);
    result["requantised"] = requantised_json(result["steps"]);
    result["support"] = support_json(opened, formats);
  }
  if (options.json) return write_output(json_text(result, 1, true) + "\n");

  std::string text = "Model\n";
  for (const auto& [name, value] : result["model"].items())
    if (runs || !value.is_null()) text += row(name, shown(value));
  if (!runs) text += row("runs", "no: " + refusal);
  text += "Formats\n";
  for (const Json& entry : formats)
    text +=
        row(entry["format"].get<std::string>(), entry["tensors"].dump() + " tensors, " + human_bytes(entry["bytes"]));
  if (runs) {
    text += memory_text(result["memory"]) + steps_text(result["steps"], options.common.verbose);
    text += requantised_text(result["requantised"]) + support_text(result["support"], formats);
  }
  text += "Metadata\n";
  for (const auto& [key, value] : result["metadata"].items()) text += row(key, shown(value));
  if (options.common.verbose) text += tensors_text(result["tensors"]);
  write_output(text);
}

}   // namespace

void add_info(CLI::App& app, Chosen& chosen) {
  auto options = std::make_shared<InfoOptions>();
  CLI::App* command = app.add_subcommand("info", "Tell what a model is, what memory it takes and what runs it");
  add_common_options(*command, options->common);
  command->add_flag("--json", options->json,
                    "One object: model, memory, steps, metadata (of arrays their lengths), tensors");
  command->callback([options, &chosen] { chosen = {[options] { run(*options); }, options->json}; });
}

}   // namespace cli
