#include "ember/fuse/fuse.h"

#include "ember/fuse/recording.h"

namespace ember::inline v0 {

FusedScope::FusedScope(const FuseOptions& options) {
  if (ops::recorder() != nullptr) return;
  recording_ = std::make_unique<fusion::Recording>(options.name, options.precise);
  ops::exchange_recorder(recording_.get());
}

FusedScope::~FusedScope() {
  try {
    finish();
  } catch (...) {  // an error is on its way already
  }
}

void FusedScope::finish() {
  if (recording_ == nullptr) return;
  const std::unique_ptr<fusion::Recording> recording = std::move(recording_);
  struct End {
    ~End() { ops::exchange_recorder(nullptr); }
  } const end;
  recording->settle();
}

}  // namespace ember::inline v0
