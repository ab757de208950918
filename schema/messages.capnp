@0xb1a4d1f0c7a95e21;
# What makes a struct a message. schema/message_kinds.cc makes of it what C++ must know about messages.
using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("embers::wire");

annotation kind(struct) :UInt16;
# Its number in a frame, from 1 on. Stable: never renumber, never reuse. Its name for people is the struct's.

annotation reply(struct) :Text;
# Of a request: the struct that answers it.

annotation servedBy(struct) :Actor;
# Of a request: the actor that answers it. None for the handshake, which is the transport's.

enum Actor {
  master @0;     # what workers and owner processes ask of the master
  optimizer @1;  # the order side of an owner: pushes of workers; commits and the owner's life by the master
  shard @2;      # the row side of an owner: pulls of workers; restore and scan of the master
}
