package runner

import (
	"context"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/session"
)

// Glance lets a function look at the fold of a session's log as it is now. It costs what has
// come since the runner last had to do with the session, and nothing while the runner has a turn
// of it at work. Until the function returns, that turn waits with what it wants to store:
// it must be quick, use nothing of the runner but [Runner.Next], and keep nothing of the fold that is not a copy.
// A session that does not exist has an empty fold. The error is the function's or the store's.
func (r *Runner) Glance(ctx context.Context, key session.Key, look func(*session.Fold) error) error {
	for {
		t := r.cache.holderOf(key)
		if t != nil {
			if ok, err := t.glance(look); ok {
				return err
			}
		}
		if err := r.cache.claim(ctx, key); err != nil {
			return err
		}
		if other := r.cache.holderOf(key); other == nil || other == t {
			return r.glance(ctx, key, look)
		}
		r.cache.unclaim(key)
	}
}

func (r *Runner) glance(ctx context.Context, key session.Key, look func(*session.Fold) error) error {
	defer r.cache.unclaim(key)
	w, err := r.cache.upToDate(ctx, key, nil)
	if err != nil {
		return err
	}
	defer r.cache.checkIn(w)
	return look(&w.fold)
}

// Active returns the name of the agent that would answer the session's next
// message.
func (r *Runner) Active(ctx context.Context, key session.Key) (name string, err error) {
	err = r.Glance(ctx, key, func(f *session.Fold) error {
		name = r.Next(f).Agent.Name()
		return nil
	})
	return name, err
}

// Next returns the agent that would answer the next message of a session whose log has a fold.
// It may be called in a glance.
func (r *Runner) Next(f *session.Fold) *agent.Node {
	n, _ := r.activeNode(f)
	return n
}

// Pending returns what the session's turn waits for, inside of agents that tools and graphs
// run as well, in the order in which it was asked: what a page asks about that was loaded anew. [Runner.Resume] takes the decisions.
func (r *Runner) Pending(ctx context.Context, key session.Key) (asked []*event.Relay, err error) {
	err = r.Glance(ctx, key, func(f *session.Fold) error {
		if f.Paused() {
			asked = f.Questions()
		}
		return nil
	})
	return asked, err
}
