// Model calls of mote.h: bytes become views, a tokenizer, a plan and its programs.
#include <new>

#include "core/handles.h"
#include "core/model/architecture.h"
#include "core/model_opening.h"
#include "platform/memory.h"

namespace mote {
namespace {

// ------------------------------------------------------------------------------------------------ quote and open

// Without a plan, nobody reads the weights.
gguf::Formats formats_of(const mote_model_options& options) {
  return options.vocabulary_only != 0 ? gguf::Formats::any : gguf::Formats::built_in;
}

void fill_model_quote(const ModelBytes& bytes, uint64_t total_bytes, const ModelSource& source, mote_quote* quote) {
  quote->total_bytes = total_bytes;
  quote->tables_bytes = bytes.tables_bytes;
  quote->tokenizer_bytes = bytes.tokenizer_bytes;
  quote->vectors_bytes = bytes.vectors_bytes;
  quote->plan_bytes = bytes.plan_bytes;
  quote->packed_bytes = bytes.copied_bytes + (total_bytes - bytes.compiled_from_bytes);
  quote->device_bytes = bytes.footprint.device_bytes;
  quote->library_bytes = bytes.footprint.library_bytes;
  quote->file_bytes = source.mapped_bytes();
}

// What a quote needs memory for that opening puts into the model: an index of the tensors and a plan. A plan has at
// most kMaxStepsPerTensor steps for each tensor (phi3 with taps: 17 steps on 6 tensors in a layer).
constexpr uint64_t kMaxStepsPerTensor = 4, kFurtherSteps = 64;

uint64_t scratch_bytes_for(const gguf::File& file) {
  const uint64_t steps = file.n_tensors() * kMaxStepsPerTensor + kFurtherSteps;
  Arena arena;
  static_cast<void>(gguf::TensorIndex::create(file, arena).ok());
  arena.take<Step>(steps), arena.take<ValueInfo>(steps), arena.take<StateInfo>(steps);
  arena.take<uint64_t>(steps);
  return arena.used_bytes();
}

// What a call asks for, beside the model's own bytes.
struct QuoteWanted {
  const mote_session_options* session_options = nullptr;
  mote_quote* model = nullptr;
  mote_quote* session = nullptr;
  bool fallbacks = true;
  const Log* log = nullptr;   // told of backends that are left out
};

Status write_quotes(ModelOpening& opening, uint64_t total_bytes, const ModelSource& source, const QuoteWanted& wanted) {
  mote_quote filled{};
  fill_model_quote(opening.bytes(), total_bytes, source, &filled);
  if (wanted.fallbacks) filled.fallback_bytes = opening.fallback_bytes();
  if (wanted.model != nullptr) MOTE_RETURN_IF_ERROR(write_struct(filled, "model_quote", wanted.model));
  if (wanted.session == nullptr) return {};
  return opening.quote_session(wanted.session_options, wanted.session);
}

// *excluded: backends that failed while this model was opened; it grows by those that do not compile it.
Status quote_model(mote_engine* engine, ModelSource& source, const mote_model_options& options,
                   const QuoteWanted& wanted, BackendSet* excluded) {
  MOTE_RETURN_IF_ERROR(source.read_heads(formats_of(options)));
  gguf::File file;   // 6 KiB
  MOTE_RETURN_IF_ERROR(source.open_file(formats_of(options), source.own_parts(), &file));
  MOTE_ASSIGN_OR_RETURN(const Memory memory,
                        obtain_memory(options.scratch, scratch_bytes_for(file), "working memory for a quote"));
  Status status, refusal;
  for (bool again = true; again;) {
    Arena arena, scratch(memory.data, memory.bytes);
    ModelOpening opening(*engine, file, options, *excluded, arena, &scratch);
    status = opening.run(source);
    again = leaves_part(status, opening.failed_backend());
    if (status.ok()) {
      status = write_quotes(opening, arena.used_bytes(), source, wanted);
    } else if (again) {
      if (refusal.ok()) refusal = status;
      *excluded |= only(engine->backends, *opening.failed_backend());
      if (wanted.log != nullptr)
        wanted.log->tell("backend {} does not compile the model ({}) and is left out", opening.failed_backend()->name(),
                         status);
    } else if (status.code() == Code::unsupported && !refusal.ok()) {
      status = refusal;   // nobody else takes its steps: what was said first is to be told
    }
  }
  release_memory(memory);
  return status;
}

// Opens in `memory`; what was opened on the way is given back when it fails. *failed: the backend that did not compile
// the model, or null.
Status open_in(mote_engine* engine, ModelSource& source, const mote_model_options& options, BackendSet excluded,
               const Memory& memory, mote_model** opened, const Backend** failed) {
  Arena arena(memory.data, memory.bytes);
  mote_model* model = arena.create<mote_model>();
  if (model == nullptr) return arena.status("the model");
  const ModelFiles files = take_files(arena, source);
  MOTE_RETURN_IF_ERROR(arena.status("the model"));
  MOTE_RETURN_IF_ERROR(source.copy(files.copy));
  MOTE_RETURN_IF_ERROR(source.open_file(formats_of(options), files.parts, &model->file));
  ModelOpening opening(*engine, model->file, options, excluded, arena, nullptr);
  const Status status = opening.run_into(model);
  *failed = opening.failed_backend();
  MOTE_RETURN_IF_ERROR(status);
  model->engine = engine;
  model->memory = memory;
  model->maps = files.maps;
  for (size_t i = 0; i < source.count(); ++i) {   // those of copies are empty
    model->maps[i] = source.part(i).map;
    source.part(i).map = FileMap{};
  }
  *opened = model;
  return {};
}

// One attempt, without the backends that are excluded. The platform is asked for exactly the quote. With memory handed
// over, a quote is made only after a failure: it tells what is needed now.
Status open_without(BackendSet* excluded, bool measures, mote_engine* engine, ModelSource& source,
                    const mote_model_options& options, const mote_memory& given_memory, mote_model** model,
                    const Backend** failed) {
  uint64_t bytes = given_memory.bytes;
  *failed = nullptr;
  if (measures) {
    mote_quote quote{};
    quote.struct_bytes = sizeof quote;
    MOTE_RETURN_IF_ERROR(
        quote_model(engine, source, options, {nullptr, &quote, nullptr, false, &engine->log}, excluded));
    bytes = quote.total_bytes;
  }
  MOTE_ASSIGN_OR_RETURN(const Memory memory,
                        obtain_memory(given_memory, bytes,
                                      *excluded == 0 ? "the model" : "the model, without the backends that failed,"));
  const Status status = open_in(engine, source, options, *excluded, memory, model, failed);
  if (!status.ok()) release_memory(memory);
  return status;
}

// A backend that fails to compile the model is left out, as long as others take its steps.
Status open_on_backends(mote_engine* engine, ModelSource& source, const mote_model_options& options,
                        const mote_memory& given_memory, mote_model** model) {
  const Backend* failed = nullptr;
  BackendSet excluded = 0;
  const auto open = [&](bool measures) {
    return open_without(&excluded, measures, engine, source, options, given_memory, model, &failed);
  };
  Status status = open(given_memory.data == nullptr);
  // Memory that is too small may be that of a quote which has left a backend out.
  if (status.code() == Code::out_of_memory && given_memory.data != nullptr && engine->backends.size() > 1) {
    const Status measured = open(true);
    if (excluded != 0) status = measured;
  }
  while (leaves_part(status, failed)) {
    const Backend& left_out = *failed;
    excluded |= only(engine->backends, left_out);
    const Status next = open(true);
    // Nobody else takes its steps: what failed first is to be told.
    if (next.code() == Code::unsupported && failed == nullptr) break;
    char names[96] = "";
    if (next.ok()) {
      describe_backends((*model)->plans.current().parts, names, sizeof names);
      engine->log.tell("backend {} failed to compile the model ({}); it goes on with {}", left_out.name(), status,
                       std::string_view(names));
    } else {
      engine->log.tell("backend {} failed to compile the model ({}), and the next ones did not take over ({})",
                       left_out.name(), status, next);
    }
    status = next;
  }
  return status;
}

Status open_model(mote_engine* engine, const mote_source* given, const mote_model_options* given_options,
                  const mote_memory& given_memory, mote_model** model) {
  if (model == nullptr) return Status::error(Code::invalid_argument, "model is NULL");
  *model = nullptr;
  if (engine == nullptr) return Status::error(Code::invalid_argument, "engine is NULL");
  mote_model_options options;
  MOTE_RETURN_IF_ERROR(read_model_options(given_options, &options));
  ModelSource source;
  Status status = source.open(given);
  if (status.ok()) status = open_on_backends(engine, source, options, given_memory, model);
  for (size_t i = 0; i < source.count() && status.ok() && options.vocabulary_only == 0; ++i)
    if (source.part(i).given.load == MOTE_LOAD_PREFAULT) prefault_map((*model)->maps[i]);
  source.release();
  if (status.ok()) engine->n_models.fetch_add(1);
  return status;
}

void close_model(mote_model* model) {
  model->plans.close();
  model->engine->n_models.fetch_sub(1);
  const Memory memory = model->memory;
  for (FileMap& map : model->maps) unmap_file(&map);
  release_memory(memory);
}

Status fill_info(const mote_model* model, mote_model_info* info) {
  if (model == nullptr) return Status::error(Code::invalid_argument, "model is NULL");
  mote_model_info filled{};
  const Config& config = model->config;
  filled.architecture = model->architecture;
  filled.decoder_start_token = -1;
  if (config.n_layers != 0) {
    MOTE_ASSIGN_OR_RETURN(const LayerConfig layer, read_layer_config(model->file, config, 0));
    filled.n_vocab = config.n_vocab;
    filled.d_model = config.d_model;
    filled.n_layers = config.n_layers;
    filled.n_heads = layer.n_heads;
    filled.n_kv_heads = layer.n_kv_heads;
    filled.head_dim = config.key_dim;
    filled.d_ff = layer.d_ff;
    filled.trained_context = config.context_length;
    filled.encodes = model->plan.encodes() ? 1 : 0;
    filled.decodes = model->plan.decodes() ? 1 : 0;
    if (config.decoder_start < config.n_vocab) filled.decoder_start_token = static_cast<int32_t>(config.decoder_start);
  }
  filled.n_parameters = model->n_parameters;
  filled.file_bytes = model->file.file_bytes();
  filled.weight_bytes = model->weight_bytes;
  filled.n_tensors = static_cast<uint32_t>(model->file.n_tensors());
  filled.n_metadata = static_cast<uint32_t>(model->file.n_entries());
  filled.gguf_version = model->file.version();
  fill_tokenizer_info(*model, &filled);
  return write_struct(filled, "info", info);
}

}   // namespace
}   // namespace mote

extern "C" {

mote_status mote_model_quote(mote_engine* engine, const mote_source* source, const mote_model_options* options,
                             const mote_session_options* session_options, mote_quote* model_quote,
                             mote_quote* session_quote, mote_error* error) {
  using namespace mote;
  if (engine == nullptr) return report(Status::error(Code::invalid_argument, "engine is NULL"), error);
  mote_model_options read;
  Status status = read_model_options(options, &read);
  if (!status.ok()) return report(status, error);
  ModelSource opened;
  BackendSet excluded = 0;
  status = opened.open(source);
  if (status.ok()) status = quote_model(engine, opened, read, {session_options, model_quote, session_quote}, &excluded);
  opened.release();
  return report(status, error);
}

mote_status mote_model_scratch_bytes(const mote_source* source, uint64_t* scratch_bytes, mote_error* error) {
  using namespace mote;
  if (scratch_bytes == nullptr) return report(Status::error(Code::invalid_argument, "scratch_bytes is NULL"), error);
  *scratch_bytes = 0;
  ModelSource opened;
  Status status = opened.open(source);
  if (status.ok()) status = opened.read_heads(gguf::Formats::any);
  if (status.ok()) {
    gguf::File file;
    status = opened.open_file(gguf::Formats::any, opened.own_parts(), &file);
    if (status.ok()) *scratch_bytes = scratch_bytes_for(file);
  }
  opened.release();
  return report(status, error);
}

mote_status mote_model_open(mote_engine* engine, const mote_source* source, const mote_model_options* options,
                            mote_memory memory, mote_model** model, mote_error* error) {
  const mote::FloatMode float_mode;
  return mote::report(mote::open_model(engine, source, options, memory, model), error);
}

mote_status mote_model_close(mote_model* model, mote_error* error) {
  if (model == nullptr) return MOTE_OK;
  if (const uint32_t n = model->n_sessions.load(); n != 0)
    return mote::report(mote::Status::error(mote::Code::wrong_state, "the model still has {} open sessions", n), error);
  mote::close_model(model);
  return MOTE_OK;
}

mote_status mote_model_get_info(const mote_model* model, mote_model_info* info, mote_error* error) {
  return mote::report(mote::fill_info(model, info), error);
}

mote_status mote_model_metadata(const mote_model* model, uint32_t index, mote_metadata* entry, mote_error* error) {
  using namespace mote;
  if (model == nullptr) return report(Status::error(Code::invalid_argument, "model is NULL"), error);
  if (index >= model->file.n_entries())
    return report(Status::error(Code::invalid_argument, "metadata index {} of {}", index, model->file.n_entries()),
                  error);
  const gguf::Entry found = model->file.entry(index);
  mote_metadata filled{};
  filled.key = found.key.data();
  filled.key_bytes = found.key.size();
  filled.type = static_cast<int32_t>(found.type);
  filled.element_type = static_cast<int32_t>(found.element_type);
  filled.count = found.count;
  filled.value = found.value;
  filled.value_bytes = found.value_bytes;
  return report(write_struct(filled, "entry", entry), error);
}

mote_status mote_model_tensor(const mote_model* model, uint32_t index, mote_tensor* tensor, mote_error* error) {
  using namespace mote;
  if (model == nullptr) return report(Status::error(Code::invalid_argument, "model is NULL"), error);
  const std::span<const gguf::Tensor> tensors = model->index.tensors();
  if (index >= tensors.size())
    return report(Status::error(Code::invalid_argument, "tensor index {} of {}", index, tensors.size()), error);
  const gguf::Tensor& found = tensors[index];
  mote_tensor filled{};
  filled.name = found.name.data();
  filled.name_bytes = found.name.size();
  filled.format = format_name(found.format_number).data();
  filled.n_dimensions = found.n_dimensions;
  for (uint32_t i = 0; i < gguf::Tensor::kMaxDimensions; ++i) filled.dimensions[i] = found.dimensions[i];
  filled.bytes = found.bytes;
  filled.offset_bytes = found.offset_bytes;
  return report(write_struct(filled, "tensor", tensor), error);
}

}   // extern "C"
