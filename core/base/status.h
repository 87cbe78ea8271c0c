// What went wrong, as a value: a code and one sentence that names the thing, the place and the limit.
// No heap, no globals: the sentence lives inside the Status.
#pragma once
#include <cstdint>
#include <string_view>

namespace mote {

// The same numbers as `mote_status` in mote.h (static_asserts in api_engine.cpp keep them so).
enum class Code : int32_t {
  ok = 0,
  invalid_argument = 1,   // an option, token or pointer of the caller
  io = 2,                 // a file cannot be opened, read or mapped
  bad_model = 3,          // the model's bytes contradict themselves or the format
  unsupported = 4,        // well formed, but of a kind this build does not run
  out_of_memory = 5,      // the memory handed over is too small, or the platform has none
  buffer_too_small = 6,   // the caller's output buffer; the needed size is reported
  context_full = 7,
  cancelled = 8,
  wrong_state = 9,   // the call does not fit the moment (nothing fed yet, sessions still open)
  busy = 10,         // the session is inside another call
  not_finite = 11,   // logits are NaN or infinite, keys or values are NaN
  backend_failed = 12,
};

class Status;

// One value to be written into a sentence. Text is shown with control and non-ASCII bytes escaped, and at most 96
// characters of it; the sentence of a Status is shown whole.
class FormatArgument {
 public:
  FormatArgument(std::string_view text) : kind_(Kind::text), text_(text) {}
  FormatArgument(const char* text) : kind_(Kind::text), text_(text == nullptr ? "(null)" : text) {}
  FormatArgument(int value) : kind_(Kind::signed_), signed_(value) {}
  FormatArgument(long value) : kind_(Kind::signed_), signed_(value) {}
  FormatArgument(long long value) : kind_(Kind::signed_), signed_(value) {}
  FormatArgument(unsigned value) : kind_(Kind::unsigned_), unsigned_(value) {}
  FormatArgument(unsigned long value) : kind_(Kind::unsigned_), unsigned_(value) {}
  FormatArgument(unsigned long long value) : kind_(Kind::unsigned_), unsigned_(value) {}
  FormatArgument(double value) : kind_(Kind::real), real_(value) {}
  FormatArgument(const Status& status);

 private:
  friend class SentenceWriter;
  enum class Kind : uint8_t { text, sentence, signed_, unsigned_, real };
  Kind kind_;
  union {
    std::string_view text_;
    int64_t signed_;
    uint64_t unsigned_;
    double real_;
  };
};

// Writes `pattern` with each {} replaced by the next argument, cut to `capacity` - 1 bytes and ended by a
// zero. Returns the number of bytes before the zero.
uint32_t format_sentence(char* to, uint32_t capacity, std::string_view pattern, const FormatArgument* arguments,
                         uint32_t count);

class [[nodiscard]] Status {
 public:
  static constexpr uint32_t kCapacity = 244;   // bytes of the sentence, its ending zero included

  Status() { text_[0] = 0; }
  Status(const Status& other) { *this = other; }
  Status& operator=(const Status& other) {
    code_ = other.code_;
    length_ = other.length_;
    for (uint32_t i = 0; i <= length_; ++i) text_[i] = other.text_[i];
    return *this;
  }

  // Status::error(Code::bad_model, "tensor {} ends at byte {}, file has {}", name, end, size)
  template <class... Arguments>
  static Status error(Code code, std::string_view pattern, const Arguments&... arguments) {
    const FormatArgument list[] = {FormatArgument(arguments)..., FormatArgument(0)};
    return make(code, pattern, list, sizeof...(arguments));
  }

  bool ok() const { return code_ == Code::ok; }
  Code code() const { return code_; }
  std::string_view message() const { return {text_, length_}; }
  const char* c_str() const { return text_; }

 private:
  static Status make(Code code, std::string_view pattern, const FormatArgument* arguments, uint32_t count);

  Code code_ = Code::ok;
  uint32_t length_ = 0;
  char text_[kCapacity];
};

inline FormatArgument::FormatArgument(const Status& status) : kind_(Kind::sentence), text_(status.message()) {}

}   // namespace mote

// Leaves the calling function with the status of `expression` unless it is ok.
#define MOTE_RETURN_IF_ERROR(expression)                                                     \
  do {                                                                                       \
    if (::mote::Status mote_status_ = (expression); !mote_status_.ok()) return mote_status_; \
  } while (false)
