/*
 * The protocol between model shards and the matcher (docs/protocols.md, "Inside the scheduler"): two models on two shards,
 * two GPUs, one of which may crash at any moment, one move of a model to the other shard, and one batch that fails or one task that
 * is cancelled. Run by tests/model/check.
 *
 *   candidate  a slot per model that holds only the latest: {seen, ready}
 *   order      a ring per shard, from the matcher: grant a GPU to a model, a GPU is lost, give a model away
 *   answer     a ring per shard, to the matcher: the GPU is taken (for how long, in the real one), or free
 *
 * A candidate counts only when it has seen every order about its model. Each MUTANT leaves out one rule, and the check
 * sees that it is found out.
 */
#define MODELS 2
#define SHARDS 2
#define GPUS 2
#define TASKS 2 /* of each model */

mtype = { GRANT, LOST, GIVE };

byte issued[MODELS];   /* orders about the model, the matcher's count */
byte route[MODELS];    /* the shard it sends them to */
byte seen[MODELS];     /* orders that its shard has worked off; travels with the model */
byte slot_seen[MODELS];
bool slot_ready[MODELS];

byte unsent[MODELS] = TASKS; /* tasks that clients have yet to send */
byte owner[MODELS];
byte waiting[MODELS];        /* in the queue of the owner, or on the way to it */
byte answered[MODELS];

bool open[GPUS] = true;  /* the matcher may grant it */
bool alive[GPUS] = true; /* to the matcher */
bool dead[GPUS];         /* in truth */
byte runs[GPUS];         /* tasks of the batch on it, as the shard has it */
byte runs_of[GPUS], runs_by[GPUS];
bool busy[GPUS], ended[GPUS], failed[GPUS];
bool moved, cancelled;
bool trouble; /* a batch has failed, or a task was cancelled */

chan orders[SHARDS] = [4] of { mtype, byte, byte }; /* GPUS grants, GPUS losses; checked below never to be full */
chan answers[SHARDS] = [4] of { byte, bool };
bool parcel[MODELS]; /* tasks have come to the owner from another shard: a list that takes any number */

inline publish(m)
{
    atomic { slot_seen[m] = seen[m]; slot_ready[m] = (waiting[m] > 0) }
}

/* The batch on this GPU is over: its tasks are answered, or queued again at the model's owner. */
inline end_batch(gpu)
{
    if
    :: failed[gpu] ->
#ifndef MUTANT_FAILED
        waiting[runs_of[gpu]] = waiting[runs_of[gpu]] + runs[gpu];
#endif
        parcel[runs_of[gpu]] = true
    :: else ->
        answered[runs_of[gpu]] = answered[runs_of[gpu]] + runs[gpu]
    fi;
    runs[gpu] = 0; busy[gpu] = false; failed[gpu] = false;
    answers[me]!gpu, false
}

proctype shard(byte me)
{
    byte m, g;
end:
    do
    :: atomic { owner[0] == me && unsent[0] > 0 -> unsent[0]--; waiting[0]++ };
        if :: owner[0] == me -> publish(0) :: else fi
    :: atomic { owner[1] == me && unsent[1] > 0 -> unsent[1]--; waiting[1]++ };
        if :: owner[1] == me -> publish(1) :: else fi
    :: orders[me]?GRANT(m, g) ->
        atomic {
            assert(owner[m] == me);
            assert(waiting[m] > 0 || cancelled); /* else its candidate was stale */
            assert(!busy[g]);                    /* no GPU is bound twice */
            assert(nfull(answers[me]));
            seen[m]++;
            if
            :: waiting[m] > 0 ->
                busy[g] = true; ended[g] = false; runs_of[g] = m; runs_by[g] = me;
                runs[g] = waiting[m]; waiting[m] = 0;
                answers[me]!g, true
            :: else ->
#ifndef MUTANT_UNUSED
                answers[me]!g, false
#endif
            fi
        }
        publish(m)
    :: orders[me]?LOST(m, g) ->
        atomic {
            if
            :: busy[g] && runs_by[g] == me ->
                m = runs_of[g];
#ifndef MUTANT_LOST
                waiting[m] = waiting[m] + runs[g]; /* at the model's owner, whoever that is now */
#endif
                busy[g] = false; runs[g] = 0; failed[g] = false
            :: else
            fi
        }
        parcel[m] = true
    :: orders[me]?GIVE(m, g) ->
        atomic {
#ifndef MUTANT_GIVE
            seen[m]++;
#endif
            owner[m] = g; parcel[m] = true
        }
    :: atomic { parcel[0] && owner[0] == me -> parcel[0] = false }; publish(0)
    :: atomic { parcel[1] && owner[1] == me -> parcel[1] = false }; publish(1)
    :: atomic { busy[0] && ended[0] && runs_by[0] == me -> end_batch(0) }
    :: atomic { busy[1] && ended[1] && runs_by[1] == me -> end_batch(1) }
    :: atomic { !trouble && owner[0] == me && waiting[0] > 0 ->
        trouble = true; cancelled = true; waiting[0]--; answered[0]++ };
        if :: owner[0] == me -> publish(0) :: else fi
    od
}

inline bind(m)
{
    g = (open[0] -> 0 : 1); /* the lowest that is free */
    open[g] = false;
    issued[m]++;
    assert(nfull(orders[route[m]]));
    orders[route[m]]!GRANT(m, g)
}

#ifdef MUTANT_SEEN
#define CURRENT(m) true
#else
#define CURRENT(m) (slot_seen[m] == issued[m])
#endif

proctype matcher()
{
    byte g;
    bool taken;
end:
    do
    :: atomic { answers[0]?g, taken -> open[g] = !taken && alive[g] }
    :: atomic { answers[1]?g, taken -> open[g] = !taken && alive[g] }
    :: atomic { slot_ready[0] && CURRENT(0) && (open[0] || open[1]) -> bind(0) }
    :: atomic { slot_ready[1] && CURRENT(1) && (open[0] || open[1]) -> bind(1) }
    :: atomic { dead[0] && alive[0] -> /* its stream has broken */
        alive[0] = false; open[0] = false;
        orders[0]!LOST(0, 0); orders[1]!LOST(0, 0) }
    :: atomic { !moved -> /* model 0 goes to the other shard */
        moved = true;
#ifndef MUTANT_GIVE
        issued[0]++;
#endif
        orders[0]!GIVE(0, 1); route[0] = 1 }
    od
}

proctype workers()
{
end:
    do
    :: atomic { busy[0] && !ended[0] && !dead[0] -> ended[0] = true }
    :: atomic { busy[1] && !ended[1] -> ended[1] = true }
    :: atomic { busy[1] && !ended[1] && !trouble -> trouble = true; failed[1] = true; ended[1] = true }
    :: atomic { !dead[0] -> dead[0] = true } /* the crash: its batch never ends */
    od
}

init
{
    atomic {
        owner[1] = 1; route[1] = 1;
        run shard(0); run shard(1); run matcher(); run workers()
    }
    timeout; /* nobody can do anything more */
    assert(answered[0] == TASKS && answered[1] == TASKS);
    assert(open[1]);
    assert(!busy[0] && !busy[1])
}
