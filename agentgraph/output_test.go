package agentgraph_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/agentgraph"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
)

// TestOutputForms: however an agent writes its output, whoever reads the run from a store
// sees the same of it as the run itself.
func TestOutputForms(t *testing.T) {
	for name, output := range map[string]string{
		"compact":          `{"kind":"a"}`,
		"with spaces":      " {\"kind\" :\n\t\"a\"} ",
		"a text":           `"{\"kind\": \"a\"}"`,
		"a spaced text":    "\n \"{\\\"kind\\\": \\\"a\\\"}\"",
		"a code block":     "\"```json\\n{\\\"kind\\\": \\\"a\\\"}\\n```\"",
		"signs of HTML":    `{"kind":"a","odd":"<b>&"}`,
		"signs as escapes": `{"kind":"\u0061","odd":"\u003cb\ud800"}`,
		"not valid UTF-8":  "{\"kind\":\"a\",\"odd\":\"\xff\"}",
	} {
		t.Run(name, func(t *testing.T) {
			says := yields(t, func(_ context.Context, _ *agent.Invocation, yield func(*event.Event, error) bool) {
				yield(&event.Event{Data: &event.Finish{Output: json.RawMessage(output)}}, nil)
			})
			g := must.Get(agentgraph.Load([]byte(`
apiVersion: ossa.ai/v0.2.7
kind: AgentGraph
metadata: {name: forms, version: 1.0.0}
spec:
  agents: [{id: a, agentRef: x}, {id: b, agentRef: x}, {id: c, agentRef: x}]
  edges: [{from: a, to: b, condition: output.kind == 'a'}, {from: a, to: c, condition: output.kind != 'a'}]
  entrypoint: a
`), agentgraph.WithAnyRef()))
			a := must.Get(agentgraph.New(g, nil, agentgraph.WithAgent("a", says), agentgraph.WithAgent("b", gives(t, 1)), agentgraph.WithAgent("c", gives(t, 2))))
			result, events, err := try(t, a, "go")
			require.NoError(t, err)
			require.Equal(t, []string{"a", "b"}, result.Order)
			stored := must.Get(a.Runs(func(yield func(*event.Event, error) bool) {
				for _, e := range events {
					text := must.Get(e.MarshalJSON())
					read := new(event.Event)
					require.NoError(t, json.Unmarshal(text, read))
					require.Equal(t, e.Data, read.Data)
					if !yield(read, nil) {
						return
					}
				}
			}))
			require.Len(t, stored, 1)
			require.Equal(t, result, stored[0].Result)
		})
	}
}
