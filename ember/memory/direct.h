// The back end that keeps nothing: every allocation is one of the device's own, of exactly the
// bytes asked for, and goes back when it is free (PYTORCH_NO_CUDA_MEMORY_CACHING).
#pragma once

#include "ember/memory/back_end.h"

namespace ember::inline v0::memory {

class DirectBackEnd final : public BackEnd {
 public:
  /// The documents: without caching all counters stay zero.
  Caps caps() const noexcept override { return {.counts = false, .keeps = false}; }
  std::size_t block_bytes(std::size_t requested) const noexcept override { return requested; }
  std::size_t segment_bytes(std::size_t size) const noexcept override { return size; }
  Block* take(Ledger&, const Request&) override { return nullptr; }
  void fit(Ledger&, Block*, const Request&) override {}
  bool keep(Ledger&, Block*) override { return false; }
  void trim(Ledger&, Pool&, std::vector<Block*>&) override {}
  void settle(Ledger&) override {}
  void forget() noexcept override {}
};

}  // namespace ember::inline v0::memory
