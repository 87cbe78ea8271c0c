// Turns a GGUF file into a model in an arena: index, tokenizer, plan, placement, programs. With a measuring arena the
// same calls add up a quote; what later ones must be able to read (index, plan) then lies in `scratch`.
#pragma once
#include "core/handles.h"
#include "core/model_source.h"
#include "core/tokenizer/tokenizer.h"

namespace mote {

Status read_model_options(const mote_model_options* given, mote_model_options* options);

// What lies in the model's memory, by kind. What backends compiled begins at compiled_from_bytes.
struct ModelBytes {
  uint64_t tables_bytes = 0, copied_bytes = 0, tokenizer_bytes = 0, vectors_bytes = 0, plan_bytes = 0;
  uint64_t compiled_from_bytes = 0;
  Footprint footprint;
};

// What lies in the model's memory of its files, right behind its handle.
struct ModelFiles {
  std::span<uint8_t> copy;       // of those that are copied
  std::span<FileMap> maps;       // [parts of the model]
  std::span<gguf::Part> parts;   // all but the first
};
ModelFiles take_files(Arena& arena, const ModelSource& source);

class ModelOpening {
 public:
  ModelOpening(mote_engine& engine, const gguf::File& file, const mote_model_options& options, BackendSet excluded,
               Arena& arena, Arena* scratch)
      : engine_(engine), file_(file), options_(options), excluded_(excluded), arena_(arena), scratch_(scratch) {}

  // Measures.
  Status run(const ModelSource& source);
  // Fills a model whose handle (and copy of the file) `arena` holds already.
  Status run_into(mote_model* model);

  Status quote_session(const mote_session_options* options, mote_quote* quote);
  // What the plans of fall-backs would take beside the model, at worst.
  uint64_t fallback_bytes() const;

  const ModelBytes& bytes() const { return bytes_; }
  // The backend that did not compile its part, or null.
  Backend* failed_backend() const { return failed_; }

 private:
  bool is_vocabulary_only() const { return options_.vocabulary_only != 0; }
  Status layout(mote_model* model);
  Status layout_tokenizer();
  Status layout_plan(mote_model* model);
  // Memory that is counted in the model and readable now, also while measuring.
  template <class T>
  std::span<T> take(uint64_t count) {
    const std::span<T> taken = arena_.take<T>(count);
    return arena_.measuring() ? scratch_->take<T>(count) : taken;
  }

  mote_engine& engine_;
  const gguf::File& file_;
  const mote_model_options& options_;
  BackendSet excluded_;
  Arena& arena_;
  Arena* scratch_;
  gguf::TensorIndex index_;
  Config config_{};
  Plan plan_;
  CompiledPlans measured_;   // of a model that is only measured
  Backend* failed_ = nullptr;
  Tokenizer* tokenizer_ = nullptr;
  Status no_tokenizer_;        // why there is none
  uint64_t piece_bytes_ = 0;   // of the longest piece, also while there is no tokenizer yet
  ModelBytes bytes_;
};

// n_vocab, start and end tokens, chat format.
void fill_tokenizer_info(const mote_model& model, mote_model_info* info);

// What a session is opened on: a model, or what is known of one that is only measured.
struct SessionGround {
  CompiledPlans& plans;
  const CompiledPlan& now;   // of them
  uint64_t piece_bytes;      // of the tokenizer's longest piece
  uint32_t trained_context;
  uint32_t lanes;   // of the engine
};

// Session options that were read and checked against that.
Result<SequenceOptions> read_sequence_options(const SessionGround& ground, const mote_session_options& options);

// What a session takes, measured or taken; see api_session.cpp.
struct SessionBytes {
  uint64_t tables_bytes = 0, sampler_bytes = 0;
  SequenceBytes sequence;
};
Status layout_session(const SessionGround& ground, const mote_session_options& options, Arena& arena,
                      std::span<uint64_t> offset_scratch, SessionBytes* bytes, mote_session** session);
Status fill_session_quote(const SessionBytes& bytes, uint64_t total_bytes, mote_quote* quote);

}   // namespace mote
