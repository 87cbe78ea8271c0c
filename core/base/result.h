// A value or the Status that says why there is none. T is copied: keep it to views, handles and small structs.
#pragma once
#include "core/base/status.h"

namespace mote {

template <class T>
class [[nodiscard]] Result {
 public:
  Result(const T& value) : value_(value) {}
  Result(const Status& status) : status_(status) {}

  bool ok() const { return status_.ok(); }
  const Status& status() const { return status_; }
  void set_status(const Status& status) { status_ = status; }   // for a value that is filled in place
  T& value() { return value_; }
  const T& value() const { return value_; }

 private:
  Status status_;
  T value_{};
};

}   // namespace mote

#define MOTE_CONCAT_INNER(a, b) a##b
#define MOTE_CONCAT(a, b) MOTE_CONCAT_INNER(a, b)
// MOTE_ASSIGN_OR_RETURN(const Config config, read_config(file));
#define MOTE_ASSIGN_OR_RETURN(declaration, expression) \
  MOTE_ASSIGN_OR_RETURN_INNER(MOTE_CONCAT(mote_result_, __LINE__), declaration, expression)
#define MOTE_ASSIGN_OR_RETURN_INNER(result, declaration, expression) \
  auto result = (expression);                                        \
  if (!result.ok()) return result.status();                          \
  declaration = result.value()
