// Writes what mote computes in the files that check.py and run_goldens.py compare with the references.
//
//   dump logits MODEL.gguf REF.json OUT.bin --backend NAME     float32, all outputs of all cases at their offsets
//   dump quant GOLDENS/quant OUT_DIR                           the values of TYPE.blocks.bin; prints the types it has
//   dump tokens MODEL.gguf CASES.jsonl OUT.jsonl
//   dump stream NAME MODEL.gguf streaming.jsonl OUT.jsonl      the lines of tokenizer NAME
//   dump sampler GOLDENS OUT.jsonl
//   dump prompts MODEL.gguf CASES.jsonl OUT.jsonl              chat prompts: {"messages", "add_generation_prompt"} a
//   line dump follow MODEL.gguf REAL.json OUT.jsonl --backend NAME  the ten largest logits along the handed ids dump
//   perplexity MODEL.gguf TEXT CHUNK OUT.json --backend NAME --batch N --chunks N (0: all)
//   dump embed MODEL.gguf REAL.json OUT.bin --backend NAME      float32, the vector of each of the ids
//
// Through the public C API wherever it reaches. Exit code 1 with a sentence when something fails.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <map>

#include "core/base/bytes.h"
#include "core/format/format.h"
#include "core/tokenizer/text_stream.h"
#include "tests/golden/opened_model.h"
#include "tests/golden/sampler_cases.h"
#include "tests/support/drivers.h"

namespace mote::test {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

std::string read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot open " + path.string());
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::vector<Json> read_lines(const fs::path& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error("cannot open " + path.string());
  std::vector<Json> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(Json::parse(line));
  return lines;
}

class OutputFile {
 public:
  explicit OutputFile(const fs::path& path) : path_(path), file_(path, std::ios::binary) {}
  void bytes(const void* from, size_t count) {
    file_.write(static_cast<const char*>(from), static_cast<std::streamsize>(count));
  }
  void line(const Json& object) { file_ << object << "\n"; }
  void close() {
    if (!file_.flush()) throw std::runtime_error("cannot write " + path_.string());
  }

 private:
  fs::path path_;
  std::ofstream file_;
};

std::string to_hex(std::string_view bytes) {
  std::string hex;
  for (const char c : bytes) {
    constexpr char kDigits[] = "0123456789abcdef";
    hex += kDigits[static_cast<uint8_t>(c) >> 4];
    hex += kDigits[static_cast<uint8_t>(c) & 15];
  }
  return hex;
}
std::string from_hex(const std::string& hex) {
  std::string bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  return bytes;
}

struct Arguments {
  std::vector<std::string> plain;
  std::string backend = "auto";
  uint32_t batch = 0, chunks = 0;
};

// The outputs of one case by their names in the reference.
std::map<std::string, std::vector<float>> outputs_of(OpenedModel& model, const Json& test, uint32_t batch) {
  std::map<std::string, std::vector<float>> outputs;
  const std::vector<int32_t> tokens = test["tokens"];
  const bool decodes = test["outputs"].contains("logits"), reads_input = test.contains("decoder_tokens");
  if (!decodes || reads_input) {
    const OpenedModel::Encoded found = model.encode(tokens);
    outputs[reads_input ? "encoder" : "hidden"] = found.hidden;
    outputs["pooled"] = found.pooled;
    outputs["embedding"] = found.embedding;
  }
  if (!decodes) return outputs;
  const std::vector<int32_t> fed = reads_input ? test["decoder_tokens"].get<std::vector<int32_t>>() : tokens;
  std::vector<float>& all = outputs["logits"];
  const auto keep = [&](size_t, size_t rows, const float* logits) {
    all.insert(all.end(), logits, logits + rows * model.n_vocab());
  };
  model.evaluate(fed, batch, keep, reads_input ? tokens : std::vector<int32_t>());
  return outputs;
}

void dump_logits(const Arguments& arguments) {
  const Json reference = Json::parse(read_file(arguments.plain[1]));
  OpenedModel model(arguments.plain[0], arguments.backend);
  std::vector<float> all;
  for (const Json& test : reference["cases"]) {
    const auto outputs = outputs_of(model, test, arguments.batch);
    for (const auto& [name, place] : test["outputs"].items()) {
      const size_t at = place["offset"].get<size_t>() / sizeof(float);
      const size_t count = place["rows"].get<size_t>() * place["cols"].get<size_t>();
      const auto found = outputs.find(name);
      if (found == outputs.end() || found->second.size() != count)
        throw std::runtime_error("the output " + name + " is missing or has another size");
      if (all.size() < at + count) all.resize(at + count);
      std::copy(found->second.begin(), found->second.end(), all.begin() + static_cast<ptrdiff_t>(at));
    }
  }
  OutputFile out(arguments.plain[2]);
  out.bytes(all.data(), all.size() * sizeof(float));
  out.close();
}

// "q4_0" as the goldens' files are named: "Q4_0".
std::string golden_name(std::string_view name) {
  std::string upper(name);
  for (char& c : upper) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return upper;
}

void dump_quant(const Arguments& arguments) {
  const fs::path from = arguments.plain[0], to = arguments.plain[1];
  for (size_t i = 0; i < format_table().size(); ++i) {
    const FormatInfo& info = format_table()[i];
    const std::string name = golden_name(info.name);
    if (!info.enabled || !fs::exists(from / (name + ".blocks.bin"))) continue;
    const std::string blocks = read_file(from / (name + ".blocks.bin"));
    std::vector<float> values(blocks.size() / info.block_bytes * info.block_values);
    dequantize_row(static_cast<Format>(i), reinterpret_cast<const uint8_t*>(blocks.data()), values.size(),
                   values.data());
    OutputFile out(to / (name + ".values.f32"));
    out.bytes(values.data(), values.size() * sizeof(float));
    out.close();
    std::cout << name << "\n";
  }
}

void dump_tokens(const Arguments& arguments) {
  OpenedModel model(arguments.plain[0]);
  OutputFile out(arguments.plain[2]);
  for (const Json& test : read_lines(arguments.plain[1])) {
    const std::string text = from_hex(test["hex"]);
    const std::vector<int32_t> ids = model.tokenize(text, MOTE_PARSE_SPECIAL);
    out.line({{"id", test["id"]},
              {"ids", ids},
              {"ids_special", model.tokenize(text, MOTE_PARSE_SPECIAL | MOTE_ADD_SPECIAL)},
              {"ids_plain", model.tokenize(text, 0)},
              {"detok_hex", to_hex(model.detokenize(ids))}});
  }
  out.close();
}

// The bytes of a token are those by which a text grows: only the first token of a text loses a leading blank.
void dump_stream(const Arguments& arguments) {
  OpenedModel model(arguments.plain[1]);
  OutputFile out(arguments.plain[3]);
  for (const Json& test : read_lines(arguments.plain[2])) {
    if (test["tokenizer"] != arguments.plain[0]) continue;
    const std::vector<int32_t> ids = test["ids"];
    TextStream stream;
    Json emitted = Json::array();
    std::vector<char> shown;
    for (const int32_t id : ids) {
      const std::string piece = model.piece(id);
      shown.resize(TextStream::room(piece.size()));
      emitted.push_back(to_hex({shown.data(), stream.push(piece, shown)}));
    }
    shown.resize(TextStream::room(0));
    const std::string flushed(shown.data(), stream.flush(shown));
    out.line({{"tokenizer", test["tokenizer"]}, {"id", test["id"]}, {"emit", emitted}, {"flush", to_hex(flushed)}});
  }
  out.close();
}

void dump_sampler(const Arguments& arguments) {
  const SamplerInputs inputs = read_sampler_inputs(arguments.plain[0] + "/sampler");
  OutputFile out(arguments.plain[1]);
  for (const SamplerCase& test : inputs.cases) {
    const SamplerAnswer answer = run_sampler_case(inputs, test);
    out.line({{"id", test.id}, {"n_kept", answer.n_kept}, {"ids", answer.ids}, {"probs", answer.probs}});
  }
  out.close();
}

void dump_prompts(const Arguments& arguments) {
  OpenedModel model(arguments.plain[0]);
  OutputFile out(arguments.plain[2]);
  for (const Json& test : read_lines(arguments.plain[1])) {
    const bool generates = test.value("add_generation_prompt", true);
    const std::vector<OpenedModel::Message> messages = OpenedModel::messages(test["messages"]);
    out.line({{"id", test["id"]},
              {"text", model.chat_text(messages, generates)},
              {"ids", model.chat_tokens(messages, generates)}});
  }
  out.close();
}

Json ten_largest(const float* logits, size_t n_vocab) {
  std::vector<int32_t> ids(n_vocab);
  for (size_t i = 0; i < n_vocab; ++i) ids[i] = static_cast<int32_t>(i);
  const auto larger = [&](int32_t a, int32_t b) { return logits[a] > logits[b] || (logits[a] == logits[b] && a < b); };
  std::partial_sort(ids.begin(), ids.begin() + 10, ids.end(), larger);
  ids.resize(10);
  std::vector<float> values;
  for (const int32_t id : ids) values.push_back(logits[id]);
  return {{"ids", ids}, {"logits", values}};
}

void dump_follow(const Arguments& arguments) {
  OpenedModel model(arguments.plain[0], arguments.backend);
  OutputFile out(arguments.plain[2]);
  const Json real = Json::parse(read_file(arguments.plain[1]));
  for (const Json& test : real["cases"]) {
    std::vector<int32_t> tokens = test["prompt_ids"];
    const size_t prompt = tokens.size();
    const std::vector<int32_t> greedy = test["greedy_ids"];
    tokens.insert(tokens.end(), greedy.begin(), greedy.end() - 1);
    Json steps = Json::array();
    model.evaluate(tokens, arguments.batch, [&](size_t first, size_t rows, const float* logits) {
      for (size_t row = 0; row < rows; ++row)
        if (first + row + 1 >= prompt) steps.push_back(ten_largest(logits + row * model.n_vocab(), model.n_vocab()));
    });
    out.line({{"id", test["id"]}, {"steps", steps}});
  }
  out.close();
}

// -log of the probability of `token`.
double surprise(const float* logits, size_t n_vocab, int32_t token) {
  double largest = logits[0], sum = 0;
  for (size_t i = 0; i < n_vocab; ++i) largest = std::max(largest, double{logits[i]});
  for (size_t i = 0; i < n_vocab; ++i) sum += std::exp(logits[i] - largest);
  return std::log(sum) + largest - logits[token];
}

// llama-perplexity's definition: whole chunks, the second half of each scored, the start token put over the first token
// where the model adds one.
void dump_perplexity(const Arguments& arguments) {
  OpenedModel model(arguments.plain[0], arguments.backend);
  const std::vector<int32_t> text = model.tokenize(read_file(arguments.plain[1]), MOTE_ADD_SPECIAL);
  const size_t chunk = std::stoul(arguments.plain[2]), first_scored = chunk / 2;
  double total = 0;
  size_t scored = 0;
  std::vector<double> running;
  for (size_t at = 0; at + chunk <= text.size(); at += chunk) {
    std::vector<int32_t> tokens(text.begin() + static_cast<ptrdiff_t>(at),
                                text.begin() + static_cast<ptrdiff_t>(at + chunk));
    if (model.start_token() >= 0) tokens[0] = model.start_token();
    model.evaluate(tokens, arguments.batch, [&](size_t first, size_t rows, const float* logits) {
      for (size_t row = 0; row < rows; ++row) {
        const size_t position = first + row;
        if (position < first_scored || position + 1 >= chunk) continue;
        total += surprise(logits + row * model.n_vocab(), model.n_vocab(), tokens[position + 1]);
        ++scored;
      }
    });
    running.push_back(std::exp(total / static_cast<double>(scored)));
    if (running.size() == arguments.chunks) break;
  }
  if (running.empty()) throw std::runtime_error("the text is shorter than a chunk");
  OutputFile out(arguments.plain[3]);
  out.line({{"perplexity", running.back()}, {"running", running}, {"text_tokens", text.size()}});
  out.close();
}

void dump_embed(const Arguments& arguments) {
  OpenedModel model(arguments.plain[0], arguments.backend);
  OutputFile out(arguments.plain[2]);
  const Json real = Json::parse(read_file(arguments.plain[1]));
  for (const Json& ids : real["ids"]) {
    const std::vector<float> vector = model.encode(ids).embedding;
    out.bytes(vector.data(), vector.size() * sizeof(float));
  }
  out.close();
}

struct Section {
  const char* name;
  size_t n_arguments;
  void (*run)(const Arguments& arguments);
};

// Whether the backend can be used on this machine; says why not.
void dump_device(const Arguments& arguments) {
  mote_engine_options options = {};
  options.struct_bytes = sizeof options;
  options.backends = arguments.backend.c_str();
  options.log = [](void*, const char* line) { std::cerr << line << "\n"; };
  mote_engine* engine = nullptr;
  mote_error error = {};
  if (mote_engine_open(&options, {}, &engine, &error) != MOTE_OK) throw std::runtime_error(error.message);
  mote_engine_close(engine, nullptr);
}

constexpr Section kSections[] = {{"logits", 3, dump_logits},   {"quant", 2, dump_quant},
                                 {"tokens", 3, dump_tokens},   {"stream", 4, dump_stream},
                                 {"sampler", 2, dump_sampler}, {"prompts", 3, dump_prompts},
                                 {"follow", 3, dump_follow},   {"perplexity", 4, dump_perplexity},
                                 {"device", 0, dump_device},   {"embed", 3, dump_embed}};

int run(int argc, char** argv) {
  Arguments arguments;
  for (int i = 2; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument == "--backend" && i + 1 < argc) {
      arguments.backend = argv[++i];
    } else if (argument == "--batch" && i + 1 < argc) {
      arguments.batch = static_cast<uint32_t>(std::stoul(argv[++i]));
    } else if (argument == "--chunks" && i + 1 < argc) {
      arguments.chunks = static_cast<uint32_t>(std::stoul(argv[++i]));
    } else {
      arguments.plain.emplace_back(argument);
    }
  }
  for (const Section& section : kSections) {
    if (argc < 2 || std::string_view(section.name) != argv[1] || arguments.plain.size() != section.n_arguments)
      continue;
    if (arguments.backend.find("vulkan") != std::string::npos) keep_vulkan_drivers_loaded();
    section.run(arguments);
    return 0;
  }
  std::cerr
      << "usage: dump logits|quant|tokens|stream|sampler|prompts|follow|perplexity|embed ARGUMENTS (see dump.cpp)\n";
  return 2;
}

}   // namespace
}   // namespace mote::test

int main(int argc, char** argv) {
  try {
    return mote::test::run(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << "dump: " << error.what() << "\n";
    return 1;
  }
}
