package runner

import (
	"context"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/session"
)

// ReadFold calls read with the current fold of a session's log. It reads only the events that the runner has not seen
// yet, and none while the runner runs a turn of the session. That turn waits with its writes until read returns. So
// read must be quick, must not call any method of the runner except [Runner.Next], and must not keep a part of the
// fold that is not a copy. A session that does not exist has an empty fold. The error is that of read or of the
// store.
func (r *Runner) ReadFold(ctx context.Context, key session.Key, read func(*session.Fold) error) error {
	for {
		t := r.cache.holderOf(key)
		if t != nil {
			if ok, err := t.readFold(read); ok {
				return err
			}
		}
		if err := r.cache.claim(ctx, key); err != nil {
			return err
		}
		if other := r.cache.holderOf(key); other == nil || other == t {
			return r.readFold(ctx, key, read)
		}
		r.cache.unclaim(key)
	}
}

func (r *Runner) readFold(ctx context.Context, key session.Key, read func(*session.Fold) error) error {
	defer r.cache.unclaim(key)
	w, err := r.cache.upToDate(ctx, key, nil)
	if err != nil {
		return err
	}
	defer r.cache.checkIn(w)
	return read(&w.fold)
}

// Active returns the name of the agent that would answer the next message of the session.
func (r *Runner) Active(ctx context.Context, key session.Key) (name string, err error) {
	err = r.ReadFold(ctx, key, func(f *session.Fold) error {
		name = r.Next(f).Agent.Name()
		return nil
	})
	return name, err
}

// Next returns the agent that would answer the next message of a session with this fold. It may be called in a
// [Runner.ReadFold].
func (r *Runner) Next(f *session.Fold) *agent.Node {
	n, _ := r.activeNode(f)
	return n
}

// Pending returns the open questions of the session's turn, including those of agents in tools and graphs, in the order
// in which they were asked. A page shows them after a reload. [Runner.Resume] takes the decisions.
func (r *Runner) Pending(ctx context.Context, key session.Key) (asked []*event.Relay, err error) {
	err = r.ReadFold(ctx, key, func(f *session.Fold) error {
		if f.Paused() {
			asked = f.Questions()
		}
		return nil
	})
	return asked, err
}
