@0xe55194e9c6286015;
# Structs that several messages share. Numbers in Data fields are little-endian; see codec.h for who may read them.
using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("embers::wire");
using M = import "/schema/messages.capnp";

struct Origin {
  # Who sends a data message, and what for. Set by the worker on every pull and push.
  job @0 :UInt64;          # random number of the job's run, from the master's welcome
  incarnation @1 :UInt64;  # the sender's, given by the master at the join; never used twice in a job
  epoch @2 :UInt32;        # with minibatch the identity of the work: applied once, whatever is retried
  minibatch @3 :UInt64;
  attempt @4 :UInt32;      # number of the try at this minibatch; the first one that comes counts
  step @5 :UInt64;         # push: number of the step that the sender takes of its own dense parameters, growing; 0 for none
  version @6 :UInt64;      # pull: version wanted (sync) or 0; push: model version computed on
  mapVersion @7 :UInt32;   # the owner map that the sender routed by
  examples @8 :UInt32;     # records in the minibatch
  cut @9 :UInt64;          # checkpoint cut that the sender has seen, 0 before the first
}

struct Table {
  # One embedding table's spec, as in schema/table_spec.h.
  name @0 :Text;
  dim @1 :UInt32;
  keyKind @2 :UInt8;
  inputDim @3 :Int64;
  initializer @4 :Named;
  optimizer @5 :Named;
  accumulation @6 :UInt8;
  constraint @7 :Named;    # name "" for none
  schedule @8 :Schedule;   # of the optimizer's learning rate
  numberType @9 :UInt8;    # what rows are kept as
  rounding @10 :UInt8;     # of changed rows that are halves
  partition @11 :UInt8;    # over owners; members are told token or encoding
}

struct Schedule {
  # How a learning rate changes.
  kind @0 :Named;               # name "" for none
  boundaries @1 :List(Float64); # of a piecewise constant schedule, as is `values`
  values @2 :List(Float64);
}

struct Named {
  # A name with numeric parameters.
  name @0 :Text;
  params @1 :List(Param);
  struct Param {
    name @0 :Text;
    value @1 :Float64;
  }
}

struct TableKeys {
  # Keys of one table, of one kind.
  table @0 :UInt32;   # TableId
  count @1 :UInt32;   # number of keys
  ints @2 :Data;      # int64 keys: count x 8 bytes; else empty
  ends @3 :Data;      # byte-string keys: count x 4 bytes, end of each key in `bytes`, ascending
  bytes @4 :Data;     # byte-string keys one after another
  width @5 :UInt32;   # numbers per key in `values`: dim, or dim plus slots; 0 without values
  values @6 :Data;    # count x width numbers, or empty
  numberType @7 :UInt8;  # the type of the numbers, see base/floats/numbers.h
  # Pulls and pushes across a network have keys in fewer bytes:
  packed @8 :Data;       # int64 keys, instead of `ints`: count x keyBytes bytes, see packed_keys.h; else empty
  keyBytes @9 :UInt8;    # 1 to 8
  least @10 :Int64;
  keysOf @11 :UInt32;    # not 0: no keys here, but those of entry keysOf - 1 of the list, which has keys of its own
}

struct ErrorReply $M.kind(1) {
  # Payload of a frame with the error flag.
  code @0 :UInt8;     # base/errors.h
  message @1 :Text;
}

struct Empty $M.kind(2) {
  # The answer to requests when there is nothing to say but "done".
}
