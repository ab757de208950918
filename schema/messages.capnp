@0xb1a4d1f0c7a95e21;
# What makes a struct a message. From the annotations, schema/message_kinds.cc generates what C++ must know about messages.
using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("embers::wire");

annotation kind(struct) :UInt16;
# Its number in a frame, from 1 on. Stable: never renumber, never reuse. Its name for people is the struct's.

annotation reply(struct) :Text;
# Of a request: the struct that answers it.

annotation servedBy(struct) :Actor;
# Of a request: the actor that answers it. None for the handshake, which the transport answers.

annotation sentBy(struct) :List(Role);
# Of a request that an actor answers: the roles that may send it. Every such request has it, and the transport refuses it from
# all other roles.

enum Actor {
  master @0;     # what workers and owner processes ask of the master
  optimizer @1;  # orders an owner's changes: pushes from workers; commits and life-cycle requests from the master
  shard @2;      # keeps an owner's rows: pulls from workers; restore and scan from the master
  probe @3;      # says who the process is, and what the network does: `embers doctor`
}

enum Role {
  # What a process is to those it connects to. It says so in the handshake.
  worker @0;     # computes minibatches: leases, pulls, pushes
  owner @1;      # an owner towards its master
  reader @2;     # looks rows up and changes nothing
  admin @3;      # steers a job
  master @4;     # a master towards its owners
}
