// Memory for small objects that come and go all the time, such as tensors: what a thread frees
// waits in a list of its own for its next object of that type.
#pragma once

#include <new>
#include <utility>

namespace ember {

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
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    List& list = mine;
    if (list.count > 0 && list.count < kKept) [[likely]] {
      list.first = new (memory) Link{list.first};
      ++list.count;
      return;
    }
    if (list.count == 0 && begin(list)) {
      list.first = new (memory) Link{nullptr};
      list.count = 1;
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
    bool closed = false;
  };
  static inline thread_local constinit List mine [[gnu::tls_model("initial-exec")]];

  /// False once the thread is ending.
  static bool begin(List& list) noexcept {
    if (list.closed) return false;
    struct End {
      ~End() {
        List& ending = mine;
        ending.closed = true;
        ending.count = 0;
        while (ending.first != nullptr)
          ::operator delete(std::exchange(ending.first, ending.first->next));
      }
    };
    static thread_local End end;
    (void)end;
    return true;
  }
};

}  // namespace ember
