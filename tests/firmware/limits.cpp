// What a small machine must answer with a status, run on the board itself: memory that is a byte short, sizes beyond a
// 32-bit address space. Prints a line for each failure, then counts that the host compares with its own.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include <firmware_quote.h>   // what measure.c printed
#include "examples/firmware/settings.h"

namespace {

alignas(64) unsigned char arena[FIRMWARE_ENGINE_BYTES + FIRMWARE_MODEL_BYTES + FIRMWARE_SESSION_BYTES];
alignas(64) unsigned char room[FIRMWARE_ROOM_BYTES];   // for quotes, and for a model that is changed
mote_error error;
uint32_t n_checks = 0, n_failed = 0;

void check(bool good, const char* what) {
  ++n_checks;
  if (good) return;
  ++n_failed;
  board_print("failed: ");
  board_print(what);
  board_print(" (");
  board_print(error.message);
  board_print(")\n");
}

bool said(mote_status status, mote_status wanted, std::string_view words) {
  return status == wanted && error.status == wanted &&
         std::string_view(error.message).find(words) != std::string_view::npos;
}

// One byte less than the quote is refused, exactly the quote serves. Returns with everything open.
struct Opened {
  mote_engine* engine = nullptr;
  mote_model* model = nullptr;
  mote_session* session = nullptr;
};

Opened open_exactly() {
  Opened opened;
  mote_memory memory = {arena, FIRMWARE_ENGINE_BYTES - 1};
  const mote_source source = model_source();
  check(said(mote_engine_open(&kEngineOptions, memory, &opened.engine, &error), MOTE_OUT_OF_MEMORY, "the engine needs"),
        "an engine with a byte less");
  memory.bytes = FIRMWARE_ENGINE_BYTES;
  check(mote_engine_open(&kEngineOptions, memory, &opened.engine, &error) == MOTE_OK, "an engine");
  memory = {arena + FIRMWARE_ENGINE_BYTES, FIRMWARE_MODEL_BYTES - 1};
  check(said(mote_model_open(opened.engine, &source, nullptr, memory, &opened.model, &error), MOTE_OUT_OF_MEMORY,
             "the model"),
        "a model with a byte less");
  memory.bytes = FIRMWARE_MODEL_BYTES;
  check(mote_model_open(opened.engine, &source, nullptr, memory, &opened.model, &error) == MOTE_OK, "a model");
  memory = {arena + FIRMWARE_ENGINE_BYTES + FIRMWARE_MODEL_BYTES, FIRMWARE_SESSION_BYTES - 1};
  check(said(mote_session_open(opened.model, &kSessionOptions, memory, &opened.session, &error), MOTE_OUT_OF_MEMORY,
             "the session"),
        "a session with a byte less");
  memory.bytes = FIRMWARE_SESSION_BYTES;
  check(mote_session_open(opened.model, &kSessionOptions, memory, &opened.session, &error) == MOTE_OK, "a session");
  return opened;
}

// A context of which the states alone are larger than 4 GiB: the quote says so, to the byte, and opening is a status.
void huge_session(const Opened& opened) {
  mote_quote quote{};
  quote.struct_bytes = sizeof quote;
  mote_session_options options = kSessionOptions;
  options.context = uint32_t{1} << 24;   // the most
  options.kv_type = MOTE_KV_F32;
  mote_session* session = nullptr;
  check(mote_session_quote(opened.model, &options, &quote, &error) == MOTE_OK, "a quote beyond 32 bits");
  check(quote.total_bytes > (uint64_t{1} << 32) && quote.state_bytes > (uint64_t{1} << 32) &&
            quote.total_bytes > quote.state_bytes,
        "a quote beyond 32 bits has all of its bits");
  print_line("huge state", quote.state_bytes);
  print_line("huge history", quote.history_bytes);
  check(said(mote_session_open(opened.model, &options, {room, sizeof room}, &session, &error), MOTE_OUT_OF_MEMORY,
             "were handed over"),
        "a session beyond 32 bits in too little memory");
  if (sizeof(void*) == 4)   // a computer may well have that much
    check(
        said(mote_session_open(opened.model, &options, {nullptr, 0}, &session, &error), MOTE_OUT_OF_MEMORY, "platform"),
        "a session beyond 32 bits from the platform");
  check(said(mote_session_open(opened.model, &options, {room, UINTPTR_MAX}, &session, &error), MOTE_INVALID_ARGUMENT,
             "beyond what this machine addresses"),
        "memory that ends beyond the address space");
  check(session == nullptr, "no session");
}

// The same file, said to be larger than the address space.
void huge_source(const Opened& opened) {
  mote_source source = model_source();
  mote_model* model = nullptr;
  uint64_t scratch_bytes = 0;
  mote_quote quote{};
  quote.struct_bytes = sizeof quote;
  // The last one is the true size to whoever looks at 32 bits of it.
  for (const uint64_t bytes : {uint64_t{UINTPTR_MAX}, UINT64_MAX, (uint64_t{1} << 32) + model_source().data_bytes}) {
    source.data_bytes = bytes;
    if (bytes < UINTPTR_MAX) continue;   // here addresses have 64 bits
    check(said(mote_model_open(opened.engine, &source, nullptr, {room, sizeof room}, &model, &error),
               MOTE_INVALID_ARGUMENT, "more than this machine addresses"),
          "a model beyond the address space");
    check(said(mote_model_quote(opened.engine, &source, nullptr, nullptr, &quote, nullptr, &error),
               MOTE_INVALID_ARGUMENT, "more than this machine addresses"),
          "a quote of a model beyond the address space");
    check(said(mote_model_scratch_bytes(&source, &scratch_bytes, &error), MOTE_INVALID_ARGUMENT,
               "more than this machine addresses"),
          "scratch for a model beyond the address space");
  }
}

uint64_t read_u64(const unsigned char* from) {
  uint64_t value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

// A tensor that is larger than, or lies beyond, 4 GiB: by exactly 2^32, so that whoever cuts a number off sees nothing.
void huge_tensor(const Opened& opened) {
  mote_source source = model_source();
  const size_t bytes = static_cast<size_t>(source.data_bytes);
  constexpr size_t kHeadBytes = 64 << 10;   // enough for everything before the tensor data
  const std::string_view file(reinterpret_cast<const char*>(firmware_model), bytes);
  constexpr std::string_view kName = "blk.0.attn_q.weight";
  const size_t name = file.find(kName);
  const size_t rows = name + kName.size() + 4 + 8, offset = rows + 8 + 4;
  check(name != std::string_view::npos && offset + 8 < kHeadBytes && bytes <= sizeof room, "the tensor is there");
  if (n_failed != 0) return;
  mote_model* model = nullptr;
  mote_model_options options{};
  options.struct_bytes = sizeof options;
  source.data = room;
  // Memory that would be enough, if the model were not refused. The open session is not used any more.
  const mote_memory memory = {arena + FIRMWARE_ENGINE_BYTES + FIRMWARE_MODEL_BYTES, FIRMWARE_SESSION_BYTES};
  for (const uint64_t more : {uint64_t{0}, uint64_t{1} << 32, uint64_t{1} << 62}) {
    for (const size_t place : {rows, offset}) {
      std::memcpy(room, firmware_model, bytes);
      const uint64_t changed = read_u64(room + place) + more;
      std::memcpy(room + place, &changed, sizeof changed);
      const mote_status status = mote_model_open(opened.engine, &source, nullptr, memory, &model, &error);
      if (more == 0)
        check(status == MOTE_OK && mote_model_close(model, &error) == MOTE_OK, "the same model from RAM");
      else
        check(said(status, MOTE_BAD_MODEL, kName), "a tensor beyond 32 bits");
    }
  }
}

}   // namespace

int main() {
  const Opened opened = open_exactly();
  if (n_failed == 0) huge_session(opened);
  if (n_failed == 0) huge_source(opened);
  check(mote_session_close(opened.session, &error) == MOTE_OK, "closing the session");
  if (n_failed == 0) huge_tensor(opened);
  check(mote_model_close(opened.model, &error) == MOTE_OK, "closing the model");
  check(mote_engine_close(opened.engine, &error) == MOTE_OK, "closing the engine");
  print_line("checks", n_checks);
  print_line("failed", n_failed);
  return n_failed == 0 ? 0 : 1;
}
