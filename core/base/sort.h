// Sorting in place with little code: std::sort makes a kilobyte of it for each type and order.
#pragma once
#include <cstddef>
#include <span>
#include <utility>

namespace mote {

// By a heap: at most about 2 n log2(n) comparisons whatever the order was, and no stack. Equal items come in any order.
template <class T, class Less>
void heap_sort(std::span<T> items, Less less) {
  size_t begin = items.size() / 2, end = items.size();   // [begin, end) is a heap, what follows is in its place
  while (end > 1) {
    if (begin != 0)
      --begin;
    else
      std::swap(items[0], items[--end]);
    for (size_t root = begin, child; (child = 2 * root + 1) < end; root = child) {
      if (child + 1 < end && less(items[child], items[child + 1])) ++child;
      if (!less(items[root], items[child])) break;
      std::swap(items[root], items[child]);
    }
  }
}

}   // namespace mote
