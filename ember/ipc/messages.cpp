#include "ember/ipc/messages.h"

#include <cstring>

namespace ember::inline v0::ipc {
namespace {

constexpr std::uint32_t kAllFiles = kMemoryFile | kWordsFile;

template <class Message>
bool take(std::span<const std::uint8_t> bytes, Message& out) {
  if (bytes.size() != sizeof(Message)) return false;
  std::memcpy(&out, bytes.data(), sizeof(Message));
  return out.magic == Message::kMagic && out.version == Record::kVersion;
}

}  // namespace

bool parse_request(std::span<const std::uint8_t> bytes, Request& out) {
  Request request;
  if (!take(bytes, request) || request.zero != 0 || request.start == 0 || request.lease == 0)
    return false;
  switch (request.verb) {
    case Verb::lease:
      if ((request.wants & ~std::uint32_t{kMemoryFile}) != 0 || !check_record(request.record).ok())
        return false;
      break;
    case Verb::give_back:
    case Verb::forward:
      if (request.wants != 0 || request.words != 0 || !(request.record == Record())) return false;
      break;
    default: return false;
  }
  out = request;
  return true;
}

bool parse_reply(std::span<const std::uint8_t> bytes, Reply& out) {
  Reply reply;
  if (!take(bytes, reply)) return false;
  const auto answer = static_cast<unsigned>(reply.answer);
  if (answer < 1 || answer > static_cast<unsigned>(Answer::exhausted)) return false;
  if ((reply.files & ~kAllFiles) != 0) return false;
  if (reply.zero != 0 || reply.pieces > Pieces::kMost || reply.before > Record::kMostBytes ||
      (reply.pieces == 0 && reply.before != 0))
    return false;
  if (reply.answer != Answer::granted)
    if (reply.lease != 0 || reply.pieces != 0 || reply.files != 0 || reply.value != 0) return false;
  out = reply;
  return true;
}

bool parse_pieces(std::span<const std::uint8_t> bytes, std::size_t files, Pieces& out) {
  Pieces pieces;
  if (!take(bytes, pieces) || pieces.count == 0 || pieces.count > Pieces::kCapacity) return false;
  for (std::size_t i = 0; i < Pieces::kCapacity; ++i) {
    const Piece& piece = pieces.piece[i];
    const bool is_there = i < pieces.count;
    if (piece.zero != 0 || is_there != (piece.bytes != 0) || piece.bytes > Record::kMostBytes ||
        piece.offset > Record::kMostBytes || (is_there && piece.file >= files) ||
        (!is_there && (piece.file != 0 || piece.offset != 0)))
      return false;
  }
  out = pieces;
  return true;
}

}  // namespace ember::inline v0::ipc
