@0xf0c24732bc001950;
# The first two messages of every connection; before them nothing else is accepted.
using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("embers::wire");
using M = import "/schema/messages.capnp";

struct Hello $M.kind(3) $M.reply("Welcome") {
  # Client to server.
  protocol @0 :UInt32;       # kProtocol of messages.h; peers that differ are refused
  job @1 :UInt64;            # run that the client belongs to; 0: none yet (only a master accepts that)
  obsolete2 @2 :UInt16;      # was a channel, control or bulk
  incarnation @3 :UInt64;    # the client's, 0 before it joined; for checks of who may ask what
  numberFormat @4 :Text;     # "float32-le"
}

struct Welcome $M.kind(4) {
  # Server to client: the client is accepted. Otherwise the answer is an ErrorReply.
  obsolete0 @0 :UInt32;      # was the protocol, which every frame carries
  obsolete1 @1 :UInt64;      # was the job, which the client has named
}
