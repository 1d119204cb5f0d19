// What comes from other processes: handles, events' handles, requests and replies.

#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "ember/ipc/messages.h"
#include "ember/ipc/record.h"
#include "fuzz.h"

namespace {

using namespace ember::ipc;  // NOLINT

Record good_record(Kind kind) {
  Record record;
  record.kind = kind;
  record.machine = 1;
  record.owner = 100;
  record.start = 200;
  record.slot = 3;
  if (kind != Kind::event) record.bytes = 4096;
  if (kind == Kind::file || kind == Kind::native || kind == Kind::pieces) record.device[0] = 7;
  if (kind == Kind::native) record.extent = 8192;
  return record;
}

template <class T>
std::string text_of(const T& object) {
  return {reinterpret_cast<const char*>(&object), sizeof object};
}

std::vector<std::string> make_texts() {
  std::vector<std::string> texts;
  for (const Kind kind : {Kind::host, Kind::file, Kind::native, Kind::pieces})
    texts.push_back(text_of(good_record(kind)));
  texts.push_back(text_of(event_bytes(good_record(Kind::event))));
  Request request;
  request.start = 5;
  request.lease = 6;
  request.record = good_record(Kind::host);
  texts.push_back(text_of(request));
  request.verb = Verb::give_back;
  request.record = Record();
  texts.push_back(text_of(request));
  Reply reply;
  reply.answer = Answer::granted;
  reply.lease = 6;
  texts.push_back(text_of(reply));
  reply.pieces = 2;
  reply.before = 512;
  texts.push_back(text_of(reply));
  Pieces pieces;
  pieces.count = 2;
  pieces.piece[0] = {4096, 8192, 0, 0};
  pieces.piece[1] = {0, 4096, 1, 0};
  texts.push_back(text_of(pieces));
  return texts;
}

}  // namespace

std::span<const std::string_view> fuzz::examples() {
  static const std::vector<std::string> texts = make_texts();
  static const std::vector<std::string_view> views(texts.begin(), texts.end());
  return views;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span bytes(data, size);
  Record record;
  if (parse_record(bytes, record).ok()) {
    fuzz::expect(size == sizeof(Record), "a handle has one size");
    fuzz::expect(std::memcmp(&record, data, size) == 0, "a record is its bytes");
    fuzz::expect(record.bytes <= Record::kMostBytes && record.offset <= Record::kMostBytes,
                 "sums of sizes do not wrap");
    fuzz::expect(record.kind != Kind::native || record.offset + record.bytes <= record.extent,
                 "memory lies in its allocation");
  }
  Record event;
  if (parse_event(bytes, event).ok()) {
    const EventBytes again = event_bytes(event);
    fuzz::expect(size == again.size() && std::memcmp(again.data(), data, size) == 0,
                 "an event's handle is its fields");
  }
  Request request;
  if (parse_request(bytes, request)) {
    fuzz::expect(request.lease != 0 && request.start != 0, "a request says whose and which");
    fuzz::expect(request.verb != Verb::lease || check_record(request.record).ok(),
                 "a request's record is one");
  }
  Reply reply;
  if (parse_reply(bytes, reply))
    fuzz::expect(reply.answer == Answer::granted ||
                     (reply.files == 0 && reply.lease == 0 && reply.pieces == 0),
                 "a refusal gives nothing");
  Pieces pieces;
  if (parse_pieces(bytes, 2, pieces)) {
    fuzz::expect(pieces.count >= 1 && pieces.count <= Pieces::kCapacity, "a message has pieces");
    for (std::size_t i = 0; i < pieces.count; ++i)
      fuzz::expect(pieces.piece[i].file < 2 && pieces.piece[i].bytes != 0 &&
                       pieces.piece[i].offset + pieces.piece[i].bytes <= 2 * Record::kMostBytes,
                   "a piece has bytes of a file that came along");
  }
  return 0;
}
