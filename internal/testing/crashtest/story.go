package crashtest

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/human"
	"github.com/agentarbor/arbor/router"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
)

// Story is a conversation that processes continue at the end of the log. Its models and tools are functions of their
// input, so that another process does what the first one would have done.
type Story struct {
	Name         string
	Asks         int // the number of models that may be asked at once
	Interceptors []agent.Interceptor

	messages  []string
	decisions map[int][]bool // by turn, from 1: the answers to its questions in order
	denies    string         // or only the calls of this tool are denied
	streaming bool
	delivers  map[int][]human.Event // by turn: the events of the desk after it
	once      []string              // tools that must not run again if their outcome is unknown
	tree      func(*storyTree) (agent.Agent, error)
	some      bool // some of the points suffice
}

// Stories returns all stories: first those of plain trees, then in the same order those of trees with a router above
// them.
func Stories() []Story {
	return behindRouters([]Story{
		{Name: "cash desk", messages: []string{"Pay"}, Asks: 1, once: []string{"pay"}, tree: cashDesk},
		{Name: "approvals", messages: []string{"Money back", "Thanks"}, Asks: 1, once: []string{"refund"}, tree: refundDesk,
			decisions: map[int][]bool{1: {true, false, true}}},
		{Name: "approval of one turn", messages: []string{"Money back"}, Asks: 1, once: []string{"refund"}, tree: refundDesk,
			decisions: map[int][]bool{1: {true, true, true}}},
		{Name: "approval of transfers", messages: []string{"Billing, please", "Now, please"}, Asks: 1, tree: guardedDesk,
			decisions: map[int][]bool{1: {false}, 2: {true}}},
		{Name: "workflows", messages: []string{"Write a report"}, Asks: 2, once: []string{"stamp"}, tree: reportDesk},
		{Name: "agent tools", messages: []string{"Find out"}, Asks: 2, once: []string{"stamp"}, tree: researchDesk},
		{Name: "approvals inside of agent tools", messages: []string{"Buy", "Thanks"}, Asks: 2, once: []string{"order"}, tree: buyingDesk, denies: "sign"},
		{Name: "a server of tools", messages: []string{"Pay and book"}, Asks: 1, once: []string{"pay"}, tree: townDesk,
			decisions: map[int][]bool{1: {true}}},
		{Name: "a person", messages: []string{"Hello", "A person, please", "My name is Bob", "Thanks"}, Asks: 1, tree: deskOfPersons,
			delivers: map[int][]human.Event{
				2: {{ID: "1", Update: human.Update{Status: human.Connected, TargetAgent: "Ann"}}, {ID: "2", Text: "Ann here. Who are you?"}},
				3: {{ID: "3", Text: "Done, Bob.", Update: human.Update{Status: human.Completed}}},
			}},
		{Name: "several hops and turns", messages: []string{"Where is it?", "Cancel it", "And hello"}, Asks: 1, streaming: true, once: []string{"cancel"}, tree: orderDesk},
	})
}

// behindName is the name of the router above a tree.
const behindName = "behind"

// BehindRouter adds a router above a tree that does not change which agent answers.
func BehindRouter(root agent.Agent) (agent.Agent, error) {
	return router.New(behindName, router.Wrap(root), router.Sticky())
}

// behindRouters returns the stories, followed by those that are also played with a router above their tree.
func behindRouters(stories []Story) (all []Story) {
	all = stories
	for _, s := range stories {
		tree := s.tree
		s.Name, s.some = s.Name+" behind a router", true
		s.tree = func(d *storyTree) (agent.Agent, error) {
			root, err := tree(d)
			if err != nil {
				return nil, err
			}
			return BehindRouter(root)
		}
		all = append(all, s)
	}
	return all
}

// storyTime is the maximal time of a story on a busy machine.
const storyTime = 3 * time.Minute

// Play continues the story to its end, like a program that knows only what is stored.
func (s *Story) Play(way Way, at Place, o *Odometer) (err error) {
	ctx, cancel := context.WithTimeoutCause(context.Background(), storyTime, errors.New("the story does not end"))
	defer cancel()
	on := &storyTree{path: filepath.Join(at.Dir, "calls"), odometer: o}
	root, err := s.tree(on)
	if err != nil {
		return err
	}
	if on.close != nil {
		defer on.close()
	}
	store, err := way.Store(ctx, at)
	if err != nil {
		return err
	}
	opts := []runner.Option{runner.WithInterceptors(s.Interceptors...), runner.WithSnapshots(1)}
	if s.streaming {
		opts = append(opts, runner.WithStreaming())
	}
	if s.delivers != nil {
		opts = append(opts, runner.WithDesk(fileDesk{&storyTree{path: filepath.Join(at.Dir, "calls"), odometer: o}}))
	}
	p, err := way.Play(ctx, &Process{Place: at, Root: root, Store: watchedStore{store, o}, Options: opts, Odometer: o})
	if err != nil {
		return errors.Join(err, store.Close())
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	for {
		do, err := s.next(ctx, p, at.Key)
		if do == nil || err != nil {
			return err
		}
		switch err := do(); {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, agent.ErrSessionBusy): // another process is running the turn
			time.Sleep(pause)
		case err != nil:
			return err
		}
	}
}

// pause is the time between two polls.
const pause = 5 * time.Millisecond

// next returns the next action, nil at the story's end.
func (s *Story) next(ctx context.Context, p Player, key session.Key) (do func() error, err error) {
	r := p.Runner()
	var fold session.Fold
	turns := 0
	var asked []*event.Event // of this turn
	decided, heard, handoff := make(map[string]bool), make(map[string]bool), ""
	for e, err := range r.History(ctx, key) {
		if err != nil {
			return nil, err
		}
		fold.Apply(e)
		switch d := e.Data.(type) {
		case *event.User:
			turns++
			asked = nil
		case *event.Relay:
			asked = append(asked, e)
		case *event.RelayResolved:
			decided[d.RelayID] = true
		case *event.HandoffStatus:
			handoff, heard[d.DeskEventID] = d.HandoffID, true
		}
	}
	for _, word := range s.delivers[turns] {
		if word.HandoffID = handoff; !heard[word.ID] && !fold.Unfinished() {
			return func() error {
				if err := r.Deliver(ctx, key, word); err != nil {
					return err
				}
				return r.Deliver(ctx, key, word)
			}, nil
		}
	}
	turn := fmt.Sprint("turn-", turns)
	var again []runner.Decision
	if s.denies != "" { // others may ask first at the same time
		slices.SortFunc(asked, func(a, b *event.Event) int {
			return strings.Compare(a.Data.(*event.Relay).Tool, b.Data.(*event.Relay).Tool)
		})
	}
	for i, e := range asked {
		q := e.Data.(*event.Relay)
		approved := q.Tool != s.denies
		if s.denies == "" {
			if i >= len(s.decisions[turns]) {
				return nil, fmt.Errorf("a question that nobody expects: %s", event.EncodeJSON(e.Data))
			}
			approved = s.decisions[turns][i]
		}
		d := decision(q, approved)
		if !decided[e.ID] {
			if fold.Paused() { // one question at a time, as if each had its own decider
				return func() error { return p.Decide(ctx, turn, d) }, nil
			}
			continue
		}
		again = append(again, d)
	}
	switch {
	case fold.Unfinished(): // the decider does not know whether its decision was recorded, and repeats it
		return func() error { return p.Continue(ctx, turn, again) }, nil
	case turns < len(s.messages):
		return func() error {
			return p.Say(ctx, fmt.Sprint("turn-", turns+1), s.messages[turns], map[string]any{"turn:message": turns + 1})
		}, nil
	}
	return nil, nil
}

func decision(asked *event.Relay, approve bool) runner.Decision {
	switch {
	case approve && asked.Kind == event.RelayInput:
		return runner.Answer(asked.ToolCallID, map[string]any{"seat": 7})
	case approve:
		return runner.Approve(asked.ToolCallID)
	}
	return runner.Deny(asked.ToolCallID, "not today")
}
