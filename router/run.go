package router

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"time"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
)

// ErrNobodyLeft ends a turn in which every agent that could answer has failed, or has returned the conversation to
// the router.
var ErrNobodyLeft = errors.New("no agent is left to answer")

// Run implements agent.Agent: one decision, and the transfer that follows from it.
func (r *Router) Run(ctx context.Context, inv *agent.Invocation) iter.Seq2[*event.Event, error] {
	return func(yield func(*event.Event, error) bool) {
		p, err := r.past(ctx, inv)
		if err != nil {
			yield(nil, err)
			return
		}
		turn := Turn{Message: inv.Message().PlainText(), Metadata: inv.Metadata(), state: inv.Session().State}
		if in := inv.Input(); in != nil {
			turn.Message = event.OutputText(in)
		}
		d := r.engine.begin(ctx, turn, p.moodsBefore(inv.TurnID()), inv.Logger())
		d.generate = func(ctx context.Context, model llm.Model, req *llm.Request) iter.Seq2[llm.Chunk, error] {
			return inv.Runtime().Ask(ctx, inv, model, req)
		}
		began := r.now()
		c, err := r.decide(d, inv, p)
		took := r.now().Sub(began)
		for _, data := range d.events {
			if !yield(&event.Event{Data: data, More: true}, nil) {
				return
			}
		}
		if err != nil {
			yield(nil, err)
			return
		}
		route := d.route(c, took)
		route.From, route.GraphPath = p.name, path(inv, c.to)
		if !yield(&event.Event{Data: route, More: true}, nil) {
			return
		}
		kind := event.TransferTypeBotToBot
		if c.to == human {
			kind = event.TransferTypeBotToHuman
		}
		yield(&event.Event{Data: &event.Transfer{To: c.to, Reason: c.reason, Outcome: event.TransferCommitted,
			TransferType: kind, RouteDecision: event.EncodeJSON(c.to), GraphPath: route.GraphPath}}, nil)
	}
}

// chosen is the target of a decision, and the reasons for it.
type chosen struct {
	to     string
	rule   int // -1: none
	reason string
	why    string // the part of the turn that matched
}

// decide chooses the target. [Router.Explain] passes no invocation and no past.
func (r *Router) decide(d *deciding, inv *agent.Invocation, p *past) (chosen, error) {
	out := func(name string) bool { return p != nil && r.out(p, name) }
	c := chosen{rule: d.match(out), reason: "no rule matches"}
	if r.engine.turns > 1 { // a rule of a later turn needs it
		d.measure(KindSentiment)
	}
	if c.rule >= 0 {
		rule := r.engine.rules[c.rule]
		c.to, c.why = rule.to.name, rule.when.why(d)
		c.reason = cmp.Or(rule.reason, c.why)
	}
	if err := d.ctx.Err(); err != nil {
		return c, context.Cause(d.ctx)
	}
	if c.to == "" && p != nil {
		if n, why := r.stays(inv, p); n != nil {
			c.to, c.reason = n.Agent.Name(), why
		}
	}
	if c.to == "" && !out(r.fallback.name) {
		c.to, c.reason = r.fallback.name, cmp.Or(r.fallback.reason, c.reason)
	}
	if c.to == "" {
		return c, fmt.Errorf("router %s: %w: %q has returned the conversation or failed, and no rule names another agent", r.Name(), ErrNobodyLeft, p.Gone)
	}
	return c, nil
}

// out reports whether a target, or an agent below it, has returned the conversation in this turn or has failed.
func (r *Router) out(p *past, name string) bool {
	if len(p.Gone) == 0 {
		return false
	}
	t := r.target(name)
	return slices.ContainsFunc(p.Gone, func(gone string) bool {
		return gone == name || t != nil && t.agent.FindAgent(gone) != nil
	})
}

// path returns the names from the outermost router down to a target.
func path(inv *agent.Invocation, to string) []string {
	if to == human {
		return append(inv.Node().GraphPath(), human)
	}
	return inv.Tree().Node(to).GraphPath()
}

// route returns the event that records a decision.
func (d *deciding) route(c chosen, took time.Duration) *event.Route {
	top := d.signals[KindIntent.place()].top
	e := &event.Route{From: d.engine.name, To: c.to, Reason: c.reason, IntentLabel: top.Label, IntentConfidence: top.Value,
		LatencyMs: float64(took) / float64(time.Millisecond)}
	if c.rule >= 0 {
		e.RuleIndex = &c.rule
	}
	if s := d.signals[KindSentiment.place()]; s.scores != nil {
		e.Sentiment = make(map[string]float64, len(s.scores))
		for _, score := range s.scores {
			e.Sentiment[score.Label] = score.Value
		}
	}
	return e
}

// Decision is the decision of a router about a message, with its reasons: the event that the log of a turn would
// contain, and the parts of the message that led to it. It has only the signals that a rule needed.
type Decision struct {
	event.Route
	When     string   `json:"when,omitempty"`    // the text of the rule's matcher
	Matched  string   `json:"matched,omitempty"` // the part of the turn that matched
	Language string   `json:"language,omitempty"`
	Notices  []string `json:"notices,omitempty"` // signals that were late or failed
}

// Explain decides about a message without a session: the message is the first one, and all targets are ready. A
// classifier may call its model, outside of all limits and budgets. The error is that of the context.
func (r *Router) Explain(ctx context.Context, message string, metadata, state map[string]any) (Decision, error) {
	turn := Turn{Message: event.ValidText(message), Metadata: metadata, state: func(key string) (any, bool) { v, ok := state[key]; return v, ok }}
	d := r.engine.begin(ctx, turn, nil, slog.New(slog.DiscardHandler))
	d.generate = func(ctx context.Context, model llm.Model, req *llm.Request) iter.Seq2[llm.Chunk, error] {
		return model.Generate(ctx, req)
	}
	began := r.now()
	c, err := r.decide(d, nil, nil)
	if err != nil {
		return Decision{}, err
	}
	language, _ := metadata["language"].(string)
	made := Decision{Route: *d.route(c, r.now().Sub(began)), Matched: c.why,
		Language: cmp.Or(language, d.signals[KindLanguage.place()].top.Label)}
	made.GraphPath = []string{r.Name(), c.to}
	if c.rule >= 0 {
		made.When = r.engine.rules[c.rule].written
	}
	for _, data := range d.events {
		if n, ok := data.(*event.Notice); ok {
			made.Notices = append(made.Notices, n.Message)
		}
	}
	return made, nil
}
