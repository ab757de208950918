@0xaebe3ea00fa980fe;
# To the master: members of a job, and those who steer it.
using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("embers::wire");
using M = import "/schema/messages.capnp";
using Common = import "/schema/common.capnp";

struct JobRequest $M.kind(64) $M.reply("JobReply") $M.servedBy(master) $M.sentBy([owner, worker, reader, admin]) {
  # What is to be done? The first question of a process that knows only the master's address.
}

struct JobReply $M.kind(65) {
  job @0 :UInt64;
  path @1 :Text;                     # the job file's name, for messages
  text @2 :Text;                     # its TOML
  overrides @3 :List(Text);          # --set a.b=c, in order
  indexDir @4 :Text;                 # where record indexes are kept, or ""
  evaluates @5 :Bool;                # a saved model is used: no training data, and rows stay in memory
  version @7 :Text;                  # of the master's embers, for programs that ask for the same
  wantsModel @6 :Bool;               # no worker has told the model of this job yet: see ToldModel
}

struct JoinRequest $M.kind(66) $M.reply("JoinReply") $M.servedBy(master) $M.sentBy([owner, worker, reader]) {
  role @0 :M.Role;                   # the same as in the handshake
  host @1 :Text;                     # name for people
  pid @2 :UInt64;
  endpoints @3 :List(Text);          # owner: where it listens, "host:port" and "unix:/path"
  bootId @4 :Text;                   # tells whether two processes share a host
  model @5 :List(Text);              # worker: signature(ModelSpec), one line per table or parameter
  numeric @6 :List(Text);            # worker: numeric settings, "name=value"
  settings @7 :List(Text);           # worker: the job's values and what its data hold, "section.key = value"
  more @8 :UInt32;                   # owner: how many of the same process join after this one
  token @9 :UInt64;                  # random, of this join: the same request asked again has the same answer. 0: it is not asked again,
                                     # and who loses its connection is lost
  window @12 :UInt32;                # worker: leases that it may draw ahead of their work, one at a time; then it says when the work on
                                     # each begins. 0: the work on a lease begins when it comes
  told @11 :ToldModel;               # worker: of a job without model and data of its own; else null
  label @10 :Text;                   # the name that whoever started the process gave it (EMBERS_LABEL), or "". A worker with one was started
                                     # by a program that makes the wanted number of workers true, so it never raises that number
}

struct ToldModel {
  # A job without model and data gets them from the first worker that joins; later ones must agree.
  tables @0 :List(Common.Table);     # reserved ones too; an initializer or optimizer named "" is the job's or the default
  parameters @1 :List(Parameter);    # parameters, then buffers
  dense @2 :Data;                    # first values, float32, in chunks of the reserved tables: parameters, and
  buffers @3 :Data;                  # buffers. Empty: zeros, or the master does not want them any more
  records @4 :UInt64;                # in an epoch
  batchSize @5 :UInt32;
  epochs @6 :UInt32;
  dropLast @7 :Bool;                 # an epoch's last minibatch is left out if it is short
  struct Parameter {
    name @0 :Text;
    shape @1 :List(Int64);
    buffer @2 :Bool;
  }
}

struct JoinReply $M.kind(67) {
  # Sent once every owner is there, to readers once the owners have their first rows, so it may take a while.
  incarnation @0 :UInt64;
  number @1 :UInt32;                 # worker, reader: running number; owner: its number in the owner map
  tables @2 :List(Common.Table);
  mapVersion @3 :UInt32;
  ownerOfBucket @4 :List(UInt16);
  owners @5 :List(Owner);            # in order of their numbers; only for workers and readers
  takesOver @6 :Bool;                # owner: continues where a lost process of this shard was cut off
  serverUser @7 :Text;               # what the job's memcached or Redis servers ask for: secret
  serverPassword @8 :Text;           # "": they ask for nothing
  struct Owner {
    endpoints @0 :List(Text);
    bootId @1 :Text;
  }
}

struct OwnersRequest $M.kind(76) $M.reply("OwnersReply") $M.servedBy(master) $M.sentBy([worker, reader]) {
  # Where are the owners? Asked by a worker that lost one, or was told kStaleMap. Answered when all are there.
  incarnation @0 :UInt64;
  mapVersion @1 :UInt32;             # the one that the worker knows
}

struct OwnersReply $M.kind(77) {
  mapVersion @0 :UInt32;
  owners @1 :List(JoinReply.Owner);  # in order of their numbers
}

struct LeaseRequest $M.kind(68) $M.reply("LeaseReply") $M.servedBy(master) $M.sentBy([worker]) {
  # Give me work. Answered when there is some. A worker has one of these at the master.
  incarnation @0 :UInt64;
  received @1 :UInt64;               # the last lease that it has received, 0 before the first: later ones were lost on their way
}

struct LeaseReply $M.kind(69) {
  kind @0 :Kind;
  lease @1 :UInt64;
  epoch @2 :UInt32;
  version @3 :UInt64;                # sync: the version to compute on
  minibatches @4 :List(Part);
  enum Kind {
    train @0;
    evaluate @1;                     # test set, read-only, file order
    end @2;                          # no more work: leave
    later @3;                        # nothing now for a worker that has a window and holds leases: it is to finish these first
  }
  struct Part {
    minibatch @0 :UInt64;
    attempt @1 :UInt32;
  }
}

struct BeginRequest $M.kind(85) $M.reply("BeginReply") $M.servedBy(master) $M.sentBy([worker]) {
  # May the work on this minibatch begin? Asked by workers with a window; in sync mode answered when its version is there. A worker has
  # one of these at the master.
  incarnation @0 :UInt64;
  lease @1 :UInt64;
  minibatch @2 :UInt64;
  attempt @3 :UInt32;
}

struct BeginReply $M.kind(86) {
  begun @0 :Bool;                    # false: give back this and all that has not begun, and draw again: the lowest comes first
}

struct DoneRequest $M.kind(70) $M.reply("DoneReply") $M.servedBy(master) $M.sentBy([worker]) {
  # One minibatch of a lease is finished: every owner acknowledged its push, or it is evaluated.
  incarnation @0 :UInt64;
  lease @1 :UInt64;
  obsolete2 @2 :UInt32;              # was the epoch, which the lease has
  minibatch @3 :UInt64;
  attempt @4 :UInt32;
  examples @5 :UInt64;
  skipped @6 :UInt64;                # bad rows left out (policy skip)
  lossSum @7 :Float64;               # loss x examples
  scores @8 :Data;                   # float32 per example
  labels @9 :Data;                   # float32 per example; empty for data without labels
  records @10 :Data;                 # evaluate: uint64 record number per example
  latePulls @11 :UInt32;             # pulls during the forward pass
  returned @12 :Bool;                # not finished: an owner refused it as stale; lease it again
  stageSeconds @13 :List(Float64);   # in order of StageTimes::Stage; the rest of a longer list is ignored
  keys @14 :UInt64;                  # unique keys looked up ahead, of all embedding tables
  cacheHits @15 :UInt64;             # how many of them were found in the worker's cache
  directRows @16 :UInt64;            # rows that the worker read straight from servers
  ownerRows @17 :UInt64;             # rows that owners gave it
}

struct DoneReply $M.kind(71) {
  accepted @0 :Bool;                 # false: the lease had been given to another worker
}

struct HeartbeatRequest $M.kind(72) $M.reply("HeartbeatReply") $M.servedBy(master) $M.sentBy([owner, worker, reader]) {
  incarnation @0 :UInt64;            # 0 before the join
  stop @1 :Bool;                     # the user asked this process to stop: owner: end the job; worker: leave
  # What it has done since it joined, for people.
  rows @2 :UInt64;                   # owner: embedding rows that it holds
  bytes @3 :UInt64;                  # owner: memory that its tables take
  pulls @4 :UInt64;                  # answered (owner); minibatches whose rows it has asked for (worker)
  pushes @5 :UInt64;                 # taken (owner); minibatches that all owners have acknowledged (worker)
  applied @6 :UInt64;                # owner: minibatches in its rows
  waiting @7 :UInt64;                # owner: pushes that it has taken and not applied yet
}

struct HeartbeatReply $M.kind(73) {
  interval @0 :Float64;              # seconds until the next one is expected
  timeout @1 :Float64;               # seconds of silence after which either side gives up on the other
  mapVersion @2 :UInt32;             # a worker that knows an older one sends OwnersRequest
}

struct OrderRequest $M.kind(78) $M.reply("OrderReply") $M.servedBy(master) $M.sentBy([owner, worker, reader]) {
  # What am I to do? Every member may have one of these at the master: the only way by which the master speaks first. Answered
  # when there is an order, or by none after some seconds, so that both ends notice silence.
  incarnation @0 :UInt64;
  received @1 :UInt64;               # number of the last order that it has received, 0 before the first
  carriedOut @2 :UInt64;             # number of the last order that it has carried out; they are carried out in turn
}

struct OrderReply $M.kind(79) {
  number @0 :UInt64;                 # 1, 2, ... for each member; 0: none
  order @1 :Order;
  value @2 :UInt64;                  # hold, release: the cut
  enum Order {
    none @0;
    hold @1;                         # finish pushes that have begun, begin no new one
    release @2;                      # push again
    drain @3;                        # finish what is leased, then leave
    evaluate @4;                     # take evaluation leases too
    checkpoint @5;                   # write what the cut holds
  }
}

struct FailRequest $M.kind(74) $M.reply("Empty") $M.servedBy(master) $M.sentBy([owner, worker]) {
  # The sender met an error that ends the job (bad data, a model that throws). The master stops everything with this error.
  incarnation @0 :UInt64;
  code @1 :UInt8;
  message @2 :Text;
}

struct LeaveRequest $M.kind(75) $M.reply("Empty") $M.servedBy(master) $M.sentBy([owner, worker, reader]) {
  # A worker leaves; what it had leased goes to others. Or an owner cannot take the place that it was given.
  incarnation @0 :UInt64;
  reason @1 :Text;                   # why it cannot go on, as when it reaches the master but not an owner; empty: it was asked to
}

# --- those who steer a job ---------------------------------------------------------------------------

struct StatusRequest $M.kind(80) $M.reply("StatusReply") $M.servedBy(master) $M.sentBy([admin]) {
  # How does the job stand?
}

struct StatusReply $M.kind(81) {
  # What embers status --json says; docs/control.md explains it. Numbers that do not exist are NaN.
  job @0 :Text;                      # the job file's path, as the master was given it
  run @1 :UInt64;
  task @2 :Text;
  mode @3 :Text;
  phase @4 :Text;
  error @5 :Text;                    # "": none
  stopping @6 :Text;                 # why; "": it is not
  elapsed @7 :Float64;               # seconds
  remaining @8 :Float64;             # seconds
  epoch @9 :UInt32;                  # from 1; 0 before the first
  epochs @10 :UInt32;
  version @11 :UInt64;
  minibatchesDone @12 :UInt64;       # of the epoch, or of the evaluation under way
  minibatches @13 :UInt64;
  examples @14 :UInt64;
  examplesPerSecond @15 :Float64;
  loss @16 :Float64;                 # recent training minibatches
  auc @17 :Float64;
  evaluation @18 :Evaluation;        # the last one; null before
  stalenessMean @19 :Float64;
  stalenessMax @20 :UInt64;
  workers @21 :Group;
  shards @22 :Group;
  members @23 :List(Member);
  struct Evaluation {
    loss @0 :Float64;
    auc @1 :Float64;
    accuracy @2 :Float64;
  }
  struct Group {
    wanted @0 :UInt64;
    joined @1 :UInt64;               # and still there
    lost @2 :UInt64;                 # so far
  }
  struct Member {
    name @0 :Text;                   # "worker 3"
    role @1 :Text;
    number @2 :UInt32;
    label @3 :Text;                  # see JoinRequest
    host @4 :Text;
    pid @5 :UInt64;
    state @6 :Text;
    lastSign @7 :Float64;            # seconds since its last sign of life
    joined @8 :Float64;              # seconds since it joined
    minibatches @9 :UInt64;          # worker: finished
    examples @10 :UInt64;            # worker: in these
    rows @11 :UInt64;                # as in HeartbeatRequest
    bytes @12 :UInt64;
    pullsPerSecond @13 :Float64;
    pushesPerSecond @14 :Float64;
    lag @15 :UInt64;                 # minibatches
  }
}

struct ScaleRequest $M.kind(82) $M.reply("Empty") $M.servedBy(master) $M.sentBy([admin]) {
  # So many workers are wanted from now on. Surplus ones are drained, the youngest first; whoever starts processes adds missing ones.
  workers @0 :UInt32;                # at least 1
}

struct DrainRequest $M.kind(83) $M.reply("Empty") $M.servedBy(master) $M.sentBy([admin]) {
  # These workers finish what they hold and leave, and so many fewer are wanted. All of them or, when one cannot be, none.
  members @0 :List(Text);            # names or labels: see StatusReply.Member
}

struct StopRequest $M.kind(84) $M.reply("Empty") $M.servedBy(master) $M.sentBy([admin]) {
  # Finish what is under way, and end the job.
  save @0 :Bool;                     # what the job was to save at its end; false: nothing
  why @1 :Text;                      # for people; "": somebody has called `embers stop`
}

struct CheckpointRequest $M.kind(87) $M.reply("CheckpointReply") $M.servedBy(master) $M.sentBy([admin]) {
  # Save the job now, and go on. Asked again until it is saved: the first answer comes at once, others within two seconds, so that both
  # ends notice silence.
  id @0 :UInt64;                     # random, of this wish: asked again, it is the same checkpoint
  directory @1 :Text;                # of the master's host
}

struct CheckpointReply $M.kind(88) {
  saved @0 :Bool;                    # false: not yet. Until then nothing new is begun, unless somebody must finish what a late worker began
}
