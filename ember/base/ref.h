// Shared ownership with the count inside the object: one pointer wide, one allocation.
#pragma once

#include <atomic>
#include <cstddef>
#include <type_traits>
#include <utility>

namespace ember::inline v0 {

/// Base of objects owned through Ref. The count starts at zero; the first Ref makes it one. When
/// the last Ref goes, the object is deleted, or handed to `static void T::dispose(T*)` if T has
/// that.
class RefCounted {
 public:
  RefCounted() = default;
  RefCounted(const RefCounted&) = delete;
  RefCounted& operator=(const RefCounted&) = delete;

 protected:
  ~RefCounted() = default;

 private:
  template <class T>
  friend class Ref;
  friend class FindableRefCounted;
  mutable std::atomic<int> refs_{0};
};

/// The same for objects that tables know without owning them.
class FindableRefCounted : public RefCounted {
 public:
  /// Adds an owner unless there is none left.
  bool try_acquire() const noexcept {
    int refs = refs_.load(std::memory_order_relaxed);
    while (refs > 0)
      if (refs_.compare_exchange_weak(refs, refs + 1, std::memory_order_acq_rel)) return true;
    return false;
  }

 protected:
  ~FindableRefCounted() = default;
};

/// A shared owner of a T derived from RefCounted. Copies are thread-safe in the way of shared_ptr:
/// different Ref objects may be used by different threads.
template <class T>
class Ref {
 public:
  constexpr Ref() noexcept = default;
  explicit Ref(T* object) noexcept : object_(object) { acquire(); }
  Ref(const Ref& other) noexcept : object_(other.object_) { acquire(); }
  Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  /// An owner of an object is one of its base, whose destructor is virtual.
  template <class U>
  requires(std::is_convertible_v<U*, T*>&& std::has_virtual_destructor_v<T>) Ref(Ref<U> other)
  noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Ref& operator=(Ref other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  constexpr ~Ref() { release(); }  // so that tables with null ones in them are constants

  /// The first owner of an object that nobody else knows yet: that needs no atomic exchange.
  static Ref first(T* object) noexcept {
    object->refs_.store(1, std::memory_order_relaxed);
    return adopt(object);
  }

  /// Whether there is no other owner at this moment.
  bool is_only() const noexcept {
    return object_ != nullptr && object_->refs_.load(std::memory_order_acquire) == 1;
  }

  /// Takes over an owner's count that try_acquire added.
  static Ref adopt(T* object) noexcept {
    Ref ref;
    ref.object_ = object;
    return ref;
  }

  T* get() const noexcept { return object_; }
  T* operator->() const noexcept { return object_; }
  T& operator*() const noexcept { return *object_; }
  explicit operator bool() const noexcept { return object_ != nullptr; }
  friend bool operator==(const Ref& a, const Ref& b) noexcept { return a.object_ == b.object_; }

 private:
  constexpr bool counted() const noexcept {
    if (object_ == nullptr) return false;
    if constexpr (requires(const T* object) { object->immortal(); }) return !object_->immortal();
    return true;
  }
  void acquire() noexcept {
    if (counted()) object_->refs_.fetch_add(1, std::memory_order_relaxed);
  }
  /// Whether this is the only owner, and so the last one: others are made from an owner.
  bool alone() const noexcept {
    if constexpr (std::is_base_of_v<FindableRefCounted, T>) return false;
    return object_->refs_.load(std::memory_order_acquire) == 1;
  }
  constexpr void release() noexcept {
    // Most objects only ever have one owner: counting down would be an atomic exchange for nothing.
    if (!counted() || (!alone() && object_->refs_.fetch_sub(1, std::memory_order_acq_rel) != 1))
      return;
    if constexpr (requires(T * last) { T::dispose(last); })
      T::dispose(object_);
    else
      delete object_;  // NOLINT(clang-analyzer-cplusplus.NewDelete): it does not follow counts
  }
  template <class U>
  friend class Ref;
  T* object_ = nullptr;
};

template <class T, class... Args>
Ref<T> make_ref(Args&&... args) {
  return Ref<T>::first(new T(std::forward<Args>(args)...));
}

}  // namespace ember::inline v0
