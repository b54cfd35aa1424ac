package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/spf13/cobra"

	"github.com/agentarbor/arbor/cli/internal/render"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
)

// showing is what the flags of show say.
type showing struct {
	at                 atFlag
	json, state, usage bool
	view, tree, prices string
}

func (p *program) showCommand() *cobra.Command {
	var f showing
	cmd := &cobra.Command{
		Use:   "show ID",
		Short: "Print what was said and done in a session",
		Long: `Prints what was said and done in a session, until any position: with --at 7 all that
had been stored when its seventh event was. --state and --view print what else the
session was then.`,
		Args: exactly("ID"),
		RunE: func(cmd *cobra.Command, args []string) error { return p.showSession(cmd.Context(), args[0], f) },
	}
	fs := cmd.Flags()
	f.at.add(cmd, "position until which the session is shown (default: the end)")
	fs.BoolVar(&f.json, "json", false, "print one event a line, as JSON")
	fs.BoolVar(&f.state, "state", false, "print instead who is active, the state, the calls that wait and the tokens used, as one JSON object")
	fs.StringVar(&f.view, "view", "", "print instead what the model of `AGENT` would be asked there")
	if !p.embedded() {
		fs.StringVar(&f.tree, "tree", "", "with --view, the folder of the agents")
	}
	fs.BoolVar(&f.usage, "usage", false, "print instead what each agent's models have used")
	fs.StringVar(&f.prices, "prices", "", "with --usage, a YAML or JSON file of prices, to print costs as well")
	return cmd
}

func (p *program) showSession(ctx context.Context, id string, f showing) error {
	switch {
	case f.prices != "" && !f.usage:
		return usagef("--prices goes with --usage")
	case f.tree != "" && f.view == "":
		return usagef("--tree goes with --view")
	case f.state && f.usage || f.view != "" && (f.state || f.usage):
		return usagef("--state, --view and --usage exclude each other")
	}
	out, err := p.shown(f)
	if err != nil {
		return err
	}
	s, err := p.past(ctx, id)
	if err != nil {
		return err
	}
	at, err := s.position(f.at)
	if err != nil {
		return err
	}
	if f.view != "" {
		return s.showView(ctx, at, f)
	}
	fold, err := s.replay(ctx, at, out)
	switch {
	case err != nil:
		return err
	case f.state:
		return p.printJSON(momentJSON(s.Key, fold), f.json)
	case f.at.given() && !f.json && !f.usage:
		p.say("%s", s.moment(fold))
	}
	return nil
}

// shown returns what the flags of show want to be done with the events.
func (p *program) shown(f showing) (render.Sink, error) {
	switch {
	case f.state || f.view != "":
		return render.Nothing{}, nil
	case f.usage:
		var prices llm.Prices
		if f.prices != "" {
			var err error
			if prices, err = readPrices(f.prices); err != nil {
				return nil, err
			}
		}
		return render.Usage(p.Stdout, f.json, prices), nil
	case f.json:
		return render.JSONLines(p.Stdout), nil
	}
	return p.transcript(), nil
}

// transcript returns a printer of stored events.
func (p *program) transcript() *render.Printer {
	l := p.lookOf(p.Stdout)
	l.Live = false // nothing is awaited
	return render.Transcript(p.Stdout, l)
}

// moment tells in one line what a session was.
func (s *past) moment(f *session.Fold) string {
	text := fmt.Sprintf("at position %d of %d", f.Seq, s.Seq)
	if !f.Latest.IsZero() {
		text += ", " + stamp(f.Latest)
	}
	if active := activeOf(f); active != "" {
		text += "; active: " + active
	}
	if states := f.States(); len(states) > 0 {
		text += "; state: " + string(event.EncodeJSON(states))
	}
	var waiting []string
	for _, c := range pendingCalls(f) {
		waiting = append(waiting, c.Name)
	}
	if len(waiting) > 0 {
		text += "; waiting: " + strings.Join(waiting, ", ")
	}
	sum := used(f)
	return text + fmt.Sprintf("; tokens: %d in, %d out", sum.InputTokens, sum.OutputTokens)
}

// used adds up what all models have used.
func used(f *session.Fold) (sum session.Use) {
	for _, u := range f.Spent() {
		sum.Answers += u.Session.Answers
		sum.Usage = sum.Usage.Add(u.Session.Usage)
	}
	return sum
}

// jsonMoment is the form of sessions show --state.
type jsonMoment struct {
	Session string         `json:"session"`
	Seq     int64          `json:"seq"`
	Time    time.Time      `json:"time,omitzero"`
	Active  string         `json:"active,omitempty"`
	Turn    string         `json:"turn"` // none, open, waiting or over
	State   map[string]any `json:"state"`
	Pending []jsonPending  `json:"pending"`
	Used    []jsonUse      `json:"used"`
}

// jsonPending is a call that has no result yet.
type jsonPending struct {
	CallID   string `json:"callId"`
	Name     string `json:"name"`
	RunID    string `json:"runId"`
	Approval bool   `json:"approval,omitempty"` // somebody is asked about it
}

// jsonUse is what an agent has used of a model.
type jsonUse struct {
	Agent        string `json:"agent"`
	Model        string `json:"model,omitempty"`
	Answers      int    `json:"answers"`
	InputTokens  int    `json:"inputTokens"`
	CachedTokens int    `json:"cachedTokens"`
	OutputTokens int    `json:"outputTokens"`
}

func momentJSON(key session.Key, f *session.Fold) jsonMoment {
	m := jsonMoment{Session: key.ID, Seq: f.Seq, Time: f.Latest.UTC(), Active: activeOf(f), Turn: "over",
		State: f.States(), Pending: pendingCalls(f), Used: []jsonUse{}}
	if f.Latest.IsZero() {
		m.Time = time.Time{}
	}
	if m.State == nil {
		m.State = map[string]any{}
	}
	switch {
	case f.Turn.ID == "":
		m.Turn = "none"
	case f.Paused(), f.Waits():
		m.Turn = "waiting"
	case f.Unfinished():
		m.Turn = "open"
	}
	for _, u := range f.Spent() {
		m.Used = append(m.Used, jsonUse{u.Agent, u.Model, u.Session.Answers, u.Session.InputTokens, u.Session.CachedTokens, u.Session.OutputTokens})
	}
	return m
}

// pendingCalls returns the calls that wait, in the conversation and in what agents
// do inside of their calls.
func pendingCalls(f *session.Fold) []jsonPending {
	calls := []jsonPending{}
	scopes := f.Open()
	if !slices.Contains(scopes, "") {
		scopes = append([]string{""}, scopes...)
	}
	for _, scope := range scopes {
		run := f.Scope(scope).Run
		for _, c := range run.Pending {
			calls = append(calls, jsonPending{c.ID, c.Name, c.RunID, c.Relay != "" && !c.Resolved})
		}
	}
	return calls
}

// printJSON writes one object: in one line with --json, else indented.
func (p *program) printJSON(v any, inOneLine bool) error {
	if inOneLine {
		render.JSON(p.Stdout, v)
		return nil
	}
	return render.IndentedJSON(p.Stdout, v)
}

// jsonView is the form of sessions show --view: a request of the chat completions
// protocol.
type jsonView struct {
	Agent    string        `json:"agent"`
	Seq      int64         `json:"seq"`
	Tokens   int           `json:"tokens"`
	Messages []chatMessage `json:"messages"`
	Tools    []chatTool    `json:"tools"`
}

type chatTool struct {
	Type     string `json:"type"`
	Function struct {
		Name        string          `json:"name"`
		Description string          `json:"description,omitempty"`
		Parameters  json.RawMessage `json:"parameters,omitempty"`
	} `json:"function"`
}

// showView prints what an agent's model was shown at a position. No model is
// called.
func (s *past) showView(ctx context.Context, at int64, f showing) error {
	p, name := s.p, f.view
	if !p.embedded() && f.tree == "" {
		return usagef("--view needs --tree PATH, the folder of the agents")
	}
	tree, err := p.lookAt(f.tree)
	if err != nil {
		return err
	}
	if tree.Node(name) == nil {
		var names []string
		for n := range tree.Walk() {
			names = append(names, n.Agent.Name())
		}
		return usagef("--view %s: there is no such agent; the tree has %s", name, strings.Join(names, ", "))
	}
	r, err := runner.New(tree.Root().Agent, s.db.Store)
	if err != nil {
		return err
	}
	preview, err := r.PreviewAt(ctx, s.Key, at, name)
	switch {
	case err != nil:
		return err
	case preview == nil:
		return usagef("--view %s: this agent has no model of its own, and so no view", name)
	case f.json:
		v := jsonView{Agent: name, Seq: at, Tokens: preview.Tokens, Messages: chatMessages(preview.Messages), Tools: []chatTool{}}
		if preview.System != "" {
			v.Messages = slices.Insert(v.Messages, 0, chatMessage{Role: "system", Content: preview.System})
		}
		for _, t := range preview.Tools {
			c := chatTool{Type: "function"}
			c.Function.Name, c.Function.Description, c.Function.Parameters = t.Name, t.Description, t.Parameters
			v.Tools = append(v.Tools, c)
		}
		render.JSON(p.Stdout, v)
		return nil
	}
	render.View(p.Stdout, p.lookOf(p.Stdout), preview.Request)
	p.say("what the model of %s is shown at position %d of %d: %s, %s, %s", name, at, s.Seq,
		render.Count(len(preview.Messages), "message"), render.Count(len(preview.Tools), "tool"), render.Count(preview.Tokens, "token"))
	return nil
}

// readPrices reads a table of prices: YAML, or JSON, which is YAML too.
func readPrices(path string) (llm.Prices, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, usagef("--prices: %w", err)
	}
	prices := llm.Prices{}
	if err := yaml.UnmarshalWithOptions(data, &prices, yaml.Strict()); err != nil {
		return nil, usagef("--prices %s: %s", path, yaml.FormatError(err, false, true))
	}
	if len(prices) == 0 {
		return nil, usagef("--prices %s: there are no prices in it", path)
	}
	if err := prices.Check(); err != nil {
		return nil, usagef("--prices %s: %w", path, err)
	}
	return prices, nil
}
