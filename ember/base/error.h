// The exceptions that ember's C++ API throws. Each class is the counterpart of the Python exception
// named in the documents, so that the Python package can translate them one to one.
#pragma once

#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

#include "ember/base/export.h"
#include "ember/base/status.h"

namespace ember::inline v0 {

namespace cuda {
struct OutOfMemoryReport;  // memory/out_of_memory_report.h
}

/// Base of everything ember throws (Python: RuntimeError).
class EMBER_API Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// An argument of the right kind with a value that makes no sense (Python: ValueError).
class EMBER_API ValueError : public Error {
 public:
  using Error::Error;
};

/// An argument of the wrong kind (Python: TypeError).
class EMBER_API TypeError : public Error {
 public:
  using Error::Error;
};

/// A dimension or an index outside its range (Python: IndexError).
class EMBER_API IndexError : public Error {
 public:
  using Error::Error;
};

/// An operation that does not exist for a dtype (Python: NotImplementedError, a RuntimeError).
class EMBER_API NotImplementedError : public Error {
 public:
  using Error::Error;
};

/// A file that cannot be read or written (Python: OSError, such as FileNotFoundError).
class EMBER_API FileError : public Error {
 public:
  /// `text`, and behind it what errno's `number` says.
  FileError(const std::string& text, std::string path, int number);
  const std::string& path() const noexcept { return path_; }
  int number() const noexcept { return number_; }

 private:
  std::string path_;
  int number_;
};

/// The documents' AssertionError cases: unknown device ids, builds without CUDA.
class EMBER_API AssertionError : public Error {
 public:
  using Error::Error;
};

/// A call that was put off until CUDA was initialised, and failed then: `CUDA call failed lazily at
/// initialization with error: ...`.
class EMBER_API DeferredCudaCallError : public Error {
 public:
  using Error::Error;
};

/// No memory left on a device after everything that could be given back was given back. The text
/// says what held the memory. The device stays usable.
class EMBER_API OutOfMemoryError : public Error {
 public:
  using Error::Error;
  OutOfMemoryError(const std::string& text, std::shared_ptr<const cuda::OutOfMemoryReport> report)
      : Error(text), report_(std::move(report)) {}
  /// The same as figures, with what would help. Null where it was not the caching allocator that
  /// ran out.
  const std::shared_ptr<const cuda::OutOfMemoryReport>& report() const noexcept { return report_; }

 private:
  std::shared_ptr<const cuda::OutOfMemoryReport> report_;
};

/// An error reported by a device or its driver (Python: torch.AcceleratorError).
class EMBER_API AcceleratorError : public Error {
 public:
  explicit AcceleratorError(const Status& status);
  /// The cudaError number, on simulated devices too: 700 for an illegal address, 710 for an assert.
  int error_code() const noexcept { return static_cast<int>(code_); }
  Code code() const noexcept { return code_; }

 private:
  Code code_;
};

/// Throws AcceleratorError unless `status` is a success. The text is `CUDA error: <text of the
/// code>`, then a line with the details, then a hint about asynchronous reporting.
inline void check(const Status& status) {
  if (!status.ok()) [[unlikely]]
    throw AcceleratorError(status);
}

}  // namespace ember::inline v0
