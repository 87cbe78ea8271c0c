// Sorting in place with little code: std::sort makes a kilobyte of it for each type and order.
#pragma once
#include <cstddef>
#include <span>
#include <utility>

namespace mote {

// By a heap: at most about 1.5 n log2(n) comparisons whatever the order was, usually a little over n log2(n), and no
// stack. Equal items come in any order.
template <class T, class Less>
void heap_sort(std::span<T> items, Less less) {
  size_t begin = items.size() / 2, end = items.size();   // [begin, end) is a heap, what follows is in its place
  while (end > 1) {
    if (begin != 0)
      --begin;
    else
      std::swap(items[0], items[--end]);
    // The item at `begin` goes down to a leaf along the larger children, and from there up to its place: it mostly
    // came from the end, and belongs near it (Wegener, "Bottom-up heapsort", 1993).
    const T item = items[begin];
    size_t hole = begin;
    for (size_t child; (child = 2 * hole + 1) < end; hole = child) {
      if (child + 1 < end && less(items[child], items[child + 1])) ++child;
      items[hole] = items[child];
    }
    for (size_t parent; hole > begin && less(items[parent = (hole - 1) / 2], item); hole = parent)
      items[hole] = items[parent];
    items[hole] = item;
  }
}

}   // namespace mote
