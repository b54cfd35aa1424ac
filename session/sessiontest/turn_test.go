package sessiontest_test

import (
	"context"
	"errors"
	"iter"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/session/sessiontest"
)

func TestTurn(t *testing.T) {
	delta := func(id, words string) *event.Event {
		return &event.Event{ID: id, Partial: true, Attempt: 1, Data: &event.Text{Content: words}}
	}
	stored := func(seq int64, id string, data event.Data) *event.Event {
		return &event.Event{Seq: seq, ID: id, Data: data}
	}
	inner := func(e *event.Event, scope string) *event.Event {
		e.Scope = scope
		return e
	}
	hello := stored(8, "a", &event.Text{Content: "Hello"})
	broken := &agent.RunError{Agent: "a", Code: "x", Err: errors.New("broken")}
	for name, c := range map[string]struct {
		events []*event.Event
		err    error
		want   string // "" if nothing is wrong
	}{
		"a result of before":    {[]*event.Event{stored(3, "c", &event.ToolResult{}), stored(7, "u", &event.User{}), delta("a", "Hel"), delta("a", "lo"), hello}, nil, ""},
		"a gap":                 {[]*event.Event{stored(6, "u", &event.User{}), hello}, nil, "seq 8 is delivered after seq 6"},
		"other words":           {[]*event.Event{delta("a", "Hel"), hello}, nil, `"Hel" was shown of "Hello"`},
		"words after the block": {[]*event.Event{hello, delta("a", "Hello")}, nil, "of a block that is over"},
		"left":                  {[]*event.Event{delta("a", "Hel")}, nil, `["a"] were shown`},
		"left by an error":      {[]*event.Event{delta("a", "Hel")}, broken, `["a"] were shown`},
		"left by a cancel":      {[]*event.Event{delta("a", "Hel")}, context.Canceled, ""},
		"discarded":             {[]*event.Event{delta("a", "Hel"), stored(8, "d", &event.Discard{IDs: []string{"a"}})}, broken, ""},
		"discarded, not shown":  {[]*event.Event{stored(8, "d", &event.Discard{IDs: []string{"a"}})}, nil, "a is discarded"},
		"inside of a tool in a tool": {[]*event.Event{inner(stored(6, "c", &event.ToolCall{}), "s"), inner(&event.Event{Seq: 7, ID: "h", ParentID: "c", Data: &event.HarnessStart{}}, "deep"),
			inner(delta("a", "Hel"), "deep"), inner(stored(8, "a", &event.Text{Content: "Hello"}), "deep")}, nil, ""},
		"taken up inside of a tool in a tool": {[]*event.Event{inner(&event.Event{Seq: 7, ID: "h", ParentID: "r:harness_end", Data: &event.HarnessStart{}}, "deep"),
			inner(delta("a", "Hel"), "deep"), inner(stored(8, "a", &event.Text{Content: "Hello"}), "deep")}, nil, ""},
		"other words of a workflow's child": {[]*event.Event{inner(&event.Event{Seq: 7, ID: "h", ParentID: "r:harness_end", Data: &event.HarnessStart{}}, "r.1/a"),
			inner(delta("a", "Hel"), "r.1/a"), inner(stored(8, "a", &event.Text{Content: "Hello"}), "r.1/a")}, nil, `"Hel" was shown of "Hello"`},
	} {
		t.Run(name, func(t *testing.T) {
			said := &recorder{}
			var got []*event.Event
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

func given(events []*event.Event, failed error) iter.Seq2[*event.Event, error] {
	return func(yield func(*event.Event, error) bool) {
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
