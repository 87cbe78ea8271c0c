// What the opaque handles of mote.h are, and the few helpers that the files behind it share.
#pragma once
#include <atomic>
#include <span>

#include "core/base/arena.h"
#include "core/gguf/identity.h"
#include "core/gguf/tensor_index.h"
#include "core/model/config.h"
#include "core/mote.h"
#include "core/ops/backend.h"
#include "core/pipeline/compiled_plans.h"
#include "core/pipeline/sequence.h"
#include "platform/file_map.h"
#include "platform/float_mode.h"
#include "platform/thread_pool.h"

namespace mote {

class Tokenizer;

// Memory that a handle lives in: the caller's, or pages that go back to the system when it is closed.
struct Memory {
  void* data = nullptr;
  uint64_t bytes = 0;
  bool owned = false;
};

// The caller's memory where there is some, else `bytes` from the system. `what` names the thing in the sentence.
Result<Memory> obtain_memory(const mote_memory& given, uint64_t bytes, std::string_view what);
void release_memory(const Memory& memory);

// Puts a status into the caller's error and returns its code.
mote_status report(const Status& status, mote_error* error);

// Reads an option struct of any age: what the caller's is too short for stays 0. A NULL pointer is all defaults.
template <class Options>
Status read_options(const Options* given, std::string_view what, Options* options) {
  *options = Options{};
  options->struct_bytes = sizeof(Options);
  if (given == nullptr) return {};
  if (given->struct_bytes < sizeof(size_t) || given->struct_bytes > 4096)
    return Status::error(Code::invalid_argument, "{}.struct_bytes is {}; it must be the size of the struct", what,
                         given->struct_bytes);
  __builtin_memcpy(static_cast<void*>(options), static_cast<const void*>(given),
                   given->struct_bytes < sizeof(Options) ? given->struct_bytes : sizeof(Options));
  options->struct_bytes = sizeof(Options);   // from here on it is this version's struct, whatever came in
  return {};
}

// Whether a caller's output struct can be filled.
template <class Struct>
Status check_output(std::string_view what, const Struct* to) {
  if (to == nullptr) return Status::error(Code::invalid_argument, "{} is NULL", what);
  if (to->struct_bytes < sizeof(size_t) || to->struct_bytes > 4096)
    return Status::error(Code::invalid_argument, "{}.struct_bytes is {}; it must be the size of the struct", what,
                         to->struct_bytes);
  return {};
}

// Fills a caller's output struct of any age; struct_bytes stays the caller's.
template <class Struct>
Status write_struct(Struct filled, std::string_view what, Struct* to) {
  MOTE_RETURN_IF_ERROR(check_output(what, to));
  const size_t bytes = to->struct_bytes;
  filled.struct_bytes = bytes;
  __builtin_memcpy(static_cast<void*>(to), &filled, bytes < sizeof(Struct) ? bytes : sizeof(Struct));
  return {};
}

}   // namespace mote

struct mote_engine {
  mote::Memory memory;
  mote::BackendServices services;
  mote::ThreadPool* pool = nullptr;   // NULL with one lane and with the host's parallel_for
  mote_parallel_for parallel_for = nullptr;
  void* parallel_for_user = nullptr;
  mote::Log log;
  std::span<mote::Backend*> backends;   // in order of preference
  std::atomic<uint32_t> n_models{0};
};

struct mote_model {
  mote::Memory memory;
  mote_engine* engine = nullptr;
  std::span<mote::FileMap> maps;   // of its files; empty ones of those that are not mapped
  mote::gguf::File file;
  mote::gguf::TensorIndex index;
  mote::Config config{};   // n_layers is 0 in a vocabulary-only model
  mote::Plan plan;
  mote::CompiledPlans plans;
  mote::Tokenizer* tokenizer = nullptr;   // NULL: none, for the reason in no_tokenizer
  mote::Status no_tokenizer;
  uint64_t n_parameters = 0, weight_bytes = 0;
  char architecture[64] = {};
  std::atomic<uint32_t> n_sessions{0};
  // Where a session's quote plans its Values. One quoting thread has it at a time; others ask the platform for room.
  std::span<uint64_t> quote_offsets;   // [plan.values]
  std::atomic<uint32_t> quoting{0};
  // Which model this is, for snapshots; see identity_of in api_snapshot.cpp.
  mote::gguf::Identity identity;
  std::atomic<uint32_t> identity_state{0};
};
