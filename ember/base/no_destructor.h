#pragma once

#include <new>
#include <utility>

namespace ember::inline v0 {

/// A global that is made at first use and, on purpose, never destroyed: worker threads and objects
/// with longer lives may still use it while the process exits. It stays reachable through the
/// static that holds it, so leak checkers do not report it.
template <class T>
class NoDestructor {
 public:
  template <class... Args>
  explicit NoDestructor(Args&&... args) {
    new (storage_) T(std::forward<Args>(args)...);
  }
  NoDestructor(const NoDestructor&) = delete;
  NoDestructor& operator=(const NoDestructor&) = delete;

  T& get() noexcept { return *std::launder(reinterpret_cast<T*>(storage_)); }
  T& operator*() noexcept { return get(); }
  T* operator->() noexcept { return &get(); }

 private:
  alignas(T) unsigned char storage_[sizeof(T)];
};

}  // namespace ember::inline v0
