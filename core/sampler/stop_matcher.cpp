#include "core/sampler/stop_matcher.h"

#include "core/base/slice.h"

#include <algorithm>

namespace mote {

void StopMatcher::layout(Arena& arena, const StopShape& shape) {
  stops_ = arena.take<Stop>(shape.max_stops);
  bytes_ = arena.take<char>(shape.max_bytes);
  failure_ = arena.take<uint32_t>(shape.max_bytes);
  held_ = arena.take<char>(uint64_t{2} * shape.max_bytes);
  stop_count_ = 0;
  reset();
}

void StopMatcher::reset() {
  for (Stop& stop : stops_.first(stop_count_)) stop.matched = 0;
  held_begin_ = held_end_ = 0;
  position_ = 0;
  found_ = UINT64_MAX;
  stopped_ = false;
}

Status StopMatcher::set(std::span<const std::string_view> stops) {
  if (stops.size() > stops_.size())
    return Status::error(Code::invalid_argument, "{} stop strings were given, at most {} are allowed", stops.size(),
                         stops_.size());
  size_t left = bytes_.size();
  for (size_t i = 0; i < stops.size(); ++i) {
    if (stops[i].empty()) return Status::error(Code::invalid_argument, "stop string {} is empty", i);
    if (stops[i].size() > left)
      return Status::error(Code::invalid_argument,
                           "the stop strings are longer than {} bytes in all, from number {} on", bytes_.size(), i);
    left -= stops[i].size();
  }
  uint32_t begin = 0;
  stop_count_ = 0;
  for (const std::string_view text : stops) {
    const auto length = static_cast<uint32_t>(text.size());
    std::copy(text.begin(), text.end(), bytes_.begin() + begin);
    uint32_t border = 0;
    failure_[begin] = 0;
    for (uint32_t i = 1; i < length; ++i) {
      while (border > 0 && text[i] != text[border]) border = failure_[begin + border - 1];
      if (text[i] == text[border]) ++border;
      failure_[begin + i] = border;
    }
    stops_[stop_count_++] = {begin, length, 0};
    begin += length;
  }
  reset();
  return {};
}

void StopMatcher::step(unsigned char byte) {
  ++position_;
  for (uint32_t i = 0; i < stop_count_; ++i) {
    Stop& stop = stops_[i];
    const auto next = [&] { return static_cast<unsigned char>(bytes_[stop.begin + stop.matched]); };
    while (stop.matched > 0 && next() != byte) stop.matched = failure_[stop.begin + stop.matched - 1];
    if (next() == byte) ++stop.matched;
    if (stop.matched < stop.length) continue;
    if (position_ - stop.length < found_) found_ = position_ - stop.length;
    stop.matched = failure_[stop.begin + stop.length - 1];
  }
}

// While anything is held, a stop string may still begin where it begins: were it a complete one, the text had ended.
bool StopMatcher::would_hold(std::string_view bytes) const {
  bool may_become_one = false;
  for (const Stop& stop : stops_.first(stop_count_)) {
    const std::string_view text(bytes_.data() + stop.begin, stop.length);
    if (bytes.starts_with(text)) return false;
    may_become_one = may_become_one || text.starts_with(bytes);
  }
  return may_become_one;
}

uint64_t StopMatcher::earliest_start() const {
  uint64_t start = std::min(found_, position_);
  for (const Stop& stop : stops_.first(stop_count_)) start = std::min(start, position_ - stop.matched);
  return start;
}

Released StopMatcher::feed(std::string_view bytes) {
  if (stopped_) return {{}, {}, true};
  const uint64_t before = position_;
  for (const char byte : bytes) {
    step(static_cast<unsigned char>(byte));
    if (found_ != UINT64_MAX && found_ == earliest_start()) {   // nothing that begins earlier can still come
      stopped_ = true;
      break;
    }
  }
  return release_to(earliest_start(), slice(bytes, 0, static_cast<size_t>(position_ - before)));
}

Released StopMatcher::finish() {
  if (stopped_) return {{}, {}, true};
  stopped_ = found_ != UINT64_MAX;
  for (Stop& stop : stops_.first(stop_count_)) stop.matched = 0;
  return release_to(earliest_start(), {});
}

// Lets go everything before the text's byte `end` and keeps the rest; `bytes` are the newest ones, not yet held.
Released StopMatcher::release_to(uint64_t end, std::string_view bytes) {
  const uint64_t begin = position_ - bytes.size() - held_bytes();   // of what is held, in the text
  const auto count = static_cast<size_t>(end - begin);
  const size_t from_held = std::min<size_t>(count, held_bytes());
  const std::string_view rest = slice(bytes, count - from_held);
  // Both what is held and the rest are shorter than the longest stop string, so they fit behind each other.
  if (!stopped_ && held_end_ + rest.size() > held_.size()) {
    std::copy(held_.begin() + held_begin_, held_.begin() + held_end_, held_.begin());
    held_end_ -= held_begin_;
    held_begin_ = 0;
  }
  const Released released{{held_.data() + held_begin_, from_held}, slice(bytes, 0, count - from_held), stopped_};
  if (stopped_) {
    held_begin_ = held_end_ = 0;
    return released;
  }
  held_begin_ += static_cast<uint32_t>(from_held);
  std::copy(rest.begin(), rest.end(), held_.begin() + held_end_);
  held_end_ += static_cast<uint32_t>(rest.size());
  return released;
}

}   // namespace mote
