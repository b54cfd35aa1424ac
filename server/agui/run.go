package agui

import (
	"context"
	"errors"
	"net/http"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/server/internal/front"
	"github.com/agentarbor/arbor/server/live"
	"github.com/agentarbor/arbor/session"
)

// run serves POST /agui: new messages start a turn, and answers resume one.
func (h *Handler) run(c *front.Call) error {
	in, thread, err := readInput(c)
	if err != nil {
		return err
	}
	for tries := 1; ; tries++ { // the thread may change before the turn starts
		p, err := h.findBranch(c.R.Context(), thread, in)
		switch {
		case err != nil:
		case len(in.Resume) > 0 || p.known > len(in.Messages)-len(in.results(len(in.Messages))):
			c.Session = p.key.ID
			return h.resume(c, p.key, in, in.next(p.known, "user") < len(in.Messages))
		default:
			err = h.startTurn(c, in, p)
		}
		if !errors.Is(err, agent.ErrConflict) || tries == 5 {
			return err
		}
	}
}

// glance returns a projection with the state of a session, the end of its log, and whether the turn waits for people.
func (h *Handler) glance(ctx context.Context, key session.Key) (p *projection, seq int64, asks bool, err error) {
	run, err := h.turns.RunnerOf(key)
	if err == nil {
		err = run.ReadFold(ctx, key, func(f *session.Fold) error {
			questions := f.Questions()
			onlyCalls := len(questions) > 0 && len(front.PersonQuestions(questions)) == 0 // of the page's tools
			p, seq, asks = &projection{state: f.States()}, f.Seq, f.Paused() && !onlyCalls
			return nil
		})
	}
	return p, seq, asks, err
}

// startTurn starts a turn with the user's new messages, or with those that the page wants answered again.
func (h *Handler) startTurn(c *front.Call, in *input, at *match) error {
	ctx := c.R.Context()
	if at.from == len(in.Messages) || in.answered() {
		return h.refuse(c, at.key, in, "nothing_new", "the messages do not end with a new message of the user, or with results that the thread waits for")
	}
	key, err := h.branchFor(ctx, at, c.PreferredWait())
	if err != nil {
		return err
	}
	p, seq, asks, err := h.glance(ctx, key)
	if err == nil && seq == 0 {
		if err = h.importHistory(ctx, key, in, at.from); err == nil {
			p, seq, asks, err = h.glance(ctx, key)
		}
	}
	if err != nil {
		return err
	}
	if key != at.key && seq != at.cut { // another request has started a turn in the fork
		return agent.ErrConflict
	}
	if asks && !at.repeated {
		return h.refuse(c, key, in, "interrupts_open", "the thread waits for answers: send them in resume, and new messages afterwards")
	}
	c.Session = key.ID
	content, metadata, err := in.userMessage(at.from)
	if err != nil {
		return err
	}
	if err := h.keepTools(key, in, metadata); err != nil {
		return err
	}
	w, err := h.stateChangeOf(in.State, p.state)
	if err != nil {
		return err
	}
	in.ignoredState = w.ignored
	b, err := h.turns.BeginOnce(ctx, key, llm.Message{Role: llm.RoleUser, Content: content}, live.Request{ID: in.Run, Sum: w.sum, At: &seq, Wait: c.PreferredWait(), Metadata: metadata,
		Options: []runner.TurnOption{runner.WithState(w.delta), runner.WithResults(in.results(at.from)...)}})
	if errors.Is(err, live.ErrMismatch) {
		return &front.Fault{Status: http.StatusUnprocessableEntity, Code: "run_mismatch", Detail: "a run with this id had another message or another state"}
	} else if err != nil {
		return err
	}
	return h.followTurn(c, key, in, p, b.First)
}

// keepTools stores the page's tools in the metadata of its message. If no agent can call them, it does nothing, and the
// stream reports them as ignored.
func (h *Handler) keepTools(key session.Key, in *input, metadata map[string]any) error {
	if h.clientTools.None() {
		return nil
	}
	run, err := h.turns.RunnerOf(key)
	if err != nil {
		return err
	}
	if err := h.clientTools.Keep(run.Tree(), in.Tools, "", metadata); err != nil {
		return front.ProblemAt("tools", err.Error())
	}
	return nil
}

// importHistory creates the session of a thread that started elsewhere from the page's earlier messages, if there are
// any. It stores the ids of the user's messages, by which the page can edit them.
func (h *Handler) importHistory(ctx context.Context, key session.Key, in *input, before int) error {
	earlier, ids, err := in.conversation(0, before)
	if len(earlier) == 0 || err != nil {
		return err
	}
	metadata := make([]map[string]any, len(ids))
	for i, id := range ids {
		metadata[i] = map[string]any{messagesKey: []any{id}}
	}
	run, err := h.turns.RunnerOf(key)
	if err == nil {
		err = h.sessions.ImportClaims(ctx, key, run.Tree().Root().Agent.Name(), earlier, metadata...)
	}
	if errors.Is(err, agent.ErrConflict) {
		return nil // another request was faster
	}
	return err
}

// followTurn sends the events of a turn after the position of the projection, until the turn has ended or paused.
func (h *Handler) followTurn(c *front.Call, key session.Key, in *input, p *projection, first int64) error {
	s, leave, err := h.stream(c, key, in, p)
	if err != nil {
		return err
	}
	defer leave()
	after := p.log.At.String()
	if err := s.open(in.Run, nil); err != nil {
		return s.end(err)
	}
	for en, err := range h.turns.Watch(s.Context(), key, first, after) {
		if err == nil {
			c.Turn = en.Event.TurnID
			err = s.sendEntry(en)
		}
		if err != nil {
			return s.end(err)
		}
	}
	return s.end(s.finish())
}
