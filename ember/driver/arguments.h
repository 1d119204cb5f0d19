// The layouts of what crosses between the core and the CUDA object, as numbers that both compare,
// and where addresses lie in it. Here is how a layout becomes a number, and how kernels state that
// of their arguments; layout.h lists the types of the seam itself.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>
#include <utility>

namespace ember::inline v0::driver {

/// Where addresses lie in arguments: as offsets in bytes, in static memory. Without a list it is
/// not known: each word may be one.
struct AddressPlaces {
  const std::uint16_t* offsets = nullptr;
  std::size_t count = 0;

  constexpr bool known() const noexcept { return offsets != nullptr; }
};
namespace layout {
inline constexpr std::uint16_t kFirstWord[] = {0};
}
/// Of what holds none, and of what begins with one and has no other.
inline constexpr AddressPlaces kNoAddress{layout::kFirstWord, 0};
inline constexpr AddressPlaces kFirstIsAddress{layout::kFirstWord, 1};

namespace layout {

/// FNV-1a of 64 bits.
class Hash {
 public:
  constexpr Hash& add(std::string_view text) noexcept {
    for (const char c : text) byte(static_cast<unsigned char>(c));
    byte(0);
    return *this;
  }
  constexpr Hash& add(std::uint64_t number) noexcept {
    for (unsigned i = 0; i < 8; ++i) byte(static_cast<unsigned char>(number >> (8 * i)));
    return *this;
  }
  constexpr std::uint64_t value() const noexcept { return value_; }

 private:
  constexpr void byte(unsigned char b) noexcept { value_ = (value_ ^ b) * 0x100000001b3; }
  std::uint64_t value_ = 0xcbf29ce484222325;
};

/// What tells types of the same size apart. Arrays count as their elements.
enum class FieldKind : std::uint8_t {
  opaque,
  pointer,
  boolean,
  real,
  integer,
  natural,
  enumeration,
  record
};

struct Field {
  const char* name;
  std::size_t offset;
  std::size_t size;
  std::size_t elements = 1;  ///< of an array, in all its dimensions
  FieldKind kind = FieldKind::opaque;
  std::uint64_t record = 0;      ///< the layout of a type that states its own
  AddressPlaces addresses = {};  ///< within such a type
};

/// A type that states its layout (EMBER_ARGUMENTS), or derives from one that does.
template <class T>
concept StatesLayout = requires(const T* type) {
  layout_of(type);
};

/// Specialized for numbers that the language does not have.
template <class T>
inline constexpr bool is_number = std::is_arithmetic_v<T> || std::is_enum_v<T> ||
                                  alignof(T) < alignof(void*);

/// Of a pointer, a number, a type that states its layout itself, and of one that has them as
/// T::kAddresses. Not known of others.
template <class T>
constexpr AddressPlaces addresses_in() noexcept;

template <class T>
constexpr FieldKind kind_of() noexcept {
  if constexpr (StatesLayout<T>) return FieldKind::record;
  if constexpr (std::is_pointer_v<T>) return FieldKind::pointer;
  if constexpr (std::is_same_v<T, bool>) return FieldKind::boolean;
  if constexpr (std::is_floating_point_v<T>) return FieldKind::real;
  if constexpr (std::is_enum_v<T>) return FieldKind::enumeration;
  if constexpr (std::is_integral_v<T>)
    return std::is_signed_v<T> ? FieldKind::integer : FieldKind::natural;
  return FieldKind::opaque;
}

template <class T>
constexpr std::size_t elements_of() noexcept {
  if constexpr (std::is_array_v<T>)
    return std::extent_v<T> * elements_of<std::remove_extent_t<T>>();
  else
    return 1;
}

template <class T>
constexpr Field field(const char* name, std::size_t offset) noexcept {
  using Element = std::remove_all_extents_t<T>;
  constexpr std::size_t kBytes = sizeof(T);  // NOLINT(bugprone-sizeof-expression): of pointers, too
  Field made{name, offset, kBytes, elements_of<T>(), kind_of<Element>()};
  if constexpr (StatesLayout<Element>) {
    static_assert(addresses_in<Element>().known(),
                  "a type that derives from one that states its layout has to state its own");
    made.record = layout_of(static_cast<const Element*>(nullptr));
    made.addresses = addresses_in<Element>();
  }
  return made;
}

/// Converts to anything: stands for a field, or an element of one, in braces.
struct Anything {
  template <class T>
  operator T() const noexcept;
};

template <class T, std::size_t... k>
constexpr bool has_elements(std::index_sequence<k...>) {
  return requires { T{(static_cast<void>(k), Anything())...}; };
}

/// Whether the fields of an aggregate have exactly `count` elements.
template <class T, std::size_t count>
constexpr bool has_exactly = has_elements<T>(std::make_index_sequence<count>()) &&
                             !has_elements<T>(std::make_index_sequence<count + 1>());

template <std::size_t count>
using Fields = std::array<Field, count>;

template <std::size_t count>
constexpr std::size_t elements(const Fields<count>& fields) noexcept {
  std::size_t sum = 0;
  for (const Field& field : fields) sum += field.elements;
  return sum;
}

template <std::size_t count>
constexpr bool all_known(const Fields<count>& fields) noexcept {
  for (const Field& field : fields)
    if (field.kind == FieldKind::opaque) return false;
  return true;
}

/// A type whose fields are private: from outside it is a size and an alignment.
template <class T>
constexpr void add_opaque(Hash& hash, std::string_view name) {
  hash.add(name).add(sizeof(T)).add(alignof(T));
}

template <class T, std::size_t count>
constexpr void add_fields(Hash& hash, std::string_view name, const Fields<count>& fields) {
  add_opaque<T>(hash, name);
  for (const Field& field : fields)
    hash.add(field.name)
        .add(field.offset)
        .add(field.size)
        .add(field.elements)
        .add(static_cast<std::uint64_t>(field.kind))
        .add(field.record);
}

template <std::size_t count>
constexpr std::size_t count_addresses(const Fields<count>& fields) noexcept {
  std::size_t sum = 0;
  for (const Field& field : fields)
    sum +=
        field.kind == FieldKind::pointer ? field.elements : field.elements * field.addresses.count;
  return sum;
}

/// The addresses of a type that states its layout itself, in their order.
template <class T>
struct Addresses {
  static constexpr auto kFields = fields_of(static_cast<const T*>(nullptr));
  static constexpr std::size_t kCount = count_addresses(kFields);

  static constexpr std::array<std::uint16_t, kCount + 1> find() noexcept {
    std::array<std::uint16_t, kCount + 1> made{};
    std::size_t found = 0;
    const auto add = [&](std::size_t offset) {
      made[found++] = static_cast<std::uint16_t>(offset);
    };
    for (const Field& field : kFields)
      for (std::size_t i = 0; i < field.elements; ++i) {
        const std::size_t element = field.offset + i * (field.size / field.elements);
        if (field.kind == FieldKind::pointer) add(element);
        for (std::size_t k = 0; k < field.addresses.count; ++k)
          add(element + field.addresses.offsets[k]);
      }
    return made;
  }
  static constexpr std::array<std::uint16_t, kCount + 1> kOffsets = find();
};

template <class T>
constexpr AddressPlaces addresses_in() noexcept {
  if constexpr (requires { T::kAddresses; })
    return T::kAddresses;
  else if constexpr (requires(const T* type) {
                       { stated_type(type) } -> std::same_as<const T*>;
                     })
    return {Addresses<T>::kOffsets.data(), Addresses<T>::kCount};
  else if constexpr (std::is_pointer_v<T>)
    return kFirstIsAddress;
  else if constexpr (is_number<T>)
    return kNoAddress;
  else
    return {};
}

/// Whether each byte belongs to a field, of types that state their layout themselves: what compares
/// arguments byte by byte, as batches do, sees nothing else then.
template <class T>
constexpr bool without_gaps() noexcept {
  if constexpr (requires(const T* type) {
                  { stated_type(type) } -> std::same_as<const T*>;
                }) {
    std::size_t sum = 0;
    for (const Field& field : fields_of(static_cast<const T*>(nullptr))) sum += field.size;
    return sum == sizeof(T);
  }
  return true;
}

/// A field of `Type`.
#define EMBER_FIELD(name) \
  ::ember::driver::layout::field<decltype(Type::name)>(#name, offsetof(Type, name))

/// Adds an aggregate to `hash`. Does not compile unless every field is listed.
#define EMBER_LAYOUT(type, ...)                                                                 \
  {                                                                                             \
    using Type = type;                                                                          \
    constexpr auto kFields = std::to_array<::ember::driver::layout::Field>({__VA_ARGS__});      \
    static_assert(                                                                              \
        ::ember::driver::layout::has_exactly<Type, ::ember::driver::layout::elements(kFields)>, \
        "list every field of the type");                                                        \
    ::ember::driver::layout::add_fields<Type>(hash, #type, kFields);                            \
  }

}  // namespace layout

/// States the layout of what a kernel gets, beside the type: every field, in EMBER_FIELD. A type in
/// a field has to state its own.
#define EMBER_ARGUMENTS(type, ...)                                                              \
  [[maybe_unused]] constexpr auto fields_of(const type*) noexcept {                             \
    using Type = type;                                                                          \
    return std::to_array<::ember::driver::layout::Field>({__VA_ARGS__});                        \
  }                                                                                             \
  [[maybe_unused]] constexpr const type* stated_type(const type* of) noexcept { return of; }    \
  [[maybe_unused]] constexpr std::uint64_t layout_of(const type*) noexcept {                    \
    constexpr auto kFields = fields_of(static_cast<const type*>(nullptr));                      \
    static_assert(                                                                              \
        ::ember::driver::layout::has_exactly<type, ::ember::driver::layout::elements(kFields)>, \
        "list every field of the type");                                                        \
    static_assert(::ember::driver::layout::all_known(kFields),                                  \
                  "the type of a field has to state its layout too");                           \
    ::ember::driver::layout::Hash hash;                                                         \
    ::ember::driver::layout::add_fields<type>(hash, #type, kFields);                            \
    return hash.value();                                                                        \
  }

/// What the kernels of a table take, as one number: it differs when a layout does.
template <layout::StatesLayout... Args>
constexpr std::uint64_t arguments() noexcept {
  layout::Hash hash;
  (hash.add(layout_of(static_cast<const Args*>(nullptr))), ...);
  return hash.value();
}

}  // namespace ember::inline v0::driver
