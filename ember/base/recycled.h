// Memory for small objects that come and go all the time, such as tensors: what a thread frees
// waits in a list of its own for its next object of that type.
#pragma once

#include <new>
#include <utility>

#include "ember/base/sanitizer.h"
#include "ember/base/thread_exit.h"

namespace ember::inline v0 {

/// Memory for objects of type T. Thread-safe; objects may be freed on other threads than they were
/// made on. Keeps at most a few dozen KiB per thread, which go with the thread. Under the address
/// and thread sanitizers everything comes from the heap, so that they see each object's life.
template <class T, int kKept = 128>
class Recycled {
 public:
  static void* take() {
    List& list = mine;
    if (list.first == nullptr) [[unlikely]]
      return ::operator new(sizeof(T));
    Link* const link = list.first;
    list.first = link->next;
    --list.count;
    return link;
  }

  static void give(void* memory) noexcept {
#if !defined(EMBER_SANITIZED_HEAP)
    List& list = mine;
    if (list.count < kKept && (list.open || open())) [[likely]] {
      list.first = new (memory) Link{list.first};
      ++list.count;
      return;
    }
#endif
    ::operator delete(memory);
  }

 private:
  static_assert(alignof(T) <= __STDCPP_DEFAULT_NEW_ALIGNMENT__);
  struct Link {
    Link* next;
  };
  // Without a destructor: objects may die after those of the thread's variables have run.
  struct List {
    Link* first = nullptr;
    int count = 0;
    bool open = false;
  };
  static inline thread_local constinit List mine [[gnu::tls_model("initial-exec")]];

  /// False once the thread is ending.
  static bool open() noexcept {
    mine.open = at_thread_exit(&close);
    return mine.open;
  }
  static void close() noexcept {
    mine.open = false;
    mine.count = 0;
    while (mine.first != nullptr) ::operator delete(std::exchange(mine.first, mine.first->next));
  }
};

}  // namespace ember::inline v0
