// Sessions of a shape that the device does not run: the next backend does, and the quotes say what it takes.
#include "core/mote_dev.h"
#include "tests/api/kit.h"
#include "tests/backends/vulkan/rig.h"
#include "tests/support/drivers.h"

namespace mote::test {

TEST_CASE("A context whose cache no shader of the device may see is the next backend's", "[vulkan][session]") {
  keep_vulkan_drivers_loaded();
  need_device();
  Arena measuring;
  REQUIRE(create_with_small_windows({}, measuring).ok());
  const GuardedMemory memory(measuring.used_bytes(), kArenaAlignment, Guard::bands, 0xFF);
  Arena arena(memory.data(), measuring.used_bytes());
  void* extra = create_with_small_windows({}, arena).value();
  std::string log;
  mote_engine_options options = engine_options("vulkan,cpu");   // an extra backend comes before the build's own
  options.extra_backends = &extra;
  options.n_extra_backends = 1;
  options.log = [](void* to, const char* line) { *static_cast<std::string*>(to) += line; };
  options.log_user = &log;
  const Engine engine(options), plain_engine("cpu");
  const ToyOptions toy{.n_layers = 2, .d_model = 64, .n_heads = 4, .n_kv_heads = 2, .d_ff = 96};
  const Bytes bytes = toy_llama(toy).bytes();
  const Model model(engine, bytes), plain_model(plain_engine, bytes);

  // A head of 16 numbers in f16 at 256 positions is what a binding of 8 KiB holds.
  const mote_session_options fits = session_options(256, 8), longer = session_options(257, 8);
  CHECK(quote_session(model, fits).device_bytes > 0);
  const Session on_device(model, fits);
  CHECK(std::string(mote_dev_session_backend(on_device, 0)) == "vulkan");
  const mote_quote quote = quote_session(model, longer);
  CHECK(quote.device_bytes == 0);
  CHECK(quote.total_bytes == quote_session(plain_model, longer).total_bytes);
  CHECK(quote.total_bytes == quote_model(engine, bytes, longer).session.total_bytes);
  const GuardedMemory room(quote.total_bytes, 64, Guard::bands, 0xFF);
  const Session session(model, longer, {room.data(), quote.total_bytes});
  CHECK(std::string(mote_dev_session_backend(session, 0)) == "cpu");
  CHECK(log.starts_with("backend vulkan did not open the session ("));
  CHECK(log.ends_with("); it begins with cpu"));
  const Tokens tokens = some_tokens(30, 300);
  CHECK(bit_difference(logits_after(session, tokens), logits_after(Session(plain_model, longer), tokens)) == "");
}

}   // namespace mote::test
