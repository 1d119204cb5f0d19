// What the sources of the extension module share: how arguments of Python become values of ember's,
// and one `bind_` function per area. There is no logic here: everything that a function does is
// done by the library.
//
// Python's lock is released around every call that may wait for a device, also around launches: the
// queue of a stream may be full, and what empties it may need the lock (host functions do).
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "ember/base/error.h"
#include "ember/base/stack.h"
#include "ember/ember.h"
#include "ember/runtime/deferred.h"
#include "ember/tensor/accesses.h"

namespace ember::python {

namespace nb = nanobind;

// One per source file, in the order in which module.cpp calls them.
void bind_embedding();
void bind_errors(nb::module_& m);
void bind_dtypes(nb::module_& m);
void bind_size(nb::module_& m);
void bind_device(nb::module_& m);
void bind_tensor(nb::module_& m);
void bind_views(nb::class_<Tensor>& tensor, nb::module_& m);
void bind_copies(nb::class_<Tensor>& tensor, nb::module_& m);
void bind_values(nb::class_<Tensor>& tensor, nb::module_& m);
void bind_indexing(nb::class_<Tensor>& tensor, nb::module_& m);
void bind_comm(nb::module_& cuda);
void bind_tools(nb::module_& m, nb::module_& cuda);
void bind_elementwise(nb::class_<Tensor>& tensor, nb::module_& m);
void bind_arranging(nb::class_<Tensor>& tensor, nb::module_& m);
void bind_counting(nb::class_<Tensor>& tensor, nb::module_& m);
void bind_factories(nb::class_<Tensor>& tensor, nb::module_& m);
void bind_pickling(nb::class_<Tensor>& tensor);
/// __reduce_ex__ of a class with __getstate__: protocols 0 and 1 know no classes but Python's own.
nb::object reduce_by_newer_protocol(nb::handle self, int protocol);
inline constexpr const char* kReduceSignature =
    "def __reduce_ex__(self, protocol: typing.SupportsIndex, /) -> str | tuple[typing.Any, ...]";
void bind_numpy(nb::class_<Tensor>& tensor, nb::module_& m);
void bind_dlpack(nb::class_<Tensor>& tensor, nb::module_& m);
void bind_reductions(nb::class_<Tensor>& tensor, nb::module_& m);
void bind_products(nb::class_<Tensor>& tensor, nb::module_& m);
void bind_printing(nb::module_& m);
void bind_fft(nb::class_<Tensor>& tensor, nb::module_& m);
void bind_random(nb::class_<Tensor>& tensor, nb::module_& m);
void bind_sharing(nb::class_<Tensor>& tensor, nb::module_& m);
void bind_cuda_random(nb::module_& cuda);
void bind_runtime(nb::module_& cuda);
void bind_streams(nb::module_& cuda);
void bind_memory(nb::module_& cuda);
void bind_pools(nb::module_& cuda);
void bind_integrations(nb::module_& cuda);
void bind_fuse(nb::module_& m);
void bind_graphs(nb::module_& cuda);
void bind_history(nb::module_& cuda);
void bind_nvtx(nb::module_& cuda);
void bind_telemetry(nb::module_& cuda);
void bind_top(nb::module_& cuda);
void bind_sim(nb::module_& m);
void bind_sanitizer(nb::module_& cuda);
void bind_timeline(nb::module_& cuda);
void bind_sync_debug(nb::module_& cuda);
void bind_recent_launches(nb::module_& cuda);
void bind_faults(nb::module_& sim);
void bind_precision(nb::module_& m, nb::module_& cuda);
void bind_fft_plans(nb::module_& cuda);
void bind_ops(nb::module_& m);
void bind_visible(nb::module_& cuda);
void bind_jiterator(nb::module_& cuda);

/// The segments of a pool of memory, as `memory_snapshot` has them.
nb::object segments_of(const cuda::MemPoolId& pool);

/// Has the calling thread's stack of Python known to observers that want stacks while the lock is
/// released, when it can't be taken. Costs a load where nobody wants any.
class StackWhileUnlocked {
 public:
  StackWhileUnlocked() {
    if (stacks_wanted()) [[unlikely]]
      note();
  }
  ~StackWhileUnlocked() {
    if (noted_) [[unlikely]]
      forget();
  }
  StackWhileUnlocked(const StackWhileUnlocked&) = delete;
  StackWhileUnlocked& operator=(const StackWhileUnlocked&) = delete;

 private:
  void note();
  void forget() noexcept;
  bool noted_ = false;
};

/// Takes Python's lock again. A daemon thread that comes when the interpreter has begun to end
/// stays here until the process does.
void take_lock_again(PyThreadState* thread) noexcept;

/// Without Python's lock, while it lives.
class Unlocked {
 public:
  Unlocked() noexcept : thread_(PyEval_SaveThread()) {}
  ~Unlocked() { take_lock_again(thread_); }
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;

 private:
  PyThreadState* const thread_;
};

/// Calls with Python's lock released.
template <class Call>
decltype(auto) unlocked(Call&& call) {
  const StackWhileUnlocked stack;
  const Unlocked released;
  return call();
}

/// Python's lock for a thread that may be none of Python's, such as the worker that calls a host
/// function or lets a tensor go; false if the interpreter has begun to end, and with it whatever
/// the lock was needed for. See Note [The end of the interpreter] in embedding.cpp.
class LockFromAnywhere {
 public:
  LockFromAnywhere();
  ~LockFromAnywhere();
  LockFromAnywhere(const LockFromAnywhere&) = delete;
  LockFromAnywhere& operator=(const LockFromAnywhere&) = delete;
  explicit operator bool() const noexcept { return held_; }

 private:
  bool held_ = false;
  std::optional<nb::gil_scoped_acquire> taken_;
};

/// Raises what a signal handler raised while the thread waited for a device, such as
/// KeyboardInterrupt; false if there is nothing.
bool raise_interruption();

/// While it lives, a warning of the core that was made an error is kept, for raise(). Elsewhere
/// such an error is only written to stderr: the core warns where it cannot fail.
class WarningsRaised {
 public:
  WarningsRaised() noexcept;
  ~WarningsRaised();
  WarningsRaised(const WarningsRaised&) = delete;
  WarningsRaised& operator=(const WarningsRaised&) = delete;
  /// Takes Python's current error.
  void keep();
  void raise();

 private:
  WarningsRaised* outer_;
  std::optional<nb::python_error> error_;
};

/// `unlocked` for a call that may warn: throws if that warning is an error.
template <class Call>
auto unlocked_warning(Call&& call) {
  WarningsRaised warnings;
  if constexpr (std::is_void_v<decltype(call())>) {
    unlocked(call);
    warnings.raise();
  } else {
    auto result = unlocked(call);
    warnings.raise();
    return result;
  }
}

/// An object that is a tensor, as the stubs are to say.
using TensorObject = nb::typed<nb::object, Tensor>;

/// The Python object that a tensor argument came from.
inline nb::object same_object(const Tensor& argument) { return nb::find(argument); }

/// A result as an object: the argument's own if it is the argument itself.
inline nb::object itself_or(const Tensor& argument, Tensor result) {
  if (result.is(argument)) return same_object(argument);
  return nb::cast(std::move(result));
}

/// The object of a dtype, such as ember.float32; always the same one.
nb::handle dtype_object(Dtype dtype) noexcept;
/// The dtype that an object stands for: a dtype, or one of the types bool, int, float, complex.
std::optional<Dtype> dtype_from(nb::handle object) noexcept;

/// An ember.Size.
nb::object make_size(const Shape& shape);

/// A number as Python has it: bool, int, float or complex.
nb::object to_python(const Scalar& number);
/// Of bool, int, float, complex, their subclasses, and NumPy's scalars. Nothing for other objects
/// and for integers beyond 64 bits.
std::optional<Scalar> number_from(nb::handle object) noexcept;
/// Whether an object is an int, or an integer of NumPy's, that number_from cannot give.
bool is_beyond_64_bits(nb::handle object) noexcept;
/// "9223372036854775808 is outside the range of int64": OverflowError of Python's.
[[noreturn]] void throw_overflow(nb::handle integer);
/// The same words, for other exceptions.
std::string overflow_text(nb::handle integer);
/// Of ints and of objects with __index__ (not bool). Nothing for others, and beyond 64 bits.
std::optional<std::int64_t> index_from(nb::handle object) noexcept;

/// What a scalar of NumPy's holds, if a tensor can; nothing for other objects.
std::optional<Dtype> numpy_scalar_dtype(nb::handle object) noexcept;
/// A number, or the element of a tensor without dimensions, for which this waits. TypeError with
/// the argument's name for other tensors. Needs no lock.
Scalar scalar_of(const Operand& given, const char* name);

/// An argument that is looked at in the function, as T (pointers are not null): TypeError such as
/// `out: expected a tensor, got int` for an object of another kind.
template <class T>
T argument(nb::handle object, const char* name, const char* expected) {
  T value{};
  bool good = nb::try_cast<T>(object, value);
  if constexpr (std::is_pointer_v<T>) good = good && value != nullptr;
  if (!good)
    throw TypeError(std::string(name) + ": expected " + expected + ", got " +
                    Py_TYPE(object.ptr())->tp_name);
  return value;
}

/// The elements of an array of NumPy's, shared or copied; nothing for other objects.
std::optional<Tensor> array_from(nb::handle object);
/// TypeError `can't convert cuda:0 device type tensor to numpy. ...` unless the tensor is on the
/// CPU.
void require_cpu_for_numpy(const Tensor& tensor);
/// Tells observers that the program got a pointer to the tensor's memory. `name` is a literal.
void tell_exposed(const Tensor& tensor, const char* name);
/// A tensor over the memory of an object with `__dlpack__`; nothing for other objects.
std::optional<Tensor> dlpack_from(nb::handle object);
/// What ember.tensor does.
Tensor tensor_from(nb::handle data, const Options& options);

/// FutureWarning. Throws if warnings are errors.
void warn_future(const char* text);
/// UserWarning. Throws if warnings are errors.
void warn_user(const char* text);

/// A device argument: int, str, ember.device, ember.cuda.device or None. It is looked at in the
/// function, so that a malformed string is an error and not "no such overload".
struct DeviceLike {
  nb::handle given;

  /// As the functions of ember.cuda take it.
  cuda::DeviceArg arg() const;
  /// As factories and `to` take it: a number is a CUDA device's index.
  std::optional<Device> place() const;
};
/// Whether an object can be a DeviceLike.
bool is_device_like(nb::handle object) noexcept;

/// A list or tuple of sizes, or one size. May have more entries than a Shape can hold, or an entry
/// that no size can be; both are errors of their own and not "no such overload".
struct Sizes {
  std::size_t count = 0;
  std::int64_t values[kMaxDims];  // the first `count` are set
  nb::handle too_large;           ///< an int beyond 64 bits, if there is one

  /// ValueError if there are too many, TypeError if one is beyond 64 bits.
  Shape shape() const;
};
bool load_sizes(nb::handle object, Sizes& sizes) noexcept;
/// `f(2, 3)` and `f((2, 3))` mean the same. TypeError for anything else.
Shape shape_of(const nb::args& args, const char* name = "size");

/// A number where torch takes tensors without dimensions too, such as the value of full.
struct NumberLike {
  nb::handle given;
  std::optional<Scalar> plain;  ///< what is given, if that is a number of 64 bits

  /// Waits for a tensor's element. An int beyond 64 bits is a floating-point number if that is what
  /// it is needed for, else OverflowError.
  Scalar number(std::optional<Dtype> dtype = {}) const;
};
bool load_number(nb::handle object, NumberLike& number) noexcept;

/// What names a file: a str, bytes or an os.PathLike.
struct FileName {
  std::string path;
};
bool load_file_name(nb::handle object, FileName& name) noexcept;

using MaybeBool = std::optional<bool>;
/// What the keywords dtype, device and pin_memory say.
Options options_of(std::optional<Dtype> dtype, const DeviceLike& device,
                   MaybeBool pin_memory = false);
/// The same for new tensors that are not like another one: without a device, the default device.
Options new_options(std::optional<Dtype> dtype, const DeviceLike& device,
                    MaybeBool pin_memory = false);
/// Error unless `out` is what the options of a new tensor ask for.
void require_options_of(const Tensor& out, const Options& options);

}  // namespace ember::python

namespace nanobind::detail {

/// What the casters of numbers share: an int beyond 64 bits is taken, and is an OverflowError once
/// the function is called, where an exception may leave.
template <class Number>
struct number_caster {
  using Value = Number;
  template <class T>
  using Cast = movable_cast_t<T>;
  template <class T>
  static constexpr bool can_cast() {
    return true;
  }
  explicit operator Number*() { return &checked(); }
  explicit operator Number&() { return checked(); }
  explicit operator Number&&() { return static_cast<Number&&>(checked()); }
  Number value{ember::Scalar()};

 protected:
  bool take_number(handle source) noexcept {
    const auto number = ember::python::number_from(source);
    if (!number) [[unlikely]] {
      if (!ember::python::is_beyond_64_bits(source)) return false;
      too_large_ = source;
      return true;
    }
    value = Number(*number);
    return true;
  }

 private:
  Number& checked() {
    if (too_large_.is_valid()) [[unlikely]]
      ember::python::throw_overflow(too_large_);
    return value;
  }
  handle too_large_;
};

template <>
struct type_caster<ember::Dtype> {
  NB_TYPE_CASTER(ember::Dtype, const_name("ember._C.dtype"))
  template <class Flags>
  bool from_python(handle source, Flags, cleanup_list*) noexcept {
    const auto dtype = ember::python::dtype_from(source);
    value = dtype.value_or(ember::Dtype::float32);
    return dtype.has_value();
  }
  static handle from_cpp(ember::Dtype dtype, rv_policy, cleanup_list*) noexcept {
    return ember::python::dtype_object(dtype).inc_ref();
  }
};

template <>
struct type_caster<ember::python::DeviceLike> {
  NB_TYPE_CASTER(ember::python::DeviceLike, const_name("ember._C.device | int | str | None"))
  template <class Flags>
  bool from_python(handle source, Flags, cleanup_list*) noexcept {
    value.given = source;
    return ember::python::is_device_like(source);
  }
};

template <>
struct type_caster<ember::python::Sizes> {
  NB_TYPE_CASTER(ember::python::Sizes, const_name("collections.abc.Sequence[int] | int"))
  template <class Flags>
  bool from_python(handle source, Flags, cleanup_list*) noexcept {
    return ember::python::load_sizes(source, value);
  }
};

template <>
struct type_caster<ember::Shape> {
  NB_TYPE_CASTER(ember::Shape, const_name("ember._C.Size"))
  static handle from_cpp(const ember::Shape& shape, rv_policy, cleanup_list*) noexcept {
    return ember::python::make_size(shape).release();
  }
};

template <>
struct type_caster<ember::python::FileName> {
  NB_TYPE_CASTER(ember::python::FileName, const_name("str | os.PathLike[str]"))
  template <class Flags>
  bool from_python(handle source, Flags, cleanup_list*) noexcept {
    return ember::python::load_file_name(source, value);
  }
};

template <>
struct type_caster<ember::python::NumberLike> {
  NB_TYPE_CASTER(ember::python::NumberLike, const_name("ember._C.Tensor | complex"))
  template <class Flags>
  bool from_python(handle source, Flags, cleanup_list*) noexcept {
    return ember::python::load_number(source, value);
  }
};

template <>
struct type_caster<ember::Scalar> : number_caster<ember::Scalar> {
  static constexpr auto Name = const_name("complex");
  template <class Flags>
  bool from_python(handle source, Flags, cleanup_list*) noexcept {
    return take_number(source);
  }
  static handle from_cpp(const ember::Scalar& number, rv_policy, cleanup_list*) noexcept {
    return ember::python::to_python(number).release();
  }
};

template <>
struct type_caster<ember::Operand> : number_caster<ember::Operand> {
  static constexpr auto Name = const_name("ember._C.Tensor | complex");
  template <class Flags>
  bool from_python(handle source, Flags flags, cleanup_list* cleanup) noexcept {
    make_caster<ember::Tensor> tensor;
    if (!source.is_none() && tensor.from_python(source, flags, cleanup)) {
      value = ember::Operand(tensor.operator ember::Tensor&());
      return true;
    }
    return take_number(source);
  }
};

/// Of its own because nanobind's takes the value where no exception may leave.
template <>
struct type_caster<std::optional<ember::Operand>> : number_caster<std::optional<ember::Operand>> {
  static constexpr auto Name = const_name("ember._C.Tensor | complex | None");
  template <class Flags>
  bool from_python(handle source, Flags flags, cleanup_list* cleanup) noexcept {
    value.reset();
    make_caster<ember::Tensor> tensor;
    if (source.is_none()) return true;
    if (tensor.from_python(source, flags, cleanup)) {
      value.emplace(tensor.operator ember::Tensor&());
      return true;
    }
    return take_number(source);
  }
};

}  // namespace nanobind::detail
