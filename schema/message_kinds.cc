// A plugin of `capnp compile`: writes schema/message_kinds.h, which says of each struct with a kind
// (schema/messages.capnp) what C++ must know when it compiles. Runs when embers is built.
#include <capnp/message.h>
#include <capnp/schema.capnp.h>
#include <capnp/serialize.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <iostream>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using capnp::schema::Node;

constexpr const char* kAnnotations = "schema/messages.capnp";
constexpr const char* kOutput = "schema/message_kinds.h";

struct MessageKind {
  std::string name;  // of the struct
  uint16_t kind = 0;
  std::string reply;  // "": not a request
  std::optional<uint16_t> actor;
  std::vector<uint16_t> senders;  // roles
};

struct Messages {
  std::vector<std::string> headers;
  std::vector<std::string> actors, roles;  // by number, as in the schema
  std::vector<MessageKind> all;            // in order of kind
};

std::string short_name(Node::Reader node) {
  return node.getDisplayName().cStr() + node.getDisplayNamePrefixLength();
}

std::string capitalized(std::string name) {
  name.at(0) = static_cast<char>(std::toupper(static_cast<unsigned char>(name.at(0))));
  return name;
}

std::string in_capitals(std::string name) {
  for (char& c : name) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return name;
}

[[noreturn]] void fail(const std::string& what) { throw std::runtime_error(what); }

// The ids of the annotations, by name.
std::map<std::string, uint64_t> annotations_of(capnp::schema::CodeGeneratorRequest::Reader request) {
  std::map<std::string, uint64_t> ids;
  for (const auto node : request.getNodes())
    if (node.isAnnotation() && std::string(node.getDisplayName().cStr()).starts_with(kAnnotations))
      ids[short_name(node)] = node.getId();
  return ids;
}

std::vector<std::string> enumerants_of(Node::Reader node) {
  std::vector<std::string> names;
  for (const auto enumerant : node.getEnum().getEnumerants()) names.push_back(enumerant.getName());
  return names;
}

Messages read(capnp::schema::CodeGeneratorRequest::Reader request) {
  const auto ids = annotations_of(request);
  Messages messages;
  for (const auto file : request.getRequestedFiles())
    messages.headers.push_back(std::string(file.getFilename().cStr()) + ".h");
  for (const auto node : request.getNodes()) {
    if (node.isEnum() && short_name(node) == "Actor") messages.actors = enumerants_of(node);
    if (node.isEnum() && short_name(node) == "Role") messages.roles = enumerants_of(node);
    if (!node.isStruct()) continue;
    MessageKind message{short_name(node), 0, "", std::nullopt, {}};
    for (const auto annotation : node.getAnnotations()) {
      const uint64_t id = annotation.getId();
      const auto is = [&](const char* name) {
        const auto known = ids.find(name);
        return known != ids.end() && known->second == id;
      };
      if (is("kind")) message.kind = annotation.getValue().getUint16();
      if (is("reply")) message.reply = annotation.getValue().getText();
      if (is("servedBy")) message.actor = annotation.getValue().getEnum();
      if (is("sentBy"))
        for (const uint16_t role : annotation.getValue().getList().getAs<capnp::List<uint16_t>>())
          message.senders.push_back(role);
    }
    if (message.kind != 0)
      messages.all.push_back(message);
    else if (!message.reply.empty() || message.actor)
      fail("struct " + message.name + " is a request, but has no kind (kinds begin at 1)");
  }
  std::ranges::sort(messages.all, {}, &MessageKind::kind);
  return messages;
}

void check(const Messages& messages) {
  std::map<std::string, uint16_t> kinds;
  for (size_t i = 0; i < messages.all.size(); ++i) {
    const MessageKind& message = messages.all[i];
    if (i > 0 && messages.all[i - 1].kind == message.kind)
      fail("structs " + messages.all[i - 1].name + " and " + message.name + " have the same kind " +
           std::to_string(message.kind));
    if (!kinds.emplace(message.name, message.kind).second) fail("two messages are called " + message.name);
  }
  for (const MessageKind& message : messages.all) {
    if (!message.reply.empty() && !kinds.contains(message.reply))
      fail("the reply of " + message.name + ", " + message.reply + ", is not a message");
    if (message.actor && message.reply.empty())
      fail(message.name + " is served by an actor, but has no reply");
    if (message.actor && *message.actor >= messages.actors.size()) fail(message.name + ": no such actor");
    if (message.actor && message.senders.empty())
      fail(message.name + " is served by an actor, but nobody may send it: say who, with sentBy");
    if (!message.actor && !message.senders.empty())
      fail(message.name + " has senders, but no actor serves it");
  }
}

// A list of message types that `chosen` holds for.
template <class Chosen>
std::string list(const Messages& messages, Chosen chosen) {
  std::string types;
  for (const MessageKind& message : messages.all)
    if (chosen(message)) types += (types.empty() ? "\n    wire::" : ",\n    wire::") + message.name;
  return "MessageList<" + types + ">";
}

std::string header(const Messages& messages) {
  std::ostringstream out;
  out << "#pragma once\n\n// Generated by schema/message_kinds.cc; to change it, change the *.capnp files.\n"
         "#include <cstdint>\n\n#include \"schema/messages.capnp.h\"\n";
  for (const std::string& include : messages.headers) out << "#include \"" << include << "\"\n";
  out << "\nnamespace embers {\n\n// Number of a message type in a frame.\nenum class Kind : uint16_t {\n";
  for (const MessageKind& message : messages.all)
    out << "  k" << message.name << " = " << message.kind << ",\n";
  out << "};\n\n// Kind of a message type, and the type of its answer: KindOf<wire::PullRequest>::kind, "
         "::Reply.\n"
         "template <class T>\nstruct KindOf;\n";
  for (const MessageKind& message : messages.all) {
    out << "template <>\nstruct KindOf<wire::" << message.name
        << "> {\n  static constexpr Kind kind = Kind::k" << message.name << ";\n";
    if (!message.reply.empty()) out << "  using Reply = wire::" << message.reply << ";\n";
    out << "};\n";
  }
  out << "\ntemplate <class... Messages>\nstruct MessageList {};\n\n// In order of kind.\nusing AllMessages "
         "= "
      << list(messages, [](const auto&) { return true; }) << ";\n\n// What each actor serves.\n";
  for (size_t actor = 0; actor < messages.actors.size(); ++actor)
    out << "using " << capitalized(messages.actors[actor])
        << "Requests = " << list(messages, [&](const MessageKind& m) { return m.actor == actor; }) << ";\n";
  out << "\n// Whether this role may send this message to an actor of another process.\n"
         "constexpr bool may_send(wire::Role role, Kind kind) {\n  switch (kind) {\n";
  for (const MessageKind& message : messages.all) {
    if (!message.actor) continue;
    out << "    case Kind::k" << message.name << ":\n      return ";
    for (size_t i = 0; i < message.senders.size(); ++i)
      out << (i > 0 ? " || " : "")
          << "role == wire::Role::" << in_capitals(messages.roles.at(message.senders[i]));
    out << ";\n";
  }
  out << "    default:\n      return false;\n  }\n}\n\n}  // namespace embers\n";
  return out.str();
}

}  // namespace

int main() {
  try {
    capnp::StreamFdMessageReader reader(STDIN_FILENO);
    const Messages messages = read(reader.getRoot<capnp::schema::CodeGeneratorRequest>());
    check(messages);
    std::ofstream out(kOutput);  // capnp compile -o plugin:DIR runs it in DIR
    out << header(messages);
    if (!out.flush()) fail(std::string("cannot write ") + kOutput);
    return 0;
  } catch (const std::exception& e) {
    std::cerr << "message_kinds: " << e.what() << "\n";
  } catch (const kj::Exception& e) {
    std::cerr << "message_kinds: " << e.getDescription().cStr() << "\n";
  }
  return 1;
}
