package sessiontest_test

import (
	"context"
	"errors"
	"iter"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/session/sessiontest"
)

func TestTurn(t *testing.T) {
	delta := func(id, words string) *agent.Event {
		return &agent.Event{ID: id, Partial: true, Attempt: 1, Data: &agent.Text{Content: words}}
	}
	stored := func(seq int64, id string, data agent.EventData) *agent.Event {
		return &agent.Event{Seq: seq, ID: id, Data: data}
	}
	inner := func(e *agent.Event, scope string) *agent.Event {
		e.Scope = scope
		return e
	}
	hello := stored(8, "a", &agent.Text{Content: "Hello"})
	broken := &agent.RunError{Agent: "a", Code: "x", Err: errors.New("broken")}
	for name, c := range map[string]struct {
		events []*agent.Event
		err    error
		want   string // "" if nothing is wrong
	}{
		"a result of before":    {[]*agent.Event{stored(3, "c", &agent.ToolResult{}), stored(7, "u", &agent.User{}), delta("a", "Hel"), delta("a", "lo"), hello}, nil, ""},
		"a gap":                 {[]*agent.Event{stored(6, "u", &agent.User{}), hello}, nil, "seq 8 is delivered after seq 6"},
		"other words":           {[]*agent.Event{delta("a", "Hel"), hello}, nil, `"Hel" was shown of "Hello"`},
		"words after the block": {[]*agent.Event{hello, delta("a", "Hello")}, nil, "of a block that is over"},
		"left":                  {[]*agent.Event{delta("a", "Hel")}, nil, `["a"] were shown`},
		"left by an error":      {[]*agent.Event{delta("a", "Hel")}, broken, `["a"] were shown`},
		"left by a cancel":      {[]*agent.Event{delta("a", "Hel")}, context.Canceled, ""},
		"discarded":             {[]*agent.Event{delta("a", "Hel"), stored(8, "d", &agent.Discard{IDs: []string{"a"}})}, broken, ""},
		"discarded, not shown":  {[]*agent.Event{stored(8, "d", &agent.Discard{IDs: []string{"a"}})}, nil, "a is discarded"},
		"inside of a tool in a tool": {[]*agent.Event{inner(stored(6, "c", &agent.ToolCall{}), "s"), inner(&agent.Event{Seq: 7, ID: "h", ParentID: "c", Data: &agent.HarnessStart{}}, "deep"),
			inner(delta("a", "Hel"), "deep"), inner(stored(8, "a", &agent.Text{Content: "Hello"}), "deep")}, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			said := &recorder{}
			var got []*agent.Event
			for e, err := range sessiontest.Turn(said, given(c.events, c.err)) {
				if require.Equal(t, e == nil, err != nil); e != nil {
					got = append(got, e)
				}
			}
			require.Equal(t, c.events, got)
			if c.want == "" {
				require.Empty(t, said.errors)
				return
			}
			require.Len(t, said.errors, 1)
			require.Contains(t, said.errors[0], c.want)
		})
	}
}

func given(events []*agent.Event, failed error) iter.Seq2[*agent.Event, error] {
	return func(yield func(*agent.Event, error) bool) {
		for _, e := range events {
			if !yield(e, nil) {
				return
			}
		}
		if failed != nil {
			yield(nil, failed)
		}
	}
}
