// The back end that keeps nothing: every allocation is a segment with one block, of exactly the
// bytes asked for, and goes back when it is free. For PYTORCH_NO_CUDA_MEMORY_CACHING, and where
// somebody else keeps memory: functions of the program's.
#pragma once

#include "ember/memory/back_end.h"

namespace ember::inline v0::memory {

class DirectBackEnd final : public BackEnd {
 public:
  /// The documents: with PYTORCH_NO_CUDA_MEMORY_CACHING all counters stay zero.
  explicit DirectBackEnd(bool counts = false) noexcept : counts_(counts) {}
  Caps caps() const noexcept override { return {.counts = counts_, .keeps = false}; }
  std::size_t block_bytes(std::size_t requested) const noexcept override { return requested; }
  std::size_t segment_bytes(std::size_t size) const noexcept override { return size; }
  Block* take(Ledger&, const Request&) override { return nullptr; }
  void fit(Ledger&, Block*, const Request&) override {}
  bool keep(Ledger&, Block*) override { return false; }
  void trim(Ledger&, Pool&, std::vector<Block*>&) override {}
  void settle(Ledger&) override {}
  void forget() noexcept override {}

 private:
  const bool counts_;
};

}  // namespace ember::inline v0::memory
