package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/server/client"
)

// lines are the messages of the users.
var lines = []string{"Where is my order?", "Please open a ticket: my order is late.", "Is there anything new about my order?"}

// talk is a client that runs turn after turn in one session.
type talk struct {
	session string
	turns   []string      // the ids of the turns
	shown   words         // what the client has seen
	longest time.Duration // the longest time without an event in a turn
}

// words contains the texts that the client has seen and that were not discarded, by the ids of their blocks.
type words map[string]string

// take applies an event as a page that shows the texts does.
func (w words) take(e *event.Event) {
	switch d := e.Data.(type) {
	case *event.Text:
		if e.Partial {
			w[e.ID] += d.Content
		} else if !e.Streamed { // otherwise its deltas are complete
			w[e.ID] = d.Content
		}
	case *event.Discard:
		for _, id := range d.IDs {
			delete(w, id)
		}
	}
}

// until runs turns until the time is over, and ends with the current turn.
func (t *talk) until(ctx context.Context, over time.Time, url, token string) error {
	c, err := client.New(url, client.WithToken(token), client.WithPatience(patience))
	if err != nil {
		return err
	}
	if _, err := c.Me(ctx); err != nil { // this waits until the server can be reached
		return err
	}
	t.shown = make(words)
	for n := 0; time.Now().Before(over) && ctx.Err() == nil; n++ {
		if err := t.turn(ctx, c, lines[n%len(lines)]); err != nil {
			return fmt.Errorf("%s, turn %d: %w", t.session, n+1, err)
		}
	}
	return context.Cause(ctx)
}

// turn sends a message and follows the events until the turn is over.
func (t *talk) turn(ctx context.Context, c *client.Client, line string) error {
	last := time.Now()
	heard := func() {
		t.longest = max(t.longest, time.Since(last))
		last = time.Now()
	}
	turn, err := c.Begin(ctx, t.session, client.Message{Content: llm.Content{Text: line}})
	if err != nil {
		return err
	}
	heard()
	for entry, err := range c.Watch(ctx, t.session, turn.ID, "") {
		if err != nil {
			return err
		}
		heard()
		t.shown.take(entry.Event)
	}
	if turn, err = c.Turn(ctx, t.session, turn.ID); err != nil {
		return err
	}
	if turn.State != "done" {
		return fmt.Errorf("it is %s: %w", turn.State, errors.Join(turn.Err()))
	}
	t.turns = append(t.turns, turn.ID)
	return nil
}

// check compares what the client has seen with the log: each turn must be in it exactly once with an answer, and the
// texts must be equal.
func (t *talk) check(log []*event.Event) error {
	stored := make(words)
	var turns []string
	answered := make(map[string]bool)
	calls := make(map[string]bool)
	for _, e := range log {
		switch d := e.Data.(type) {
		case *event.User:
			turns = append(turns, e.TurnID)
		case *event.Text:
			stored[e.ID] = d.Content
			answered[e.TurnID] = true
		case *event.ToolCall:
			if calls[e.ID] {
				return fmt.Errorf("the call %s is there twice", e.ID)
			}
			calls[e.ID] = true
		}
	}
	if !slices.Equal(turns, t.turns) {
		return fmt.Errorf("its turns are %s, and the client had %s", strings.Join(turns, ", "), strings.Join(t.turns, ", "))
	}
	for _, id := range turns {
		if !answered[id] {
			return fmt.Errorf("turn %s has no answer", id)
		}
	}
	if !maps.Equal(stored, t.shown) {
		return fmt.Errorf("the client has seen %q, and the log has %q", sorted(t.shown), sorted(stored))
	}
	return nil
}

func sorted(w words) []string { return slices.Sorted(maps.Values(w)) }
