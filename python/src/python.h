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
#include <utility>

#include "ember/base/error.h"
#include "ember/ember.h"

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
void bind_copies(nb::class_<Tensor>& tensor);
void bind_values(nb::class_<Tensor>& tensor, nb::module_& m);
void bind_indexing(nb::class_<Tensor>& tensor, nb::module_& m);
void bind_comm(nb::module_& cuda);
void bind_elementwise(nb::class_<Tensor>& tensor, nb::module_& m);
void bind_factories(nb::class_<Tensor>& tensor, nb::module_& m);
void bind_numpy(nb::class_<Tensor>& tensor, nb::module_& m);
void bind_dlpack(nb::class_<Tensor>& tensor, nb::module_& m);
void bind_reductions(nb::class_<Tensor>& tensor, nb::module_& m);
void bind_products(nb::class_<Tensor>& tensor, nb::module_& m);
void bind_random(nb::class_<Tensor>& tensor, nb::module_& m);
void bind_cuda_random(nb::module_& cuda);
void bind_runtime(nb::module_& cuda);
void bind_streams(nb::module_& cuda);
void bind_memory(nb::module_& cuda);

/// Calls with Python's lock released.
template <class Call>
decltype(auto) unlocked(Call&& call) {
  const nb::gil_scoped_release released;
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
  auto result = unlocked(call);
  warnings.raise();
  return result;
}

/// The Python object that a tensor argument came from.
inline nb::object same_object(const Tensor& argument) { return nb::find(argument); }

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
/// Of ints and of objects with __index__ (not bool). Nothing for others, and beyond 64 bits.
std::optional<std::int64_t> index_from(nb::handle object) noexcept;

/// The elements of an array of NumPy's, shared or copied; nothing for other objects.
std::optional<Tensor> array_from(nb::handle object);
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

/// A list or tuple of sizes, or one size. May have more entries than a Shape can hold.
struct Sizes {
  std::size_t count = 0;
  std::int64_t values[kMaxDims] = {};

  /// ValueError if there are too many.
  Shape shape() const;
};
bool load_sizes(nb::handle object, Sizes& sizes) noexcept;
/// `f(2, 3)` and `f((2, 3))` mean the same. TypeError for anything else.
Shape shape_of(const nb::args& args);

/// What the keywords dtype, device and pin_memory say.
Options options_of(std::optional<Dtype> dtype, const DeviceLike& device, bool pin_memory = false);

}  // namespace ember::python

namespace nanobind::detail {

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
struct type_caster<ember::Scalar> {
  NB_TYPE_CASTER(ember::Scalar, const_name("complex"))
  template <class Flags>
  bool from_python(handle source, Flags, cleanup_list*) noexcept {
    const auto number = ember::python::number_from(source);
    if (number) value = *number;
    return number.has_value();
  }
  static handle from_cpp(const ember::Scalar& number, rv_policy, cleanup_list*) noexcept {
    return ember::python::to_python(number).release();
  }
};

template <>
struct type_caster<ember::Operand> {
  static constexpr auto Name = const_name("ember._C.Tensor | complex");
  using Value = ember::Operand;
  template <class T>
  using Cast = movable_cast_t<T>;
  template <class T>
  static constexpr bool can_cast() {
    return true;
  }
  template <class Flags>
  bool from_python(handle source, Flags flags, cleanup_list* cleanup) noexcept {
    make_caster<ember::Tensor> tensor;
    if (!source.is_none() && tensor.from_python(source, flags, cleanup)) {
      value = ember::Operand(tensor.operator ember::Tensor&());
      return true;
    }
    const auto number = ember::python::number_from(source);
    if (number) value = ember::Operand(*number);
    return number.has_value();
  }
  explicit operator ember::Operand*() { return &value; }
  explicit operator ember::Operand&() { return value; }
  explicit operator ember::Operand&&() { return static_cast<ember::Operand&&>(value); }
  ember::Operand value{ember::Scalar()};
};

}  // namespace nanobind::detail
