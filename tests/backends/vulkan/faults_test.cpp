// Functions of the driver that fail, at each call of a session's life; cancels at each submission; a lost device; a
// forked process.
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <functional>
#include <optional>
#include <string_view>
#include <tuple>
#include <type_traits>

#include "core/mote_dev.h"
#include "tests/api/snapshots.h"
#include "tests/backends/vulkan/rig.h"
#include "tests/support/sanitized.h"
#include "tests/support/toy_weights.h"

namespace mote::test {
namespace {

// Every call of the device's functions is counted. Of those that can fail, the one of number `fails_at` is not made and
// gives `result`.
struct Calls {
  VulkanFunctions real;
  uint64_t n_all = 0, count = 0, fails_at = UINT64_MAX, n_submissions = 0;   // count: of those that can fail
  int64_t held = 0;   // objects and pieces of memory that were made and are not destroyed
  const void* last_mapped = nullptr;
  VkResult result = VK_ERROR_OUT_OF_DEVICE_MEMORY;
  std::function<void()> on_submission;   // before it
  void begin(uint64_t at = UINT64_MAX) { count = n_submissions = 0, fails_at = at; }
  bool has_failed() const { return count > fails_at; }
} calls;

// A call that fails may leave anything where the handle that it was to make would be: the last argument.
template <class Last>
void leave_anything(Last last) {
  if constexpr (std::is_pointer_v<Last>) {
    using Pointed = std::remove_pointer_t<Last>;
    if constexpr (std::is_pointer_v<Pointed> && !std::is_const_v<Pointed>) *last = reinterpret_cast<Pointed>(0xbad);
  }
}

// What a successful call adds to `held`.
constexpr int holds(std::string_view name) {
  if (name.starts_with("vkCreate") || name == "vkAllocateMemory") return 1;
  if (name == "vkDestroyDevice") return 0;   // made by a function of the instance
  return name.starts_with("vkDestroy") || name == "vkFreeMemory" ? -1 : 0;
}

template <auto kFunction, int kHolds, class Said, class... Arguments>
VKAPI_ATTR Said VKAPI_CALL counted(Arguments... arguments) {
  ++calls.n_all;
  if constexpr (std::is_void_v<Said>) {
    calls.held += kHolds;
    (calls.real.*kFunction)(arguments...);
  } else {
    if (calls.count++ == calls.fails_at) {
      (leave_anything(arguments), ...);
      return calls.result;
    }
    if constexpr (std::is_same_v<decltype(kFunction), PFN_vkQueueSubmit VulkanFunctions::*>) {
      ++calls.n_submissions;
      if (calls.on_submission) calls.on_submission();
    }
    const Said said = (calls.real.*kFunction)(arguments...);
    if (said == VK_SUCCESS) calls.held += kHolds;
    if constexpr (std::is_same_v<decltype(kFunction), PFN_vkMapMemory VulkanFunctions::*>)
      calls.last_mapped = *std::get<5>(std::tie(arguments...));
    return said;
  }
}
template <auto kFunction, int kHolds, class Said, class... Arguments>
void count_calls(VulkanFunctions* functions, Said(VKAPI_PTR*)(Arguments...)) {
  functions->*kFunction = counted<kFunction, kHolds, Said, Arguments...>;
}
void count_all_calls(VulkanFunctions* functions) {
  if (functions->vkQueueSubmit == nullptr) return;   // of the instance so far
  calls.real = *functions;
#define MOTE_COUNT(name) count_calls<&VulkanFunctions::name, holds(#name)>(functions, functions->name);
  MOTE_VK_DEVICE_FUNCTIONS(MOTE_COUNT)
#undef MOTE_COUNT
}

Result<Backend*> create_counted(const BackendServices&, Arena& arena) {
  VulkanOptions options;
  options.replace = count_all_calls;
  return create_vulkan_backend_with(options, arena);
}

// An engine whose backend "vulkan" has its calls counted.
class CountedEngine {
 public:
  explicit CountedEngine(const char* backends) {
    calls = {};
    Arena measuring;
    REQUIRE(create_counted({}, measuring).ok());
    memory_ = GuardedMemory(measuring.used_bytes(), kArenaAlignment, Guard::bands, 0xFF);
    Arena arena(memory_.data(), measuring.used_bytes());
    extra_ = create_counted({}, arena).value();
    mote_engine_options options = engine_options(backends);
    options.extra_backends = &extra_;
    options.n_extra_backends = 1;
    engine_.emplace(options);
  }
  operator mote_engine*() const { return *engine_; }

 private:
  GuardedMemory memory_;
  void* extra_ = nullptr;
  std::optional<Engine> engine_;
};

const ToyOptions kOneLayer{.n_layers = 1, .d_model = 32, .n_heads = 2, .n_kv_heads = 1, .d_ff = 48};
const ToyOptions kThreeLayers{.n_layers = 3, .d_model = 64, .n_heads = 4, .n_kv_heads = 2, .d_ff = 96};

std::vector<float> plain_logits(const char* backend, const ToyOptions& toy, const Tokens& tokens) {
  const Engine engine(backend);
  const Model model(engine, toy_llama(toy));
  return logits_after(Session(model, session_options(64, 8)), tokens);
}

}   // namespace

TEST_CASE("Whichever call of the driver fails, the call can be made again", "[vulkan][faults]") {
  need_device();
  const Tokens tokens = some_tokens(11, 300);
  const std::vector<float> expected = plain_logits("vulkan", kOneLayer, tokens);
  const Bytes bytes = toy_llama(kOneLayer).bytes();
  const mote_source source = source_of(bytes);
  const mote_session_options shape = session_options(64, 8);
  const CountedEngine engine("vulkan");
  const int64_t held = calls.held;
  bool goes_on = true;
  for (uint64_t at = 0; goes_on; ++at) {
    CAPTURE(at);
    calls.begin(at);
    size_t n_failed = 0;
    // The same call until it succeeds: the second time, unless another one fails.
    const auto insist = [&](const char* name, const std::function<mote_status(mote_error*)>& call) {
      for (int i = 0; i < 2; ++i) {
        const Outcome said = outcome(call);
        if (said.status == MOTE_OK) return;
        CAPTURE(name, said.sentence);
        REQUIRE(said.status == MOTE_BACKEND_FAILED);
        REQUIRE(contains(said.sentence, "VK_ERROR_OUT_OF_DEVICE_MEMORY"));
        ++n_failed;
      }
      FAIL(name << " did not succeed the second time");
    };
    mote_model* model = nullptr;
    mote_session* session = nullptr;
    insist("model_open", [&](mote_error* e) { return mote_model_open(engine, &source, nullptr, {}, &model, e); });
    insist("session_open", [&](mote_error* e) { return mote_session_open(model, &shape, {}, &session, e); });
    insist("prompt",
           [&](mote_error* e) { return mote_prompt(session, tokens.data(), tokens.size(), nullptr, nullptr, e); });
    insist("step", [&](mote_error* e) { return mote_step(session, e); });
    const float* logits = nullptr;
    size_t count = 0;
    REQUIRE(mote_logits(session, &logits, &count, nullptr) == MOTE_OK);
    CHECK(bit_difference({logits, logits + count}, expected) == "");
    uint64_t snapshot_bytes = 0;
    REQUIRE(mote_snapshot_bytes(session, &snapshot_bytes, nullptr) == MOTE_OK);
    Bytes snapshot(snapshot_bytes);
    insist("snapshot",
           [&](mote_error* e) { return mote_snapshot(session, snapshot.data(), snapshot.size(), &snapshot_bytes, e); });
    insist("restore", [&](mote_error* e) { return mote_restore(session, snapshot.data(), snapshot.size(), e); });
    CHECK(bit_difference(step(session), expected) == "");
    CHECK(mote_session_close(session, nullptr) == MOTE_OK);
    CHECK(mote_model_close(model, nullptr) == MOTE_OK);
    CHECK(n_failed <= 1);
    CHECK(calls.held == held);
    goes_on = calls.has_failed();
    calls.begin();
  }
}

TEST_CASE(
    "A device that is lost in any submission leaves the next backend with the tokens, and quotes with their bytes",
    "[vulkan][faults]") {
  need_device();
  const Tokens tokens = some_tokens(11, 300);
  const std::vector<float> expected = plain_logits("reference", kOneLayer, tokens);
  const Bytes bytes = toy_llama(kOneLayer).bytes();
  const mote_session_options shape = session_options(64, 8);
  uint64_t n_submissions = 0;
  {
    const CountedEngine engine("vulkan");
    const Model model(engine, bytes);
    const Session session(model, shape);
    calls.on_submission = [] {};
    calls.n_submissions = 0;
    logits_after(session, tokens);
    n_submissions = calls.n_submissions;
  }
  REQUIRE(n_submissions >= 9);   // three batches: before, in and after the layer
  for (uint64_t at = 1; at <= n_submissions; at += n_submissions - 1) {   // the first and the last
    CAPTURE(at);
    const CountedEngine engine("vulkan,reference");
    const Model model(engine, bytes);
    const Session session(model, shape);
    const ModelQuotes before = quote_model(engine, bytes, shape);
    const mote_quote session_before = quote_session(model, shape);
    calls.n_submissions = 0;
    calls.result = VK_ERROR_DEVICE_LOST;
    calls.on_submission = [at] {   // the wait for it fails
      if (calls.n_submissions == at) calls.fails_at = calls.count;
    };
    CHECK(bit_difference(logits_after(session, tokens), expected) == "");
    CHECK(mote_dev_session_fallbacks(session) == 1);
    const uint64_t n_calls = calls.count;
    const ModelQuotes after = quote_model(engine, bytes, shape);
    CHECK(after.model.total_bytes == before.model.total_bytes);
    CHECK(after.session.total_bytes == before.session.total_bytes);
    CHECK(after.session.device_bytes > 0);
    CHECK(quote_session(model, shape).device_bytes == 0);   // the model has given the device up
    CHECK(session_before.device_bytes != 0);
    const Model other(engine, bytes);   // does not compile there
    CHECK(bit_difference(logits_after(Session(other, shape), tokens), expected) == "");
    CHECK(calls.count == n_calls);   // the device is asked for nothing any more
  }
}

TEST_CASE("A cancel is honoured at the next submission, and what follows has the bits of a cold run",
          "[vulkan][cancel]") {
  need_device();
  const Tokens tokens = some_tokens(21, 300);
  const std::vector<float> expected = plain_logits("vulkan", kThreeLayers, tokens);
  const CountedEngine engine("vulkan");
  const Model model(engine, toy_llama(kThreeLayers));
  const Session session(model, session_options(64, 8));
  calls.n_submissions = 0;
  feed(session, tokens);
  const uint64_t n_submissions = calls.n_submissions;   // of batches of 8, 8 and 4
  REQUIRE(n_submissions == 3 * (3 + 2));
  for (uint64_t at = 1; at < n_submissions; ++at) {
    CAPTURE(at);
    calls.on_submission = {};
    REQUIRE(mote_rewind(session, 0, nullptr) == MOTE_OK);
    calls.n_submissions = 0;
    calls.on_submission = [&] {
      if (calls.n_submissions == at) mote_cancel(session);
    };
    size_t done = 99;
    CHECK(mote_feed(session, tokens.data(), tokens.size(), &done, nullptr) == MOTE_CANCELLED);
    CHECK(calls.n_submissions == at);
    CHECK(done == at / 5 * 8);
    CHECK(
        bit_difference(logits_after(session, Tokens(tokens.begin() + static_cast<std::ptrdiff_t>(done), tokens.end())),
                       expected) == "");
  }
  calls.on_submission = {};
}

TEST_CASE(
    "A forked process is told that the device is not its own, can close what it has, and makes no call of the driver",
    "[vulkan][faults]") {
  need_device();
  if (kSanitized) SKIP("sanitizers do not follow forks of threaded processes");
  const CountedEngine engine("vulkan");
  const Bytes bytes = toy_llama(kThreeLayers).bytes();
  const mote_source source = source_of(bytes);
  mote_session_options shape = session_options(64, 8);
  mote_model* model = nullptr;
  mote_session* session = nullptr;
  REQUIRE(mote_model_open(engine, &source, nullptr, {}, &model, nullptr) == MOTE_OK);
  REQUIRE(mote_session_open(model, &shape, {}, &session, nullptr) == MOTE_OK);
  feed(session, some_tokens(20, 300));
  const ModelQuotes quotes = quote_model(engine, bytes, shape);
  const uint64_t n_calls = calls.n_all;
  char exchange[16];   // begins with what a run writes first; a driver need not leave it to the other process
  std::memcpy(exchange, calls.last_mapped, sizeof exchange);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    alarm(30);   // a driver that is asked would wait for ever
    // Quotes touch no device, so they hold here too.
    mote_quote model_quote{}, session_quote{};
    model_quote.struct_bytes = session_quote.struct_bytes = sizeof(mote_quote);
    const bool quoted =
        mote_model_quote(engine, &source, nullptr, &shape, &model_quote, &session_quote, nullptr) == MOTE_OK &&
        model_quote.total_bytes == quotes.model.total_bytes && session_quote.total_bytes == quotes.session.total_bytes;
    const bool told = mote_step(session, nullptr) == MOTE_BACKEND_FAILED;
    const bool wrote = std::memcmp(exchange, calls.last_mapped, sizeof exchange) != 0;
    const bool closed = mote_session_close(session, nullptr) == MOTE_OK &&
                        mote_model_close(model, nullptr) == MOTE_OK && mote_engine_close(engine, nullptr) == MOTE_OK;
    _exit(quoted && told && !wrote && closed && calls.n_all == n_calls ? 0 : 1);
  }
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 0));
  CHECK(!step(session).empty());   // the parent goes on
  CHECK(mote_session_close(session, nullptr) == MOTE_OK);
  CHECK(mote_model_close(model, nullptr) == MOTE_OK);
}

}   // namespace mote::test
