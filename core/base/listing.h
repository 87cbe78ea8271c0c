// A list of T that is read one by one out of whatever form its owner keeps, such as an array of another library's
// structs: no copy of it has to lie anywhere.
#pragma once
#include <concepts>
#include <cstddef>
#include <span>

namespace mote {

template <class T>
class Listing {
 public:
  Listing() = default;
  template <class List>
    requires std::convertible_to<const List&, std::span<const T>>
  Listing(const List& list) {
    const std::span<const T> items(list);
    items_ = items.data();
    size_ = items.size();
    at_ = [](const void* all, size_t index) { return static_cast<const T*>(all)[index]; };
  }
  // at(items, index) makes element `index` out of the owner's own form.
  Listing(const void* items, size_t size, T (*at)(const void* items, size_t index))
      : items_(items), size_(size), at_(at) {}

  size_t size() const { return size_; }
  T operator[](size_t index) const { return at_(items_, index); }   // index < size()

 private:
  const void* items_ = nullptr;
  size_t size_ = 0;
  T (*at_)(const void* items, size_t index) = nullptr;
};

}   // namespace mote
