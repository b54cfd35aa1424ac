package agui

import (
	"context"
	"errors"
	"net/http"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/live"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/server/internal/front"
	"github.com/agentarbor/arbor/session"
)

// run is POST /agui: new words begin a turn, and answers go on with one.
func (d *Door) run(c *front.Call) error {
	in, key, err := read(c)
	if err != nil {
		return err
	}
	if len(in.Resume) > 0 || len(in.results()) > 0 {
		return d.resume(c, key, in)
	}
	for tries := 1; ; tries++ { // the session may change between the look and the beginning
		if err = d.begin(c, key, in); !errors.Is(err, agent.ErrConflict) || tries == 5 {
			return err
		}
	}
}

// look returns a projection with the state of a session, the end of its log, and whether the turn waits for people.
func (d *Door) look(ctx context.Context, key session.Key) (p *projection, seq int64, asks bool, err error) {
	run, err := d.turns.RunnerOf(key)
	if err == nil {
		err = run.Glance(ctx, key, func(f *session.Fold) error {
			questions := f.Questions()
			onlyCalls := len(questions) > 0 && len(front.Questions(questions)) == 0 // of the page's tools
			p, seq, asks = &projection{state: f.States()}, f.Seq, f.Paused() && !onlyCalls
			return nil
		})
	}
	return p, seq, asks, err
}

// begin begins a turn with the user's new words.
func (d *Door) begin(c *front.Call, key session.Key, in *input) error {
	ctx, from := c.R.Context(), in.tail()
	p, seq, asks, err := d.look(ctx, key)
	if err == nil && seq == 0 && from < len(in.Messages) {
		if err = d.imported(ctx, key, in, from); err == nil {
			p, seq, asks, err = d.look(ctx, key)
		}
	}
	if err != nil {
		return err
	}
	from, repeated, err := d.news(ctx, key, seq, in, from)
	switch {
	case err != nil:
		return err
	case from == len(in.Messages):
		return d.refuse(c, key, in, "nothing_new", "the messages have no words of the user behind the last ones that the thread has")
	case asks && !repeated:
		return d.refuse(c, key, in, "interrupts_open", "the thread waits for answers: send them in resume, and new words afterwards")
	}
	msg, ids, err := in.words(from)
	if err != nil {
		return err
	}
	metadata := map[string]any{messagesKey: ids}
	if err := d.offer(key, in, metadata); err != nil {
		return err
	}
	w, err := d.written(in.State, p.state)
	if err != nil {
		return err
	}
	in.ignoredState = w.ignored
	b, err := d.turns.BeginOnce(ctx, key, msg, live.Request{ID: in.Run, Sum: w.sum, At: &seq, Wait: c.Prefer(), Metadata: metadata,
		Options: []runner.TurnOption{runner.WithState(w.delta)}})
	if errors.Is(err, live.ErrMismatch) {
		return &front.Fault{Status: http.StatusUnprocessableEntity, Code: "run_mismatch", Detail: "a run with this id had another message or another state"}
	} else if err != nil {
		return err
	}
	return d.follow(c, key, in, p, b.First)
}

// offer stores the page's tools in the metadata of its message, unless no agent can call them: then the stream reports
// them as ignored.
func (d *Door) offer(key session.Key, in *input, metadata map[string]any) error {
	if d.clientTools.None() {
		return nil
	}
	run, err := d.turns.RunnerOf(key)
	if err != nil {
		return err
	}
	if err := d.clientTools.Keep(run.Tree(), in.Tools, "", metadata); err != nil {
		return front.ProblemAt("tools", err.Error())
	}
	return nil
}

// imported makes a session of what was said in the thread before it came here, if anything was.
func (d *Door) imported(ctx context.Context, key session.Key, in *input, before int) error {
	earlier, err := in.earlier(before)
	if len(earlier) == 0 || err != nil {
		return err
	}
	run, err := d.turns.RunnerOf(key)
	if err == nil {
		err = d.sessions.ImportClaims(ctx, key, run.Tree().Root().Agent.Name(), earlier)
	}
	if errors.Is(err, agent.ErrConflict) {
		return nil // another request was faster
	}
	return err
}

// news returns from which message on the user's words are new: those behind the last one that the session has, of the
// ones from a place on, looked for in its last 64 turns. It also tells whether the run has begun one, whose words count
// as new.
func (d *Door) news(ctx context.Context, key session.Key, seq int64, in *input, from int) (first int, repeated bool, err error) {
	if from == len(in.Messages) {
		return from, false, nil
	}
	places, last, turns := make(map[string]int), "", 0
	for i, m := range in.Messages[from:] {
		places[m.ID] = from + i
	}
	if from > 0 {
		last = in.Messages[from-1].ID
	}
	for e, err := range session.Backward(ctx, d.turns.Store(), key, seq+1) {
		if err != nil {
			return 0, false, err
		}
		switch d, ok := e.Data.(*event.User); {
		case ok && live.RequestID(d) == in.Run:
			repeated = true
		case ok:
			known := from
			for _, id := range idsOf(e, d) {
				if i, is := places[id]; is {
					known = max(known, i+1)
				}
			}
			if turns++; known > from || turns == 64 {
				return known, repeated, nil
			}
		case last != "" && (e.ID == last || e.ID+":result" == last):
			return from, repeated, nil
		}
	}
	return from, repeated, nil
}

// follow sends what comes in a turn behind where a projection stands, until it rests.
func (d *Door) follow(c *front.Call, key session.Key, in *input, p *projection, first int64) error {
	s, leave, err := d.stream(c, key, in, p)
	if err != nil {
		return err
	}
	defer leave()
	after := p.log.At.String()
	if err := s.open(in.Run, nil); err != nil {
		return s.broken(err)
	}
	for en, err := range d.turns.Watch(s.Context(), key, first, after) {
		if err == nil {
			c.Turn = en.Event.TurnID
			err = s.entry(en)
		}
		if err != nil {
			return s.broken(err)
		}
	}
	return s.broken(s.rest())
}
