/* The first run: what does this model take here? Prints a header for main.c, whose arena is exactly that. */
#include "examples/firmware/settings.h"

/* Room for the engine and for the work of quoting; none of it is needed afterwards. */
static _Alignas(64) unsigned char room[FIRMWARE_ROOM_BYTES];

int main(void) {
  mote_quote engine_quote = {.struct_bytes = sizeof engine_quote};
  mote_quote model_quote = {.struct_bytes = sizeof model_quote};
  mote_quote session_quote = {.struct_bytes = sizeof session_quote};
  mote_model_options options = {.struct_bytes = sizeof options};
  const mote_source source = model_source();
  mote_memory memory = {room, sizeof room};
  mote_engine* engine = NULL;
  mote_error error = {0};

  mote_status status = mote_engine_quote(&kEngineOptions, &engine_quote, &error);
  memory.bytes = engine_quote.total_bytes;   // what is behind it is lent to the quotes
  if (!status) status = mote_engine_open(&kEngineOptions, memory, &engine, &error);
  if (!status) {
    options.scratch.data = room + engine_quote.total_bytes;
    options.scratch.bytes = sizeof room - engine_quote.total_bytes;
    status = mote_model_quote(engine, &source, &options, &kSessionOptions, &model_quote, &session_quote, &error);
  }
  if (status) {
    board_print("measure: ");
    board_print(error.message);
    board_print("\n");
    return 1;
  }
  print_line("#define FIRMWARE_ENGINE_BYTES", engine_quote.total_bytes);
  print_line("#define FIRMWARE_MODEL_BYTES", model_quote.total_bytes);
  print_line("#define FIRMWARE_SESSION_BYTES", session_quote.total_bytes);
  print_line("#define FIRMWARE_PACKED_BYTES", model_quote.packed_bytes);
  return mote_engine_close(engine, NULL);
}
