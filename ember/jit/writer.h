// Writes what the source of a kernel has behind the user's text: the function that computes one
// element of all operands, and the entries that call it.
#pragma once

#include <string>
#include <string_view>

#include "ember/jit/signature.h"
#include "ember/jit/source.h"

namespace ember::inline v0::jit {

/// C++'s name of an element type.
const char* type_name(Dtype dtype) noexcept;

class Writer {
 public:
  /// Both have to outlive it.
  Writer(const Signature& signature, const Instance& instance);

  /// The types, the arguments, and a function that computes one element of everything.
  /// `statements`: of a fused function.
  std::string element(std::string_view statements = {}) const;
  /// The same of a function with reductions, with a function that computes one row.
  std::string row(std::string_view statements) const;
  /// driver::kCompiledEntry, which does a range of elements on a host.
  std::string host_entry() const;
  /// The same as a kernel, in which each block does its part.
  std::string device_entry() const;
  /// These two for rows, of which a host does a range.
  std::string host_row_entry() const;
  std::string device_row_entry() const;

 private:
  bool flat() const { return instance_.layout == Layout::flat; }
  const char* index() const { return instance_.layout == Layout::wide ? "long long" : "int"; }
  std::string types_and_arguments() const;
  std::string parameters() const;
  template <class Place>
  std::string arguments(const Place& place) const;
  std::string pointers(const char* from) const;
  std::string numbers() const;
  std::string host_rows() const;
  std::string least_blocks() const;
  std::string flat_device() const;
  std::string strided_device() const;
  std::string row_call(const char* walk) const;

  const Signature& signature_;
  const Instance& instance_;
  const ArgumentPlaces places_;
  const std::string operands_, dims_, threads_, pack_;  // as texts
};

}  // namespace ember::inline v0::jit
