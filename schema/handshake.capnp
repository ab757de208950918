@0xf0c24732bc001950;
# The first two messages of every connection; before them nothing else is accepted.
using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("embers::wire");
using M = import "/schema/messages.capnp";

struct Hello $M.kind(3) $M.reply("Welcome") {
  # Client to server.
  protocol @0 :UInt32;       # kProtocol of messages.h; peers that differ are refused
  job @1 :UInt64;            # run that the client belongs to; 0: none yet (only a master accepts that)
  channel @2 :Channel;       # control or bulk
  incarnation @3 :UInt64;    # the client's, 0 before it joined
  numberFormat @4 :Text;     # "float32-le"
}

enum Channel {
  control @0;
  bulk @1;
}

struct Welcome $M.kind(4) {
  # Server to client.
  protocol @0 :UInt32;
  job @1 :UInt64;
}
