#include "schema/messages/received.h"

#include <capnp/any.h>

#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace embers {

// Numbers and unknown pointers, which nobody follows, need no check.
struct ReceivedType {
  enum class Pointee { kText, kData, kStruct, kList };
  struct Field {
    unsigned pointer;  // its place among the struct's pointers
    std::string name;
    Pointee pointee = Pointee::kText;
    capnp::ElementSize element = capnp::ElementSize::VOID;  // of a list
    const ReceivedType* inner = nullptr;                    // of a struct, or of the structs of a list
  };
  std::vector<Field> fields;
  size_t words = 0;  // of one struct, its pointers included
};

namespace {

using Pointee = ReceivedType::Pointee;

capnp::ElementSize element_size(capnp::Type element) {
  switch (element.which()) {
    case capnp::schema::Type::BOOL:
      return capnp::ElementSize::BIT;
    case capnp::schema::Type::INT8:
    case capnp::schema::Type::UINT8:
      return capnp::ElementSize::BYTE;
    case capnp::schema::Type::INT16:
    case capnp::schema::Type::UINT16:
    case capnp::schema::Type::ENUM:
      return capnp::ElementSize::TWO_BYTES;
    case capnp::schema::Type::INT32:
    case capnp::schema::Type::UINT32:
    case capnp::schema::Type::FLOAT32:
      return capnp::ElementSize::FOUR_BYTES;
    case capnp::schema::Type::INT64:
    case capnp::schema::Type::UINT64:
    case capnp::schema::Type::FLOAT64:
      return capnp::ElementSize::EIGHT_BYTES;
    case capnp::schema::Type::TEXT:
      return capnp::ElementSize::POINTER;
    case capnp::schema::Type::STRUCT:
      return capnp::ElementSize::INLINE_COMPOSITE;
    default:
      fail(ErrorCode::kInternal,
           "schema/messages/received.cc knows no lists of this type: teach it, or change the schema");
  }
}

// The types of all schemas. A type is there before its fields are, so that a struct may hold itself.
class Types {
 public:
  const ReceivedType& of(capnp::StructSchema schema) {
    const std::lock_guard lock(mutex_);
    return make(schema);
  }

 private:
  const ReceivedType& make(capnp::StructSchema schema) {
    const auto [place, is_new] = types_.try_emplace(schema.getProto().getId());
    if (!is_new) return place->second;
    const auto layout = schema.getProto().getStruct();
    place->second.words = size_t{layout.getDataWordCount()} + layout.getPointerCount();
    for (const auto field : schema.getFields()) add(place->second, schema, field);
    return place->second;
  }

  void add(ReceivedType& type, capnp::StructSchema schema, capnp::StructSchema::Field field) {
    if (!field.getProto().isSlot())
      fail(ErrorCode::kInternal, "{} has a group, which schema/messages/received.cc does not know",
           schema.getShortDisplayName().cStr());
    const capnp::Type is = field.getType();
    ReceivedType::Field out{field.getProto().getSlot().getOffset(), field.getProto().getName()};
    if (is.isText()) {
      out.pointee = Pointee::kText;
    } else if (is.isData()) {
      out.pointee = Pointee::kData;
    } else if (is.isStruct()) {
      out.pointee = Pointee::kStruct;
      out.inner = &make(is.asStruct());
    } else if (is.isList()) {
      const capnp::Type element = is.asList().getElementType();
      out.pointee = Pointee::kList;
      out.element = element_size(element);
      if (element.isStruct()) out.inner = &make(element.asStruct());
    } else if (is.isAnyPointer() || is.isInterface()) {
      fail(ErrorCode::kInternal, "{}.{} may point at anything: schema/messages/received.cc cannot check it",
           schema.getShortDisplayName().cStr(), out.name);
    } else {
      return;  // a number
    }
    type.fields.push_back(std::move(out));
  }

  std::mutex mutex_;
  std::map<uint64_t, ReceivedType> types_;  // by the struct's id; never removed
};

void check(capnp::AnyStruct::Reader in, const ReceivedType& type);

void check_list(capnp::AnyList::Reader list, const ReceivedType::Field& field) {
  if (list.size() == 0) return;
  if (list.getElementSize() != field.element)
    fail(ErrorCode::kBadFrame, "the elements of the list '{}' have another size than the schema gives them",
         field.name);
  if (field.inner != nullptr) {
    const auto structs = list.as<capnp::List<capnp::AnyStruct>>();
    const auto first = structs[0];
    // An older peer may know fewer fields, but not none: tiny structs would become large ones of ours.
    const size_t words =
        first.getDataSection().size() / sizeof(capnp::word) + first.getPointerSection().size();
    if (2 * words < field.inner->words)
      fail(ErrorCode::kBadFrame, "the structs of the list '{}' have {} words, but {} belong to each",
           field.name, words, field.inner->words);
    for (const auto element : structs) check(element, *field.inner);
  } else if (field.element == capnp::ElementSize::POINTER) {
    for (const auto text : list.as<capnp::List<capnp::Text>>()) static_cast<void>(text);
  }
}

// Cap'n Proto counts what is read against the reader's limit, and throws beyond it.
void check(capnp::AnyStruct::Reader in, const ReceivedType& type) {
  const auto pointers = in.getPointerSection();
  for (const ReceivedType::Field& field : type.fields) {
    if (field.pointer >= pointers.size()) continue;  // of an older peer
    const capnp::AnyPointer::Reader pointer = pointers[field.pointer];
    switch (field.pointee) {
      case Pointee::kText:
        pointer.getAs<capnp::Text>();
        break;
      case Pointee::kData:
        pointer.getAs<capnp::Data>();
        break;
      case Pointee::kStruct:
        check(pointer.getAs<capnp::AnyStruct>(), *field.inner);
        break;
      case Pointee::kList:
        check_list(pointer.getAs<capnp::AnyList>(), field);
        break;
    }
  }
}

}  // namespace

const ReceivedType& received_type(capnp::StructSchema schema) {
  static Types types;
  return types.of(schema);
}

void check_received(const Words& words, const ReceivedType& type, Kind kind) {
  capnp::ReaderOptions options;
  options.traversalLimitInWords = words.size();
  options.nestingLimit = kMostNested;
  try {
    capnp::FlatArrayMessageReader reader(words.array(), options);
    check(reader.getRoot<capnp::AnyStruct>(), type);
  } catch (const kj::Exception& e) {
    fail(ErrorCode::kBadFrame, "malformed {}: {}", name(kind), e.getDescription().cStr());
  } catch (const Error& e) {
    fail(e.code(), "malformed {}: {}", name(kind), e.what());
  }
}

}  // namespace embers
