@0xf0c24732bc001950;
# The first messages of every connection; before them nothing else is accepted.
#
#   a job without a secret    Hello ──►            ◄── Welcome
#   a job with a secret       Hello ──►            ◄── Challenge
#                             Proof ──►            ◄── Welcome
#
# Each side proves that it knows the job's secret without sending it: with the HMAC-SHA256, under the secret, of who proves it
# (client or server), of the Hello and of the Challenge, byte for byte as they were sent (actors/door/secret.h). Both hold a
# fresh nonce, one of each side, so that a recorded proof is worth nothing; and with the Hello, the role and the protocol are
# under the proof too. The client proves it first: who only connects learns nothing. Refused: an ErrorReply instead.
using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("embers::wire");
using M = import "/schema/messages.capnp";

struct Hello $M.kind(3) $M.reply("Welcome") {
  # Client to server.
  protocol @0 :UInt32;       # kProtocol of messages.h; peers that differ are refused
  job @1 :UInt64;            # run that the client belongs to; 0: none yet (only a master accepts that)
  obsolete2 @2 :UInt16;      # was a channel, control or bulk
  incarnation @3 :UInt64;    # the client's, 0 before it joined
  numberFormat @4 :Text;     # "float32-le"
  role @5 :M.Role;           # the client's: what it may ask on this connection
  nonce @6 :Data;            # 32 random bytes; empty when the client knows no secret
  link @7 :UInt64;           # of a client that connects again: random, the same in all its connections. A new one ends the one before
}

struct Challenge $M.kind(5) {
  # Server to client: prove that you know the secret.
  nonce @0 :Data;            # 32 random bytes
}

struct Proof $M.kind(6) $M.reply("Welcome") {
  # Client to server.
  mac @0 :Data;              # 32 bytes
}

struct Welcome $M.kind(4) {
  # Server to client: the client is accepted.
  obsolete0 @0 :UInt32;      # was the protocol, which every frame carries
  obsolete1 @1 :UInt64;      # was the job, which the client has named
  mac @2 :Data;              # that the server knows the secret, too; empty without a secret
  silence @3 :Float64;       # seconds without progress after which either side cuts this connection
}

struct Ping $M.kind(7) {
  # Both ways, on every connection, four times in Welcome.silence; not answered. See actors/transport/connections/liveness.h.
  received @0 :UInt64;       # bytes that the sender has read from this connection
  waits @1 :Bool;            # the sender has no room, and reads nothing for now
}

struct Share $M.kind(8) {
  # Both ways, between processes of one user on one host, when the first large message has been sent: the memory in which the
  # sender builds large messages from now on, and the slots of those that its peer still reads. See actors/shared_memory/.
  arena @0 :File;
  slots @1 :File;

  struct File {
    descriptor @0 :Int32;    # in the sender's process
    inode @1 :UInt64;
    bytes @2 :UInt64;
  }
}

struct ShareTaken $M.kind(9) {
  # The answer to Share.
  taken @0 :Bool;            # large messages may come as places in that memory; else they come over the socket, as before
}
