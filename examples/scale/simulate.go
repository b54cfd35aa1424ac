package main

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sharded"
)

// load is what is simulated. All times are in seconds.
type load struct {
	sessions, perUser int
	skew              float64 // of the users' shares in the turns, as the exponent of Zipf's law; 0: all have the same
	rate              float64 // turns that begin a second, on average: a Poisson process
	turns             int     // that are simulated
	calls             int     // of the store, in a turn
	think             float64 // the mean time between two calls of a turn: models and tools, exponential
	service           float64 // the mean time that a call keeps one of a shard's workers busy
	fixed             bool    // calls take that time exactly, else exponential times
	workers           int     // calls that a shard serves at once; others wait in their order
	seed              uint64
}

// outcome is what came of it.
type outcome struct {
	seconds     float64   // until the last turn began
	utilisation []float64 // of the workers of each shard
	wait        []float64 // of each call, sorted
	meanWait    float64
	inStore     []float64 // what a turn spends in the store, waiting included, sorted
}

// at returns the value below which a share of sorted values is.
func at(sorted []float64, share float64) float64 {
	return sorted[min(int(share*float64(len(sorted))), len(sorted)-1)]
}

// homes returns the number of the shard of each user.
func (l load) homes(shards int) ([]int, error) {
	var all []sharded.Shard
	number := make(map[string]int)
	for i := range shards {
		name := fmt.Sprintf("shard%d", i)
		number[name] = i
		all = append(all, sharded.Shard{Name: name, Store: session.NewMemory()})
	}
	s, err := sharded.New(all)
	if err != nil {
		return nil, err
	}
	homes := make([]int, l.users())
	for i := range homes {
		homes[i] = number[s.Home(session.Key{App: session.DefaultApp, User: fmt.Sprintf("user%d", i), ID: "s"})]
	}
	return homes, nil
}

func (l load) users() int { return max(1, l.sessions/l.perUser) }

// moved returns how many of the sessions another shard takes from so many.
func (l load) moved(shards int) (moved, wrong int, err error) {
	before, err := l.homes(shards)
	if err != nil {
		return 0, 0, err
	}
	after, err := l.homes(shards + 1)
	for i := range before {
		if before[i] != after[i] {
			moved += l.perUser
			if after[i] != shards {
				wrong += l.perUser
			}
		}
	}
	return moved, wrong, err
}

// call is a call of a turn, at the time at which it comes to its shard.
type call struct {
	time, spent float64 // spent by the turn in calls before
	shard, left int
}

type calls []call

func (c calls) Len() int           { return len(c) }
func (c calls) Less(i, j int) bool { return c[i].time < c[j].time }
func (c calls) Swap(i, j int)      { c[i], c[j] = c[j], c[i] }
func (c *calls) Push(x any)        { *c = append(*c, x.(call)) }
func (c *calls) Pop() any {
	last := (*c)[len(*c)-1]
	*c = (*c)[:len(*c)-1]
	return last
}

// simulate lets turns come and go. As calls come to a shard in the order of time, the state of a shard is when
// each of its workers is free.
func (l load) simulate(shards int) (*outcome, error) {
	homes, err := l.homes(shards)
	if err != nil {
		return nil, err
	}
	r := rand.New(rand.NewPCG(l.seed, 0))
	user := func() int { return r.IntN(len(homes)) }
	if l.skew > 1 {
		zipf := rand.NewZipf(r, l.skew, 1, uint64(len(homes)-1))
		user = func() int { return int(zipf.Uint64()) }
	}
	free := make([][]float64, shards)
	for i := range free {
		free[i] = make([]float64, l.workers)
	}
	busy := make([]float64, shards)
	out := &outcome{utilisation: make([]float64, shards)}
	var pending calls
	next, begun := r.ExpFloat64()/l.rate, 0
	for begun < l.turns || len(pending) > 0 {
		if begun < l.turns && (len(pending) == 0 || next < pending[0].time) {
			heap.Push(&pending, call{time: next, shard: homes[user()], left: l.calls})
			out.seconds = next
			next += r.ExpFloat64() / l.rate
			begun++
		}
		c := heap.Pop(&pending).(call)
		if begun < l.turns && next < c.time { // somebody comes before
			heap.Push(&pending, c)
			continue
		}
		workers := free[c.shard]
		first := 0
		for i := range workers {
			if workers[i] < workers[first] {
				first = i
			}
		}
		takes := l.service
		if !l.fixed {
			takes *= r.ExpFloat64()
		}
		start := max(c.time, workers[first])
		workers[first] = start + takes
		busy[c.shard] += takes
		out.wait = append(out.wait, start-c.time)
		out.meanWait += start - c.time
		c.spent += start - c.time + takes
		if c.left--; c.left == 0 {
			out.inStore = append(out.inStore, c.spent)
			continue
		}
		c.time = start + takes + l.think*r.ExpFloat64()
		heap.Push(&pending, c)
	}
	for i := range busy {
		out.utilisation[i] = busy[i] / (out.seconds * float64(l.workers))
	}
	out.meanWait /= float64(len(out.wait))
	slices.Sort(out.wait)
	slices.Sort(out.inStore)
	return out, nil
}
