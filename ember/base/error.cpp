#include "ember/base/error.h"

#include <atomic>
#include <cstring>
#include <utility>

#include "ember/base/env.h"
#include "ember/base/error_hook.h"
#include "ember/base/stack.h"

namespace ember::inline v0 {
namespace {

std::string accelerator_text(const Status& status) {
  std::string text = "CUDA error: ";
  text += code_text(status.code());
  text += '\n';
  if (const std::string detail = status.detail(); !detail.empty())
    text += with_stack_text(detail) + '\n';
  if (!env::flag("CUDA_LAUNCH_BLOCKING"))
    text +=
        "Errors of asynchronous work may be reported at a later, unrelated call. Run with "
        "CUDA_LAUNCH_BLOCKING=1 to have each launch wait for its result.\n";
  return text;
}

}  // namespace

namespace {
constinit std::atomic<std::string (*)(const Status&) noexcept> hook{nullptr};

std::string told(const Status& status) {
  const auto tell = hook.load(std::memory_order_relaxed);
  std::string better = tell == nullptr ? std::string() : tell(status);
  if (better.empty()) return accelerator_text(status);
  return accelerator_text(Status(status.code(), std::move(better)));
}
}  // namespace

void on_accelerator_error(std::string (*tell)(const Status& status) noexcept) noexcept {
  hook = tell;
}

FileError::FileError(const std::string& text, std::string path, int number)
    : Error(text + ": " + std::strerror(number)), path_(std::move(path)), number_(number) {}

AcceleratorError::AcceleratorError(const Status& status)
    : Error(told(status)), code_(status.code()) {}

}  // namespace ember::inline v0
