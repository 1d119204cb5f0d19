// What the arguments of an operation are called that consists of other ones.
#pragma once

namespace ember::inline v0::cuda {

/// While it lives, observers are told of all that the calling thread enqueues by these names of
/// what is read and written (Access::argument), in place of those of the operations that are used:
/// a broadcast reads its "tensor", however that is copied. Within another one it does nothing. The
/// names are literals.
class ArgumentNames {
 public:
  explicit ArgumentNames(const char* reads, const char* writes = "output") noexcept;
  ~ArgumentNames();
  ArgumentNames(const ArgumentNames&) = delete;
  ArgumentNames& operator=(const ArgumentNames&) = delete;

  /// Of the innermost that counts; null where there is none.
  static const ArgumentNames* of_this_thread() noexcept;
  const char* name(bool writes) const noexcept { return writes ? writes_ : reads_; }

 private:
  const char* reads_;
  const char* writes_;
};

}  // namespace ember::inline v0::cuda
