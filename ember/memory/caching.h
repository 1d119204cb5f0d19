// The back end that keeps free memory: best fit, splitting and merging of chapter 8.
#pragma once

#include "ember/memory/back_end.h"

namespace ember::inline v0::memory {

/// Blocks are reused by work of the same stream and pool only, best fit first, lowest address among
/// equals.
class CachingBackEnd final : public BackEnd {
 public:
  Caps caps() const noexcept override { return {.counts = true, .keeps = true}; }
  std::size_t block_bytes(std::size_t requested) const noexcept override {
    return round_size(requested);
  }
  std::size_t segment_bytes(std::size_t size) const noexcept override { return segment_size(size); }
  Block* take(Ledger& ledger, const Request& request) override EMBER_REQUIRES(ledger.mutex);
  void fit(Ledger& ledger, Block* whole, const Request& request) override
      EMBER_REQUIRES(ledger.mutex);
  bool keep(Ledger& ledger, Block* block) override EMBER_REQUIRES(ledger.mutex);
  void trim(Ledger& ledger, Pool& pool, std::vector<Block*>& out) override
      EMBER_REQUIRES(ledger.mutex);
  void settle(Ledger& ledger) override EMBER_REQUIRES(ledger.mutex) {
    if (last_.waits) insert_last(ledger);
    last_.block = nullptr;
  }
  void forget() noexcept override { last_ = {}; }

 private:
  void insert(Ledger& ledger, Block* block, SplitChange& change) EMBER_REQUIRES(ledger.mutex);
  void insert_last(Ledger& ledger) EMBER_REQUIRES(ledger.mutex);

  // See Note [The same block again] in caching.cpp.
  struct Last {
    Block* block = nullptr;
    std::size_t size = 0;  // of the request
    SplitChange change;    // what taking it did to the free blocks
    bool waits = false;    // whether it has been freed
  };
  Last last_;
};

}  // namespace ember::inline v0::memory
